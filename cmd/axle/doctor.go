package main

import (
	"encoding/json"

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
		Long: "Look for the vendor's libraries, the driver and the cards, say what is wrong and what to do about it.\n" +
			"A library that hangs is given up after 15 seconds.\n" +
			"Exits with 0 only if a card can be used; with --device soft the software card counts.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (baseline != "" || save != "") && !conformance {
				return usageError("--baseline and --save are about what the conformance suite measures: add --conformance")
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
			if asJSON {
				enc := json.NewEncoder(out)
				enc.SetIndent("", "  ")
				if err := enc.Encode(d); err != nil {
					return err
				}
			} else {
				d.Print(out)
			}
			if !d.OK {
				return &exitError{code: 1}
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print the findings as JSON")
	f.BoolVar(&conformance, "conformance", false, "also run the suite that every device must pass (minutes on a real card)")
	f.StringVar(&device, "device", "auto", "what to examine: auto, axcl, axcl:N, axengine or soft")
	f.StringVar(&model, "model", "",
		"a model, a name or a folder: load one layer and execute it once, as a card that is wedged does not;\n"+
			"with --conformance, what the suite runs with (a vendor's card needs a vendor's model)")
	f.StringVar(&save, "save", "", "with --conformance, write what the suite measured to this file, if no check fails")
	f.StringVar(&baseline, "baseline", "", "with --conformance, compare with a file that --save wrote, before a firmware update say,\n"+
		"and end with 1 if the card has become less precise")
	f.StringVar(&vision, "vision", "", "also show pictures to this model, a name or a folder, and say what it sees (minutes)")
	return c
}
