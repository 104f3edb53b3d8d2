package openai

import (
	"encoding/json"
	"errors"
	"fmt"

	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// compaction is a conversation that is to be made short: the model writes a summary by calling a
// function, and the answer is an item that stands for what was summed up. It encodes its own
// answer, always in one piece.
type compaction struct {
	plan    *wire.ResponsesCompactionPlan
	asked   *responses
	streams bool // the answer is told as events
	told    bool // there is an answer
	again   bool // the model was asked once more
}

// errSummary: what the model wrote is no summary.
var errSummary = errors.New("compaction failed; the selected model did not return a valid summary and the original conversation " +
	"is unchanged")

// readCompaction decodes the body of /v1/responses/compact.
func (a *API) readCompaction(from prompt.From, b []byte) (*prompt.Request, prompt.Encoder, error) {
	r, err := a.referred(from, b)
	if err == nil {
		b, err = r.body()
	}
	if err != nil {
		return nil, nil, err
	}
	plan, err := wire.PrepareStandaloneCompaction(b)
	if err != nil {
		return nil, nil, Control(err)
	}
	return newCompaction(plan, false)
}

func newCompaction(plan *wire.ResponsesCompactionPlan, streams bool) (*prompt.Request, prompt.Encoder, error) {
	c := &compaction{plan: plan, streams: streams}
	q, err := c.ask("")
	return q, c, err
}

// Again asks once more where the answer was no summary, and tells the model what was wrong.
func (c *compaction) Again(wrong error) (*prompt.Request, bool) {
	if c.again || !errors.Is(wrong, errSummary) {
		return nil, false
	}
	c.again = true
	q, err := c.ask(wrong.Error())
	return q, err == nil
}

// Failed is what is told of an answer that is no summary.
func (c *compaction) Failed(err error) (error, bool) {
	return body.Fail(500, "%s", body.Ours(errSummary.Error())), errors.Is(err, errSummary)
}

func (c *compaction) ask(repair string) (*prompt.Request, error) {
	b, err := c.plan.SummaryRequest(repair)
	if err != nil {
		return nil, body.Bad(err)
	}
	r, err := readResponses(b, nothing{})
	if err != nil {
		return nil, err
	}
	q, asked, err := r.decode()
	c.asked = asked
	return q, err
}

// Whole makes the compacted response of the summary that the model wrote. An error that is
// errSummary says why it is none.
func (c *compaction) Whole(p prompt.Part) ([]byte, error) {
	answer, err := newResponsesEncoder(c.asked).Whole(p)
	if err != nil {
		return nil, err
	}
	result, err := c.plan.Complete(answer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSummary, err)
	}
	c.told = true
	id := body.ID("resp_compact_")
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
func (c *compaction) WholeType() string {
	if c.streams && c.told {
		return stream
	}
	return whole
}

func (c *compaction) Streams() bool                     { return false }
func (c *compaction) Type() string                      { return stream }
func (c *compaction) Chunk(prompt.Part) ([]byte, error) { return nil, nil }
func (c *compaction) ErrorEnd(int, string) []byte       { return nil }

// ErrorBody is the body of an error.
func (c *compaction) ErrorBody(status int, text string) []byte {
	if text != errSummary.Error() {
		return ErrorBody(status, text)
	}
	return coded(status, text, "compaction_failed")
}
