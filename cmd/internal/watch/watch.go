// Package watch shows what a server does, turn by turn: its cards and models in figures, and on a
// terminal as a page that is drawn anew, with plots and a map of the cache.
//
// Server may be called from any goroutine, and holds a terminal raw until it returns.
package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

// Options say where turns go, and how.
type Options struct {
	In    io.Reader     // q, Ctrl-C or Ctrl-D on a terminal ends a page
	Out   io.Writer     // a page where it is a terminal, else one turn
	Every time.Duration // between turns; must be set
	JSON  bool          // a line of JSON a turn, until ctx ends
	Once  bool          // one turn, no page
}

// Server shows what c's server does until ctx ends, which is no error. It fails with what the
// server says when it cannot be asked.
func Server(ctx context.Context, c *client.Client, o Options) error {
	whole := !o.JSON && !o.Once && terminal.Is(o.Out)
	if in, ok := o.In.(*os.File); ok && whole && term.IsTerminal(int(in.Fd())) {
		var leave func()
		if ctx, leave = untilKey(ctx, in); leave != nil {
			defer leave()
		}
	}
	was, err := readSample(ctx, c)
	if err != nil {
		return err
	}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	drawn := page{colour: coloured(os.Getenv)}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := readSample(ctx, c)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		line := newTurn(was, now)
		if was = now; c.Local() {
			line.Links = cards.Examine(os.DirFS("/"), nil).Links
		}
		if o.JSON {
			if err := json.NewEncoder(o.Out).Encode(line); err != nil {
				return err
			}
		} else {
			var sb strings.Builder
			columns := terminal.Columns(o.Out)
			line.write(&sb, columns)
			text := plain.Text(sb.String())
			if whole { // drawn over the last one: a screen that is cleared first flickers. The terminal may be raw.
				drawn.take(line)
				drawn.cells = readCells(ctx, c)
				text += drawn.draw(columns, linesOf(o.Out)-strings.Count(text, "\n")-1)
				text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\r\n") + "\x1b[J"
			}
			if _, err := io.WriteString(plain.Raw(o.Out), text); err != nil {
				return err
			}
		}
		if o.Once || !o.JSON && !whole {
			return nil
		}
	}
}

// untilKey ends the context at q, Ctrl-C or Ctrl-D. The terminal is raw until leave is called, nil
// where it cannot be.
func untilKey(ctx context.Context, in *os.File) (context.Context, func()) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return ctx, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for b := make([]byte, 1); ; {
			if _, err := in.Read(b); err != nil || bytes.ContainsAny(b, "qQ\x03\x04") {
				cancel()
				return
			}
		}
	}()
	return ctx, func() { cancel(); _ = term.Restore(int(in.Fd()), state) }
}

// linesOf is how high the terminal is that w is, 24 lines where that is not known.
func linesOf(w io.Writer) int {
	if f, ok := plain.Raw(w).(*os.File); ok {
		if _, lines, err := term.GetSize(int(f.Fd())); err == nil && lines > 0 {
			return lines
		}
	}
	return 24
}
