// Package phonemes prepares English text to be spoken. [Words] writes out what is not a word:
// numbers, dates, times, money, units, abbreviations, addresses and signs. It is text alone: it
// knows no card, no package and no HTTP, and opens no file.
//
// Letters of other scripts and emoji are left out. A number that is too long, or begins with a
// zero, is read digit by digit.
package phonemes
