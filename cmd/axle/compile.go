package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
)

func init() { register(newCompileCmd) }

func newCompileCmd() *cobra.Command {
	var o compile.Options
	var history, picture string
	cmd := &cobra.Command{
		Use:   "compile HF_DIR DIR",
		Short: "Make a package for the software card from a checkpoint",
		Long: `Compile makes a package for the software card from a Hugging Face checkpoint.
HF_DIR is a folder with config.json and *.safetensors of a Qwen2, Qwen3, Llama,
Gemma-3 or Gemma-4 model, of Qwen3.5, Qwen3-VL or SmolVLM2 with the encoder of
pictures, or of a Whisper of all languages, which takes --quant bf16 or fp32 and
--name alone. DIR is the package's folder; it must not exist, or be empty. It
has its name only when it is whole.

The package has the vendor's layout, so everything but the card itself works as
with the vendor's models. The NPU does not run it.`,
		Example: "  axle compile ~/Qwen3-0.6B ~/models/qwen3-0.6b --quant int8\n  axle serve --model-path ~/models",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, to := range []*string{&o.From, &o.Out} {
				if i < len(args) && *to != "" {
					return usageError("compile: %s is given twice", args[i])
				} else if i < len(args) {
					*to = args[i]
				}
			}
			if o.From == "" || o.Out == "" {
				return usageError("compile needs a checkpoint's folder and one to write to; usage: %s", cmd.UseLine())
			}
			if o.Context == 0 {
				return usageError("--context must be at least 1")
			}
			if o.Chunk == 0 {
				return usageError("--chunk must be at least 1")
			}
			if o.Group != 32 && o.Group != 128 {
				return usageError("--group must be 32 or 128")
			}
			if cmd.Flags().Changed("history") {
				o.History = []int{}
				for _, s := range strings.Split(history, ",") {
					n, err := strconv.Atoi(strings.TrimSpace(s))
					if err != nil || n < 0 {
						return usageError("--history: %q is not a number of cache rows", s)
					}
					o.History = append(o.History, n)
				}
			}
			if !slices.Contains([]string{"bf16", "fp16", "fp32"}, o.State) {
				return usageError("--state is bf16, fp16 or fp32, got %q", o.State)
			}
			if picture != "" {
				w, h, ok := strings.Cut(picture, "x")
				var bad [2]error
				o.Width, bad[0] = strconv.Atoi(w)
				o.Height, bad[1] = strconv.Atoi(h)
				if !ok || bad != [2]error{} || o.Width < 1 || o.Height < 1 {
					return usageError("--picture: %q is not a size such as 384x384", picture)
				}
			}
			o.Tool = "axle compile " + version
			if len(o.Tool) > 64 {
				o.Tool = o.Tool[:64]
			}
			bar := &compileBar{w: cmd.ErrOrStderr(), start: time.Now()}
			bar.width, bar.live = terminal.Screen(bar.w)
			o.Progress = bar.show
			r, err := compile.Run(cmd.Context(), o)
			bar.end()
			if err != nil {
				return err
			}
			for _, n := range r.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), "note:", n)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d layers, %s, in %v\n", r.Dir, r.Layers, models.HumanBytes(r.Bytes),
				time.Since(bar.start).Round(time.Second/10))
			then := "run " + filepath.Base(r.Dir)
			if r.Hears {
				then = "transcribe -m " + filepath.Base(r.Dir) + " FILE"
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "run it with: axle serve --model-path %s, and then: axle %s\n", r.Dir, then)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.From, "from", "", "the checkpoint's `folder`, instead of HF_DIR")
	f.StringVar(&o.Out, "out", "", "the package's `folder`, instead of DIR")
	f.IntVar(&o.Context, "context", 2047, "`rows` of the cache: the longest context, in tokens")
	f.IntVar(&o.Chunk, "chunk", 128, "`rows` of a prefill call; 1: no such calls")
	f.StringVar(&history, "history", "0,256,512,1024,1536,2048",
		"`rows` of the cache that the prefill groups see; those above the context are left out")
	f.StringVar(&o.Quant, "quant", "bf16", "`type` of the weights: bf16, int8 or int4")
	f.IntVar(&o.Group, "group", 32, "`values` of a row that share a scale, for int8 and int4: 32 or 128")
	f.StringVar(&o.State, "state", "fp32", "`type` in which layers with a state (Qwen3.5) keep it: bf16, fp16 or fp32")
	f.StringVar(&picture, "picture", "", "`pixels` of the encoder's pictures (Qwen's), such as 448x448 (default 384x384)")
	f.BoolVar(&o.TextOnly, "text-only", false, "leave the encoder of pictures out")
	f.StringVar(&o.Whole, "whole", "", "all layers and the head in this many `files`: one, or two (one of them for prompts)")
	f.StringVar(&o.Name, "name", "", "`prefix` of the files (default: the checkpoint's model_type)")
	f.BoolVar(&o.HeadTable, "head-table", false, "also write the head's matrix if it is not the embedding table, for heads on the host")
	f.BoolVar(&o.Embedding, "embedding", false, "an embedding model: the head gives the normalised row, not logits")
	return cmd
}

// compileBar shows how far a compilation is: one line that changes on a terminal, a line every ten
// per cent elsewhere.
type compileBar struct {
	w     io.Writer
	width int
	live  bool
	start time.Time
	last  time.Time
	tenth int64
	dirty bool
}

func (b *compileBar) show(p compile.Progress) {
	now := time.Now()
	if b.last.IsZero() {
		fmt.Fprintf(b.w, "%s to write\n", models.HumanBytes(p.Total))
		b.last = b.start
	}
	tenth := p.Done * 10 / max(p.Total, 1)
	if b.live && now.Sub(b.last) < 100*time.Millisecond && p.Done < p.Total || !b.live && tenth == b.tenth {
		return
	}
	b.last, b.tenth = now, tenth
	eta := time.Duration(float64(now.Sub(b.start)) * float64(p.Total-p.Done) / float64(max(p.Done, 1))).Round(time.Second)
	line := fmt.Sprintf("%3d%%  %s of %s  %v left  %s", p.Done*100/max(p.Total, 1), models.HumanBytes(p.Done), models.HumanBytes(p.Total),
		eta, p.File)
	if b.live {
		fmt.Fprintf(plain.Raw(b.w), "\r\033[K%.*s", b.width-1, plain.Line(line))
		b.dirty = true
	} else {
		fmt.Fprintln(b.w, line)
	}
}

func (b *compileBar) end() {
	if b.dirty {
		fmt.Fprint(plain.Raw(b.w), "\r\033[K")
	}
}
