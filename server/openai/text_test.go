package openai

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
)

// TestTextAnswer: an answer is what encoding/json makes of it, whichever field is set, those too
// that Ollama adds one day.
func TestTextAnswer(t *testing.T) {
	at := time.Date(2026, 11, 23, 1, 2, 3, 4000, time.UTC)
	figures := api.Metrics{TotalDuration: 1, LoadDuration: 2, PromptEvalCount: 3, PromptEvalCachedCount: new(int), PromptEvalDuration: 4,
		EvalCount: 5, EvalDuration: 6000}
	base := api.ChatResponse{Model: "m", CreatedAt: at, Message: api.Message{Role: "assistant", Content: "x <b>&\"\n€"}, Done: true,
		DoneReason: "stop", Metrics: figures}
	if textAnswer("id", &base, usageOf(base, time.Millisecond)) == nil {
		t.Error("text goes through encoding/json")
	}
	same := func(what string, r api.ChatResponse, first time.Duration) {
		t.Helper()
		u := usageOf(r, first)
		want, err := wholeAnswer("id", r, u)
		if err != nil {
			t.Fatal(err)
		}
		if got := textAnswer("id", &r, u); got != nil && string(got) != string(want) {
			t.Errorf("%s\n got %s\nwant %s", what, got, want)
		}
	}
	for _, first := range []time.Duration{0, 1, time.Microsecond, 1234567, time.Hour, -time.Second} {
		same(fmt.Sprint(first), base, first)
	}
	same("zero", api.ChatResponse{}, 0)
	for _, in := range []func(*api.ChatResponse) reflect.Value{
		func(r *api.ChatResponse) reflect.Value { return reflect.ValueOf(r).Elem() },
		func(r *api.ChatResponse) reflect.Value { return reflect.ValueOf(&r.Message).Elem() },
		func(r *api.ChatResponse) reflect.Value { return reflect.ValueOf(&r.Metrics).Elem() },
	} {
		for i := range in(new(api.ChatResponse)).NumField() {
			for _, set := range []bool{false, true} {
				r := base
				f := in(&r).Field(i)
				f.SetZero()
				switch k := f.Kind(); {
				case !set || k == reflect.Struct:
				case k == reflect.String:
					f.SetString("set")
				case k == reflect.Bool:
					f.SetBool(true)
				case f.CanInt():
					f.SetInt(7)
				case k == reflect.Pointer:
					f.Set(reflect.New(f.Type().Elem()))
				case k == reflect.Slice:
					f.Set(reflect.MakeSlice(f.Type(), 1, 1))
				default:
					t.Fatalf("%s is a %s: how is it set?", in(&r).Type().Field(i).Name, k)
				}
				same(in(&r).Type().Field(i).Name, r, time.Second)
			}
		}
	}
}
