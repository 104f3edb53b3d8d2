package extract

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A DOCX is a zip archive of XML parts. This is the one place that reads an archive, and it unpacks
// none: no entry's name becomes a path, the parts with text are inflated as a stream that is
// counted, and nothing is written.

const (
	docxDirectory = 2 << 20  // bytes of the archive's list of entries, about 20,000 of them
	docxInflated  = 32 << 20 // bytes of XML in all parts that are read
	docxToken     = 1 << 20  // bytes of one tag, or of one piece of text
	docxDepth     = 256      // elements within each other: Word writes about 30
	docxStyles    = 20_000
)

// metered fails once more than left bytes were read, while it is not open.
type metered struct {
	io.ReaderAt
	left int
	open bool
}

var errMetered = errors.New("the list of its entries is too long")

func (m *metered) ReadAt(p []byte, at int64) (int, error) {
	if !m.open {
		if m.left -= len(p); m.left < 0 {
			return 0, errMetered
		}
	}
	return m.ReaderAt.ReadAt(p, at)
}

const resave = "open it in a word processor, and save it again as DOCX or PDF"

// otherArchives are formats that are zip archives too.
var otherArchives = []struct{ entry, what, advice string }{
	{"xl/workbook.xml", "an Excel workbook", "save its sheets as CSV"},
	{"ppt/presentation.xml", "a PowerPoint presentation", "save it as PDF"},
	{"META-INF/container.xml", "an EPUB book", "convert it to PDF or HTML"},
	{"content.xml", "an OpenDocument file", "save it as DOCX or PDF"},
	{"", "an archive", "unpack it, and add its files"},
}

// docx is one DOCX that is being read.
type docx struct {
	ctx   context.Context
	files map[string]*zip.File
	left  int // bytes that may still be inflated
	doc   *Document
	l     Limits

	styles map[string]style
	notes  map[string]string // "footnote 3" → its text, until it was written
	noted  int               // how many were written
}

// style is what a paragraph's style says of it.
type style struct {
	level   int // of a heading, from 1
	title   bool
	basedOn string
}

func readDOCX(ctx context.Context, doc *Document, data io.ReaderAt, size int64, l Limits) error {
	m := &metered{ReaderAt: data, left: docxDirectory}
	z, err := zip.NewReader(m, size)
	switch {
	case errors.Is(err, errMetered):
		return refuse(ErrLimit, resave, "%v", err)
	case err != nil:
		return refuse(ErrDamaged, resave, "its archive cannot be read (%v)", err)
	}
	m.open = true
	d := &docx{ctx: ctx, files: map[string]*zip.File{}, left: docxInflated, doc: doc, l: l, styles: map[string]style{},
		notes: map[string]string{}}
	for _, f := range z.File {
		if name := strings.TrimPrefix(f.Name, "/"); d.files[name] == nil {
			d.files[name] = f
		}
	}
	main, err := d.main()
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		read func(string) error
	}{{"docProps/core.xml", d.readTitle}, {path.Dir(main) + "/styles.xml", d.readStyles},
		{path.Dir(main) + "/footnotes.xml", d.readNotes}, {path.Dir(main) + "/endnotes.xml", d.readNotes}, {main, d.readBody}} {
		if d.files[part.name] != nil {
			if err := part.read(part.name); err != nil {
				return err
			}
		}
	}
	return d.readMargins(path.Dir(main))
}

