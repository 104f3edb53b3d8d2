package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ollama/ollama/types/model"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

func init() { register(newDrawCmd) }

const (
	maxDrawn  = 10       // pictures of one request, as the server takes them
	maxSource = 23 << 20 // bytes of a picture to start from: in base64 they fit into a request
)

func newDrawCmd() *cobra.Command {
	var d client.Drawing
	var out, from, seed string
	cmd := &cobra.Command{
		Use:   "draw TEXT…",
		Short: "Draw a picture of what a text says",
		Long: `Draw draws a picture of what a text says, and writes it to the file that -o
names: a png, or a jpeg where the name ends in .jpg or .jpeg. With --from it
changes a picture instead. It prints the size and the seed: the same text with
the same seed and the same model gives the same picture. Without --model it
takes the newest installed model that draws.`,
		Example: `  axle draw "a lighthouse in a storm, oil painting" -o lighthouse.png
  axle draw -n 4 --seed 7 a red fox in the snow -o fox.jpg
  axle draw "the same at dawn" --from lighthouse.png --strength 0.6 -o dawn.png`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			flags := c.Flags()
			d.Prompt = strings.Join(args, " ")
			switch {
			case strings.TrimSpace(d.Prompt) == "":
				return usageError("there is no text to draw")
			case !utf8.ValidString(d.Prompt), !utf8.ValidString(d.Negative):
				return usageError("what is to be drawn is no text in UTF-8")
			case out == "":
				return usageError("where to? name a file with -o, or with - standard output")
			case d.N < 1 || d.N > maxDrawn:
				return usageError("--number must be between 1 and %d, got %d", maxDrawn, d.N)
			case d.N > 1 && out == "-":
				return usageError("several pictures do not go to standard output: name a file with -o")
			case flags.Changed("steps") && d.Steps < 1:
				return usageError("--steps must be at least 1, got %d", d.Steps)
			case flags.Changed("strength") && from == "":
				return usageError("--strength is how much of a picture may change: name one with --from")
			case flags.Changed("strength") && !(d.Strength > 0 && d.Strength <= 1):
				return usageError("--strength must be above 0 and at most 1, got %v", d.Strength)
			case flags.Changed("guidance") && !(d.Guidance > 0 && d.Guidance <= 50):
				return usageError("--guidance must be above 0 and at most 50, got %v", d.Guidance)
			}
			if flags.Changed("seed") {
				n, err := strconv.ParseUint(seed, 10, 32)
				if err != nil {
					return usageError("--seed must be between 0 and %d, got %q", uint32(math.MaxUint32), seed)
				}
				d.Seed = new(uint32(n))
			}
			if d.Format, err = drawnFormat(out); err != nil {
				return err
			}
			if from != "" {
				if d.Picture, err = source(c.InOrStdin(), from); err != nil {
					return err
				}
			}
			return with(c.Context(), false, func(conn *connection) error {
				if d.Model == "" {
					if d.Model, err = drawer(c.Context(), conn); err != nil {
						return err
					}
				}
				return drawTo(c, conn, d, out)
			})
		},
	}
	f := cmd.Flags()
	f.StringVarP(&d.Model, "model", "m", "", "the `model` that draws")
	f.StringVarP(&out, "output", "o", "", "write the picture to this `file`, or with - to standard output; several are numbered")
	f.StringVarP(&seed, "seed", "s", "", "a `number`: the same one gives the same picture; by default one is chosen")
	f.IntVarP(&d.N, "number", "n", 1, "how `many` pictures, 1 to 10; each has the seed after that of the one before it")
	f.IntVar(&d.Steps, "steps", 0, "in how many `steps`; fewer are faster")
	f.StringVar(&d.Size, "size", "", "`WIDTHxHEIGHT`, which must be that of the model")
	f.StringVar(&d.Negative, "negative", "", "a `text` of what is not to be seen, with models that take one")
	f.Float64Var(&d.Guidance, "guidance", 0, "how closely the text is followed, a `number`, with models that take one")
	f.StringVar(&from, "from", "", "change this `picture`, or with - that of standard input: jpeg, png, gif, webp or bmp")
	f.Float64Var(&d.Strength, "strength", 0, "how `much` of --from may change, above 0 and up to 1")
	return cmd
}

