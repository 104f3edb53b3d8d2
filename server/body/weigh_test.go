package body

import (
	"strings"
	"testing"
)

func TestDepth(t *testing.T) {
	for in, ok := range map[string]bool{"": true, `"[[["`: true, `"\"[["`: true, strings.Repeat("[", MaxDepth): true,
		strings.Repeat("[", MaxDepth+1): false, strings.Repeat(`{"a":`, MaxDepth+1): false, strings.Repeat("[]", 999): true} {
		if got := Check([]byte(in)) == nil; got != ok {
			t.Errorf("%.20q…: %v", in, got)
		}
	}
}

// What a body holds is counted before it is decoded.
func TestWeigh(t *testing.T) {
	image := strings.Repeat("AAAA", 2000)
	for in, want := range map[string]Weight{
		``:                          {},
		`{"a":1,"b":[-2.5e3,true]}`: {25, 4, 3, 2, 0},
		`"a\"b" , 5 6`:              {12, 1, 2, 4, 0},
		`["` + image + `"]`:         {8004, 2, 0, 0, 8000},
		`["` + image + ` "]`:        {8005, 2, 0, 8001, 0},
		`"no end`:                   {7, 1, 0, 6, 0},
	} {
		if got, err := Weigh([]byte(in)); err != nil || got != want {
			t.Errorf("%.40s: %+v, want %+v, %v", in, got, want, err)
		}
	}
	for in, want := range map[string]Weight{ // JSON in a string counts with the rest
		`{"arguments":"{\"a\":[1,{}]}"}`:                        {30, 7, 1, 23, 0},
		`{"ARGUMENT\u0053" : "\u007b\"a\":[1,{}]}"}`:            {42, 7, 1, 33, 0},
		`{"argument\u017f":" [1,[]]"}`:                          {28, 5, 1, 21, 0},
		`{"arguments":["[1,[]]"],"content":"[1,[]]"}`:           {43, 6, 0, 28, 0},
		`{"arguments":"no [ json {"}`:                           {27, 3, 0, 20, 0},
		`{"encrypted_content":"{\"m\":[{\"c\":\"[{},{}]\"}]}"}`: {53, 12, 0, 46, 0},
	} {
		if got, err := Weigh([]byte(in)); err != nil || got != want {
			t.Errorf("%s: %+v, want %+v, %v", in, got, want, err)
		}
	}
	for in, ok := range map[string]bool{
		`{"arguments":"[` + strings.Repeat("{},", MaxParts-5) + `1]"}`:          true,
		`{"arguments":"[` + strings.Repeat("{},", MaxParts) + `1]"}`:            false,
		`{"a":"[` + strings.Repeat("{},", MaxParts) + `1]"}`:                    true,
		`{"arguments":"` + strings.Repeat("[", MaxDepth) + `"}`:                 true,
		`{"arguments":"` + strings.Repeat("[", MaxDepth+1) + `"}`:               false,
		`{"encrypted_content":"[\"` + strings.Repeat("[", MaxDepth+1) + `\"]"}`: false,
		"[" + strings.Repeat("{},", MaxParts-2) + "1]":                          true, "[" + strings.Repeat("{},", MaxParts) + "1]": false,
		"[" + strings.Repeat("1,", MaxNumbers-1) + "1]": true, "[" + strings.Repeat("1,", MaxNumbers) + "1]": false,
		`"` + strings.Repeat("a ", MaxText/2) + `"`: true, `"` + strings.Repeat("a ", MaxText/2) + `."`: false,
	} {
		if err := Check([]byte(in)); (err == nil) != ok {
			t.Errorf("%.20s…: %v", in, err)
		}
	}
}
