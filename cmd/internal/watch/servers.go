package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

// readTime is how long a server of several may take to tell its figures: one that hangs must not
// hold up the others' rows.
const readTime = 2 * time.Second

// Named is a server of several.
type Named struct {
	Name   string
	Client *client.Client
}

// Servers shows what several servers do, a row each, until ctx ends, which is no error. A server
// that cannot be asked has its error instead of a row. With Once it fails if none could be asked.
func Servers(ctx context.Context, all []Named, o Options) error {
	whole := !o.JSON && !o.Once && terminal.Is(o.Out)
	if in, ok := o.In.(*os.File); ok && whole && term.IsTerminal(int(in.Fd())) {
		var leave func()
		if ctx, leave = untilKey(ctx, in); leave != nil {
			defer leave()
		}
	}
	was := readAll(ctx, all)
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := readAll(ctx, all)
		if ctx.Err() != nil {
			return nil
		}
		turns := make([]serverTurn, len(all))
		failed := make([]error, 0, len(all))
		for i := range all {
			turns[i] = newServerTurn(all[i].Name, was[i], now[i])
			if now[i].err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", all[i].Name, now[i].err))
			}
		}
		was = now
		if o.JSON {
			if err := json.NewEncoder(o.Out).Encode(struct {
				Servers []serverTurn `json:"servers"`
			}{turns}); err != nil {
				return err
			}
		} else {
			var sb strings.Builder
			writeServers(&sb, turns, terminal.Columns(o.Out))
			text := plain.Text(sb.String())
			if whole { // see Server
				text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\r\n") + "\x1b[J"
			}
			if _, err := io.WriteString(plain.Raw(o.Out), text); err != nil {
				return err
			}
		}
		if o.Once || !o.JSON && !whole {
			if len(failed) == len(all) {
				return errors.Join(failed...)
			}
			return nil
		}
	}
}

// reading is what a server told, or why it did not.
type reading struct {
	sample
	err error
}

// readAll asks all servers at once.
func readAll(ctx context.Context, all []Named) []reading {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	out := make([]reading, len(all))
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { out[i].sample, out[i].err = readSample(ctx, all[i].Client) })
	}
	wg.Wait()
	return out
}

// serverTurn is a turn of one of several servers.
type serverTurn struct {
	Server string `json:"server"`
	Error  string `json:"error,omitempty"` // why it has no turn
	*turn
}

func newServerTurn(name string, was, now reading) serverTurn {
	if now.err != nil {
		return serverTurn{Server: name, Error: now.err.Error()}
	}
	if was.err != nil { // there are no rates yet
		was = now
	}
	t := newTurn(was.sample, now.sample)
	return serverTurn{Server: name, turn: &t}
}

// writeServers writes a row for each server, and what is wrong with the others below.
func writeServers(out io.Writer, all []serverTurn, columns int) {
	w := terminal.NewTabs(out, columns, false)
	defer w.Flush() // to memory
	running, waiting, rate := 0.0, 0.0, 0.0
	fmt.Fprintln(w, "SERVER\tUP\tRUN\tWAIT\tTOKENS/S\tREUSED/S\tCELLS\tUSED\tTEMP\tMODELS")
	for _, s := range all {
		if s.turn == nil {
			continue
		}
		var run, wait, reused, cells, used float64
		var hottest *float64
		var names []string
		for _, m := range s.Models {
			run, wait, cells, used = run+m.Running, wait+m.Queued, cells+m.Cells, used+m.Used
			if m.Reused != nil {
				reused += *m.Reused
			}
			if m.Temperature != nil && (hottest == nil || *m.Temperature > *hottest) {
				hottest = m.Temperature
			}
			names = append(names, m.Name)
		}
		running, waiting, rate = running+run, waiting+wait, rate+s.PerSecond
		heat := "-"
		if hottest != nil {
			heat = fmt.Sprintf("%.0f°C", *hottest)
		}
		fmt.Fprintf(w, "%s\t%v\t%.0f\t%.0f\t%.1f\t%.1f\t%.0f\t%.0f\t%s\t%s\n", s.Server,
			time.Duration(s.Uptime*float64(time.Second)).Round(time.Second), run, wait, s.PerSecond, reused, cells, used, heat,
			cmp.Or(strings.Join(names, ","), "-"))
	}
	fmt.Fprintf(w, "all\t\t%.0f\t%.0f\t%.1f\n", running, waiting, rate)
	for _, s := range all {
		if s.turn == nil {
			fmt.Fprintf(w, "\n%s: %s\n", s.Server, s.Error)
		}
	}
}
