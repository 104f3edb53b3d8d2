// Package jinja is an interpreter for the chat templates that come with Hugging Face's models.
// Templates mean what they mean to Python's jinja2, set up as transformers sets it up: an immutable
// sandbox with trim_blocks, lstrip_blocks, break and continue, generation tags, strftime_now,
// raise_exception, and a tojson with Python's separators. Python itself is the judge: see `make
// template-truth`.
//
//	source ──scan.go──▶ tokens ──parse*.go─▶ syntax tree (ast.go) ──eval.go, expr.go──▶ origin.Text
//	                                              │
//	  values: value.go, number.go, dict.go, print.go, json.go      filters*.go, tests.go, methods.go (builtin.go)
//	                                                               what they do to texts: text.go, letters.go, format.go
//
// Two things are its own. A string is an [origin.Text], so for each byte of the result it is known
// whether it is the template's own or was given. And an [origin.Meter] counts steps and bytes
// before they are made and looks at the context, so that no template goes on for ever. There is no
// rewriting, no trial and no second rendering.
//
// A [Template] is immutable and safe for concurrent use; nothing needs closing. Values belong to
// one rendering.
//
// Different from Python, on purpose: whole numbers have 64 bits, and one that does not fit is an
// error; templates cannot import others; filters for web pages (escape, urlize, xmlattr …) and
// those that are random are not there, and safe changes nothing; a name that is set at the end of a
// block does not hide a variable of the same name from the loops before it.
package jinja
