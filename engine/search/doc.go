// Package search makes vectors with nets that are called by tensor: an [Encoder] is a tenant of a
// card, beside the language models on it. It knows no package and no request: ids go in, numbers
// come out.
//
// An Encoder is safe for concurrent use. Close it.
package search
