package realtime

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/body"
)

const (
	maxItems = 1024
	maxText  = 1 << 20 // bytes of all items; of more, the oldest go
	itemRoom = 4 << 10 // bytes of an item beside its text: names, and what its parts take
	maxParts = 32      // contents of an item
	first    = "root"  // what a client's item comes after that is to be the first
)

// conversation is what was said in a session. It may be used from any goroutine.
type conversation struct {
	mu    ranked.Mutex[ranked.Realtime]
	keeps bool // else only the last item is kept
	items []*said
	bytes int
	asked []*response // that run or wait, of the conversation
}

// said is an item, and of an answer that is spoken also how it sounds. All of it but its id belongs
// to the conversation's lock.
type said struct {
	item
	rate  int // samples a second; 0: it is no answer of ours
	marks []mark
	cut   bool // it was cut to what was heard, and nothing that comes counts
}

// mark is a part of a spoken answer: bytes of its text, and when they sound, in samples.
type mark struct{ to, end int }

// text is the item's text.
func (s *said) text() string {
	switch {
	case s.Type == given && s.Output != nil:
		return *s.Output
	case s.Type == call && s.Arguments != nil:
		return *s.Arguments
	case len(s.Content) == 1 && s.Content[0].Text != nil:
		return *s.Content[0].Text
	}
	var all strings.Builder
	for _, c := range s.Content {
		if c.Text != nil {
			all.WriteString(*c.Text)
		}
	}
	return all.String()
}

// add puts an item behind another, at the end where after is "". It tells which item is before it,
// and which are no longer kept.
func (c *conversation) add(s *said, after string) (before *string, gone []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(s.ID) != nil {
		return nil, nil, body.Fail(400, "an item with the id %q is there already", clip(s.ID))
	}
	at := len(c.items)
	if after == first {
		at = 0
	} else if after != "" {
		if at = 1 + slices.IndexFunc(c.items, func(x *said) bool { return x.ID == after }); at == 0 {
			return nil, nil, noItem(after)
		}
	}
	if at > 0 {
		before = &c.items[at-1].ID
	}
	c.items = slices.Insert(c.items, at, s)
	c.bytes += len(s.text())
	return before, c.forget(s), nil
}

// keep says whether all items are kept from now on, or only the last.
func (c *conversation) keep(all bool) {
	c.mu.Lock()
	c.keeps = all
	c.mu.Unlock()
}

// begun says whether anything was said.
func (c *conversation) begun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.items)+len(c.asked) > 0
}

// size is how many bytes the conversation takes.
func (c *conversation) size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.keeps {
		return 0
	}
	n := int64(c.bytes + itemRoom*len(c.items))
	for _, r := range c.asked {
		n += r.size()
	}
	return n
}

// forget drops the oldest items while there are too many, or too much is in them, but never one
// item.
func (c *conversation) forget(keep *said) (gone []string) {
	if !c.keeps {
		c.items, c.bytes = []*said{keep}, 0
		return nil
	}
	for len(c.items) > 1 && (len(c.items) > maxItems || c.bytes > maxText) {
		at := 0
		if c.items[0] == keep {
			at = 1
		}
		gone = append(gone, c.items[at].ID)
		c.bytes -= len(c.items[at].text())
		c.items = slices.Delete(c.items, at, at+1)
	}
	return gone
}

