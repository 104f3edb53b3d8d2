package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"testing"
)

// The readers find every fault that a load could bring: a part lost, twice, in another place or of
// another's, an end that is missing or not the end.
func TestDialects(t *testing.T) {
	//proves:G6
	r := newRig(t)
	const say, want = `[[say:w1x0.| "\é|` + "\n" + `<b>&|🌈|w1x4.]]`, `w1x0. "\é` + "\n" + `<b>&🌈w1x4.`
	for _, d := range dialects {
		name := fmt.Sprintf("%s stream=%v", d.path, d.stream)
		good := r.post(d.path, d.ask(say)).body
		if text, err := d.whole(good); err != nil || text != want {
			t.Errorf("%s: %q, %v in %s", name, text, err, good)
			continue
		}
		sep := "\n"
		if strings.HasPrefix(good, "event: ") || strings.HasPrefix(good, "data: ") {
			sep = "\n\n"
		}
		parts := strings.SplitAfter(strings.TrimSuffix(good, sep), sep)
		parts[len(parts)-1] += sep
		at := 0 // the part with the word 🌈
		for i := len(parts) - 1; i >= 0; i-- {
			if strings.Contains(parts[i], "🌈") && !strings.Contains(parts[i], "w1x0") {
				at = i
			}
		}
		join := func(list ...[]string) string {
			s := ""
			for _, l := range list {
				s += strings.Join(l, "")
			}
			return s
		}
		last := len(parts) - 1
		bad := map[string]string{
			"a foreign word": strings.Replace(good, "w1x4", "w2x4", 1), "a word twice": strings.Replace(good, "w1x4.", "w1x4.w1x4.", 1),
			"cut off": good[:len(good)-len(parts[last])/2-2], "nothing": "",
		}
		if d.stream {
			bad["no end"] = join(parts[:last])
			bad["twice"] = good + good
			bad["the end twice"] = good + parts[last]
			bad["a part lost"] = join(parts[:at], parts[at+1:])
			bad["a part twice"] = join(parts[:at+1], parts[at:])
			bad["parts exchanged"] = join(parts[:at-1], parts[at:at+1], parts[at-1:at], parts[at+1:])
			bad["a part after the end"] = good + parts[at]
		}
		for what, body := range bad {
			if text, err := d.whole(body); err == nil && text == want {
				t.Errorf("%s: %s is not found in %s", name, what, body)
			}
		}
	}
	if !near(vectorOf([]string{"a", "b"}, true), []float64{-0.23822266, 0.43683738, -0.38588202, 0.30736944, -0.3118922, 0.4563864,
		-0.3301353, 0.30738834}) {
		t.Error("a vector is not what the engine's is")
	}
}

// dialect is one way to ask for text, and to read what comes.
type dialect struct {
	path, body string // %s is the prompt, quoted
	stream     bool
	// read gives an answer's text as far as it has come, and whether its end has. What is no answer
	// of this dialect, or comes after the end, is an error.
	read func(body string) (text string, end bool, err error)
}

var dialects = []dialect{
	{"/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":%s}]}`, true, readNative},
	{"/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":%s}],"stream":false}`, false, readNative},
	{"/api/generate", `{"model":"scripted","prompt":%s}`, true, readNative},
	{"/api/generate", `{"model":"scripted","prompt":%s,"stream":false}`, false, readNative},
	{"/v1/chat/completions", `{"model":"scripted-chat","messages":[{"role":"user","content":%s}],"stream":true}`, true, readChunks},
	{"/v1/chat/completions", `{"model":"scripted-chat","messages":[{"role":"user","content":%s}]}`, false, readChoice},
	{"/v1/completions", `{"model":"scripted","prompt":%s,"stream":true}`, true, readChunks},
	{"/v1/completions", `{"model":"scripted","prompt":%s}`, false, readChoice},
	{"/v1/messages", `{"model":"scripted-chat","max_tokens":99999,"messages":[{"role":"user","content":%s}],"stream":true}`, true,
		readMessages},
	{"/v1/messages", `{"model":"scripted-chat","max_tokens":99999,"messages":[{"role":"user","content":%s}]}`, false, readMessage},
	{"/v1/responses", `{"model":"scripted-chat","input":%s,"stream":true}`, true, readResponses},
	{"/v1/responses", `{"model":"scripted-chat","input":%s}`, false, readResponse},
}

// ask is a request's body.
func (d dialect) ask(prompt string) string { return fmt.Sprintf(d.body, quote(prompt)) }

// whole reads a complete answer.
func (d dialect) whole(body string) (string, error) {
	text, end, err := d.read(body)
	if err == nil && !end {
		err = errors.New("the answer has no end")
	}
	return text, err
}

var errAfter = errors.New("something comes after the end")

// readNative reads Ollama's lines, one or many.
func readNative(body string) (text string, end bool, err error) {
	for line := range strings.Lines(body) {
		var m struct {
			Message    struct{ Content, Thinking string }
			Response   string
			Done       bool
			DoneReason string `json:"done_reason"`
			Error      string
		}
		switch err := json.Unmarshal([]byte(line), &m); {
		case err != nil:
			return text, end, fmt.Errorf("%w in %q", err, line)
		case end:
			return text, end, errAfter
		case m.Error != "" || m.Done != (m.DoneReason != "") || m.Done && m.DoneReason != "stop" || m.Message.Thinking != "":
			return text, end, fmt.Errorf("line %q", line)
		}
		text, end = text+m.Message.Content+m.Response, m.Done
	}
	return text, end, nil
}

