// Package extract turns a file into text by pages: PDF, DOCX, HTML, Markdown, plain text, source
// code and tables as text (CSV). It knows no card, no model and no HTTP, fetches nothing, and opens
// and writes no file: what it reads is handed in, and what it holds is in memory.
//
// [Read] tells a file's kind by its name and its content, and gives a [Document]. It may be called
// from any goroutine. Nothing holds a resource that a caller must close: a PDF's reader is made
// when the first PDF comes and stays until the program ends (see RATIONALE.md), its memory is given
// back after each file.
//
// # Limits
//
// A file comes from anybody. Its size, its pages, the text that comes out of it and the time that a
// PDF takes are checked against [Limits]; what an archive claims is checked before a byte of it is
// inflated, and what comes out of it is counted while it comes. What is over a limit is refused by
// name, never cut silently: an index over half a document answers wrongly.
//
// # Positions
//
// A passage is a page's index in [Document.Pages] and byte offsets in its [Page.Text], which is
// always valid UTF-8 with \n at the ends of lines. The same bytes give the same text.
package extract
