package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A document's text on disk is a line of JSON that says where its pages are, and then their texts,
// one after the other: so a passage is read without the rest.

type textHead struct {
	Title string     `json:"title"`
	Kind  string     `json:"kind"`
	Pages []textPage `json:"pages"`
}

type textPage struct {
	Number int    `json:"number,omitempty"`
	Line   int    `json:"line,omitempty"`
	Label  string `json:"label,omitempty"`
	Bytes  int    `json:"bytes"`
}

// maxTextHead is the longest first line.
const maxTextHead = 16 << 20

func writeText(d *Document) ([][]byte, error) {
	h := textHead{Title: d.Title, Kind: d.Kind}
	parts := [][]byte{nil}
	for _, p := range d.Pages {
		h.Pages = append(h.Pages, textPage{p.Number, p.Line, p.Label, len(p.Text)})
		parts = append(parts, []byte(p.Text))
	}
	b, err := json.Marshal(h)
	if err == nil && len(b) > maxTextHead {
		err = errors.New("index: the document has too many pages")
	}
	parts[0] = append(b, '\n')
	return parts, err
}

// pages reads where a text's pages are. base is where the first one begins.
func readPages(f io.ReaderAt, size int64) (h textHead, base int64, err error) {
	var line []byte
	for {
		b := make([]byte, min(64<<10, size-int64(len(line))))
		if len(b) == 0 || len(line) > maxTextHead {
			return h, 0, ErrDamaged
		}
		if _, err := f.ReadAt(b, int64(len(line))); err != nil && !errors.Is(err, io.EOF) {
			return h, 0, err
		}
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line = append(line, b[:i]...)
			break
		}
		line = append(line, b...)
	}
	if json.Unmarshal(line, &h) != nil {
		return h, 0, ErrDamaged
	}
	base = int64(len(line)) + 1
	at := base
	for _, p := range h.Pages {
		if p.Bytes < 0 || int64(p.Bytes) > size-at {
			return h, 0, ErrDamaged
		}
		at += int64(p.Bytes)
	}
	return h, base, nil
}

// page reads bytes of a page; to < 0: to its end.
func (h *textHead) page(f io.ReaderAt, base int64, n, from, to int) (string, error) {
	if n < 0 || n >= len(h.Pages) {
		return "", ErrNotFound
	}
	if to < 0 {
		to = h.Pages[n].Bytes
	}
	if from < 0 || from > to || to > h.Pages[n].Bytes {
		return "", fmt.Errorf("%w: bytes %d to %d of a page of %d", ErrDamaged, from, to, h.Pages[n].Bytes)
	}
	for _, p := range h.Pages[:n] {
		base += int64(p.Bytes)
	}
	b := make([]byte, to-from)
	_, err := f.ReadAt(b, base+int64(from))
	if errors.Is(err, io.EOF) && len(b) == 0 {
		err = nil
	}
	return string(b), err
}

// document reads the whole.
func (h *textHead) document(f io.ReaderAt, base int64) (*Document, error) {
	d := &Document{Title: h.Title, Kind: h.Kind}
	for i, p := range h.Pages {
		text, err := h.page(f, base, i, 0, -1)
		if err != nil {
			return nil, err
		}
		d.Pages = append(d.Pages, Page{p.Number, p.Line, p.Label, text})
	}
	return d, nil
}
