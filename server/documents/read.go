package documents

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/axle-llm/axle/documents/extract"
	"github.com/axle-llm/axle/documents/index"
)

// Read makes a text of a file of any format that package extract reads. Its error is an [Unread]
// where the file is to blame.
func Read(ctx context.Context, name string, data io.ReaderAt, size int64) (*index.Document, error) {
	doc, err := extract.Read(ctx, name, data, size, extract.Limits{})
	if err != nil {
		var e *extract.Error
		if ctx.Err() != nil || !errors.As(err, &e) {
			return nil, err
		}
		u := &Unread{Code: "invalid_file", Message: strings.TrimPrefix(err.Error(), "extract: ")}
		switch {
		case errors.Is(err, extract.ErrFormat), errors.Is(err, extract.ErrEncrypted):
			u.Code = "unsupported_file"
		case !errors.Is(err, extract.ErrDamaged) && !errors.Is(err, extract.ErrEmpty) && !errors.Is(err, extract.ErrLimit):
			return nil, err
		}
		return nil, u
	}
	out := &index.Document{Title: doc.Title, Kind: doc.Kind}
	for _, p := range doc.Pages {
		out.Pages = append(out.Pages, index.Page{Number: p.Number, Line: p.Line, Label: p.Label, Text: p.Text})
	}
	return out, nil
}
