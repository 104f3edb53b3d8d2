package main

import (
	"encoding/json"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/diagnosis"
	"github.com/axle-llm/axle/models"
)

func init() { register(newDoctorCmd) }

func newDoctorCmd() *cobra.Command {
	var asJSON, conformance bool
	var device, model, vision string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look for cards, say what is wrong and what to do about it",
		Long: "Look for the vendor's libraries, the driver and the cards, say what is wrong and what to do about it.\n" +
			"Exits with 0 only if a card can be used; with --device soft the software card counts.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if model != "" && !conformance {
				return usageError("--model is what --conformance runs with: give both")
			}
			var sees *models.Package
			if vision != "" {
				p, err := openPackage(vision)
				if err != nil {
					return err
				}
				sees = p
			}
			runtime.LockOSThread() // a device belongs to the thread that opened it
			defer runtime.UnlockOSThread()
			d := diagnosis.Examine(device)
			if conformance && d.OK {
				d.Conform(device, model)
			}
			switch {
			case sees != nil && d.OK:
				d.See(cmd.Context(), device, sees)
			case sees != nil:
				_ = sees.Close() // nothing is written
			}
			d.Close()
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
	f.StringVar(&model, "model", "", "with --conformance: a model folder to run it with (a vendor's card needs a vendor's model)")
	f.StringVar(&vision, "vision", "", "also show pictures to this model, a name or a folder, and say what it sees (minutes)")
	return c
}