// main is the part with the text, which the archive's relations name.
func (d *docx) main() (string, error) {
	main := "word/document.xml"
	if d.files["_rels/.rels"] != nil {
		err := d.walk("_rels/.rels", func(t xml.Token) error {
			if e, ok := t.(xml.StartElement); ok && strings.HasSuffix(attr(e, "Type"), "/officeDocument") {
				if to := strings.TrimPrefix(attr(e, "Target"), "/"); d.files[to] != nil && strings.HasPrefix(to, "word/") {
					main = to
				}
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	if d.files[main] != nil {
		return main, nil
	}
	for _, o := range otherArchives {
		if o.entry == "" || d.files[o.entry] != nil {
			return "", refuse(ErrFormat, o.advice, "%s", o.what)
		}
	}
	return "", nil
}

// counted is a part of the archive as it is inflated.
type counted struct {
	r     *bufio.Reader
	left  *int
	token int // bytes since the last token
	err   error
}

func (c *counted) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err != nil {
		return 0, err
	}
	*c.left--
	c.token++
	switch {
	case *c.left < 0:
		c.err = refuse(ErrLimit, "split it", "more than %d MiB of XML in it", docxInflated>>20)
	case c.token > docxToken:
		c.err = refuse(ErrLimit, resave, "a tag or a piece of text of more than %d KiB", docxToken>>10)
	}
	return b, c.err
}

// Read is for xml.NewDecoder, which asks for bytes alone.
func (c *counted) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	b, err := c.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = b
	return 1, nil
}

// walk calls f with each tag and text of a part.
func (d *docx) walk(name string, f func(xml.Token) error) error {
	entry := d.files[name]
	switch {
	case entry.Flags&1 != 0:
		return refuse(ErrEncrypted, "save it without a password", "its parts are encrypted")
	case entry.UncompressedSize64 > uint64(d.left):
		return refuse(ErrLimit, "split it", "more than %d MiB of XML in it", docxInflated>>20)
	}
	r, err := entry.Open()
	if err != nil {
		return refuse(ErrDamaged, resave, "%s cannot be read (%v)", name, err)
	}
	defer r.Close() //nolint:errcheck // it reads memory
	c := &counted{r: bufio.NewReader(r), left: &d.left}
	dec := xml.NewDecoder(c)
	dec.CharsetReader = func(charset string, r io.Reader) (io.Reader, error) {
		return nil, fmt.Errorf("it is in %.40q, not UTF-8", charset)
	}
	for n, depth := 0, 0; ; n++ {
		if n%1024 == 0 && d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		c.token = 0
		t, err := dec.Token()
		switch {
		case c.err != nil:
			return c.err
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return refuse(ErrDamaged, resave, "%s cannot be read (%v)", name, err)
		}
		switch t.(type) {
		case xml.Directive:
			return refuse(ErrDamaged, resave, "%s declares entities, which no word processor does", name)
		case xml.StartElement:
			if depth++; depth > docxDepth {
				return refuse(ErrLimit, resave, "%s has more than %d elements within each other", name, docxDepth)
			}
		case xml.EndElement:
			depth--
		}
		if err := f(t); err != nil {
			return err
		}
	}
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (d *docx) readTitle(name string) error {
	in := false
	return d.walk(name, func(t xml.Token) error {
		switch e := t.(type) {
		case xml.StartElement:
			in = e.Name.Local == "title"
		case xml.EndElement:
			in = false
		case xml.CharData:
			if in && len(d.doc.Title) < 1<<10 {
				d.doc.Title += clean(string(e))
			}
		}
		return nil
	})
}

func (d *docx) readStyles(name string) error {
	id, now := "", style{}
	return d.walk(name, func(t xml.Token) error {
		switch e := t.(type) {
		case xml.StartElement:
			switch e.Name.Local {
			case "style":
				id, now = attr(e, "styleId"), style{}
			case "name":
				n := strings.ToLower(attr(e, "val"))
				now.title = n == "title"
				if level, ok := strings.CutPrefix(n, "heading "); ok {
					now.level = levelOf(level, 1)
				}
			case "basedOn":
				now.basedOn = attr(e, "val")
			case "outlineLvl":
				now.level = levelOf(attr(e, "val"), 0)
			}
		case xml.EndElement:
			if e.Name.Local == "style" && id != "" {
				if d.styles[id] = now; len(d.styles) > docxStyles {
					return refuse(ErrLimit, resave, "more than %d styles", docxStyles)
				}
				id = ""
			}
		}
		return nil
	})
}

// levelOf reads a heading's level, counted from first; 0 where it is none. Word counts to nine.
func levelOf(s string, first int) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < first || n > first+8 {
		return 0
	}
	return n - first + 1
}

func (d *docx) styleOf(id string) style {
	s := d.styles[id]
	for hops := 0; s.level == 0 && !s.title && s.basedOn != "" && hops < 16; hops++ {
		s = d.styles[s.basedOn]
	}
	return s
}

// readNotes reads footnotes or endnotes. Those that Word draws lines with have a type.
func (d *docx) readNotes(name string) error {
	f := &flow{d: d}
	key, size := "", 0
	return d.walk(name, func(t xml.Token) error {
		if e, ok := t.(xml.StartElement); ok && (e.Name.Local == "footnote" || e.Name.Local == "endnote") {
			key = e.Name.Local + " " + attr(e, "id")
			if attr(e, "type") != "" {
				key = ""
			}
			f.text.Reset()
			return nil
		}
		if e, ok := t.(xml.EndElement); ok && (e.Name.Local == "footnote" || e.Name.Local == "endnote") {
			text := oneLine(f.text.String())
			if size += len(text); size > d.l.Text {
				return d.l.tooMuch()
			}
			if key != "" && text != "" {
				d.notes[key] = text
			}
			f.text.Reset()
			return nil
		}
		return f.token(t)
	})
}

func (d *docx) readBody(name string) error {
	f := &flow{d: d, body: true}
	if err := d.walk(name, f.token); err != nil {
		return err
	}
	f.flush()
	return nil
}

// readMargins adds what stands at the top and the bottom of pages, once, at the end.
func (d *docx) readMargins(dir string) error {
	var names []string
	for name := range d.files {
		base := path.Base(name)
		if path.Dir(name) == dir && path.Ext(base) == ".xml" && (strings.HasPrefix(base, "header") || strings.HasPrefix(base, "footer")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all []string
	for _, name := range names[:min(len(names), 100)] {
		f := &flow{d: d}
		if err := d.walk(name, f.token); err != nil {
			return err
		}
		if text := strings.TrimSpace(f.text.String()); text != "" && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) > 0 {
		d.doc.Pages = parts(d.doc.Pages, "Header, footer", strings.Join(all, "\n")+"\n", 0)
	}
	return nil
}

// flow makes text of paragraphs and tables.
type flow struct {
	d    *docx
	body bool // headings cut it into pages
	h    headings

	text  bytes.Buffer
	label string
	start int // where the paragraph that is open begins in text
	size  int // bytes of text in pages

	style  string // of the paragraph
	level  int    // the paragraph's own
	item   int    // 1 and its depth where it is an item of a list
	inText bool
	hide   int // the depth within what is not read
	tables int
	cells  int
	refs   []string
}

func (f *flow) token(t xml.Token) error {
	switch e := t.(type) {
	case xml.StartElement:
		f.open(e)
	case xml.EndElement:
		f.end(e.Name.Local)
	case xml.CharData:
		if f.inText && f.hide == 0 {
			f.text.WriteString(clean(string(e)))
		}
	}
	if f.size+f.text.Len() > f.d.l.Text {
		return f.d.l.tooMuch()
	}
	if len(f.d.doc.Pages) > f.d.l.Pages {
		return refuse(ErrLimit, "split it", "more than %d headings", f.d.l.Pages)
	}
	return nil
}

func (f *flow) open(e xml.StartElement) {
	if f.hide > 0 || e.Name.Local == "Fallback" { // a copy of the choice before it, for old programs
		f.hide++
		return
	}
	switch e.Name.Local {
	case "p":
		if f.tables == 0 {
			f.start = f.text.Len()
		}
		f.style, f.level, f.item = "", 0, 0
	case "pStyle":
		f.style = attr(e, "val")
	case "outlineLvl":
		f.level = levelOf(attr(e, "val"), 0)
	case "numPr":
		f.item = max(f.item, 1)
	case "ilvl":
		if n, err := strconv.Atoi(attr(e, "val")); err == nil && n >= 0 && n < listDeep {
			f.item = n + 1
		}
	case "t":
		f.inText = true
	case "tab":
		f.text.WriteByte('\t')
	case "br", "cr":
		f.text.WriteString(f.lineEnd())
	case "noBreakHyphen":
		f.text.WriteByte('-')
	case "tbl":
		f.tables++
	case "tr":
		f.cells = 0
	case "tc":
		if f.cells++; f.cells > 1 {
			f.trim()
			f.text.WriteString(" | ")
		}
	case "footnoteReference", "endnoteReference":
		key := strings.TrimSuffix(e.Name.Local, "Reference") + " " + attr(e, "id")
		if f.body && f.d.notes[key] != "" {
			f.refs = append(f.refs, f.d.notes[key])
			delete(f.d.notes, key) // once, however often it is referred to
			f.d.noted++
			fmt.Fprintf(&f.text, "[%d]", f.d.noted)
		}
	}
}

// lineEnd is a space in a table, where a row is a line.
func (f *flow) lineEnd() string {
	if f.tables > 0 {
		return " "
	}
	return "\n"
}

func (f *flow) end(name string) {
	if f.hide > 0 {
		f.hide--
		return
	}
	switch name {
	case "t":
		f.inText = false
	case "p":
		f.paragraph()
	case "tr":
		if f.tables == 1 {
			f.trim()
			f.text.WriteByte('\n')
		}
	case "tbl":
		if f.tables = max(0, f.tables-1); f.tables == 0 {
			f.text.WriteByte('\n')
			f.writeNotes()
		}
	}
}

func (f *flow) paragraph() {
	if f.tables > 0 {
		f.text.WriteByte(' ')
		return
	}
	start := min(f.start, f.text.Len())
	said := string(f.text.Bytes()[start:])
	if strings.TrimSpace(said) == "" {
		f.start = f.text.Len()
		return
	}
	s := f.d.styleOf(f.style)
	level := max(f.level, s.level)
	switch {
	case f.body && s.title && f.d.doc.Title == "":
		f.d.doc.Title = oneLine(said)
	case f.body && level > 0 && f.item == 0 || f.body && level > 0 && s.level > 0:
		f.text.Truncate(start)
		f.flush()
		f.text.WriteString(said)
		f.label = f.h.at(level, said)
	case f.item > 0:
		f.text.Truncate(start)
		f.text.WriteString(strings.Repeat("  ", f.item-1) + "- " + said)
	}
	f.text.WriteString("\n")
	if f.item == 0 {
		f.text.WriteString("\n")
	}
	f.writeNotes()
	f.start = f.text.Len()
}

// trim takes spaces from the end of the text.
func (f *flow) trim() { f.text.Truncate(len(bytes.TrimRight(f.text.Bytes(), " "))) }

func (f *flow) writeNotes() {
	for i, note := range f.refs {
		fmt.Fprintf(&f.text, "[%d] %s\n", f.d.noted-len(f.refs)+1+i, note)
	}
	if len(f.refs) > 0 {
		f.text.WriteByte('\n')
	}
	f.refs = f.refs[:0]
}

func (f *flow) flush() {
	text := strings.TrimRight(f.text.String(), " \n") + "\n"
	f.size += len(text)
	f.d.doc.Pages = parts(f.d.doc.Pages, f.label, text, 0)
	f.text.Reset()
	f.start = 0
}
