package main

import (
	"fmt"

	"github.com/ollama/ollama/api"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
)

func init() { register(newRmCmd) }

func newRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "rm MODEL…",
		Aliases: []string{"delete"},
		Short:   "Remove models",
		Long:    `Rm removes models. Files that another name still has stay.`,
		Example: "  axle rm qwen3:0.6b",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return with(c.Context(), false, func(conn *connection) error {
				for _, name := range args {
					if err := conn.Delete(c.Context(), &api.DeleteRequest{Model: name}); err != nil {
						return client.Error(err)
					}
					fmt.Fprintf(c.OutOrStdout(), "deleted '%s'\n", name)
				}
				return nil
			})
		},
	}
}
