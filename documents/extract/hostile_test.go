package extract

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
)

// TestHostileFiles reads files that were made to harm, of every format, and keeps to a budget of
// memory: what all of them together, read one after the other, hold at most at once. There are 250
// of them; AXLE_TEST_FILES is another number.
func TestHostileFiles(t *testing.T) {
	//proves:T7 hostile documents, below the memory of one large prompt
	//proves:T13 hostile archives among them
	const budget = 256 << 20 // PDFium's own memory among it
	if err := Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, read, refused := 250, 0, 0
	if k, err := strconv.Atoi(os.Getenv("AXLE_TEST_FILES")); err == nil {
		n = k
	} else if lane.Race {
		n = 20
	}
	most := fuzzguard.Peak(func() {
		for i := range n {
			rnd := rand.New(rand.NewPCG(39, uint64(i)))
			name, data := hostile(t, rnd, i)
			doc, err := readBytes(name, data, Limits{})
			if err == nil {
				read++
				if e := sound(doc); e != nil {
					t.Errorf("%d %s: %v", i, name, e)
				}
				continue
			}
			refused++
			var e *Error
			if !errors.As(err, &e) || e.Name != name || e.Advice == "" || !oneOf(err) || len(err.Error()) > 1000 {
				t.Errorf("%d %s: %v", i, name, err)
			}
		}
	})
	t.Logf("%d read, %d refused, %d MiB at most", read, refused, most>>20)
	if most > budget {
		t.Errorf("%d MiB at once, the budget is %d", most>>20, budget>>20)
	}
	if read < n/20 || refused < n/4 {
		t.Errorf("%d were read and %d refused: the files are not what this test is for", read, refused)
	}
	if doc, err := readBytes("a.pdf", pdfFile("", says("still here")), Limits{}); err != nil || doc.Pages[0].Text != "still here" {
		t.Errorf("afterwards: %v", err)
	}
}

func FuzzPDF(f *testing.F) {
	f.Add(pdfFile("", says("Hello"), says("there")))
	f.Add(pdfFile(locked, says("text")))
	if err := Ready(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// Not fuzzguard's limits: PDFium's are its memory and its time, which TestPDFStopped holds.
		check(t, "a.pdf", append([]byte("%PDF-1.4\n"), data...))
	})
}

func FuzzDOCX(f *testing.F) {
	for _, body := range []string{para("berschrift1", "One") + para("", "text"),
		"<w:tbl><w:tr><w:tc>" + para("", "a") + "</w:tc></w:tr></w:tbl>",
		`<w:p><w:r><w:footnoteReference w:id="1"/></w:r></w:p>`} {
		f.Add([]byte(body), []byte(root("footnotes", `<w:footnote w:id="1">`+para("", "n")+"</w:footnote>")), []byte(wordStyles))
	}
	f.Fuzz(func(t *testing.T, body, notes, styles []byte) {
		data := archive(t, "word/document.xml", root("document", string(body)), "word/footnotes.xml", string(notes),
			"word/styles.xml", root("styles", string(styles)), "word/header1.xml", string(body))
		fuzzguard.Check(t, len(body)+len(notes)+len(styles), func() { check(t, "a.docx", data) })
	})
}

// FuzzArchive is FuzzDOCX for the archive itself.
func FuzzArchive(f *testing.F) {
	f.Add(wordFile(f, para("", "text")))
	f.Add(archive(f, "xl/workbook.xml", "<a/>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append([]byte("PK\x03\x04"), bytes.TrimPrefix(data, []byte("PK\x03\x04"))...)
		fuzzguard.Check(t, len(data), func() { check(t, "a.docx", data) })
	})
}

func FuzzHTML(f *testing.F)     { fuzzText(f, "a.html") }
func FuzzMarkdown(f *testing.F) { fuzzText(f, "a.md") }
func FuzzText(f *testing.F)     { fuzzText(f, "a.txt") }

// TestLongText: a mebibyte of what costs most, in each format of text.
func TestLongText(t *testing.T) {
	for _, c := range []struct{ name, pre, unit string }{
		{"a.html", "", "<ul><li>"}, {"a.html", "<pre>", "\n"}, {"a.html", "", "<svg>"}, {"a.html", "", "<b a=b c=d>"},
		{"a.html", "<h1>", "x"}, {"a.html", "", "<h1>x"}, {"a.html", "", "&amp;"}, {"a.html", "<table>", "<td>"},
		{"a.html", "<title>", "y "},
		{"a.md", "", "# a\n"}, {"a.md", "", "a\n===\n"}, {"a.md", "", "```"}, {"a.md", "", "\n"}, {"a.md", "---\n", "a\n"},
		{"a.md", "", "#"},
		{"a.txt", "", "\xff"}, {"a.txt", "", "\r"}, {"a.txt", "\xff\xfe", "\x00\xd8"}, {"a.txt", "", "x"}, {"a.txt", "", "\u2028"},
	} {
		data := fuzzguard.Fill(c.pre, c.unit, "")
		fuzzguard.Check(t, len(data), func() { check(t, c.name, data) })
	}
}

func fuzzText(f *testing.F, name string) {
	for _, s := range []string{"# One\ntext\n\n```\n# no\n```\nTwo\n===\n", "---\ntitle: x\n---\n", "<h1>A</h1><ul><li>b<table><tr><td>c",
		"<pre>\n x</pre><script></script><svg><title>y</title></svg>", "\xff\xfea\x00", "gr\xfcn", "a\r\nb\fc"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzguard.Check(t, len(data), func() { check(t, name, data) })
	})
}

