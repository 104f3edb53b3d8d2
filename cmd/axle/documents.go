package main

import (
	"fmt"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/documents/index"
)

// documentSettings say where documents are kept, and how much of them.
type documentSettings struct {
	folder string // "": documents in the store's folder; noDocuments: nowhere
	limits index.Limits
}

const noDocuments = "none"

// The largest document is what package extract reads.
const mostFile = 64 << 20

func parseLimit(s string) (int64, error) {
	n, err := parseSize(s)
	if err == nil && n < 1<<20 {
		err = fmt.Errorf("%q is less than 1MB: --documents none keeps no documents", clip(s))
	}
	return n, err
}

func parseFileLimit(s string) (int64, error) {
	n, err := parseLimit(s)
	if err == nil && n > mostFile {
		err = fmt.Errorf("%q is more than 64MB, which is the most that is read of a document", clip(s))
	}
	return n, err
}

// open opens the folder of documents; nil: none are kept. A folder that was not asked for and
// cannot be had is no reason not to start.
func (d documentSettings) open(store string, log *zap.Logger) (*index.Library, error) {
	dir := d.folder
	switch dir {
	case noDocuments:
		return nil, nil
	case "":
		if store == "" {
			return nil, nil
		}
		dir = filepath.Join(store, "documents")
	}
	lib, err := index.OpenLibrary(dir, d.limits)
	if err != nil && d.folder == "" {
		log.Warn("no documents are kept: their folder cannot be used; --documents names another", zap.String("folder", dir), zap.Error(err))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--documents %s: %w", dir, err)
	}
	return lib, nil
}
