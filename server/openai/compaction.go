package openai

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ollama/ollama/api"
	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/server/ollama"
)

// Compaction is a conversation that is to be made short: the model writes a summary by calling a
// function, and the answer is an item that stands for what was summed up. It encodes its own
// answer, always in one piece.
type Compaction struct {
	Native  *ollama.ChatRequest
	plan    *wire.ResponsesCompactionPlan
	asked   *Responses
	streams bool // the answer is told as events
	told    bool // there is an answer
}

// ErrSummary: what the model wrote is no summary. [Compaction.Again] asks once more.
var ErrSummary = errors.New("compaction failed; the selected model did not return a valid summary and the original conversation " +
	"is unchanged")

// DecodeCompaction reads the body of /v1/responses/compact.
func DecodeCompaction(b []byte) (*Compaction, error) {
	if err := ollama.Check(b); err != nil {
		return nil, err
	}
	plan, err := wire.PrepareStandaloneCompaction(b)
	if err != nil {
		return nil, Control(err)
	}
	c := &Compaction{plan: plan}
	return c, c.ask("")
}

// DecodeTriggered reads the body of /v1/responses where its input ends with a trigger for a
// compaction; nil when it does not.
func DecodeTriggered(b []byte) (*Compaction, error) {
	if err := ollama.Check(b); err != nil {
		return nil, err
	}
	plan, asked, err := wire.PrepareTriggeredCompaction(b)
	if err != nil || !asked {
		return nil, Control(err)
	}
	c := &Compaction{plan: plan, streams: true}
	return c, c.ask("")
}

// Again asks anew, telling the model what was wrong.
func (c *Compaction) Again(wrong error) error { return c.ask(wrong.Error()) }

func (c *Compaction) ask(repair string) error {
	body, err := c.plan.SummaryRequest(repair)
	if err != nil {
		return bad(err)
	}
	if c.asked, err = DecodeResponses(body); err == nil {
		c.Native = c.asked.Native
	}
	return err
}

// Whole makes the compacted response of the summary that the model wrote. An error that is
// ErrSummary says why it is none.
func (c *Compaction) Whole(r api.ChatResponse) ([]byte, error) {
	body, err := NewResponsesEncoder(c.asked, Body{}).Whole(r)
	if err != nil {
		return nil, err
	}
	result, err := c.plan.Complete(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSummary, err)
	}
	c.told = true
	id := ollama.ID("resp_compact_")
	if !c.streams {
		return json.Marshal(wire.NewResponsesCompactedResponse(id, result))
	}
	var out []byte
	for _, ev := range wire.NewResponsesCompactionStreamEvents(id, c.plan.Model, result) {
		b, err := named(ev.Event, ev.Data)
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out, nil
}

// WholeType is the answer's content type; an error's is JSON in any case.
func (c *Compaction) WholeType() string {
	if c.streams && c.told {
		return stream
	}
	return whole
}

func (c *Compaction) Streams() bool                          { return false }
func (c *Compaction) Type() string                           { return stream }
func (c *Compaction) Chunk(api.ChatResponse) ([]byte, error) { return nil, nil }
func (c *Compaction) ErrorEnd(int, string) []byte            { return nil }

// ErrorBody is the body of an error.
func (c *Compaction) ErrorBody(status int, text string) []byte {
	if text != ErrSummary.Error() {
		return ErrorBody(status, text)
	}
	e := wire.NewError(status, text)
	code := "compaction_failed"
	e.Error.Code = &code
	b, _ := line(e)
	return b
}
