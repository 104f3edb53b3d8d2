// Package search holds the pair of encoders that ships inside the program: a package for the
// software cards in CLIP's layout, of 0.14 million parameters, trained on what testdata/search
// draws and says. Its vectors of a picture and of a text are near each other where the text says
// what the picture shows: circles, squares, triangles and stars in six colours, how many there are,
// and digits. It shows that search by pictures works, from a clean clone to an answer; for people's
// pictures there are real models.
//
// FS is read-only and may be used from any goroutine.
package search

import (
	"embed"
	"io/fs"
)

//go:embed all:pocket-search
var files embed.FS

// Name is what the model is called in the store.
const Name = "pocket-search"

// FS is the package's folder.
func FS() fs.FS {
	sub, err := fs.Sub(files, Name)
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sub
}
