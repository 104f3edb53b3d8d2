// Package pocket holds the model that ships inside the program: a package for the software cards of
// three million parameters that sees a little, trained on what testdata/pocket generates. It shows
// that everything works, from a clean clone to an answer; real answers come from real models.
//
// FS is read-only and may be used from any goroutine.
package pocket

import (
	"embed"
	"io/fs"
)

//go:embed all:pocket
var files embed.FS

// Name is what the model is called in the store.
const Name = "pocket"

// FS is the package's folder.
func FS() fs.FS {
	sub, err := fs.Sub(files, "pocket")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sub
}
