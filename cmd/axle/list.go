package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/ollama/ollama/format"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/plain"
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
					return apiError(err)
				}
				rows := [][]string{{"NAME", "ID", "SIZE", "MODIFIED"}}
				for _, m := range list.Models {
					if len(args) == 0 || strings.HasPrefix(strings.ToLower(m.Name), strings.ToLower(args[0])) {
						rows = append(rows, []string{m.Name, short(m.Digest), format.HumanBytes(m.Size), format.HumanTime(m.ModifiedAt, "Never")})
					}
				}
				return table(c.OutOrStdout(), "", rows)
			})
		},
	}
}

// short is the part of a digest that people look at.
func short(digest string) string { return digest[:min(12, len(digest))] }

// table prints rows with columns four spaces apart, as Ollama does.
func table(w io.Writer, indent string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 4, ' ', 0)
	for _, r := range rows {
		fmt.Fprint(t, indent)
		for _, cell := range r {
			fmt.Fprint(t, plain.Line(cell), "\t")
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
