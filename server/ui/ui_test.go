package ui

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/monitor"
	"github.com/axle-llm/axle/server/programs"
)

// The page names its files below one hash, all of them are there, and nothing in it could run or be
// fetched from elsewhere.
func TestPage(t *testing.T) {
	p := string(Page().Plain)
	refs := regexp.MustCompile(`(?i)\b(?:src|href)\s*=\s*"([^"]*)"`).FindAllStringSubmatch(p, -1)
	if len(refs) < 20 {
		t.Fatalf("the page names %d files", len(refs))
	}
	roots := map[string]bool{}
	for _, m := range refs {
		name, ok := strings.CutPrefix(m[1], "ui/")
		a := Find(name)
		if !ok || a == nil {
			t.Errorf("%s is not there", m[1])
			continue
		}
		if a.Keep {
			root, _, _ := strings.Cut(name, "/")
			roots[root] = true
		}
	}
	if len(roots) != 1 {
		t.Errorf("roots %v", roots)
	}
	if m := regexp.MustCompile(`(?i)<style|\sstyle=|\son\w+=|https?:|<script(?:>| [^>]*>[^<])|<base|\{\{`).FindAllString(p, -1); m != nil {
		t.Errorf("the page has %q", m)
	}
	if strings.Contains(Policy, "unsafe") || strings.Contains(Policy, "*") ||
		!strings.HasSuffix(Policy, "; require-trusted-types-for 'script'; trusted-types dompurify axle") ||
		!strings.HasPrefix(Policy, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';") {
		t.Errorf("policy %s", Policy)
	}
	for _, name := range []string{"", "app/main.js", "index.html", "vendor/SUMS", "../ui.go"} {
		if Find(name) != nil {
			t.Errorf("%q is served", name)
		}
	}
}

