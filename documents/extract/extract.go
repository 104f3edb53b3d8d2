package extract

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"
)

// What a file is refused for. Every error of [Read] is an [*Error] that wraps one of them, or the
// context's error.
var (
	ErrFormat    = errors.New("a format that is not read here")
	ErrEncrypted = errors.New("encrypted")
	ErrEmpty     = errors.New("no text in it")
	ErrLimit     = errors.New("over a limit")
	ErrDamaged   = errors.New("damaged")
)

// Error tells which file was refused, why, and what to do about it.
type Error struct {
	Name   string
	Err    error  // wraps one of the package's errors
	Advice string // the way out
}

func (e *Error) Error() string {
	return fmt.Sprintf("extract: %q: %v: %s", e.Name, e.Err, e.Advice)
}

func (e *Error) Unwrap() error { return e.Err }

// The kinds of files.
const (
	PDF      = "pdf"
	DOCX     = "docx"
	HTML     = "html"
	Markdown = "markdown"
	Text     = "text" // source code and CSV too
)

// Document is a file's text. It has one page at least.
type Document struct {
	Title string // the file's own, where it has one; else its name
	Kind  string // one of the kinds above
	Pages []Page
}

// Page is a part of a document that is shown as one: a page of a PDF, what is under one heading, or
// some lines of a long text.
type Page struct {
	Number int    // from 1, as a reader counts a PDF's pages; 0: the format has no pages
	Line   int    // in the file, from 1, of the first line of Text; 0: the format has no lines
	Label  string // the headings above it, "Card › Memory"; empty where there are none
	Text   string
}

// Limits bound what is read. A zero field is the default.
type Limits struct {
	Size  int64         // bytes of the file: 64 MiB
	Text  int           // bytes of text in all pages: 8 MiB
	Pages int           // of a PDF, and parts of other documents: 5,000
	Time  time.Duration // for a PDF, which other PDFs before it do not count towards: 1 minute
}

func (l Limits) orDefault() Limits {
	return Limits{Size: cmp.Or(l.Size, 64<<20), Text: cmp.Or(l.Text, 8<<20), Pages: cmp.Or(l.Pages, 5000),
		Time: cmp.Or(l.Time, time.Minute)}
}

// pagePart is how long a page of a text without pages becomes: long enough to show a passage in its
// surroundings, short enough to send and show at once.
const pagePart = 16 << 10

// separator stands between the headings of a label.
const separator = " › "