func (c *conversation) find(id string) *said {
	for _, s := range c.items {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func noItem(id string) error {
	return body.Fail(404, "there is no item %q in the conversation", clip(id))
}

// look is a copy of an item.
func (c *conversation) look(id string) (item, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.find(id); s != nil {
		return s.copy(), nil
	}
	return item{}, noItem(id)
}

func (s *said) copy() item {
	it := s.item
	it.Content = slices.Clone(it.Content)
	return it
}

// remove takes an item out.
func (c *conversation) remove(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(id)
	if s == nil {
		return noItem(id)
	}
	c.bytes -= len(s.text())
	c.items = slices.DeleteFunc(c.items, func(x *said) bool { return x == s })
	return nil
}

// before is which item stands before another; nil: none, or it is no longer there.
func (c *conversation) before(s *said) *string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := slices.Index(c.items, s); at > 0 {
		return &c.items[at-1].ID
	}
	return nil
}

// change does something to an item, whether it is still in the conversation or not.
func (c *conversation) change(s *said, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := len(s.text())
	if f(); c.find(s.ID) == s {
		c.bytes += len(s.text()) - was
	}
}

// heard writes a turn's text to its item.
func (c *conversation) heard(id, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.find(id); s != nil && len(s.Content) > 0 {
		was := len(s.text())
		s.Content[0].Text = &text
		c.bytes += len(s.text()) - was
	}
}

// truncate cuts a spoken answer to what was heard of it.
func (c *conversation) truncate(id string, index int, ms int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.find(id)
	switch {
	case s == nil:
		return noItem(id)
	case s.rate == 0 || len(s.Content) == 0 || s.Content[0].Type != outputAudio:
		return body.Fail(400, "the item %q is no answer that was spoken: only those are truncated", clip(id))
	case index != 0:
		return body.Fail(400, "content_index is %d: an answer has one content, 0", index)
	case ms < 0:
		return body.Fail(400, "audio_end_ms is %d: it must be 0 or more", ms)
	}
	end := 0
	if n := len(s.marks); n > 0 {
		end = s.marks[n-1].end
	}
	// Clients round up.
	if long := int64(end) * 1000 / int64(s.rate); ms > long+1 {
		return body.Fail(400, "audio_end_ms is %d: the answer has %d ms of sound by now", ms, long)
	}
	was := len(s.text())
	s.shorten(int(ms * int64(s.rate) / 1000))
	c.bytes += len(s.text()) - was
	return nil
}

// shorten cuts the text of a spoken answer to the words whose sound ended before a sample, and the
// sound to that sample.
func (s *said) shorten(sample int) {
	text, at, begun := s.text(), 0, 0
	kept := s.marks[:0]
	for _, m := range s.marks {
		m.to = min(m.to, len(text)) // white space at the end of what was cut before is gone
		if m.end <= sample {
			at, begun, kept = m.to, m.end, append(kept, m)
			continue
		}
		if sample > begun {
			// Where in a part a word sounds is not known: all letters take as long.
			from := at
			at += int(int64(m.to-at) * int64(sample-begun) / int64(m.end-begun))
			for at > from && !between(text, at) {
				at--
			}
			kept = append(kept, mark{at, sample})
		}
		break
	}
	text = strings.TrimRightFunc(text[:at], unicode.IsSpace)
	s.Content[0].Text, s.marks, s.cut = &text, kept, true
}

// between says whether a word ends at a byte of the text. Of a language without spaces each letter
// is a word.
func between(text string, at int) bool {
	if at < len(text) && !utf8.RuneStart(text[at]) {
		return false
	}
	r, _ := utf8.DecodeRuneInString(text[at:])
	return unicode.IsSpace(r) || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

// messages are the conversation for a model.
func (c *conversation) messages(instructions string) []ask.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return messages(instructions, c.items)
}

// messages are items for a model. What is still to be written down, or could not be, is left out.
func messages(instructions string, items []*said) (out []ask.Message) {
	if instructions != "" {
		out = append(out, ask.Message{Role: system, Content: instructions})
	}
	names := map[string]string{}
	for _, s := range items {
		text := s.text()
		switch {
		case s.Status == going:
		case s.Type == call:
			names[s.Call] = s.Name
			made := ask.ToolCall{ID: s.Call, Name: s.Name, Arguments: json.RawMessage(text)}
			if n := len(out); n > 0 && out[n-1].Role == assistant { // one turn
				out[n-1].ToolCalls = append(out[n-1].ToolCalls, made)
			} else {
				out = append(out, ask.Message{Role: assistant, Null: true, ToolCalls: []ask.ToolCall{made}})
			}
		case s.Type == given:
			out = append(out, ask.Message{Role: "tool", Content: text, ToolCallID: s.Call, ToolName: names[s.Call]})
		case strings.TrimSpace(text) != "":
			out = append(out, ask.Message{Role: s.Role, Content: text})
		}
	}
	return out
}

// read is an item as a client makes it.
func read(b json.RawMessage) (*said, error) {
	var in struct {
		ID, Type, Role, Name, Arguments string
		Status                          string
		Call                            string  `json:"call_id"`
		Output                          *string `json:"output"`
		Content                         []struct {
			Type       string
			Text       *string
			Transcript *string
			Audio      string
		}
	}
	if len(b) > maxText { // before it becomes more
		return nil, body.Fail(413, "an item has more than %d KiB", maxText>>10)
	}
	if err := into("an item", b, &in); err != nil {
		return nil, err
	}
	if len(in.ID) > maxName || len(in.Call) > maxName || len(in.Name) > maxName {
		return nil, body.Fail(400, "an item's id, call_id or name has more than %d bytes", maxName)
	}
	if len(in.Content) > maxParts {
		return nil, body.Fail(400, "an item has more than %d contents", maxParts)
	}
	s := &said{item: item{ID: cmp.Or(in.ID, name("item")), Object: itemObject, Type: in.Type, Status: completed}}
	switch in.Type {
	case message:
		s.Role, s.Content = in.Role, []content{}
		may := map[string][]string{system: {inputText}, user: {inputText, inputAudio},
			assistant: {outputText, outputAudio, writes}}[in.Role]
		if may == nil {
			return nil, body.Fail(400, "an item's role is %q: system, user and assistant are possible", clip(in.Role))
		}
		for _, c := range in.Content {
			switch {
			case !slices.Contains(may, c.Type):
				return nil, body.Fail(400, "content of the type %q in an item of the role %s: it may have %s", clip(c.Type),
					body.Ours(in.Role), body.Ours(strings.Join(may[:min(len(may), 2)], " and ")))
			case c.Type == writes:
				c.Type = outputText
			case c.Audio != "" && c.Transcript == nil:
				return nil, body.Fail(400, "an item with sound and no transcript: send sound with input_audio_buffer.append")
			}
			s.Content = append(s.Content, content{c.Type, cmp.Or(c.Text, c.Transcript)})
		}
		if s.text() == "" {
			return nil, body.Fail(400, "an item has no text")
		}
	case call:
		if s.Name, s.Call, s.Arguments = in.Name, cmp.Or(in.Call, name("call")), &in.Arguments; in.Name == "" {
			return nil, body.Fail(400, "a function_call has no name")
		}
		if !object(in.Arguments) {
			return nil, body.Fail(400, "the arguments of a function_call are no JSON object")
		}
	case given:
		if s.Call, s.Output = in.Call, in.Output; in.Call == "" || in.Output == nil {
			return nil, body.Fail(400, "a function_call_output needs a call_id and an output")
		}
	default:
		return nil, body.Fail(400, "an item of the type %q: message, function_call and function_call_output are possible", clip(in.Type))
	}
	return s, nil
}

// object says whether a text is a JSON object.
func object(s string) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal([]byte(s), &o) == nil && o != nil
}
