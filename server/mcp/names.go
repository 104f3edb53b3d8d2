package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// letters are what a name of a tool has in every API.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// Bounds of what a server offers.
const (
	maxName        = 64 // of OpenAI and Anthropic
	maxTools       = 128
	maxPages       = 16
	maxDescription = 4 << 10
	maxTitle       = 120
	maxSchema      = 32 << 10
	maxLeftOut     = 8 // that are told
)

// Tool is what a server offers.
type Tool struct {
	Name        string          `json:"name"` // server__tool: letters, digits, _ and -, 64 at most
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`          // a JSON schema of type object
	ReadOnly    bool            `json:"read_only,omitempty"` // the server says that it changes nothing
	// Digest is another whenever anything above is: who allowed a tool is asked again where it has
	// become another.
	Digest string `json:"digest"`
	its    string // the server's own name for it
}

// offered are a server's tools under names that are unique, and what was left out of them and why.
func offered(server string, all []*sdk.Tool) (tools []Tool, out []string) {
	leave := func(name, why string) {
		if len(out) < maxLeftOut {
			out = append(out, fmt.Sprintf("%q: %s", text(name, maxTitle), why))
		}
	}
	taken := map[string]bool{}
	for i, t := range all {
		if i >= maxTools {
			leave(t.Name, fmt.Sprintf("more than %d tools", maxTools))
			break
		}
		if t == nil || t.Name == "" {
			leave("", "it has no name")
			continue
		}
		schema, why := schemaOf(t.InputSchema)
		name := named(server, t.Name)
		switch {
		case why != "":
			leave(t.Name, why)
			continue
		case taken[name]:
			leave(t.Name, "another tool has this name")
			continue
		}
		taken[name] = true
		o := Tool{Name: name, Title: text(t.Title, maxTitle), Description: text(t.Description, maxDescription),
			Parameters: schema, its: t.Name}
		if a := t.Annotations; a != nil {
			o.ReadOnly = a.ReadOnlyHint
			if o.Title == "" {
				o.Title = text(a.Title, maxTitle)
			}
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %s %v", o.its, o.Title, o.Description, schema, o.ReadOnly))
		o.Digest = hex.EncodeToString(sum[:16])
		tools = append(tools, o)
	}
	return tools, out
}

// named is server__tool as every API takes it. A name that had to be changed gets a few digits of
// what it was, so that two tools do not become one.
func named(server, tool string) string {
	whole := server + "__" + tool
	if len(whole) <= maxName && strings.Trim(tool, letters) == "" {
		return whole
	}
	var clean strings.Builder
	for _, r := range tool {
		if r < utf8.RuneSelf && strings.ContainsRune(letters, r) {
			clean.WriteRune(r)
		} else {
			clean.WriteByte('_')
		}
	}
	sum := sha256.Sum256([]byte(tool))
	cut := clean.String()
	cut = cut[:min(len(cut), maxName-len(server)-2-9)]
	return server + "__" + cut + "_" + hex.EncodeToString(sum[:4])
}

// schemaOf is a tool's schema, or why it is none.
func schemaOf(v any) (schema json.RawMessage, why string) {
	if v == nil {
		return nil, "it has no schema"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, "its schema is no JSON"
	}
	if len(b) > maxSchema {
		return nil, fmt.Sprintf("its schema has more than %d KiB", maxSchema>>10)
	}
	var top struct {
		Type       string
		Properties map[string]json.RawMessage
		Required   []string
	}
	if b[0] != '{' || json.Unmarshal(b, &top) != nil || top.Type != "object" {
		return nil, "its schema is not one of an object"
	}
	return b, ""
}

// text is what a server wrote, cut to a number of bytes, valid and without control characters and
// what changes the direction of text.
func text(s string, most int) string {
	s = strings.ToValidUTF8(s[:min(len(s), 4*most)], "\uFFFD")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r) && r != '\u200d' && r != '\u200c':
			return -1
		}
		return r
	}, s)
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// ServerOf is the server that a tool's name belongs to.
func ServerOf(tool string) string {
	server, _, _ := strings.Cut(tool, "__")
	return server
}
