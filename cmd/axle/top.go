package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ollama/ollama/format"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

func init() { register(newTopCmd) }

func newTopCmd() *cobra.Command {
	var asJSON, once bool
	var every time.Duration
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch a running server: cards, models, cells, rates",
		Long: `Watch a running server, a page that is drawn anew every second: its cards with temperature, load and memory; its models with cells used,
cached and shared, sequences running and waiting, tokens a second, prompt tokens reused, guesses that were right. Below are plots of tokens
a second and of the temperature, and the cache as a map, as far as the terminal has room; NO_COLOR draws without colours. q or Ctrl-C ends it.
Where standard output is no terminal, one turn is printed. --json prints a line of JSON a turn instead.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond || every > time.Hour {
				return usageError("--every must be between 100ms and 1h, got %v", every)
			}
			return with(c.Context(), true, func(conn *connection) error {
				out, ok := plain.Raw(c.OutOrStdout()).(*os.File)
				page := !asJSON && !once && ok && term.IsTerminal(int(out.Fd()))
				ctx := c.Context()
				if in, ok := c.InOrStdin().(*os.File); ok && page && term.IsTerminal(int(in.Fd())) {
					var leave func()
					if ctx, leave = untilKey(ctx, in); leave != nil {
						defer leave()
					}
				}
				return watchServer(ctx, conn, c.OutOrStdout(), every, asJSON, once || !asJSON && !page, page)
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON a turn")
	c.Flags().BoolVar(&once, "once", false, "print one turn and end")
	c.Flags().DurationVar(&every, "every", time.Second, "time between turns")
	return c
}

// untilKey ends the context at q, Ctrl-C or Ctrl-D. The terminal is raw until leave is called, nil where it cannot be.
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

// sample is one reading of /metrics: values by name, then by model ("" for the server's own).
type sample struct {
	at     time.Time
	values map[string]map[string]float64
}

func (s sample) get(name, model string) float64 {
	v, ok := s.values[name][model]
	if !ok {
		return math.NaN()
	}
	return v
}

func readSample(ctx context.Context, conn *connection) (sample, error) {
	s := sample{at: time.Now(), values: map[string]map[string]float64{}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, conn.URL.JoinPath("/metrics").String(), nil)
	if err != nil {
		return s, err
	}
	resp, err := conn.HTTP.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusServiceUnavailable {
		// Its first line says why nothing can be answered.
		why, _ := bufio.NewReader(io.LimitReader(resp.Body, 16<<10)).ReadString('\n')
		if why, ok := strings.CutPrefix(strings.TrimSpace(why), "# "); ok && !strings.HasPrefix(why, "HELP") {
			return s, fmt.Errorf("%s cannot answer: %s", conn.URL, why)
		}
	}
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("%s answers %s to /metrics: is it axle?", conn.URL, resp.Status)
	}
	return s, s.parse(io.LimitReader(resp.Body, 16<<20))
}

// parse reads Prometheus's text format, as far as our own server writes it.
func (s *sample) parse(r io.Reader) error {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		line := sc.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		if cut < 0 {
			continue
		}
		v, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			continue
		}
		name, labels, _ := strings.Cut(line[:cut], "{")
		model := ""
		if at := strings.Index(labels, `model="`); at >= 0 {
			if q, err := strconv.QuotedPrefix(labels[at+len("model="):]); err == nil {
				model, _ = strconv.Unquote(q)
			}
		}
		if s.values[name] == nil {
			s.values[name] = map[string]float64{}
		}
		// Series that differ in other labels (passes by kind) add up.
		s.values[name][model] += v
	}
	return sc.Err()
}

// topLine is a turn as JSON. What is not known is absent.
type topLine struct {
	Time      time.Time `json:"time"`
	Uptime    float64   `json:"uptime_seconds"`
	Requests  float64   `json:"requests_in_flight"` // without the one that asks
	PerSecond float64   `json:"tokens_per_second"`
	CardsLost float64   `json:"cards_lost,omitempty"` // while others go on
	// Links are those of the machine that top runs on, where that is the server's.
	Links  []cards.Link `json:"links,omitempty"`
	Models []topModel   `json:"models"`
}