// sse calls f with each event's name and data.
func sse(body string, f func(name, data string) error) error {
	for body != "" {
		ev, rest, whole := strings.Cut(body, "\n\n")
		name := ""
		if n, more, ok := strings.Cut(ev, "\n"); ok {
			name, ok = strings.CutPrefix(n, "event: ")
			if ev = more; !ok {
				return fmt.Errorf("event %q", n)
			}
		}
		data, ok := strings.CutPrefix(ev, "data: ")
		if !ok || !whole {
			return fmt.Errorf("event %q", ev)
		}
		if err := f(name, data); err != nil {
			return err
		}
		body = rest
	}
	return nil
}

// choices are OpenAI's, of chats and of completions.
type choices []struct {
	Text           string
	Delta, Message struct{ Content, Reasoning string }
	Finish         *string `json:"finish_reason"`
}

func readChunks(body string) (text string, end bool, err error) {
	finished := false
	err = sse(body, func(name, data string) error {
		if end {
			return errAfter
		}
		if data == "[DONE]" {
			if end = true; !finished {
				return errors.New("[DONE] without a reason before it")
			}
			return nil
		}
		var m struct {
			Choices choices
			Error   any
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil || name != "" || m.Error != nil || len(m.Choices) != 1 || finished ||
			m.Choices[0].Delta.Reasoning != "" {
			return fmt.Errorf("%v: chunk %q", err, data)
		}
		c := m.Choices[0]
		if text += c.Text + c.Delta.Content; c.Finish != nil {
			if finished = true; *c.Finish != "stop" {
				return fmt.Errorf("finished by %s", *c.Finish)
			}
		}
		return nil
	})
	return text, end, err
}

func readChoice(body string) (string, bool, error) {
	var m struct{ Choices choices }
	if err := json.Unmarshal([]byte(body), &m); err != nil || len(m.Choices) != 1 {
		return "", false, fmt.Errorf("%v: %q", err, body)
	}
	c := m.Choices[0]
	return c.Text + c.Message.Content, c.Finish != nil && *c.Finish == "stop", nil
}

func readMessages(body string) (text string, end bool, err error) {
	last := ""
	err = sse(body, func(name, data string) error {
		var m struct {
			Type  string
			Delta struct {
				Type, Text string
				StopReason string `json:"stop_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil || m.Type != name {
			return fmt.Errorf("%v: event %s %q", err, name, data)
		}
		after := map[string]string{"message_start": "", "content_block_start": "message_start",
			"content_block_delta": "content_block_start content_block_delta",
			"content_block_stop":  "content_block_start content_block_delta", "message_delta": "content_block_stop",
			"message_stop": "message_delta"}
		if want, ok := after[name]; !ok || (last == "") != (want == "") || !strings.Contains(want, last) {
			return fmt.Errorf("%s after %q", name, last)
		}
		last = name
		if name == "content_block_delta" {
			text += m.Delta.Text
		}
		if name == "message_delta" && m.Delta.StopReason != "end_turn" {
			return fmt.Errorf("stopped by %q", m.Delta.StopReason)
		}
		end = name == "message_stop"
		return nil
	})
	return text, end, err
}

func readMessage(body string) (text string, end bool, err error) {
	var m struct {
		Content []struct{ Type, Text string }
		Reason  string `json:"stop_reason"`
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return "", false, err
	}
	for _, c := range m.Content {
		text += c.Text
	}
	return text, m.Reason == "end_turn", nil
}

// response is OpenAI's.
type response struct {
	Status string
	Output []struct{ Content []struct{ Text string } }
}

func (r response) text() (text string) {
	for _, o := range r.Output {
		for _, c := range o.Content {
			text += c.Text
		}
	}
	return text
}

func readResponses(body string) (text string, end bool, err error) {
	n, done := 0, false
	err = sse(body, func(name, data string) error {
		var m struct {
			Type, Delta, Text string
			Number            int `json:"sequence_number"`
			Response          response
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil || m.Type != name || m.Number != n ||
			n == 0 != (name == "response.created") {
			return fmt.Errorf("%v: event %d, %s: %q", err, n, name, data)
		}
		n++
		switch {
		case end:
			return errAfter
		case name == "response.output_text.delta" && !done:
			text += m.Delta
		case name == "response.output_text.delta", name == "error", name == "response.failed":
			return fmt.Errorf("event %s %q", name, data)
		case name == "response.output_text.done":
			if done = true; m.Text != text {
				return fmt.Errorf("the parts are %q, the text %q", text, m.Text)
			}
		case name == "response.completed":
			if end = true; !done || m.Response.Status != "completed" || m.Response.text() != text {
				return fmt.Errorf("the parts are %q, the end is %q", text, data)
			}
		}
		return nil
	})
	return text, end, err
}

func readResponse(body string) (string, bool, error) {
	var m response
	err := json.Unmarshal([]byte(body), &m)
	return m.text(), m.Status == "completed", err
}

// vectorOf is what the scripted engine makes of a text: the sum of what each word gives.
func vectorOf(words []string, unit bool) []float64 {
	v, length := make([]float64, 8), 0.0
	for d := range v {
		for _, w := range words {
			h := fnv.New32a()
			fmt.Fprintf(h, "%d:%s", d, w)
			v[d] += math.Sin(float64(h.Sum32()))
		}
		length += v[d] * v[d]
	}
	for d := range v {
		if unit {
			v[d] /= math.Sqrt(length)
		}
	}
	return v
}

// near says whether two vectors are one, as far as 32-bit numbers go.
func near(a, b []float64) bool {
	for i := range b {
		if len(a) != len(b) || math.Abs(a[i]-b[i]) > 1e-4 {
			return false
		}
	}
	return len(b) > 0
}
