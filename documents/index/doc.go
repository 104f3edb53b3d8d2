// Package index finds the passages of texts that answer a question. It cuts a document's pages into
// passages ([Cut]), makes terms of words ([Terms]), writes an immutable index of a document
// ([Build]), and ranks the passages of many indexes by a question ([Search]): BM25 first, then a
// look at the best ones, whose words stand together, in order, or in a heading. Where vectors of
// the passages are there, they are blended with that ([Blend]).
//
// A [Library] keeps files and collections in a private folder, each owner's apart. It knows neither
// HTTP nor cards: what reads a file and what gives vectors is handed in.
//
// Functions are pure and may be called from any goroutine, and so may the methods of a Library and
// a Shelf. Close the Library.
package index
