package conversation

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

// colourOff ends a colour.
const colourOff = "\x1b[0m"

// printer shows an answer as it comes. After its last word comes end, or broken.
type printer struct {
	t       *Talk
	out     io.Writer          // where words wrap
	answer  io.Writer          // where the answer goes
	marks   *terminal.Markdown // below answer; nil: it is shown as it was written
	said    strings.Builder
	thought bool // inside the thinking
	begun   bool // something was shown
	ended   bool
}

func (t *Talk) printer() *printer {
	p := &printer{t: t, out: terminal.NewWrapper(plain.Raw(t.Out), t.columns)}
	if t.tty { // quoted before it is wrapped, which moves words about
		p.out = &plain.Writer{W: p.out}
	}
	p.answer = p.out
	if !t.NoMarkdown && len(t.Format) == 0 {
		p.marks = terminal.NewMarkdown(plain.Raw(t.Out), t.columns, t.colour)
		p.answer = &plain.Writer{W: p.marks}
	}
	return p
}

// columns is how wide the screen is, 0 where words are not to be wrapped.
func (t *Talk) columns() int {
	if !t.wrap {
		return 0
	}
	return terminal.Columns(t.Out)
}

func (p *printer) thinking(s string) {
	if s == "" || p.t.HideThink {
		return
	}
	p.begun = true
	if !p.thought {
		p.thought = true
		fmt.Fprint(p.out, "Thinking...\n")
		if p.t.colour {
			fmt.Fprint(plain.Raw(p.t.Out), "\x1b[90m")
		}
	}
	fmt.Fprint(p.out, s)
}

func (p *printer) text(s string) {
	if s == "" {
		return
	}
	p.begun = true
	if p.thought {
		p.plain()
		fmt.Fprint(p.out, "\n...done thinking.\n\n")
	}
	p.said.WriteString(s)
	fmt.Fprint(p.answer, s)
}

func (p *printer) end(m api.Metrics) {
	p.ended = true
	p.plain()
	fmt.Fprint(p.t.Out, "\n")
	if p.t.tty {
		fmt.Fprint(p.t.Out, "\n")
	}
	if p.t.Verbose {
		timings(p.t.Errw, m)
	}
}

// broken leaves the line and the colour of an answer that did not come to its end.
func (p *printer) broken() {
	p.plain()
	if p.begun && !p.ended {
		fmt.Fprint(p.t.Out, "\n")
	}
}

// plain ends the thinking and its colour, and what of the answer waits for more.
func (p *printer) plain() {
	if p.marks != nil {
		_ = p.answer.(*plain.Writer).Flush()
		p.marks.End()
	}
	if p.thought && p.t.colour {
		fmt.Fprint(plain.Raw(p.t.Out), colourOff)
	}
	p.thought = false
}

// timings are Ollama's, in its form.
func timings(w io.Writer, m api.Metrics) {
	line := func(name, value string) { fmt.Fprintf(w, "%-21s %s\n", name+":", value) }
	rate := func(n int, d time.Duration) string {
		return fmt.Sprintf("%.2f tokens/s", float64(n)/max(d.Seconds(), 1e-9))
	}
	line("total duration", m.TotalDuration.String())
	line("load duration", m.LoadDuration.String())
	line("prompt eval count", fmt.Sprintf("%d token(s)", m.PromptEvalCount))
	cached := 0
	if m.PromptEvalCachedCount != nil {
		cached = *m.PromptEvalCachedCount
	}
	if cached > 0 {
		line("prompt eval cached", fmt.Sprintf("%d token(s)", cached))
	}
	line("prompt eval duration", m.PromptEvalDuration.String())
	line("prompt eval rate", rate(max(0, m.PromptEvalCount-cached), m.PromptEvalDuration))
	line("eval count", fmt.Sprintf("%d token(s)", m.EvalCount))
	line("eval duration", m.EvalDuration.String())
	line("eval rate", rate(m.EvalCount, m.EvalDuration))
}
