package main

import (
	"strings"

	"github.com/ollama/ollama/format"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/client"
	"github.com/axle-llm/axle/internal/terminal"
)

func init() { register(newListCmd) }

func newListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list [PREFIX]",
		Aliases: []string{"ls"},
		Short:   "List models",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return with(c.Context(), false, func(conn *connection) error {
				list, err := conn.List(c.Context())
				if err != nil {
					return client.Error(err)
				}
				rows := [][]string{{"NAME", "ID", "SIZE", "MODIFIED"}}
				for _, m := range list.Models {
					if len(args) == 0 || strings.HasPrefix(strings.ToLower(m.Name), strings.ToLower(args[0])) {
						rows = append(rows, []string{m.Name, short(m.Digest), format.HumanBytes(m.Size),
							format.HumanTime(m.ModifiedAt, "Never")})
					}
				}
				return terminal.Rows(c.OutOrStdout(), "", rows)
			})
		},
	}
}

// short is the part of a digest that people look at.
func short(digest string) string { return digest[:min(12, len(digest))] }
