package extract

import (
	"archive/zip"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/lane"
)

func TestDOCX(t *testing.T) {
	cell := func(s string) string { return "<w:tc>" + para("", s) + "</w:tc>" }
	body := para("Titel", "The title") + para("", "Before  all ") + para("berschrift1", "One") +
		`<w:p><w:r><w:t>Tab</w:t><w:tab/><w:t>and&amp;break</w:t><w:br/><w:t>here</w:t><w:footnoteReference w:id="2"/></w:r>` +
		`<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>` +
		`<w:p><w:pPr><w:numPr><w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>item</w:t></w:r></w:p>` +
		para("Mine", "Two") + "<w:tbl><w:tr>" + cell("a") + cell("b") + "</w:tr><w:tr>" + cell("c") +
		"<w:tc><w:tbl><w:tr>" + cell("inner") + "</w:tr></w:tbl>" + para("", "d") + "</w:tc></w:tr></w:tbl>" +
		para("Out", "Three") + para("Loop", "loops") +
		`<mc:AlternateContent xmlns:mc="x"><mc:Choice>` + para("", "box") + `</mc:Choice><mc:Fallback>` + para("", "box") +
		`</mc:Fallback></mc:AlternateContent>` +
		`<w:p><w:r><w:t>again</w:t><w:footnoteReference w:id="2"/><w:endnoteReference w:id="1"/></w:r></w:p>`
	note := func(kind, id, text string) string {
		return `<w:` + kind + ` w:id="` + id + `">` + para("", text) + `</w:` + kind + `>`
	}
	data := wordFile(t, body,
		"word/footnotes.xml", root("footnotes", `<w:footnote w:type="separator" w:id="0"><w:p/></w:footnote>`+note("footnote", "2", " A note. ")),
		"word/endnotes.xml", root("endnotes", note("endnote", "1", "At the end.")),
		"word/header1.xml", root("hdr", para("", "Company")), "word/header2.xml", root("hdr", para("", "Company")),
		"word/footer1.xml", root("ftr", para("", "Secret")), "word/media/image1.png", "\x89PNG")
	doc, err := readBytes("letter.docx", data, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := "docx \"The title\"\n== 0 0 \"\"\nThe title\n\nBefore  all\n\n" +
		"== 0 0 \"One\"\nOne\n\nTab\tand&break\nhere[1]\n\n[1] A note.\n\n  - item\n\n" +
		"== 0 0 \"One › Two\"\nTwo\n\na | b\nc | inner d\n\n" +
		"== 0 0 \"Three\"\nThree\n\nloops\n\nbox\n\nagain[2]\n\n[2] At the end.\n\n" +
		"== 0 0 \"Header, footer\"\nSecret\nCompany\n\n"
	if got := show(doc); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDOCXMain: Word for the web calls the part with the text document2.xml, and a relation says
// so.
func TestDOCXMain(t *testing.T) {
	data := archive(t, "_rels/.rels",
		`<Relationships><Relationship Type="http://x/relationships/officeDocument" Target="/word/document2.xml"/></Relationships>`,
		"word/document2.xml", root("document", para("", "found")), "docProps/core.xml", `<c:p xmlns:c="c"><d:title xmlns:d="d">Named</d:title></c:p>`)
	doc, err := readBytes("web.docx", data, Limits{})
	if err != nil || doc.Title != "Named" || doc.Pages[0].Text != "found\n" {
		t.Errorf("%+v, %v", doc, err)
	}
}

func TestDOCXRefused(t *testing.T) {
	lane.NoRace(t)
	plain := wordFile(t, para("", "text"))
	locked := bytes.Clone(plain)
	for i := range locked { // the flag of encryption, in each entry of the list
		if bytes.HasPrefix(locked[i:], []byte("PK\x01\x02")) {
			locked[i+8] |= 1
		}
	}
	many := []string{}
	for range 40_000 {
		many = append(many, "word/media/picture-with-a-long-name.png", "")
	}
	for _, c := range []struct {
		name string
		data []byte
		want error
		says string
	}{
		{"cut", plain[:len(plain)-30], ErrDamaged, "archive"},
		{"encrypted", locked, ErrEncrypted, "password"},
		{"entities", wordFile(t, "", "docProps/core.xml", `<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>`), ErrDamaged, "declares entities"},
		{"an undeclared entity", wordFile(t, para("", "&b;")), ErrDamaged, "&b;"},
		{"no XML", archive(t, "word/document.xml", "<w:p"), ErrDamaged, "word/document.xml"},
		{"elements that do not end", archive(t, "word/document.xml", root("document", "<w:p>")), ErrDamaged, "word/document.xml"},
		{"another encoding", archive(t, "word/document.xml", `<?xml version="1.0" encoding="UTF-7"?><a/>`), ErrDamaged, "not UTF-8"},
		{"nested", wordFile(t,
			strings.Repeat("<w:tbl><w:tr><w:tc>", 1000)+strings.Repeat("</w:tc></w:tr></w:tbl>", 1000)), ErrLimit, "256 elements"},
		{"a bomb of paragraphs", wordFile(t, strings.Repeat(para("", ""), 1<<20)), ErrLimit, "32 MiB of XML"},
		{"a bomb in one text", wordFile(t, para("", strings.Repeat("a", 2<<20))), ErrLimit, "1024 KiB"},
		{"a bomb of text", wordFile(t, strings.Repeat(para("", strings.Repeat("a", 1<<19)), 20)), ErrLimit, "8192 KiB of text"},
		{"a bomb of attributes", wordFile(t, `<w:p a="`+strings.Repeat("a", 2<<20)+`"/>`), ErrLimit, "1024 KiB"},
		{"a bomb in notes", wordFile(t, "", "word/footnotes.xml", root("footnotes", strings.Repeat(
			`<w:footnote w:id="1">`+para("", strings.Repeat("a", 1<<19))+"</w:footnote>", 20))), ErrLimit, "KiB of text"},
		{"many entries", archive(t, many...), ErrLimit, "list of its entries"},
		{"a workbook", archive(t, "xl/workbook.xml", "<a/>"), ErrFormat, "an Excel workbook: save its sheets as CSV"},
		{"a presentation", archive(t, "ppt/presentation.xml", "<a/>"), ErrFormat, "PDF"},
		{"a book", archive(t, "META-INF/container.xml", "<a/>"), ErrFormat, "EPUB"},
		{"OpenDocument", archive(t, "content.xml", "<a/>"), ErrFormat, "save it as DOCX"},
		{"files", archive(t, "../../etc/passwd", "x"), ErrFormat, "unpack it"},
		{"nothing", archive(t), ErrFormat, "unpack it"},
		{"blank", wordFile(t, para("", " ")), ErrEmpty, "blank"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readBytes("a.docx", c.data, Limits{})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v and %q", err, c.want, c.says)
			}
		})
	}
}