type topModel struct {
	Name        string   `json:"name"`
	Temperature *float64 `json:"temperature_celsius,omitempty"`
	Load        *float64 `json:"npu_load_percent,omitempty"`
	MemoryFree  *float64 `json:"card_memory_free_bytes,omitempty"`
	Memory      *float64 `json:"card_memory_bytes,omitempty"`
	Bytes       float64  `json:"model_bytes"`
	Cells       float64  `json:"cells"`
	Used        float64  `json:"cells_used"`
	Cached      float64  `json:"cells_cached"`
	Shared      float64  `json:"cells_shared"`
	Running     float64  `json:"running"`
	Queued      float64  `json:"queued"`
	Busy        *float64 `json:"busy_percent,omitempty"` // share of the last turn inside passes
	Passes      *float64 `json:"passes_per_second,omitempty"`
	Reused      *float64 `json:"reused_tokens_per_second,omitempty"`
	Accepted    *float64 `json:"guesses_right_percent,omitempty"` // since the model was loaded
	// Tiers are the places beside the card where rows are kept, counted since the model was loaded; absent where there is none.
	Tiers []topTier `json:"tiers,omitempty"`
}

// topTier is a place beside the card where a model's cache rows are kept.
type topTier struct {
	Name  string  `json:"name"`
	Rows  float64 `json:"rows,omitempty"` // that fit
	Used  float64 `json:"used,omitempty"`
	Hits  float64 `json:"hits"` // prompt tokens whose rows came back
	Moved float64 `json:"moved_bytes"`
	Saved float64 `json:"saved_seconds"`
}

