package report

import (
	"fmt"
	"io"

	"github.com/axle-llm/axle/engine/bench"
)

// Against is the same load here and on another server, in turn.
type Against struct {
	Kind  string        `json:"kind"`
	URL   string        `json:"url"`
	Model string        `json:"model"`
	Cases []AgainstCase `json:"cases"`
}

type AgainstCase struct {
	bench.Load
	Here  AgainstSide `json:"here"`
	There AgainstSide `json:"there"`
}

type AgainstSide struct {
	First  bench.Sample `json:"first_token_ms"` // the slowest client's
	Decode bench.Sample `json:"decode_tps"`     // from the first client's first token on
	Whole  bench.Sample `json:"whole_tps"`      // from asking on
	Tokens int          `json:"tokens"`         // a repeat, all clients
	Prompt int          `json:"prompt_tokens,omitempty"`
}

func (a *Against) writeText(w io.Writer) error {
	fmt.Fprintf(w, "\nagainst %s at %s, model %s, in turn\nload\tfigure\there\tthere\there to there\t\n", a.Kind, a.URL, a.Model)
	for i := range a.Cases {
		c := &a.Cases[i]
		fmt.Fprintf(w, "%s\tfirst token ms\t%s\t%s\t%s\n", c.Load, c.Here.First, c.There.First, change(&c.There.First, &c.Here.First))
		if len(c.Here.Decode.Values) > 0 && len(c.There.Decode.Values) > 0 {
			fmt.Fprintf(w, "\tdecode t/s\t%s\t%s\t%s\n", c.Here.Decode, c.There.Decode, change(&c.There.Decode, &c.Here.Decode))
		}
		fmt.Fprintf(w, "\twhole t/s\t%s\t%s\t%s\n", c.Here.Whole, c.There.Whole, change(&c.There.Whole, &c.Here.Whole))
		if c.There.Prompt > 0 {
			fmt.Fprintf(w, "\tprompt tokens\t%d\t%d\t\t\n", c.Here.Prompt, c.There.Prompt)
		}
		fmt.Fprintf(w, "\ttokens out\t%d\t%d\t\t\n", c.Here.Tokens, c.There.Tokens)
	}
	for i := range a.Cases {
		c := &a.Cases[i]
		if all := c.Output * c.Clients; c.Here.Tokens < all || c.There.Tokens < all {
			_, err := fmt.Fprintln(w, "Where fewer tokens came out than were asked for, the model had ended its answers; rates are of "+
				"the tokens there were.")
			return err
		}
	}
	return nil
}
