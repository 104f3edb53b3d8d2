package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/tokenizer/origin"
)

// maxSource is the longest template: the longest in use have 20 KB.
const maxSource = 256 << 10

// Errors of renderings, for errors.Is.
var (
	// ErrBudget: the template does more than any honest one would. The request or the package that
	// brought it is at fault.
	ErrBudget = origin.ErrBudget
	// ErrRoom: other renderings have all the room. The same rendering works later.
	ErrRoom = origin.ErrRoom
)

// room is what all renderings of the process make together, beyond a mebibyte each.
var room = sync.OnceValue(func() *origin.Room { return &origin.Room{Size: budget.Get().Templates} })

func tooLong(source string) error {
	if len(source) > maxSource {
		return fmt.Errorf("it has %d bytes, more than the %d allowed", len(source), maxSource)
	}
	return nil
}

// rendered runs one rendering with a meter, and makes pieces of what it prints.
func rendered(ctx context.Context, c Conversation, render func(m *origin.Meter) (origin.Text, error)) ([]Piece, error) {
	m := origin.NewMeter(ctx, room())
	defer m.Close()
	text, err := render(m)
	if err != nil {
		return nil, err
	}
	if text, err = open(text, c); err != nil {
		return nil, err
	}
	return piecesOf(text), nil
}

// asConversation is what a bare prompt is to a template for conversations.
func asConversation(system, prompt string, think Think) Conversation {
	c := Conversation{Think: think}
	if system != "" {
		c.Messages = append(c.Messages, Message{Role: "system", Content: system})
	}
	c.Messages = append(c.Messages, Message{Role: "user", Content: prompt})
	return c
}

// begun is the conversation without a last message that is to be continued but says nothing yet:
// that is a new answer.
func begun(c Conversation) Conversation {
	if n := len(c.Messages) - 1; c.Continue && (n < 0 || strings.TrimSpace(c.Messages[n].Content) == "") {
		c.Continue = false
		if n >= 0 && c.Messages[n].Role == "assistant" && len(c.Messages[n].ToolCalls) == 0 {
			c.Messages = c.Messages[:n]
		}
	}
	return c
}

// open cuts the prompt behind the last message's content, for an answer that is to be continued.
func open(text origin.Text, c Conversation) (origin.Text, error) {
	if !c.Continue {
		return text, nil
	}
	last := strings.TrimSpace(c.Messages[len(c.Messages)-1].Content)
	k := strings.LastIndex(text.String(), last)
	if k < 0 {
		return text, errors.New("the message to continue is not in the prompt")
	}
	return text.Slice(0, k+len(last)), nil
}

// roles may stand inside a control token, as in <|user|>, though a request names them.
var roles = []string{"system", "user", "assistant", "tool", "developer", "model", "function", "observation", "ipython", "environment"}

// piecesOf splits a prompt by origin.
func piecesOf(text origin.Text) []Piece {
	var out []Piece
	for s, given := range text.Runs() {
		n := len(out)
		if !given && n >= 2 && roleInside(out[n-2].Text, out[n-1].Text, s) {
			out[n-2].Text += out[n-1].Text + s
			out = out[:n-1]
			continue
		}
		out = append(out, Piece{Text: s, Control: !given})
	}
	return out
}

// roleInside reports whether a role's name stands between the halves of a control token of the
// template's.
func roleInside(before, between, after string) bool {
	return len(between) < 16 && slices.Contains(roles, between) && strings.LastIndexByte(before, '<') > strings.LastIndexByte(before,
		'>') &&
		strings.Contains(after, ">")
}

// capabilitiesOf reads a template's abilities off its source.
func capabilitiesOf(source string) Capabilities {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(source, w) })
	}
	return Capabilities{
		Tools:    has("tools", "xml_tools", ".Tools"),
		Thinking: has("<think>", "enable_thinking", "reasoning_content", "<|channel>thought", ".Think"),
		Insert:   has(".Suffix"),
		Vision:   has("<|image_pad|>", "<start_of_image>", "<|image|>", "'image'", `"image"`, "<IMG_CONTEXT>", "<image>"),
		System:   has("system", ".System"),
	}
}

// FamilyOf names the output format of the models that a template, Jinja or Go, belongs to; see
// [Families].
func FamilyOf(source string) string {
	has := func(w string) bool { return strings.Contains(source, w) }
	switch {
	case has("<function=") && has("<parameter="):
		return "qwen3-coder"
	case has("<function name=") && has("<param name="):
		return "minicpm5"
	case has("<|tool_call_start|>"), has("<|thought_start|>"):
		return "minicpm"
	case has("<tool_call>") && has("<think>"):
		return "qwen3"
	case has("<tool_call>"):
		return "hermes"
	case has("<|/tool_call|>"):
		return "phi"
	case has("<|start_header_id|>"), has("<|python_tag|>"), has("<|tool_call|>"):
		return "llama3"
	case has("<start_of_turn>"), has("<|turn>"):
		return "gemma"
	}
	return "plain"
}
