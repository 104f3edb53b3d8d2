//go:build !scripted

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/transcript"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

func init() { register(newRenderCmd) }

func newRenderCmd() *cobra.Command {
	var messages, tools string
	var set []string
	var ids bool
	cmd := &cobra.Command{
		Use:   "render MODEL|TEMPLATE_FILE --messages FILE.json",
		Short: "Show the prompt that a model would be given",
		Long: `Render prints the prompt that a model's chat template, or a template file,
makes of a conversation.

FILE.json holds the messages as in Ollama's or OpenAI's API: a JSON array, or
an object with "messages" and perhaps "tools". It may be - for standard input.
A TEMPLATE_FILE is a Jinja template (*.jinja, or a tokenizer_config.json that
has one) or an Ollama template in Go's syntax.`,
		Example: `  axle render qwen3:0.6b --messages chat.json --set enable_thinking=false
  axle render qwen3:0.6b --messages chat.json --set date_string='"1 Jan 2026"'
  axle render qwen3:0.6b --messages chat.json --tools tools.json --ids`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if messages == "" {
				return usageError("--messages is missing: a JSON file with the conversation")
			}
			c, err := transcript.Read(cmd.InOrStdin(), messages, tools)
			if err != nil {
				return err
			}
			opts, err := setVariables(&c, set)
			if err != nil {
				return err
			}
			tmpl, tok, err := openTemplate(args[0], opts, ids)
			if err != nil {
				return err
			}
			pieces, err := tmpl.Render(cmd.Context(), c)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if ids {
				list := chat.Encode(tok, pieces)
				if first := tok.Prefix(); len(first) > 0 && (len(list) == 0 || list[0] != first[0]) {
					list = append(append([]int32(nil), first...), list...)
				}
				err = writeIDs(out, list)
			} else {
				last := ""
				for _, p := range pieces {
					_, err = out.WriteString(p.Text)
					last = p.Text
				}
				// What reads a pipe or a file has the prompt as it is; in a terminal the shell's
				// own prompt follows.
				if err == nil && !strings.HasSuffix(last, "\n") && terminal.Is(cmd.OutOrStdout()) {
					err = out.WriteByte('\n')
				}
			}
			return errors.Join(err, out.Flush())
		},
	}
	cmd.Flags().StringVar(&messages, "messages", "", "JSON `file` with the messages, or -")
	cmd.Flags().StringVar(&tools, "tools", "", "JSON `file` with the tools that are offered, or -")
	cmd.Flags().StringArrayVar(&set, "set", nil, "a template variable, `name=json`; once for each")
	cmd.Flags().BoolVar(&ids, "ids", false, "print token ids, not text")
	return cmd
}

// openTemplate opens the template of a model or a file, and the tokenizer if it is asked for.
func openTemplate(name string, o chat.JinjaOptions, needTokenizer bool) (chat.Template, *tokenizer.Tokenizer, error) {
	if st, err := os.Stat(name); err == nil && !st.IsDir() {
		tmpl, err := transcript.Template(name, o)
		if err != nil || !needTokenizer {
			return tmpl, nil, err
		}
		tok, err := tokenizer.Open(filepath.Dir(name))
		if err != nil {
			return nil, nil, fmt.Errorf("--ids needs a tokenizer beside the template, or a model in its place: %w", err)
		}
		return tmpl, tok, nil
	}
	p, err := openPackage(name)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	tmpl, err := p.Template()
	if err != nil || !needTokenizer {
		return tmpl, nil, err
	}
	tok, err := p.Tokenizer()
	return tmpl, tok, err
}

// setVariables gives the conversation what --set says of it, and the template's options the rest.
func setVariables(c *chat.Conversation, set []string) (o chat.JinjaOptions, err error) {
	for _, s := range set {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" || !json.Valid([]byte(value)) {
			return o, usageError("--set %q is not name=json (a string needs quotes: --set x='\"text\"')", s)
		}
		switch name {
		case "enable_thinking", "think":
			switch value {
			case "true":
				c.Think = chat.ThinkOn
			case "false":
				c.Think = chat.ThinkOff
			default:
				var level string
				_ = json.Unmarshal([]byte(value), &level)
				c.Think = chat.Think(level)
			}
		case "bos_token":
			_ = json.Unmarshal([]byte(value), &o.BOS)
		case "eos_token":
			_ = json.Unmarshal([]byte(value), &o.EOS)
		default:
			if c.Kwargs == nil {
				c.Kwargs = make(map[string]json.RawMessage)
			}
			c.Kwargs[name] = json.RawMessage(value)
		}
	}
	return o, nil
}
