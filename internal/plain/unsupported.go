//go:build windows || 386 || arm || mips || mipsle || wasm

package plain

// The build ends here, with a sentence instead of what happens to fail first: models are mapped as
// whole files, which takes addresses of 64 bits, and files are locked and looked after as Unix
// does. What cannot be built elsewhere imports this package.
var _ = axle_needs_64_bit_Linux_on_arm64_or_amd64__see_docs_getting_started_md
