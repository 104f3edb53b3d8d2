package ollama

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
)

// TestLine: a line is what encoding/json makes of it, whichever field is set, those too that Ollama
// adds one day.
func TestLine(t *testing.T) {
	at := time.Date(2026, 11, 23, 1, 2, 3, 4000, time.UTC)
	each(t, api.ChatResponse{Model: "m", CreatedAt: at, Message: api.Message{Role: "assistant", Content: "x"}})
	each(t, api.GenerateResponse{Model: "m", CreatedAt: at, Response: "x"})
	if b := textPart(&api.ChatResponse{Model: "m", CreatedAt: at, Message: api.Message{Content: "x", Thinking: "y"}}); b == nil {
		t.Error("a piece of text goes through encoding/json")
	}
	if b := textPart(&api.GenerateResponse{Response: "x"}); b == nil {
		t.Error("a piece of text goes through encoding/json")
	}
	figures := api.Metrics{TotalDuration: 1, LoadDuration: 2, PromptEvalCount: 3, PromptEvalCachedCount: new(int), PromptEvalDuration: 4,
		EvalCount: 5, EvalDuration: 6}
	each(t, api.ChatResponse{Done: true, DoneReason: "stop", Metrics: figures})
	each(t, api.GenerateResponse{Done: true, DoneReason: "length", Metrics: figures})
	if textPart(&api.ChatResponse{Done: true, Metrics: figures}) == nil ||
		textPart(&api.GenerateResponse{Done: true, Metrics: figures}) == nil {
		t.Error("the figures of an answer go through encoding/json")
	}
}

// sameLine wants of v what encoding/json makes of it.
func sameLine[R any](t *testing.T, v R) {
	t.Helper()
	want, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Object(v); err != nil || string(got) != string(want) {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}

// each sets one field after the other, those of structs within too.
func each[R any](t *testing.T, v R) {
	t.Helper()
	sameLine(t, v)
	var walk func(f func(reflect.Value) reflect.Value, in reflect.Type)
	walk = func(at func(reflect.Value) reflect.Value, in reflect.Type) {
		for i := range in.NumField() {
			field := func(root reflect.Value) reflect.Value { return at(root).Field(i) }
			c := v
			f := field(reflect.ValueOf(&c).Elem())
			switch f.Kind() {
			case reflect.String:
				f.SetString("set")
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Int, reflect.Int64:
				f.SetInt(7)
			case reflect.Pointer:
				f.Set(reflect.New(f.Type().Elem()))
			case reflect.Slice:
				f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			case reflect.Struct:
				if f.Type() == reflect.TypeFor[time.Time]() {
					f.Set(reflect.ValueOf(time.Date(2031, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600))))
				} else {
					walk(field, f.Type())
				}
			default:
				t.Fatalf("%s is a %s: how is it set?", in.Field(i).Name, f.Kind())
			}
			sameLine(t, c)
		}
	}
	walk(func(root reflect.Value) reflect.Value { return root }, reflect.TypeFor[R]())
}

// FuzzLine: whatever a model says and is called.
func FuzzLine(f *testing.F) {
	for _, s := range []string{"", "word ", "<b>&", "\"\\\n\t\r\b\f\x00\x1f\x7f", "é€😀", "\u2028\u2029\ufffd\ufeff", "\xff\xc3",
		"a\xed\xa0\x80"} {
		f.Add(s, int64(len(s)))
	}
	f.Fuzz(func(t *testing.T, s string, nanos int64) {
		at := time.Unix(0, nanos).UTC()
		sameLine(t, api.ChatResponse{Model: s, CreatedAt: at, Message: api.Message{Role: s, Content: s, Thinking: s}})
		sameLine(t, api.GenerateResponse{Model: s, CreatedAt: at, Response: s, Thinking: s})
	})
}
