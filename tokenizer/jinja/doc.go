// Package jinja is an interpreter for the chat templates that models of Hugging Face's come with. Its words mean what Python's jinja2
// means by them, set up as transformers sets it up: an immutable sandbox with trim_blocks, lstrip_blocks, break and continue, generation
// tags, strftime_now, raise_exception, and a tojson with Python's separators. Python itself is the judge: see `make template-truth`.
//
//	source ──scan.go──▶ tokens ──parse*.go─▶ syntax tree (ast.go) ──eval.go, expr.go──▶ origin.Text
//	                                              │
//	       values: value.go, dict.go, print.go, json.go     filters.go, tests.go, methods.go, format.go
//
// Two things are its own. A string is an [origin.Text], so that of each byte of the result one can tell whether the template said it or
// somebody else; and an [origin.Meter] counts steps and bytes before they are made and looks at the context, so that no template goes on
// for ever. There is no rewriting, no trial and no second rendering.
//
// A [Template] is immutable and safe for concurrent use; nothing needs closing. Values belong to one rendering.
//
// Different from Python, on purpose: whole numbers have 64 bits, and one that does not fit is an error; templates cannot import others;
// filters for web pages (escape, urlize, xmlattr …) and those that are random are not there, and safe changes nothing; a name that is set
// at the end of a block does not hide a variable of the same name from the loops before it.
package jinja