// each calls f with every file of the page that we wrote.
func each(t *testing.T, f func(name, src string)) {
	t.Helper()
	for _, dir := range []string{"app", "style"} {
		err := fs.WalkDir(files, dir, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				b, _ := files.ReadFile(name)
				f(name, string(b))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What the scripts import is there, what runs first is named in the page, and no script makes code
// or markup of text but the sanitiser.
func TestScripts(t *testing.T) {
	//proves:T20
	literal := regexp.MustCompile(`(?:from |import\()['"](\.[^'"]+)['"]`)
	each(t, func(name, src string) {
		for _, m := range literal.FindAllStringSubmatch(src, -1) {
			if to := path.Join(path.Dir(name), m[1]); path.Ext(name) == ".js" {
				if _, err := files.ReadFile(to); err != nil {
					t.Errorf("%s imports %s, which is not there", name, to)
				}
			}
		}
		if m := regexp.MustCompile(
			`\b(?:innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|eval\(|new Function)|@import|url\(`).FindString(src); m !=
			"" {
			t.Errorf("%s has %s", name, m)
		}
		if n := strings.Count(src, "\n"); n > 600 {
			t.Errorf("%s has %d lines", name, n)
		}
	})
	for _, want := range []string{"app/chat.js", "app/markdown.js", "vendor/preact.js", "vendor/hooks.js", "vendor/marked.js",
		"vendor/purify.js", "app/words/en.js"} {
		if !strings.Contains(string(Page().Plain), want) {
			t.Errorf("%s is not preloaded", want)
		}
	}
	for _, late := range []string{"uplot", "highlight", "temml", "app/formula.js", "app/card.js", "words/de.js"} {
		if strings.Contains(string(Page().Plain), late) {
			t.Errorf("%s is loaded before it is needed", late)
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("the scripts were not parsed: there is no node here")
	}
	var list strings.Builder
	each(t, func(name, _ string) {
		if path.Ext(name) == ".js" {
			list.WriteString(name + "\n")
		}
	})
	const parse = `const { readFileSync } = require('node:fs'), { SourceTextModule } = require('node:vm');
for (const f of readFileSync(0, 'utf8').trim().split('\n')) try { new SourceTextModule(readFileSync(f, 'utf8')) } catch (e) { console.log(f + ': ' + e.message) }`
	cmd := exec.CommandContext(t.Context(), node, "--no-warnings", "--experimental-vm-modules", "-e", parse)
	cmd.Stdin = strings.NewReader(list.String())
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// However hostile a text is, reading it as Markdown takes a number of steps that has a limit:
// counted as what regular expressions are asked to look at, by the test, and not by the reader.
// What takes more is shown as it was written; ordinary texts are not.
func TestMarkdownSteps(t *testing.T) {
	//proves:T21 25 hostile texts, counted, not timed
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("nothing was read: there is no node here")
	}
	dir := t.TempDir()
	for _, name := range []string{"app/marking.js", "vendor/marked.js"} {
		b, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(path.Join(dir, path.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const script = `
const exec = RegExp.prototype.exec;
let asked = 0;
RegExp.prototype.exec = function (s) { asked++; return exec.call(this, s); };
const { blocks, html, mostSteps, spent } = await import('./app/marking.js');
let bad = 0;
const say = (...what) => { bad++; console.log(...what); };
for (const unit of ['**a*b_', '*a_', '_a*', '__a', '***a', '![', '[a](<', '~~a~', '` + "`" + `a', '<a b="', '<a ', '$;](>}', 'a@b.', '> ', '- ', '- a\n', '1. a\n\n',
  '[a]: b\n', 'a\n', '# a\n', '<!--', ' ', '|a|\n', '*a* ', '- **a*b_']) for (const [type, size] of [['paragraph', 12000], ['list', 16000]]) {
  const text = ('a' + unit.repeat(size / unit.length)).slice(0, size);
  for (const [what, f] of [['blocks', () => blocks(text)], ['html', () => html(type, text, {})]]) {
    asked = 0;
    f();
    if (asked > 250000 || spent() > 2 * mostSteps) say(JSON.stringify(unit), type, what, asked, 'times', spent(), 'steps');
  }
}
const plain = [['list', '- **one**: a few *words* and ` + "`code`" + `, see [there](https://example.com)\n'.repeat(300)], ['table', '|a|b|c|\n|-|-|-|\n' + '|one **two**|` + "`three`" + `|four|\n'.repeat(250)],
  ['paragraph', 'Some words, **bold**, *slanted* and ` + "`code`" + ` in a line of text that goes on. '.repeat(120)], ['blockquote', '> quoted *words*\n'.repeat(200)]];
for (const [type, text] of plain) if (html(type, text, {}) === null) say(type, text.length, 'is not read', spent());
if (!bad) console.log('ok');`
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", script)
	cmd.Dir = dir
	if err := os.WriteFile(path.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestGrounding: the places of an answer, as each family of models writes them, and of what only
// looks like one. The texts are those of the models' own documentation and hostile ones.
func TestGrounding(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("nothing was read: there is no node here")
	}
	src, err := files.ReadFile("app/grounding.js")
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		Label                    string
		Point                    bool
		Left, Top, Right, Bottom float64
	}
	box := func(label string, at ...float64) place { return place{label, false, at[0], at[1], at[2], at[3]} }
	point := func(label string, x, y float64) place { return place{label, true, x, y, x, y} }
	thousand, pixels := []int{1000, 1000}, []int{448, 224}
	type text struct {
		Name, Text string
		Parts      []int
		Want       []place
	}
	var many strings.Builder
	for range 5000 {
		many.WriteString("<box><1><2></box>")
	}
	texts := []text{
		{"LocateAnything", "<ref>a dog</ref><box><120><340><560><900></box>", nil, []place{box("a dog", .12, .34, .56, .9)}},
		{"two of a label, one of another, a point", "<ref>dog</ref><box><0><0><1000><1000></box><box><10><20><30><40></box><ref>cat</ref>" +
			"<box><500><250></box>", thousand, []place{box("dog", 0, 0, 1, 1), box("dog", .01, .02, .03, .04), point("cat", .5, .25)}},
		{"without a label", "it is here: <box><310><480></box>.", nil, []place{point("", .31, .48)}},
		{"corners the other way about", "<box><560><900><120><340></box>", nil, []place{box("", .12, .34, .56, .9)}},
		{"beyond the picture, cut off, three numbers", "<box><1><2><3><1001></box><box><1><2><3></box><box><1><2", nil, nil},
		{"Qwen3-VL", "```json\n[\n\t{\"bbox_2d\": [100, 200, 300, 400], \"label\": \"dog\"},\n\t{\"point_2d\": [5, 995], " +
			"\"label\": \"tail\"}\n]\n```", thousand, []place{box("dog", .1, .2, .3, .4), point("tail", .005, .995)}},
		{"Qwen2.5-VL, in pixels", `[{"bbox_2d": [112, 56, 448, 224], "text_content": "SALE"}]`, pixels, []place{box("SALE", .25, .25, 1, 1)}},
		{"a model whose measure is not known", `[{"bbox_2d": [1, 2, 3, 4], "label": "dog"}]`, nil, nil},
		{"other JSON", `{"box": [1,2,3,4]} {"bbox_2d": "1,2,3,4"} {"bbox_2d": [1,2,3]} {"bbox_2d": [1,2,3,null]} {"bbox_2d": [1,2,3,4`,
			thousand, nil},
		{"beyond the measure", `{"bbox_2d": [1, 2, 3000, 4], "label": "x"} {"point_2d": [-1, 2]}`, thousand, nil},
		{"a label that is no text", `{"bbox_2d": [0, 0, 500, 500], "label": 7}`, thousand, []place{box("7", 0, 0, .5, .5)}},
		{"more than anybody looks at", many.String(), nil, slices.Repeat([]place{point("", .001, .002)}, 200)},
		{"braces without end", strings.Repeat("{", 200_000) + strings.Repeat(`"bbox_2d":[`, 20_000), thousand, nil},
	}
	given, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, b := range map[string][]byte{"grounding.js": src, "texts.json": given, "package.json": []byte(`{"type":"module"}`)} {
		if err := os.WriteFile(path.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", `
import { readFileSync } from 'node:fs';
import { places } from './grounding.js';
const texts = JSON.parse(readFileSync('texts.json'));
console.log(JSON.stringify(texts.map((x) => places(x.Text, x.Parts))));`)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got [][]place
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(texts) {
		t.Fatal(len(got), err)
	}
	for i, c := range texts {
		if !slices.EqualFunc(got[i], c.Want, func(a, b place) bool {
			near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }
			return a.Label == b.Label && a.Point == b.Point && near(a.Left, b.Left) && near(a.Top, b.Top) && near(a.Right, b.Right) &&
				near(a.Bottom, b.Bottom)
		}) {
			t.Errorf("%s: %d places %+v, want %+v", c.Name, len(got[i]), got[i][:min(3, len(got[i]))], c.Want[:min(3, len(c.Want))])
		}
	}
}

// What the page records can be read, and what a model speaks can be played: also a wav that does
// not say how long it is, and one with more in its header. What is no such file is told apart.
func TestWAV(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("nothing was written: there is no node here")
	}
	src, err := files.ReadFile("app/wav.js")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put := func(name string, b []byte) {
		if err := os.WriteFile(path.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("package.json", []byte(`{"type":"module"}`))
	put("wav.js", src)
	sound := []float32{0, 0.5, -0.5, -1, 0.25}
	open := audio.AppendPCM(audio.AppendWAVHeader(nil, 24000, -1), sound)
	put("whole", audio.AppendPCM(audio.AppendWAVHeader(nil, 24000, len(sound)), sound))
	put("open", open)
	put("after", append(audio.AppendPCM(audio.AppendWAVHeader(nil, 24000, len(sound)), sound), "LIST\x04\x00\x00\x00abcd"...))
	put("odd", append(slices.Clone(open), 7))
	put("more", slices.Concat(open[:36], []byte("LIST\x03\x00\x00\x00abc\x00"), open[36:]))
	put("floats", slices.Concat(open[:20], []byte{3}, open[21:]))
	put("headless", slices.Concat(open[:12], open[36:]))
	put("short", open[:30])
	put("text", []byte(`{"error":"no"}`))
	const script = `import { readFileSync, writeFileSync } from 'node:fs';
import { samples, written } from './wav.js';
const read = (name) => samples(Uint8Array.from(readFileSync(name)).buffer);
for (const name of ['whole', 'open', 'after', 'odd', 'more', 'floats', 'headless', 'short', 'text']) {
  const s = read(name);
  console.log(name, s && s.rate + ' ' + s.channels.map((c) => c.join()));
}
writeFileSync('page.wav', Buffer.from(await written([Int16Array.of(0, 16384), Int16Array.of(-16384, -32768, 8192)], 44100).arrayBuffer()));`
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	const same = " 24000 0,0.5,-0.5,-1,0.25\n"
	const want = "whole" + same + "open" + same + "after" + same + "odd" + same + "more" + same +
		"floats null\nheadless null\nshort null\ntext null\n"
	if err != nil || string(out) != want {
		t.Fatalf("%v\n%s", err, out)
	}
	page, err := os.ReadFile(path.Join(dir, "page.wav"))
	if err != nil {
		t.Fatal(err)
	}
	if want := audio.AppendPCM(audio.AppendWAVHeader(nil, 44100, len(sound)), sound); !bytes.Equal(page, want) {
		t.Errorf("% x\nnot % x", page, want)
	}
	r, err := audio.NewReader(bytes.NewReader(page), 44100, audio.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 9)
	if n, err := r.Read(got); !slices.Equal(got[:n], sound) || err != nil && err != io.EOF {
		t.Errorf("%v, %v", got[:n], err)
	}
}

// The libraries are those that vendor.sh pins, unchanged, each with its licence and its heading,
// and small together.
func TestVendor(t *testing.T) {
	//proves:T20
	script, err := os.ReadFile("vendor.sh")
	if err != nil {
		t.Fatal(err)
	}
	licences, _ := files.ReadFile("vendor/LICENCES")
	rationale, err := os.ReadFile("../../RATIONALE.md")
	if err != nil {
		t.Fatal(err)
	}
	pins := regexp.MustCompile(`(?m)^(\S+) (\d\S+) sha512-\S{80,}$`).FindAllStringSubmatch(string(script), -1)
	if len(pins) < 6 {
		t.Fatalf("pins %q", pins)
	}
	for _, m := range pins {
		if !strings.Contains("\n"+string(licences), "\n"+m[1]+" "+m[2]+"\n") {
			t.Errorf("vendor/LICENCES has no licence of %s %s", m[1], m[2])
		}
		if !regexp.MustCompile(`(?m)^### .*\b` + regexp.QuoteMeta(strings.TrimPrefix(m[1], "@")) + `\b`).Match(rationale) {
			t.Errorf("RATIONALE.md has no heading for %s", m[1])
		}
	}
	sums, err := files.ReadFile("vendor/SUMS")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for sc := bufio.NewScanner(bytes.NewReader(sums)); sc.Scan(); {
		sum, name, _ := strings.Cut(sc.Text(), "  ")
		known[name] = sum
	}
	var z bytes.Buffer
	w, _ := gzip.NewWriterLevel(&z, gzip.BestCompression)
	list, _ := files.ReadDir("vendor")
	for _, d := range list {
		b, _ := files.ReadFile("vendor/" + d.Name())
		if sum := sha256.Sum256(b); d.Name() != "SUMS" && hex.EncodeToString(sum[:]) != known[d.Name()] {
			t.Errorf("vendor/%s is not what make ui-vendor wrote", d.Name())
		}
		if path.Ext(d.Name()) != "" {
			_, _ = w.Write(b)
		}
	}
	_ = w.Close()
	if len(known) != len(list)-1 {
		t.Errorf("%d sums of %d files", len(known), len(list)-1)
	}
	if languages := slices.DeleteFunc(list, func(d fs.DirEntry) bool { return !strings.HasPrefix(d.Name(), "hl-") }); len(languages) != 20 {
		t.Errorf("%d languages are highlighted", len(languages))
	}
	if z.Len() > 250<<10 {
		t.Errorf("the libraries are %d bytes compressed", z.Len())
	}
	z.Reset()
	w.Reset(&z)
	largest := "" // table: a browser fetches the English one, and one more
	each(t, func(name, src string) {
		if table := strings.Contains(name, "words/") && !strings.HasSuffix(name, "/en.js"); !table {
			_, _ = io.WriteString(w, src)
		} else if len(src) > len(largest) {
			largest = src
		}
	})
	_, _ = io.WriteString(w, largest)
	_ = w.Close()
	if z.Len() > 150<<10 {
		t.Errorf("the page's own code, with the largest table of words, is %d bytes compressed", z.Len())
	}
}

// The page says that a text is too long where the server would.
func TestPieces(t *testing.T) {
	b, err := files.ReadFile("app/pieces.js")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("export const mostText = %d << 20;", body.MaxText>>20); !strings.Contains(string(b), want) {
		t.Errorf("app/pieces.js has not %s", want)
	}
}

// table reads a language's words.
func table(t *testing.T, lang string) map[string]string {
	t.Helper()
	b, err := files.ReadFile("app/words/" + lang + ".js")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	line := regexp.MustCompile(`^  '([^']+)': '((?:[^'\\]|\\.)*)',$`)
	for n, l := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		m := line.FindStringSubmatch(l)
		switch {
		case m == nil && n > 1 && l != "};":
			t.Errorf("words/%s.js, line %d: %s", lang, n+1, l)
		case m != nil && words[m[1]] != "":
			t.Errorf("words/%s.js has %s twice", lang, m[1])
		case m != nil:
			words[m[1]] = m[2]
		}
	}
	return words
}

// notes are the server's fixed sentences that the page shows.
func notes() []string {
	var list []string
	for _, e := range hub.Catalogue {
		for _, text := range []string{e.SpeedNote, e.NotYet} {
			if text != "" {
				list = append(list, text)
			}
		}
	}
	for _, p := range programs.Table {
		list = append(list, p.Note)
	}
	return list
}

// Every language has every word, with the same holes, and every word that a script says is there.
func TestWords(t *testing.T) {
	english := table(t, "en")
	holes := func(s string) []string {
		h := regexp.MustCompile(`\{\w+\}`).FindAllString(s, -1)
		slices.Sort(h)
		return slices.Compact(h)
	}
	list, _ := files.ReadDir("app/words")
	for _, d := range list {
		lang := strings.TrimSuffix(d.Name(), ".js")
		words := table(t, lang)
		for key, text := range english {
			if _, ok := words[key]; !ok {
				t.Errorf("words/%s.js has no %s", lang, key)
			} else if !slices.Equal(holes(text), holes(words[key])) {
				t.Errorf("words/%s.js, %s: %q has other holes than %q", lang, key, words[key], text)
			}
		}
		for key := range words {
			if _, ok := english[key]; !ok {
				t.Errorf("words/%s.js has %s, which words/en.js has not", lang, key)
			}
		}
	}
	for _, text := range notes() { // said by the server in English, and by the page in its language
		if !slices.Contains(slices.Collect(maps.Values(english)), strings.ReplaceAll(text, "'", `\'`)) {
			t.Errorf("words/en.js has no note that says %q", text)
		}
	}
	for id, text := range monitor.Warnings {
		if key := "warn." + strings.ReplaceAll(id, " ", "."); english[key] != strings.ReplaceAll(text, "'", `\'`) {
			t.Errorf("words/en.js has %q as %s, the server says %q", english[key], key, text)
		}
	}
	said := map[string]bool{}
	var stems []string
	each(t, func(name, src string) {
		for _, m := range regexp.MustCompile(`\bt\('([^']+)'( \+)?`).FindAllStringSubmatch(src, -1) {
			if m[2] != "" {
				stems = append(stems, m[1])
			} else if said[m[1]] = true; english[m[1]] == "" {
				t.Errorf("%s says %s, which words/en.js has not", name, m[1])
			}
		}
		if !strings.HasPrefix(name, "app/words/") {
			for key := range english {
				if strings.Contains(src, "'"+key+"'") {
					said[key] = true
				}
			}
		}
	})
	for key, text := range english {
		_, warns := monitor.Warnings[strings.ReplaceAll(strings.TrimPrefix(key, "warn."), ".", " ")]
		said[key] = said[key] || warns || strings.HasPrefix(key, "note.") && slices.Contains(notes(), strings.ReplaceAll(text, `\'`, "'"))
		if !said[key] && !slices.ContainsFunc(stems, func(s string) bool { return strings.HasPrefix(key, s) }) {
			t.Errorf("nothing says %s", key)
		}
	}
}
