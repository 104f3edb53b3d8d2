// Package jinja is an interpreter for the chat templates that come with Hugging Face's models.
// Templates mean what they mean to Python's jinja2, set up as transformers sets it up: an immutable
// sandbox with trim_blocks, lstrip_blocks, break and continue, generation tags, strftime_now,
// raise_exception, and a tojson with Python's separators. A test compares random templates with
// Python's renderings: see make template-truth.
//
//	source ──scan.go──▶ tokens ──parse*.go─▶ syntax tree (ast.go) ──eval.go, expr.go──▶ origin.Text
//	                                              │
//	  values: value.go, number.go, dict.go, print.go, json.go      filters*.go, tests.go, methods.go (builtin.go)
//	                                                               what they do to texts: text.go, letters.go
//
// A string is an [origin.Text], so each byte of the result is known as the template's own or as
// given. An [origin.Meter] counts steps and bytes before they are made, and looks at the context,
// so every rendering ends.
//
// A [Template] is immutable, and any goroutine may use it at any time. Nothing needs closing. The
// values that a rendering makes belong to that rendering.
//
// # What is left out
//
// The package has what known chat templates use: those in testdata, and all that transformers.js
// renders of Hugging Face's hub. The following parts of jinja2 and Python are missing. A template
// that uses one fails with an error that says "not supported", or, for a method of a dict, that it
// is not there:
//
//   - the filters attr, batch, center, format, groupby, max, min, pprint, random, round, slice,
//     truncate, wordcount, and those for web pages (escape, urlize, xmlattr …)
//   - the tests divisibleby, escaped, filter, sameas, test
//   - all methods of lists and numbers; those of strings except capitalize, count, endswith, find,
//     join, lower, lstrip, replace, rsplit, rstrip, split, splitlines, startswith, strip, title,
//     upper; those of dicts except get, items, keys, values
//   - the statements with, autoescape, print, include, import, extends, block
//   - recursive loops, loop.cycle, loop.changed, loop.depth
//   - the functions cycler, joiner, lipsum, and varargs and kwargs of a macro
//   - dict and namespace of another dict or of pairs, and arguments from a dict by **
//   - the power operator **, and formatting by % and format
//   - replacing an empty text, several subscripts at once, several attributes to sort by, and keys
//     of dicts that are tuples
//   - numbers written as 1_000 or 0x1f, and escapes in strings by an octal number, by a name, or
//     with \U
//
// Some things differ from Python. Whole numbers have 64 bits, and there are no infinities: what
// does not fit is an error. The filters int and float read no underscores, and safe changes
// nothing. A range, and a dict's keys, values and items, are lists. A letter whose other case is
// several letters stays as it is (ß). A name that is set at the end of a block does not hide a
// variable of the same name from the loops before it.
package jinja
