// Package axle is the root of a runtime for large language models on Axera AX650N / AX8850 NPUs. It
// holds no code: start at package engine for the library, cmd/axle for the program, and axcl for
// the card. Its tests are laws for the whole tree: imports, documents, promises.
package axle
