package extract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"notes.txt", "one\r\ntwo\rthree", "text \"notes.txt\"\n== 0 1 \"\"\none\ntwo\nthree\n"},
		{"folder/notes.txt", "\xef\xbb\xbfone", "text \"notes.txt\"\n== 0 1 \"\"\none\n"},
		{"utf16.txt", "\xff\xfeG\x00r\x00\xfc\x00n\x00=\xd8\x00\xde\x00\xd8", "text \"utf16.txt\"\n== 0 1 \"\"\nGrün😀�\n"},
		{"utf16be.txt", "\xfe\xff\x00a\x00b\x00", "text \"utf16be.txt\"\n== 0 1 \"\"\nab\n"},
		{"latin.txt", "Gr\xfc\xdfe \x84hier\x93", "text \"latin.txt\"\n== 0 1 \"\"\nGrüße „hier“\n"},
		{"main.go", "package main\n\nfunc main() {}\n", "text \"main.go\"\n== 0 1 \"\"\npackage main\n\nfunc main() {}\n\n"},
		{"t.csv", "a,b\n1,2\n", "text \"t.csv\"\n== 0 1 \"\"\na,b\n1,2\n\n"},
		{"Makefile", "all:\n\tgo build\n", "text \"Makefile\"\n== 0 1 \"\"\nall:\n\tgo build\n\n"},
		{"r.md", "intro\n# One #\na\n\n## Two\n```\n# no heading\n```\n- x\n---\nSetext\n===\nb",
			"markdown \"One\"\n== 0 1 \"\"\nintro\n\n== 0 2 \"One\"\n# One #\na\n\n\n== 0 5 \"One › Two\"\n## Two\n```\n" +
				"# no heading\n```\n- x\n---\n\n" +
				"== 0 11 \"Setext\"\nSetext\n===\nb\n"},
		{"front.md", "---\ntitle: \"The guide\"\n---\ntext\n#nothing\n####### nor this\n",
			"markdown \"The guide\"\n== 0 1 \"\"\n---\ntitle: \"The guide\"\n---\ntext\n#nothing\n####### nor this\n\n"},
		{"a.html", `<!doctype html><title>A &amp; B</title><style>p{}</style><script>alert("<p>no")</script><body>before<h1>Top</h1>
<p>some <b>bold</b>
text<br>next</p><ul><li>one<li>two<ol><li>x</li><li>y</ol></ul><h2>Sub<i>head</i></h2><table><tr><th>k<th>v<tr><td>1<td>2</table>
<pre>  keep
   this</pre><noscript>never</noscript><img alt="a picture" src=x>`,
			"html \"A & B\"\n== 0 0 \"\"\nbefore\n\n== 0 0 \"Top\"\nTop\n\nsome bold text\nnext\n\n- one\n- two\n\n  1. x\n  2. y\n\n" +
				"== 0 0 \"Top › Subhead\"\nSubhead\n\nk | v\n1 | 2\n\n  keep\n   this\n\na picture\n\n"},
		{"noname", "<!DOCTYPE html><p>hello", "html \"noname\"\n== 0 0 \"\"\nhello\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, err := readBytes(c.name, []byte(c.data), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got := show(doc); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name, data string
		limits     Limits
		ctx        context.Context
		want       error
		says       string
	}{
		{"empty.txt", "", Limits{}, nil, ErrEmpty, `"empty.txt": no text in it: the file has no bytes: choose a file`},
		{"blank.md", " \n\n\t", Limits{}, nil, ErrEmpty, "blank"},
		{"blank.html", "<script>x</script>", Limits{}, nil, ErrEmpty, "blank"},
		{"a.bin", "\x00\x01\x02", Limits{}, nil, ErrFormat, "not text"},
		{"a.png", "\x89PNG\r\n\x1a\n", Limits{}, nil, ErrFormat, "attach it to a message"},
		{"old.doc", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Limits{}, nil, ErrFormat, "save it as DOCX"},
		{"locked.docx", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Limits{}, nil, ErrEncrypted, "without one"},
		{"a.rtf", `{\rtf1`, Limits{}, nil, ErrFormat, "save it as DOCX"},
		{"a.tar.gz", "\x1f\x8b\x08", Limits{}, nil, ErrFormat, "unpack it"},
		{"text.pdf", "no PDF", Limits{}, nil, ErrDamaged, "does not begin as a pdf"},
		{"cut.docx", "PK\x03\x04", Limits{}, nil, ErrDamaged, "archive cannot be read"},
		{"long.txt", strings.Repeat("a ", 1000), Limits{Text: 100}, nil, ErrLimit, "more than 0 KiB"},
		{"long.txt", strings.Repeat("a ", 1000), Limits{Size: 100}, nil, ErrLimit, "2000 bytes"},
		{"long.html", strings.Repeat("a ", 1000), Limits{Text: 100}, nil, ErrLimit, "more than 0 KiB"},
		{"heads.md", strings.Repeat("# a\n", 100), Limits{Pages: 10}, nil, ErrLimit, "100 pages"},
		{"heads.html", strings.Repeat("<h1>a</h1>b", 100), Limits{Pages: 10}, nil, ErrLimit, "more than 10 headings"},
		{"tag.html", "<p " + strings.Repeat("a", 2<<20), Limits{}, nil, ErrLimit, "1 MiB"},
		{"a.txt", "text", Limits{}, gone, context.Canceled, "canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			_, err := Read(ctx, c.name, strings.NewReader(c.data), int64(len(c.data)), c.limits)
			var e *Error
			if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Name != c.name || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v and %q", err, c.want, c.says)
			}
		})
	}
	if _, err := Read(context.Background(), "short.txt", strings.NewReader("abc"), 10, Limits{}); err == nil ||
		!strings.Contains(err.Error(), "ends after 3 of 10 bytes") {
		t.Errorf("a file that is shorter than its size: %v", err)
	}
}

// TestParts: a long text is cut at paragraphs, its parts are the whole, and each knows its line.
func TestParts(t *testing.T) {
	for _, c := range []struct{ name, unit, end string }{
		{"paragraphs", strings.Repeat("A line of words.\n", 5) + "\n", "\n\n"},
		{"lines", "some words of a line\n", "\n"},
		{"words", "word ", " "},
		{"nothing to cut at", "漢", ""},
	} {
		text := strings.Repeat(c.unit, 100_000/len(c.unit))
		pages := parts(nil, "", text, 1)
		var all strings.Builder
		for i, p := range pages {
			if want := 1 + strings.Count(all.String(), "\n"); p.Line != want {
				t.Errorf("%s: part %d is at line %d, want %d", c.name, i, p.Line, want)
			}
			all.WriteString(p.Text)
			if i < len(pages)-1 && !strings.HasSuffix(p.Text, c.end) || len(p.Text) > pagePart*5/4 {
				t.Errorf("%s: part %d of %d bytes ends in %q", c.name, i, len(p.Text), p.Text[len(p.Text)-8:])
			}
		}
		if all.String() != text || len(pages) < 5 {
			t.Errorf("%s: %d parts are not the whole", c.name, len(pages))
		}
	}
}

// show writes pages as one text: a line for each page's head, then its text.
func show(doc *Document) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q\n", doc.Kind, doc.Title)
	for _, p := range doc.Pages {
		fmt.Fprintf(&b, "== %d %d %q\n%s\n", p.Number, p.Line, p.Label, p.Text)
	}
	return b.String()
}

func readBytes(name string, data []byte, l Limits) (*Document, error) {
	return Read(context.Background(), name, bytes.NewReader(data), int64(len(data)), l)
}
