package grammar_test

import (
	"fmt"

	"github.com/axle-llm/axle/sampler/grammar"
)

func ExampleSchema() {
	g, err := grammar.Schema(
		[]byte(`{"type": "object", "properties": {"n": {"type": "integer", "maximum": 12}}, "required": ["n"], "additionalProperties": false}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	m := g.Matcher(grammar.NewTrie(letters{}))
	for _, b := range []byte(`{"n": 1`) {
		if err := m.Accept(int32(b)); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(m.Allowed('2'), m.Allowed('3'), m.Allowed(256))
	fmt.Println(m.Accept('2'), m.Accept('}'), m.Allowed(256))

	_, err = grammar.Schema([]byte(`{"properties": {"tags": {"type": "array", "uniqueItems": true}}}`))
	fmt.Println(err)
	// Output:
	// true false false
	// <nil> <nil> true
	// grammar: #/properties/tags: uniqueItems: cannot be enforced while a text is being generated, but over a few values in an enum
}

// letters is a vocabulary of single bytes and an end of text.
type letters struct{}

func (letters) Vocab() int { return 257 }

func (letters) Bytes(id int32) []byte { return []byte{byte(id)} }

func (letters) Control(id int32) bool { return id == 256 }

func (letters) EOS() []int32 { return []int32{256} }
