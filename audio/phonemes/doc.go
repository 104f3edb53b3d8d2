// Package phonemes turns English text into the symbols that Kokoro speaks. It is text alone: it
// knows no card, no package and no HTTP, and opens no file.
//
//   - [Words] writes out what is not a word: numbers, dates, times, money, units, abbreviations, addresses and signs.
//   - A [Lexicon] holds pronunciations. [Lexicon.AddMisaki] reads the dictionaries that Kokoro was trained with,
//     and [Lexicon.AddCMU] one with more names.
//   - [Lexicon.Pieces] gives the symbols of a text in pieces that fit one call of the model, and [Halve] makes two of one.
//
// A word is looked up as it is, then as a stem with -s, -ed or -ing, then in CMUdict, then by its
// parts between hyphens. What is not found is spelled.
//
// A word with several pronunciations, such as record, takes one by the words beside it: a verb
// follows to, a pronoun or an auxiliary, or precedes an article; a noun follows an article or a
// preposition. Otherwise it has the dictionary's default. Letters of other scripts and emoji are
// left out. A number that is too long, or begins with a zero, is read digit by digit.
//
// A Lexicon may be shared once nothing more is added. Nothing is closed.
package phonemes
