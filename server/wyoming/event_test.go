package wyoming

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/sentence"
)

// TestRead: events are read byte by byte as the protocol has them, and what stands in the line is
// below what follows it.
func TestRead(t *testing.T) {
	in := `{"type":"describe"}` + "\n" +
		`{"type": "transcribe", "version": "1.8.0", "data": {"name": "a", "language": "en"}, "data_length": 18}` + "\n" +
		`{"language": "de"}` +
		`{"type":"audio-chunk","data":{"rate":16000,"width":2,"channels":1},"payload_length":4}` + "\n" + "\n{\"\x00" +
		`{"type":"audio-stop","data":null,"data_length":null,"payload_length":0}` + "\n"
	for name, from := range map[string]io.Reader{"whole": strings.NewReader(in), "byte by byte": slow{strings.NewReader(in)}} {
		r := NewReader(from)
		for _, want := range []struct{ kind, name, language, payload string }{{"describe", "", "", ""}, {"transcribe", "a", "de", ""},
			{"audio-chunk", "", "", "\n{\"\x00"}, {"audio-stop", "", "", ""}} {
			e, err := r.Next()
			if err != nil {
				t.Fatal(name, err)
			}
			var data struct{ Name, Language string }
			if err := e.Into(&data); err != nil {
				t.Error(name, err)
			}
			payload, err := io.ReadAll(e.Payload)
			if err != nil || e.Type != want.kind || string(payload) != want.payload ||
				data.Name != want.name || data.Language != want.language {
				t.Errorf("%s: %s %+v %q, %v: want %+v", name, e.Type, data, payload, err, want)
			}
		}
		if _, err := r.Next(); err != io.EOF { //nolint:errorlint // an orderly end
			t.Errorf("%s: the end: %v", name, err)
		}
	}
}

// TestReadPassesOver: a payload that nobody read is not the next event.
func TestReadPassesOver(t *testing.T) {
	r := NewReader(strings.NewReader(`{"type":"a","payload_length":20}` + "\n" + "{\"type\":\"not this\"}\n" + `{"type":"b"}` + "\n"))
	e, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, e.Payload, 3); err != nil {
		t.Fatal(err)
	}
	if e, err = r.Next(); err != nil || e.Type != "b" {
		t.Errorf("%q, %v", e.Type, err)
	}
}

// TestReadRefused: what is no event is refused for what is wrong with it, before its lengths are
// believed.
func TestReadRefused(t *testing.T) {
	//proves:T7
	for name, tt := range map[string]struct {
		in, want string
		status   int
	}{
		"http":           {"POST / HTTP/1.1\r\nHost: a\r\n\r\n{\"type\":\"describe\"}\n", "an event's line is no JSON object", 400},
		"a list":         {"[]\n", "an event's line is no JSON object", 400},
		"nothing":        {"null\n", "an event's line has no type", 400},
		"no type":        {`{"data":{}}` + "\n", "an event's line has no type", 400},
		"a long line":    {`{"type":"` + strings.Repeat("a", 64<<10) + `"}` + "\n", "an event's line has more than 64 KiB", 413},
		"an endless one": {strings.Repeat(" ", 1<<20), "an event's line has more than 64 KiB", 413},
		"negative":       {`{"type":"a","data_length":-1}` + "\n", `"a" has a negative length`, 400},
		"negative too":   {`{"type":"a","payload_length":-9223372036854775808}` + "\n", `"a" has a negative length`, 400},
		"much data":      {`{"type":"a","data_length":65537}` + "\n", `the data of "a" has 65537 bytes: at most 65536 are read`, 413},
		"huge": {`{"type":"a","payload_length":9223372036854775807}` + "\n",
			`the payload of "a" has 9223372036854775807 bytes: at most 1048576 are read`, 413},
		"huger":   {`{"type":"a","payload_length":1e30}` + "\n", "an event's line is no JSON object", 400},
		"a float": {`{"type":"a","payload_length":1.5}` + "\n", "an event's line is no JSON object", 400},
	} {
		_, err := NewReader(strings.NewReader(tt.in)).Next()
		var f *body.Failure
		if !errors.As(err, &f) || f.Status != tt.status || !strings.HasPrefix(f.Text, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, in := range map[string]string{"half a line": `{"type":"a"}`, "half the data": `{"type":"a","data_length":3}` + "\n{}"} {
		if _, err := NewReader(strings.NewReader(in)).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := NewReader(strings.NewReader(`{"type":"a","payload_length":3}` + "\nxx"))
	if _, err := r.Next(); err != nil {
		t.Error(err)
	}
	if err := r.Wait(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a payload: %v", err)
	}
	e, err := NewReader(strings.NewReader(`{"type":"a","data_length":2}` + "\n[]")).Next()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Into(&struct{}{}); err == nil || !strings.HasPrefix(err.Error(), `the data of "a" cannot be read: `) {
		t.Errorf("data that are a list: %v", err)
	}
}

// TestAppend: what is written is what the protocol says, and its reader reads it.
func TestAppend(t *testing.T) {
	b, err := Append(nil, "transcript", struct {
		Text string `json:"text"`
	}{"ja"}, []byte("xyz"))
	if want := `{"type":"transcript","data_length":13,"payload_length":3}` + "\n" + `{"text":"ja"}xyz`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	e, err := NewReader(bytes.NewReader(b)).Next()
	if err != nil || e.Type != "transcript" || e.Payload.N != 3 {
		t.Errorf("%+v, %v", e, err)
	}
}

// Whatever comes, a reader ends, believes no length, and gives no payload that is longer than the
// event said; and a text that comes in parts is spoken whole.
func FuzzReader(f *testing.F) {
	//proves:G5
	for _, s := range []string{`{"type":"describe"}` + "\n", `{"type":"a","data":{"x":1},"data_length":2,"payload_length":3}` + "\n{}abc",
		`{"type":"a","payload_length":99999999999}` + "\n", "\n\n\n", `{"type":"a","data_length":60000}` + "\n", strings.Repeat("[", 1000) + "\n",
		`{"type":"synthesize-chunk","data":{"text":"Dr. Who is here. He is early!\nSo am I, said she. 你好。"}}` + "\n",
		`{"type":"synthesize","data":{"text":"Hi.","voice":{"name":"ada","language":"en"}}}` + "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() {
			r := NewReader(bytes.NewReader(b))
			said, came := newSaying(), ""
			for read := 0; ; {
				e, err := r.Next()
				if err != nil {
					break
				}
				var v struct {
					format
					voice
					Text string `json:"text"`
				}
				if e.Into(&v) == nil && said.add(v.Text) == nil {
					came += v.Text
				}
				n, err := io.Copy(io.Discard, e.Payload)
				if read += int(n); err != nil || read > len(b) {
					t.Fatalf("%d bytes of %d, %v", read, len(b), err)
				}
			}
			said.close()
			for part := range said.parts {
				before, after, found := strings.Cut(came, part)
				if !found || sentence.Worded(before) || !utf8.ValidString(part) {
					t.Fatalf("%q is not what comes next in %q", part, came)
				}
				came = after
			}
			if sentence.Worded(came) {
				t.Fatalf("%q is not spoken", came)
			}
		})
	})
}

// slow gives a byte at a time.
type slow struct{ io.Reader }

func (s slow) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), 1)]) }
