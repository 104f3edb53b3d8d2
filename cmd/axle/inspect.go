package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/inspection"
)

func init() { register(newInspectCmd) }

func newInspectCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect FILE|DIR",
		Short: "Show what is in an .axmodel file or a package",
		Long: "Show what an .axmodel file takes and gives, in which shape groups; or what a package folder holds and the memory it will " +
			"take.\nNo card is needed.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := inspection.Open(args[0])
			if err != nil {
				return err
			}
			if !asJSON {
				return r.Print(cmd.OutOrStdout())
			}
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
