package extract

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// dropped are elements whose content no reader sees.
var dropped = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Template: true, atom.Svg: true, atom.Math: true,
	atom.Iframe: true, atom.Object: true, atom.Canvas: true, atom.Audio: true, atom.Video: true, atom.Noscript: true, atom.Select: true,
	atom.Textarea: true, atom.Noframes: true, atom.Noembed: true}

// blocks are elements that begin and end a line; the value is whether an empty line stands around
// them.
var blocks = map[atom.Atom]bool{atom.P: true, atom.Div: false, atom.Ul: true, atom.Ol: true, atom.Li: false, atom.Table: true,
	atom.Tr: false, atom.Pre: true, atom.Blockquote: true, atom.Section: true, atom.Article: true, atom.Header: true, atom.Footer: true,
	atom.Main: true, atom.Nav: true, atom.Aside: true, atom.Dl: true, atom.Dt: false, atom.Dd: false, atom.Figure: true,
	atom.Figcaption: false, atom.Address: true, atom.Form: true, atom.Fieldset: true, atom.Hr: true, atom.Caption: false,
	atom.Details: true, atom.Summary: false, atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true,
	atom.Body: true, atom.Title: true}

// page collects the text of HTML from its tags as they come: no tree is built, so that no nesting
// costs more than its bytes.
type page struct {
	doc  *Document
	l    Limits
	h    headings
	size int

	text  strings.Builder // of the part that is being written
	label string
	blank int // ends of lines at the end of text, or what is due of them
	space bool

	skip     atom.Atom // the dropped element that is open
	skipDeep int
	pre      int
	lists    []int // an open list's next number, 0 for one without numbers; at most listDeep
	cells    int   // of the open row
	heading  int   // the level of the open heading
	name     strings.Builder
	title    bool
}

const listDeep = 8

func readHTML(ctx context.Context, doc *Document, src string, l Limits) error {
	p := &page{doc: doc, l: l, blank: 2}
	z := html.NewTokenizer(strings.NewReader(src))
	z.SetMaxBuf(1 << 20) // of one tag or piece of text between tags
	for n := 0; ; n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch z.Next() {
		case html.ErrorToken:
			if err := z.Err(); errors.Is(err, html.ErrBufferExceeded) {
				return refuse(ErrLimit, "save it as text", "a tag or a text of more than 1 MiB without any other between")
			} else if !errors.Is(err, io.EOF) {
				return err
			}
			p.flush()
			return nil
		case html.TextToken:
			if p.skip == 0 {
				p.words(string(z.Text()))
			}
		case html.StartTagToken:
			p.open(z, false)
		case html.SelfClosingTagToken:
			p.open(z, true)
		case html.EndTagToken:
			name, _ := z.TagName()
			p.end(atom.Lookup(name))
		}
		if p.size+p.text.Len() > l.Text {
			return l.tooMuch()
		}
		if len(doc.Pages) > l.Pages {
			return refuse(ErrLimit, "split it", "more than %d headings", l.Pages)
		}
	}
}

func (p *page) open(z *html.Tokenizer, closed bool) {
	raw, more := z.TagName()
	tag := atom.Lookup(raw)
	if p.skip != 0 {
		if tag == p.skip && !closed {
			p.skipDeep++
		}
		return
	}
	if dropped[tag] {
		if !closed || tag != atom.Svg && tag != atom.Math { // only foreign elements close themselves
			p.skip, p.skipDeep = tag, 1
		}
		return
	}
	if around, block := blocks[tag]; block {
		p.line(around)
	}
	switch tag {
	case atom.Title:
		p.title = p.doc.Title == ""
		p.name.Reset()
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		p.flush()
		p.heading = int(raw[1] - '0')
		p.name.Reset()
	case atom.Br:
		p.line(false)
	case atom.Pre:
		p.pre++
	case atom.Ul, atom.Ol:
		if len(p.lists) < listDeep {
			next := 0
			if tag == atom.Ol {
				next = 1
			}
			p.lists = append(p.lists, next)
		}
	case atom.Li:
		p.write(strings.Repeat("  ", max(0, len(p.lists)-1)))
		mark := "- "
		if n := len(p.lists); n > 0 && p.lists[n-1] > 0 {
			mark = strconv.Itoa(p.lists[n-1]) + ". "
			p.lists[n-1]++
		}
		p.write(mark)
	case atom.Tr:
		p.cells = 0
	case atom.Td, atom.Th:
		if p.cells++; p.cells > 1 {
			p.space = false
			p.write(" | ")
		}
	case atom.Img:
		for more {
			var key, val []byte
			if key, val, more = z.TagAttr(); string(key) == "alt" {
				p.words(" " + string(val) + " ")
			}
		}
	}
}

func (p *page) end(tag atom.Atom) {
	if p.skip != 0 {
		if tag == p.skip {
			if p.skipDeep--; p.skipDeep == 0 {
				p.skip = 0
			}
		}
		return
	}
	around, block := blocks[tag]
	if block {
		p.line(around)
	}
	switch tag {
	case atom.Title:
		if p.title {
			p.doc.Title, p.title = oneLine(clean(p.name.String())), false
		}
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		if p.heading > 0 {
			if name := oneLine(p.name.String()); name != "" {
				p.label = p.h.at(p.heading, name)
			}
			p.heading = 0
		}
	case atom.Pre:
		p.pre = max(0, p.pre-1)
	case atom.Ul, atom.Ol:
		p.lists = p.lists[:max(0, len(p.lists)-1)]
	}
}

// line ends the line that is being written, and with around the paragraph.
func (p *page) line(around bool) {
	p.space = false
	want := 1
	if around {
		want = 2
	}
	for p.blank < want {
		p.text.WriteByte('\n')
		p.blank++
	}
}

// words adds text between tags.
func (p *page) words(s string) {
	s = clean(s)
	if p.title {
		if p.name.Len() < 1<<10 {
			p.name.WriteString(clip(s, 1<<10))
		}
		return
	}
	if p.heading > 0 && p.name.Len() < 1<<10 {
		p.name.WriteString(clip(s, 1<<10))
	}
	if p.pre > 0 {
		p.write(s)
		return
	}
	for len(s) > 0 {
		i := strings.IndexAny(s, " \n\t\u00a0")
		switch {
		case i == 0:
			p.space = p.blank == 0
			_, s, _ = cutSpace(s)
			continue
		case i < 0:
			i = len(s)
		}
		if p.space {
			p.text.WriteByte(' ')
		}
		p.write(s[:i])
		s = s[i:]
	}
}

// cutSpace cuts white space from the beginning of s.
func cutSpace(s string) (space, rest string, cut bool) {
	rest = strings.TrimLeft(s, " \n\t\u00a0")
	return s[:len(s)-len(rest)], rest, len(rest) < len(s)
}

// write adds s as it is.
func (p *page) write(s string) {
	if s == "" {
		return
	}
	p.text.WriteString(s)
	p.space = false
	tail := s[len(strings.TrimRight(s, "\n")):]
	if len(tail) == len(s) {
		p.blank += len(s)
	} else {
		p.blank = len(tail)
	}
}

// flush makes pages of what was written.
func (p *page) flush() {
	text := strings.TrimRight(p.text.String(), " \n") + "\n"
	p.size += len(text)
	p.doc.Pages = parts(p.doc.Pages, p.label, text, 0)
	p.text.Reset()
	p.blank, p.space, p.cells = 2, false, 0
}
