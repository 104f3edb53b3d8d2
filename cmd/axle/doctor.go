package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/diagnosis"
	"github.com/axle-llm/axle/models"
)

func init() { register(newDoctorCmd) }

func newDoctorCmd() *cobra.Command {
	var asJSON, conformance bool
	var device, model, vision, baseline, save string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for cards, say what is wrong and what to do about it",
		Long: `Doctor looks for the vendor's libraries, the driver and the cards. It says what
is wrong and what to do about it. It gives up a library that hangs after 15
seconds.

The exit status is 0 only if a card can be used. With --device soft the
software card counts.`,
		Example: `  axle doctor
  axle doctor --conformance --model qwen3:0.6b
  axle doctor --vision qwen3-vl:2b`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (baseline != "" || save != "") && !conformance {
				return usageError("--baseline and --save are about what the conformance suite measures: add --conformance")
			}
			if conformance && model != "" {
				p, err := openPackage(model)
				if kind := new(models.KindError); errors.As(err, &kind) {
					return usageError("--conformance takes a language model: %w; without it --model loads and executes a net of any", err)
				} else if err == nil {
					_ = p.Close() // nothing is written
				}
			}
			if conformance || vision != "" {
				if err := free(cmd.Context(), device, "running the suite"); err != nil {
					return err
				}
			}
			var sees *models.Package
			if vision != "" {
				p, err := openPackage(vision)
				if err != nil {
					return err
				}
				sees = p
			}
			d, err := diagnosis.Run(cmd.Context(), diagnosis.Options{Device: device, Conformance: conformance, Model: model,
				OpenPackage: openPackage, Sees: sees, Baseline: baseline, Save: save})
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if !asJSON {
				d.Print(out)
			} else if err := printJSON(out, d); err != nil {
				return err
			}
			if !d.OK {
				return &exitError{code: 1}
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&conformance, "conformance", false, "also run the suite that every card must pass: minutes on a real card")
	f.StringVar(&device, "device", "auto", "the `card` to examine: auto, axcl, axcl:N, axengine or soft")
	f.StringVar(&model, "model", "",
		"load a layer of this `model`, a name or a folder, and execute it once: a card that is wedged fails there. "+
			"With --conformance the suite runs with this model, and says whether this machine's processor can compute its LM head; "+
			"a vendor's card needs a vendor's model")
	f.StringVar(&save, "save", "", "with --conformance: write what was measured to this `file`, if all checks pass")
	f.StringVar(&baseline, "baseline", "",
		"with --conformance: compare with a `file` that --save wrote, and fail if the card has become less precise, "+
			"by a firmware update for example")
	f.StringVar(&vision, "vision", "", "also show pictures to this `model`, a name or a folder, and say what it sees: minutes")
	return c
}