// TestDOCXLies: what an archive claims of a part's size is not believed.
func TestDOCXLies(t *testing.T) {
	lane.NoRace(t)
	data := wordFile(t, strings.Repeat(para("", ""), 1<<20))
	for i := range data {
		if bytes.HasPrefix(data[i:], []byte("PK\x01\x02")) {
			copy(data[i+24:], []byte{10, 0, 0, 0})
		}
	}
	if _, err := readBytes("a.docx", data, Limits{}); err == nil {
		t.Error("it was read")
	}
}

const wordNS = `<?xml version="1.0" encoding="UTF-8"?><w:ROOT xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">`

// archive makes a zip archive of names and contents in turns.
func archive(t testing.TB, pairs ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		w, err := z.Create(pairs[i])
		if err == nil {
			_, err = w.Write([]byte(pairs[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func root(name, content string) string {
	return strings.Replace(wordNS, "ROOT", name, 1) + content + "</w:" + name + ">"
}

// para is a paragraph of a style, "" for none.
func para(style, text string) string {
	if style != "" {
		style = `<w:pPr><w:pStyle w:val="` + style + `"/></w:pPr>`
	}
	return "<w:p>" + style + `<w:r><w:t xml:space="preserve">` + text + "</w:t></w:r></w:p>"
}

const wordStyles = `<w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
<w:style w:styleId="berschrift2"><w:name w:val="Heading 2"/></w:style>
<w:style w:styleId="Mine"><w:name w:val="my own"/><w:basedOn w:val="berschrift2"/></w:style>
<w:style w:styleId="Loop"><w:name w:val="loop"/><w:basedOn w:val="Loop"/></w:style>
<w:style w:styleId="Titel"><w:name w:val="Title"/></w:style>
<w:style w:styleId="Out"><w:name w:val="out"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr></w:style>`

func wordFile(t testing.TB, body string, more ...string) []byte {
	return archive(t, append([]string{"[Content_Types].xml", "<Types/>", "word/styles.xml", root("styles", wordStyles),
		"word/document.xml", root("document", "<w:body>"+body+"</w:body>")}, more...)...)
}