func check(t *testing.T, name string, data []byte) {
	doc, err := readBytes(name, data, Limits{})
	if err == nil {
		if err := sound(doc); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !oneOf(err) {
		t.Fatal(err)
	}
}

func oneOf(err error) bool {
	for _, e := range []error{ErrFormat, ErrEncrypted, ErrEmpty, ErrLimit, ErrDamaged} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// sound says what is wrong with a document.
func sound(doc *Document) error {
	l := Limits{}.orDefault()
	if doc.Title == "" || doc.Kind == "" || len(doc.Pages) == 0 {
		return fmt.Errorf("%+.100v", doc)
	}
	for i, p := range doc.Pages {
		switch {
		case !utf8.ValidString(p.Text) || !utf8.ValidString(p.Label) || !utf8.ValidString(doc.Title):
			return fmt.Errorf("page %d is not UTF-8", i)
		case strings.ContainsAny(p.Text, "\x00\r\f"):
			return fmt.Errorf("page %d has characters of control", i)
		case len(p.Label) > 1000 || len(doc.Title) > 300:
			return fmt.Errorf("page %d has a label of %d bytes", i, len(p.Label))
		case doc.Kind == PDF && p.Number != i+1 || doc.Kind != PDF && len(p.Text) > pagePart*5/4:
			return fmt.Errorf("page %d is %d of %d bytes", i, p.Number, len(p.Text))
		}
	}
	return l.check(doc)
}

// hostile makes file i: each format in turn, truncated, flipped, nested, or a bomb.
func hostile(t *testing.T, rnd *rand.Rand, i int) (name string, data []byte) {
	t.Helper()
	word := func() string { return strings.Repeat("word ", 1+rnd.IntN(200)) }
	deep := 1 + rnd.IntN(20_000)
	bomb := rnd.IntN(4) == 0
	switch i % 6 {
	case 0:
		name = "a.pdf"
		data = pdfFile("", says(word()), says(word(), word()))
		if bomb {
			data = hostilePDF(rnd)
		}
	case 1:
		name, data = "a.docx", wordFile(t, strings.Repeat(para("berschrift1", word()), 1+rnd.IntN(50)))
		if bomb {
			data = wordFile(t, strings.Repeat("<w:p>", deep)+
				strings.Repeat(para("", "x"), rnd.IntN(200_000))+strings.Repeat("</w:p>", deep))
		}
	case 2:
		name, data = "a.html", []byte("<html><title>"+word()+"</title><h1>"+word()+"</h1><p>"+word())
		if bomb {
			tag := []string{"<div>", "<table><tr><td>", "<ul><li>", "<svg>", "<script>", "<pre>", "<select>", "<template>"}[rnd.IntN(8)]
			data = []byte(strings.Repeat(tag, deep*10) + word() + strings.Repeat("&amp;", deep))
		}
	case 3:
		name, data = "a.md", []byte("# "+word()+"\n\n"+word()+"\n\n```\n"+word()+"\n```\n")
		if bomb {
			data = []byte(strings.Repeat("# a\n", deep) + strings.Repeat("> - ", deep) + strings.Repeat("`", deep))
		}
	case 4:
		name, data = "a.txt", []byte(word())
		if bomb {
			data = bytes.Repeat([]byte{byte(1 + rnd.IntN(255))}, deep*500)
		}
	case 5: // what is not what its name says
		name = []string{"a.pdf", "b.docx", "c.html", "d.md", "e.txt", "f.xlsx", "g"}[rnd.IntN(7)]
		data = make([]byte, 1+rnd.IntN(100_000))
		for j := range data {
			data[j] = byte(rnd.Uint32())
		}
		copy(data, []string{"PK\x03\x04", "%PDF-1.7\n", "<html>", "\xff\xfe", "", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"}[rnd.IntN(6)])
	}
	switch rnd.IntN(4) {
	case 0:
		data = data[:rnd.IntN(len(data))]
	case 1:
		data = bytes.Clone(data)
		for range 1 + rnd.IntN(20) {
			data[rnd.IntN(len(data))] ^= 1 << rnd.IntN(8)
		}
	}
	return name, data
}

// hostilePDF is a PDF that takes much of something.
func hostilePDF(rnd *rand.Rand) []byte {
	deep := 1 + rnd.IntN(50_000)
	switch rnd.IntN(6) {
	case 0: // a stream that inflates to 64 MiB
		return bytes.Replace(pdfFile("", zeros()), []byte("/Length"), []byte("/Filter /FlateDecode /Length"), 1)
	case 1: // arrays within arrays
		return pdfFile("/X "+strings.Repeat("[", deep)+strings.Repeat("]", deep), says("text"))
	case 2: // pages that are their own children
		return bytes.Replace(pdfFile("", says("text")), []byte("/Kids [5 0 R"), []byte("/Kids [2 0 R"), 1)
	case 3: // a count of pages that is a lie
		return bytes.Replace(pdfFile("", says("text")), []byte("/Count 1"), fmt.Appendf(nil, "/Count %d", rnd.Uint32()), 1)
	case 4: // states that are saved and never restored
		return pdfFile("", strings.Repeat("q ", deep)+says("text"))
	default: // much text in one place
		return pdfFile("", strings.Repeat("BT /F 12 Tf 50 50 Td (xxxxxxxxxxxxxxxx) Tj ET\n", deep/20))
	}
}

// zeros is 64 MiB of them, deflated.
var zeros = sync.OnceValue(func() string {
	var b bytes.Buffer
	b.WriteString("\x78\x9c")
	w, _ := flate.NewWriter(&b, 9) //nolint:errcheck // the level is known
	part := make([]byte, 1<<20)
	for range 64 {
		w.Write(part) //nolint:errcheck // to memory
	}
	w.Close() //nolint:errcheck // to memory
	return b.String()
})
