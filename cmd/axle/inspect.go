//go:build !scripted

package main

import (
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/inspection"
	"github.com/axle-llm/axle/models"
)

func init() { register(newInspectCmd) }

func newInspectCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect FILE|DIR|MODEL",
		Short: "Show what is in an .axmodel file or a package",
		Long: `Inspect shows what an .axmodel file takes and gives, in which shape groups; or
what a package holds, and the memory that it will take. A package is a folder,
or a model in the store by its name. Of a model that is not here, inspect shows
what the catalogue knows. It needs no card.`,
		Example: `  axle inspect qwen3:0.6b
  axle inspect Qwen3-0.6B/qwen3_p128_l0_together.axmodel`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := inspected(args[0])
			if err != nil {
				return err
			}
			if !asJSON {
				return r.Print(cmd.OutOrStdout())
			}
			return printJSON(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// inspected looks at a file, a folder, a model in the store, or one of the catalogue.
func inspected(name string) (inspection.Report, error) {
	r, err := inspection.Open(name)
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*models.Error)) {
		return r, err
	}
	p, err := openPackage(name)
	if not := new(absentError); errors.As(err, &not) && not.entry != nil {
		return inspection.OfEntry(*not.entry), nil
	}
	return inspection.Of(p, err)
}
