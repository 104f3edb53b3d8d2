package sampler_test

import (
	"fmt"
	"math"

	"github.com/axle-llm/axle/sampler"
)

// The loop of a request: a row of logits in, a token out, and the token told to the sampler, whose penalties look back on it.
func Example() {
	p := sampler.Defaults()
	p.Temperature, p.RepeatPenalty, p.TopLogprobs = 0, 2, 2
	s, err := sampler.New(p, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		c, err := s.Sample(bf16(1, 4, 3, 0.5), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		s.Accept(c.ID)
		fmt.Printf("%d %.2f, likeliest %d\n", c.ID, c.Logprob, c.Top[0].ID)
	}
	c, err := s.Sample(bf16(1, 4, 3, 0.5), only(3))
	fmt.Println(c.ID, err)

	p.TopP = 1.5
	fmt.Println(p.Check())
	// Output:
	// 1 -0.37, likeliest 1
	// 2 -1.37, likeliest 1
	// 1 -0.37, likeliest 1
	// 3 <nil>
	// sampler: top_p: parameter out of range: 1.5 is not between 0 and 1
}

// bf16 is a row of logits as a card gives it.
func bf16(values ...float32) []uint16 {
	row := make([]uint16, len(values))
	for i, v := range values {
		row[i] = uint16(math.Float32bits(v) >> 16)
	}
	return row
}

// only allows one token: the simplest of masks. Package grammar has others.
type only int32

func (o only) Allowed(id int32) bool { return id == int32(o) }

func (o only) Fill(bits []uint64) { clear(bits); bits[o/64] = 1 << (o % 64) }