// Read reads a file of size bytes. The name is for its kind and for messages: it is never opened,
// and its folders stay in it.
//
// Its errors are *[Error] and wrap [ErrFormat], [ErrEncrypted], [ErrEmpty] (a scan without text,
// too), [ErrLimit], [ErrDamaged], or what ended ctx or reading data. A PDF waits for the PDF
// before it.
func Read(ctx context.Context, name string, data io.ReaderAt, size int64, limits Limits) (*Document, error) {
	l := limits.orDefault()
	doc, err := read(ctx, name, data, size, l)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.Name = name
			return nil, e
		}
		return nil, &Error{name, err, "try again"}
	}
	doc.Title = cmp.Or(clip(oneLine(doc.Title), 300), path.Base(strings.ReplaceAll(name, `\`, "/")))
	return doc, nil
}

func read(ctx context.Context, name string, data io.ReaderAt, size int64, l Limits) (*Document, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if size < 0 || size > l.Size {
		return nil, refuse(ErrLimit, "split it, or leave out its pictures", "%d bytes, the limit is %d MiB", size, l.Size>>20)
	}
	if size == 0 {
		return nil, refuse(ErrEmpty, "choose a file that has text", "the file has no bytes")
	}
	head := make([]byte, min(size, 1<<12))
	n, err := data.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	kind, err := kindOf(name, head[:n])
	if err != nil {
		return nil, err
	}
	doc := &Document{Kind: kind}
	switch kind {
	case PDF:
		err = readPDF(ctx, doc, data, size, l)
	case DOCX:
		err = readDOCX(ctx, doc, data, size, l)
	default:
		err = readText(ctx, doc, data, size, l)
	}
	if err != nil {
		return nil, err
	}
	return doc, l.check(doc)
}

// check holds a finished document to what every document has.
func (l Limits) check(doc *Document) error {
	text, seen := 0, false
	for _, p := range doc.Pages {
		text += len(p.Text)
		seen = seen || strings.TrimSpace(p.Text) != ""
	}
	switch {
	case !seen && doc.Kind == PDF:
		return refuse(ErrEmpty, "it is a scan: have a program recognise its text (OCR), and save that as PDF",
			"%d pages of pictures alone", len(doc.Pages))
	case !seen:
		return refuse(ErrEmpty, "choose a file that has text", "it is blank")
	case text > l.Text:
		return l.tooMuch()
	case len(doc.Pages) > l.Pages:
		return refuse(ErrLimit, "split it", "%d pages or parts, the limit is %d", len(doc.Pages), l.Pages)
	}
	return nil
}

func (l Limits) tooMuch() error {
	return refuse(ErrLimit, "split it", "more than %d KiB of text", l.Text>>10)
}

func refuse(err error, advice, format string, args ...any) error {
	return &Error{"", fmt.Errorf("%w: %s", err, fmt.Sprintf(format, args...)), advice}
}

// notRead are the beginnings of files that are often met and not read, with what to do about each.
var notRead = []struct{ begins, what, advice string }{
	{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office file, or an encrypted one",
		"open it, remove its password, and save it as DOCX or PDF"},
	{"{\\rtf", "RTF", "save it as DOCX or PDF"},
	{"%!PS", "PostScript", "save it as PDF"},
	{"\x89PNG", "a picture", "attach it to a message, for a model that sees"},
	{"\xff\xd8\xff", "a picture", "attach it to a message, for a model that sees"},
	{"GIF8", "a picture", "attach it to a message, for a model that sees"},
	{"\x1f\x8b", "an archive", "unpack it, and add its files"},
	{"7z\xbc\xaf", "an archive", "unpack it, and add its files"},
	{"Rar!", "an archive", "unpack it, and add its files"},
	{"BZh", "an archive", "unpack it, and add its files"},
	{"\xfd7zXZ\x00", "an archive", "unpack it, and add its files"},
	{"\x28\xb5\x2f\xfd", "an archive", "unpack it, and add its files"},
	{"SQLite format 3\x00", "a database", "export its tables as CSV"},
	{"\x7fELF", "a program", "add its documents instead"},
	{"MZ\x90", "a program", "add its documents instead"},
}

const unlock = "open it with its password, and save it without one"

const readHere = "save it as PDF, DOCX, HTML, Markdown or text"

// kindOf tells a file's kind. What its content says counts for more than its name.
func kindOf(name string, head []byte) (string, error) {
	ext := strings.ToLower(path.Ext(strings.ReplaceAll(name, `\`, "/")))
	for i, n := range notRead {
		if bytes.HasPrefix(head, []byte(n.begins)) {
			if i == 0 && ext == ".docx" {
				return "", refuse(ErrEncrypted, unlock, "its text is only for those who have its password")
			}
			return "", refuse(ErrFormat, n.advice, "%s", n.what)
		}
	}
	switch {
	case bytes.Contains(head[:min(len(head), 1024)], []byte("%PDF-")): // readers take it anywhere in the first 1,024 bytes
		return PDF, nil
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return DOCX, nil // or another archive, which its reader refuses by name
	case ext == ".pdf" || ext == ".docx":
		return "", refuse(ErrDamaged, "open it in the program it is from, and save it again",
			"it does not begin as a %s file does", ext[1:])
	case isBinary(head):
		return "", refuse(ErrFormat, readHere, "it is not text")
	}
	switch ext {
	case ".html", ".htm", ".xhtml":
		return HTML, nil
	case ".md", ".markdown", ".mdown", ".mkd":
		return Markdown, nil
	}
	if start := strings.ToLower(string(head[:min(len(head), 256)])); ext == "" && (strings.Contains(start, "<!doctype html") ||
		strings.Contains(start, "<html")) {
		return HTML, nil
	}
	return Text, nil
}

// readAll reads a file that is small enough to be held.
func readAll(ctx context.Context, data io.ReaderAt, size int64) ([]byte, error) {
	b := make([]byte, size)
	for at := 0; at < len(b); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := data.ReadAt(b[at:min(at+1<<20, len(b))], int64(at))
		if at += n; at < len(b) && err != nil && n == 0 || err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("it ends after %d of %d bytes: %w", at, size, err)
		}
	}
	return b, nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// clip is the beginning of s, of at most n bytes and whole characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
