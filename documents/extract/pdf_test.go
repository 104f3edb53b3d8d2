package extract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPDF(t *testing.T) {
	doc, err := readBytes("a.pdf", pdfFile("", says("Hello there.", "Second line"), "", says("Page three")), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := "pdf \"A title\"\n== 1 0 \"\"\nHello there.\nSecond line\n== 2 0 \"\"\n\n== 3 0 \"\"\nPage three\n"
	if got := show(doc); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPDFRefused(t *testing.T) {
	good := pdfFile("", says("text"))
	for _, c := range []struct {
		name   string
		data   []byte
		limits Limits
		want   error
		says   string
	}{
		{"encrypted", pdfFile(locked, says("text")), Limits{}, ErrEncrypted, "without one"},
		{"a scan", pdfFile("", "", ""), Limits{}, ErrEmpty, "OCR"},
		{"its first bytes", good[:40], Limits{}, ErrDamaged, "print or save it as a new PDF"},
		{"a head alone", []byte("%PDF-1.7\n"), Limits{}, ErrDamaged, ""},
		{"no pages", pdfFile(""), Limits{}, ErrDamaged, ""},
		{"too many pages", pdfFile("", says("a"), says("b"), says("c")), Limits{Pages: 2}, ErrLimit, "3 pages, the limit is 2"},
		{"too much text", pdfFile("", says(strings.Repeat("long ", 100))), Limits{Text: 100}, ErrLimit, "of text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readBytes("a.pdf", c.data, c.limits)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v and %q", err, c.want, c.says)
			}
		})
	}
}

// TestPDFStopped: a PDF that takes longer than it may is given up, and the next is read.
func TestPDFStopped(t *testing.T) {
	if err := Ready(context.Background()); err != nil {
		t.Fatal(err)
	}
	slow := pdfFile("", strings.Repeat("BT /F 1 Tf (x) Tj ET ", 100_000))
	if _, err := readBytes("slow.pdf", slow, Limits{Time: 50 * time.Millisecond}); !errors.Is(err, ErrLimit) ||
		!strings.Contains(err.Error(), "to read") {
		t.Errorf("past its time: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	asked := 0
	_, err := Read(ctx, "slow.pdf", readerFunc(func(p []byte, at int64) (int, error) {
		if asked++; asked > 3 {
			cancel()
		}
		return bytes.NewReader(slow).ReadAt(p, at)
	}), int64(len(slow)), Limits{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("its client has gone: %v", err)
	}
	if doc, err := readBytes("a.pdf", pdfFile("", says("still here")), Limits{}); err != nil || doc.Pages[0].Text != "still here" {
		t.Errorf("the next: %+v, %v", doc, err)
	}
}

// pdfFile makes a PDF with a page for each content stream, and more in its trailer.
func pdfFile(trailer string, contents ...string) []byte {
	var b bytes.Buffer
	var at []int
	object := func(s string) {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(at), s)
	}
	b.WriteString("%PDF-1.4\n")
	var kids strings.Builder
	for i := range contents {
		fmt.Fprintf(&kids, "%d 0 R ", 5+2*i)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", kids.String(), len(contents)))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	object("<< /Title (A title) >>")
	for i, c := range contents {
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R "+
			"/MediaBox [0 0 600 800] /Resources << /Font << /F 3 0 R >> >> /Contents %d 0 R >>", 6+2*i))
		object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(c), c))
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(at)+1)
	for _, a := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", a)
	}
	fmt.Fprintf(&b, "trailer << /Size %d /Root 1 0 R /Info 4 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(at)+1, trailer, start)
	return b.Bytes()
}

// says is a content stream that writes lines.
func says(lines ...string) string {
	var b strings.Builder
	b.WriteString("BT /F 12 Tf 50 750 Td ")
	for _, l := range lines {
		fmt.Fprintf(&b, "(%s) Tj 0 -16 Td ", l)
	}
	return b.String() + "ET"
}

const locked = "/Encrypt << /Filter /Standard /V 2 /R 3 /Length 128 /P -1 /O (01234567890123456789012345678901) " +
	"/U (01234567890123456789012345678901) >> /ID [(0123456789012345) (0123456789012345)]"

type readerFunc func(p []byte, at int64) (int, error)

func (f readerFunc) ReadAt(p []byte, at int64) (int, error) { return f(p, at) }
