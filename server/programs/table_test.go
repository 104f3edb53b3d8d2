package programs

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/integrations.md anew")

// Every row of the table is whole: what is copied names the server, its holes are known, no key is
// an argument, and a name leads to one program.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	hole := regexp.MustCompile(`\{\w+\}`)
	for _, p := range Table {
		if p.ID == "" || p.Name == "" || p.Note == "" || len(p.Copy) == 0 || p.Needs.By == "" || seen[p.ID] || Find(p.ID) == nil {
			t.Errorf("%+v", p)
		}
		seen[p.ID] = true
		all := ""
		for _, c := range p.Copy {
			all += c.Text
			for _, h := range hole.FindAllString(c.Text, -1) {
				if !slices.Contains([]string{"{url}", "{host}", "{model}", "{key}"}, h) {
					t.Errorf("%s has the hole %s", p.ID, h)
				}
			}
		}
		if !strings.Contains(all, "{url}") {
			t.Errorf("%s does not name the server", p.ID)
		}
		if (p.Needs.By == Measured) != (p.Needs.Version != "" && p.Needs.First > 0) {
			t.Errorf("%s: %+v", p.ID, p.Needs)
		}
		if s := p.Launch; s != nil {
			if Find(s.Command) == nil || s.Install == "" || p.Needs.First == 0 || s.As != "" && len(s.Entries) == 0 {
				t.Errorf("%s: %+v", p.ID, s)
			}
			for _, a := range s.Args {
				if strings.Contains(a, "{key}") {
					t.Errorf("%s: the key would be on its command line", p.ID)
				}
			}
			for _, e := range s.Entries {
				if text := fmt.Sprint(e.Value); strings.Contains(text, "{key}") || strings.Contains(text, "AXLE_KEY}") && s.File == nil {
					t.Errorf("%s: the key would be in its file: %s", p.ID, text)
				}
			}
		}
	}
	if Find("") != nil || Find("nope") != nil {
		t.Error("a program that is not there was found")
	}
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		first, context int
		want           Fit
	}{{0, 4096, Unknown}, {7100, 0, Unknown}, {7100, 7100, TooMany}, {7100, 7101, Little}, {7100, 9147, Little}, {7100, 9148, Fits}} {
		if got := first(c.first, "1", "").Fit(c.context); got != c.want {
			t.Errorf("%d tokens in %d: %s, want %s", c.first, c.context, got, c.want)
		}
	}
}

func TestFill(t *testing.T) {
	v := Values{URL: "https://[::1]:1", Model: "m", Context: 9}
	if got := v.Fill("{url} {host} {model} {key} {context} {env:X} {"); got != "https://[::1]:1 [::1]:1 m axle 9 {env:X} {" {
		t.Error(got)
	}
	v.Model = "{key}" // what fills a hole has none
	if got := v.Fill("{model}"); got != "{key}" {
		t.Error(got)
	}
}

// TestDocument: the tables of docs/integrations.md are the table. `go test ./server/programs
// -update` writes them.
func TestDocument(t *testing.T) {
	const file = "../../docs/integrations.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for name, want := range map[string]string{"programs": documentPrograms(), "tokens": documentTokens()} {
		begin, end := "<!-- "+name+": go test ./server/programs -update -->\n", "<!-- /"+name+" -->\n"
		before, rest, ok := strings.Cut(text, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no place for %s", file, name)
		}
		text = before + begin + want + end + after
	}
	if text == string(b) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the table says: go test ./server/programs -update", file)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

var document = Values{URL: "http://HOST:11434", Model: "qwen3:0.6b", Key: "KEY"}

func documentPrograms() string {
	var b strings.Builder
	b.WriteString("| program | what to set |\n|---|---|\n")
	var blocks strings.Builder
	for _, p := range Table {
		var set []string
		if p.Launch != nil {
			set = append(set, "`axle launch "+p.ID+"`")
		}
		long := false
		for _, c := range p.Copy {
			if text := document.Fill(c.Text); strings.Contains(text, "\n") || len(text) > 100 {
				long = true
			} else {
				set = append(set, strings.ReplaceAll(into(c.Into)+"`"+text+"`", "|", `\|`))
			}
		}
		if long {
			set = append(set, "[below](#"+p.ID+")")
			fmt.Fprintf(&blocks, "\n<a id=\"%s\"></a>%s:\n%s\n", p.ID, p.Name, p.Note)
			for _, c := range p.Copy {
				if c.Into != "sh" && c.Into != "URL" {
					fmt.Fprintf(&blocks, "\n`%s`:\n", c.Into)
				}
				blocks.WriteString("\n```\n" + document.Fill(c.Text) + "\n```\n")
			}
			fmt.Fprintf(&b, "| %s | %s |\n", p.Name, strings.Join(set, ", "))
			continue
		}
		fmt.Fprintf(&b, "| %s | %s %s |\n", p.Name, p.Note, strings.Join(set, ", "))
	}
	return b.String() + blocks.String()
}

func into(s string) string {
	if s == "sh" || s == "URL" {
		return ""
	}
	return "`" + s + "`: "
}

func documentTokens() string {
	var b strings.Builder
	b.WriteString("| program | version | tokens | details |\n|---|---|---|---|\n")
	for _, p := range Table {
		if p.Needs.By == Measured {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", p.Name, p.Needs.Version, thousands(p.Needs.First), p.Needs.Details)
		}
	}
	return b.String()
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
