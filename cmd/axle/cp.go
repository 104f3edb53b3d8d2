package main

import (
	"fmt"

	"github.com/ollama/ollama/api"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
)

func init() { register(newCpCmd) }

func newCpCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "cp SOURCE DESTINATION",
		Aliases: []string{"copy"},
		Short:   "Give a model a second name",
		Long: `Cp gives a model a second name. Both names share the files: nothing is copied,
and removing one name leaves the other.`,
		Example: "  axle cp qwen3:0.6b small",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return with(c.Context(), false, func(conn *connection) error {
				if err := conn.Copy(c.Context(), &api.CopyRequest{Source: args[0], Destination: args[1]}); err != nil {
					return client.Error(err)
				}
				fmt.Fprintf(c.OutOrStdout(), "copied '%s' to '%s'\n", args[0], args[1])
				return nil
			})
		},
	}
}