func (t topTier) String() string {
	room := ""
	if t.Rows > 0 {
		room = fmt.Sprintf("%.0f of %.0f rows, ", t.Used, t.Rows)
	}
	return fmt.Sprintf("%s: %s%.0f came back, %s moved, %.1f s saved", t.Name, room, t.Hits, format.HumanBytes(int64(t.Moved)), t.Saved)
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func makeLine(was, now sample) topLine {
	l := topLine{Time: now.at, Uptime: now.get("axle_up_seconds", ""), Requests: max(now.get("axle_requests_in_flight", "")-1, 0),
		PerSecond: now.get("axle_tokens_per_second", ""), Models: []topModel{}}
	if n := now.get("axle_cards_lost", ""); n > 0 {
		l.CardsLost = n
	}
	span := now.at.Sub(was.at).Seconds()
	for _, name := range slices.Sorted(maps.Keys(now.values["axle_cells"])) {
		v := func(metric string) float64 { return now.get(metric, name) }
		per := func(metric string, scale float64) *float64 {
			more := v(metric) - was.get(metric, name)
			if more < 0 {
				return nil // the model was loaded anew, and counts from nothing
			}
			return finite(more / span * scale)
		}
		m := topModel{Name: name, Temperature: finite(v("axle_card_temperature_celsius")), Load: finite(100 * v("axle_card_load_ratio")),
			Bytes: v("axle_model_card_bytes"), Cells: v("axle_cells"), Used: v("axle_cells_used"), Cached: v("axle_cells_cached"),
			Shared:  v("axle_cells_shared"),
			Running: v("axle_running"), Queued: v("axle_queued"), Busy: per("axle_card_busy_seconds_total", 100),
			Passes:   per("axle_passes_total", 1),
			Reused:   per("axle_reused_tokens_total", 1),
			Accepted: finite(100 * v("axle_speculation_accepted_total") / v("axle_speculation_drafted_total"))}
		if rows := v("axle_memory_rows"); rows > 0 {
			m.Tiers = append(m.Tiers, topTier{"memory", rows, v("axle_memory_rows_used"), v("axle_memory_reused_tokens_total"),
				v("axle_memory_in_bytes_total") + v("axle_memory_out_bytes_total"), v("axle_memory_saved_seconds_total")})
		}
		if hits, moved := v("axle_disk_reused_tokens_total"), v("axle_disk_in_bytes_total")+v("axle_disk_out_bytes_total"); moved > 0 {
			m.Tiers = append(m.Tiers, topTier{Name: "disk", Hits: hits, Moved: moved, Saved: v("axle_disk_saved_seconds_total")})
		}
		if total := v("axle_card_memory_bytes"); total > 0 {
			m.Memory, m.MemoryFree = &total, finite(v("axle_card_memory_free_bytes"))
		}
		l.Models = append(l.Models, m)
	}
	return l
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

// here reports whether the server is on this machine.
func here(conn *connection) bool {
	host := conn.URL.Hostname()
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func watchServer(ctx context.Context, conn *connection, w io.Writer, every time.Duration, asJSON, once, page bool) error {
	was, err := readSample(ctx, conn)
	if err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	drawn := topPage{colour: coloured(os.Getenv)}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := readSample(ctx, conn)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		line := makeLine(was, now)
		if was = now; here(conn) {
			line.Links = cards.Examine(os.DirFS("/"), nil).Links
		}
		if asJSON {
			if err := json.NewEncoder(w).Encode(line); err != nil {
				return err
			}
		} else {
			var sb strings.Builder
			columns := terminal.Columns(w)
			line.write(&sb, columns)
			text := plain.Text(sb.String())
			if page { // drawn over the last one: a screen that is cleared first flickers. The terminal may be raw.
				drawn.take(line)
				drawn.cells = readCells(ctx, conn)
				text += drawn.draw(columns, linesOf(w)-strings.Count(text, "\n")-1)
				text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\r\n") + "\x1b[J"
			}
			if _, err := io.WriteString(plain.Raw(w), text); err != nil {
				return err
			}
		}
		if once {
			return nil
		}
	}
}

func (l topLine) write(out io.Writer, columns int) {
	w := terminal.NewTabs(out, columns, false)
	defer w.Flush() // to memory
	requests := "requests in flight"
	if l.Requests == 1 {
		requests = "request in flight"
	}
	fmt.Fprintf(w, "axle  up %v   %.0f %s   %.1f tokens/s\n", time.Duration(l.Uptime*float64(time.Second)).Round(time.Second), l.Requests,
		requests, l.PerSecond)
	if l.CardsLost > 0 {
		fmt.Fprintf(w, "%.0f lost of several cards: /health says why, a restart of the server brings them back\n", l.CardsLost)
	}
	for _, k := range l.Links {
		if k.Lost {
			fmt.Fprintf(w, "card %s: gone from the bus\n", k.Bus)
			continue
		}
		fmt.Fprintf(w, "card %s: link %s x%s\n", k.Bus, k.Speed, k.Width)
	}
	fmt.Fprintln(w)
	if len(l.Models) == 0 {
		fmt.Fprintln(w, "no model is loaded")
		return
	}
	or := func(v *float64, form string) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf(form, *v)
	}
	fmt.Fprintln(w, "MODEL\tRUN\tWAIT\tBUSY\tTEMP\tLOAD\tCELLS\tUSED\tCACHED\tSHARED\tSIZE\tCARD FREE\tPASSES/S\tREUSED/S\tGUESSES")
	for _, m := range l.Models {
		free := "-"
		if m.MemoryFree != nil {
			free = format.HumanBytes(int64(*m.MemoryFree))
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Running, m.Queued,
			or(m.Busy, "%.0f%%"),
			or(m.Temperature, "%.0f°C"), or(m.Load, "%.0f%%"), m.Cells, m.Used, m.Cached, m.Shared, format.HumanBytes(int64(m.Bytes)), free,
			or(m.Passes, "%.1f"), or(m.Reused, "%.1f"), or(m.Accepted, "%.0f%%"))
	}
	for _, m := range l.Models {
		if len(m.Tiers) > 0 {
			fmt.Fprintf(w, "\nrows of %s\n", m.Name)
		}
		for _, t := range m.Tiers {
			where := "in"
			if t.Name == "disk" {
				where = "on"
			}
			fmt.Fprintf(w, "  %s %s\n", where, t)
		}
	}
}