// drawnFormat is the form that a file's name says.
func drawnFormat(name string) (string, error) {
	switch end := strings.ToLower(filepath.Ext(name)); end {
	case ".jpg", ".jpeg":
		return "jpeg", nil
	case ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".svg":
		return "", usageError("-o %s: axle writes png and jpeg; a name that ends in .png or .jpg says which", name)
	}
	return "png", nil
}

// source reads the picture to start from.
func source(in io.Reader, name string) ([]byte, error) {
	_, b, err := readPicture(in, name)
	switch {
	case err != nil:
		return nil, err
	case len(b) == 0:
		return nil, fmt.Errorf("%s is empty: --from names a picture", name)
	case len(b) > maxSource:
		return nil, fmt.Errorf("%s has more than %d MiB: make a smaller picture of it", name, maxSource>>20)
	}
	return b, nil
}

// drawer finds a model that draws: the newest.
func drawer(ctx context.Context, conn *connection) (string, error) {
	all, err := conn.List(ctx)
	if err != nil {
		return "", client.Error(err)
	}
	for _, m := range all {
		if m.Says == "" && slices.Contains(m.Capabilities, model.CapabilityImage) {
			return m.Name, nil
		}
	}
	return "", errors.New("no installed model draws pictures: 'axle pull' without a name lists models")
}

// drawTo draws pictures, shows how far it is, and writes each as soon as it is there.
func drawTo(c *cobra.Command, conn *connection, d client.Drawing, out string) error {
	told := c.OutOrStdout()
	if out == "-" {
		told = c.ErrOrStderr()
	}
	view := newDrawView(c.ErrOrStderr(), d.N)
	err := conn.Draw(c.Context(), d, func(e client.Drawn) error {
		if e.File == nil {
			view.step(e)
			return nil
		}
		view.end()
		name := numbered(out, e.Index, d.N)
		if err := toFile(c, name, "a picture", func(w io.Writer, _ io.WriterAt) error {
			_, err := w.Write(e.File)
			return err
		}); err != nil {
			return err
		}
		if out != "-" {
			fmt.Fprintf(told, "%s: ", plain.Line(name))
		}
		fmt.Fprintf(told, "%s, seed %d\n", e.Size, e.Seed)
		return nil
	})
	view.end()
	return client.Error(err)
}

// numbered is the name of picture i of n.
func numbered(name string, i, n int) string {
	if n == 1 {
		return name
	}
	end := filepath.Ext(name)
	return fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, end), i+1, end)
}

// drawView shows how far a drawing is: one line that is drawn anew in a terminal, else a line every
// few seconds.
type drawView struct {
	w     io.Writer
	n     int // pictures
	width int
	tty   bool
	drawn bool
	last  time.Time
}

func newDrawView(w io.Writer, n int) *drawView {
	v := &drawView{w: w, n: n, last: time.Now()}
	v.width, v.tty = terminal.Screen(w)
	return v
}

func (v *drawView) step(e client.Drawn) {
	line := fmt.Sprintf("drawing, step %d of %d", e.Step, e.Steps)
	if v.n > 1 {
		line = fmt.Sprintf("drawing picture %d of %d, step %d of %d", e.Index+1, v.n, e.Step, e.Steps)
	}
	if v.tty {
		if room := min(v.width-len(line)-4, 40); room > 10 {
			full := room * e.Step / max(e.Steps, 1)
			line += "  [" + strings.Repeat("#", full) + strings.Repeat(" ", room-full) + "]"
		}
		fmt.Fprintf(plain.Raw(v.w), "\r\x1b[K%.*s", v.width, line)
		v.drawn = true
		return
	}
	if now := time.Now(); now.Sub(v.last) >= 5*time.Second {
		v.last = now
		fmt.Fprintln(v.w, line)
	}
}

// end takes the line away.
func (v *drawView) end() {
	if v.drawn {
		fmt.Fprint(plain.Raw(v.w), "\r\x1b[K")
		v.drawn = false
	}
}
