package ui

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// drafts are the languages whose tables no native speaker has read yet: the page's list marks them.
var drafts = []string{"ja", "ko"}

// In every language one thing has one name, as glossary.tsv says, and no other spelling of it.
func TestGlossary(t *testing.T) {
	b, err := os.ReadFile("glossary.tsv")
	if err != nil {
		t.Fatal(err)
	}
	english, tables := table(t, "en"), map[string]map[string]string{}
	for _, lang := range []string{"de", "zh", "ja", "ko"} {
		tables[lang] = table(t, lang)
	}
	holes, terms, texts := regexp.MustCompile(`\{\w+\}`), 0, 0
	for n, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "term\t") {
			continue
		}
		f := strings.Split(line, "\t")
		if f[0] == "never" && len(f) == 3 {
			for key, text := range tables[f[2]] {
				if regexp.MustCompile(f[1]).MatchString(text) {
					t.Errorf("words/%s.js, %s: %q has %s", f[2], key, text, f[1])
				}
			}
			continue
		}
		if len(f) != 7 {
			t.Fatalf("glossary.tsv, line %d has %d columns", n+1, len(f))
		}
		terms++
		says := regexp.MustCompile(`(?i)(?:^|[^\w-])(?:` + f[1] + `)(?:[^\w-]|$)`)
		except := strings.Fields(f[6])
		for key, text := range english {
			if slices.Contains(except, key) || !says.MatchString(holes.ReplaceAllString(text, "")) {
				continue
			}
			for i, lang := range []string{"de", "zh", "ja", "ko"} {
				if want := f[2+i]; want != "" && !regexp.MustCompile("(?i)"+want).MatchString(tables[lang][key]) {
					t.Errorf("words/%s.js, %s: %q does not say %s (%s), as %q does", lang, key, tables[lang][key], want, f[0], text)
				}
				texts++
			}
		}
		for _, key := range except {
			if english[key] == "" {
				t.Errorf("glossary.tsv, line %d: words/en.js has no %s", n+1, key)
			}
		}
	}
	if terms < 25 || texts < 500 {
		t.Errorf("%d terms were held against %d texts", terms, texts)
	}
}

// A language whose table no native speaker has read is marked in the list, and its file
// says so; a table that is marked is not all English.
func TestDrafts(t *testing.T) {
	list, err := files.ReadFile("app/words.js")
	if err != nil {
		t.Fatal(err)
	}
	english := table(t, "en")
	dir, _ := files.ReadDir("app/words")
	for _, d := range dir {
		lang := strings.TrimSuffix(d.Name(), ".js")
		name := regexp.MustCompile(`\b` + lang + `: '([^']+)'`).FindStringSubmatch(string(list))
		if name == nil {
			t.Errorf("app/words.js does not list %s", lang)
			continue
		}
		b, _ := files.ReadFile("app/words/" + d.Name())
		first, _, _ := strings.Cut(string(b), "\n")
		draft := slices.Contains(drafts, lang)
		if strings.HasSuffix(name[1], " *") != draft || strings.Contains(first, "No native speaker has read it yet") != draft {
			t.Errorf("%s is called %q and begins with %q; unread: %t", lang, name[1], first, draft)
		}
		same := 0
		for key, text := range table(t, lang) {
			if text == english[key] {
				same++
			}
		}
		if lang != "en" && same > len(english)/10 {
			t.Errorf("%d of %d texts of words/%s.js are English", same, len(english), lang)
		}
	}
}
