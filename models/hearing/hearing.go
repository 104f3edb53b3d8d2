// Package hearing holds the recogniser of speech that ships inside the program: a package for the
// software cards in SenseVoice's layout, of 0.6 million parameters, trained on what
// testdata/hearing has espeak-ng say. It writes down the English digits, "oh", and the words yes,
// no, on, off, up, down, left, right, stop, go, light and music, in any order, and tries to say
// nothing at others. Five seconds go into a call. It shows that speech works, from a clean clone to
// a text; for people's speech there are real models.
//
// FS is read-only and may be used from any goroutine.
package hearing

import (
	"embed"
	"io/fs"
)

//go:embed all:pocket-hearing
var files embed.FS

// Name is what the model is called in the store.
const Name = "pocket-hearing"

// FS is the package's folder.
func FS() fs.FS {
	sub, err := fs.Sub(files, Name)
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sub
}
