package openai

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/axle-llm/axle/server/prompt"
)

// TestTextAnswer: an answer is what encoding/json makes of it, whichever field is set, those too
// that Ollama adds one day.
func TestTextAnswer(t *testing.T) {
	at := time.Date(2026, 11, 23, 1, 2, 3, 4000, time.UTC)
	figures := prompt.Figures{Total: 1, Load: 2, Prompt: 3, Answered: true, Prefill: 4, Output: 5, Decode: 6000}
	base := prompt.Part{Model: "m", Created: at, Text: "x <b>&\"\n€", Done: true, Reason: "stop", Figures: figures}
	if textAnswer("id", &base, usageOf(base.Figures, time.Millisecond)) == nil {
		t.Error("text goes through encoding/json")
	}
	same := func(what string, r prompt.Part, first time.Duration) {
		t.Helper()
		u := usageOf(r.Figures, first)
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
	same("zero", prompt.Part{Done: true}, 0)
	for _, in := range []func(*prompt.Part) reflect.Value{
		func(r *prompt.Part) reflect.Value { return reflect.ValueOf(r).Elem() },
		func(r *prompt.Part) reflect.Value { return reflect.ValueOf(&r.Figures).Elem() },
	} {
		for i := range in(new(prompt.Part)).NumField() {
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
