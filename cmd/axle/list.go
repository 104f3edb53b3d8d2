package main

import (
	"fmt"
	"strings"

	"github.com/ollama/ollama/format"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
)

func init() { register(newListCmd) }

func newListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list [PREFIX]",
		Aliases: []string{"ls"},
		Short:   "List models",
		Long: `List lists the models here: what each takes on disk, and which sizes of cards
(4, 8 and 16 GB) hold it. With PREFIX it lists those whose names begin so.`,
		Example: "  axle list qwen3",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return with(c.Context(), false, func(conn *connection) error {
				list, err := conn.List(c.Context())
				if err != nil {
					return client.Error(err)
				}
				rows := [][]string{{"NAME", "ID", "SIZE", "CARD OF", "MODIFIED"}}
				notes := ""
				for _, m := range list {
					if len(args) == 0 || strings.HasPrefix(strings.ToLower(m.Name), strings.ToLower(args[0])) {
						card := "-"
						if m.Card > 0 {
							card = models.CardWords(m.Card)
						}
						rows = append(rows, []string{m.Name, short(m.Digest), format.HumanBytes(m.Size), card,
							format.HumanTime(m.ModifiedAt, "Never")})
						if m.Says != "" {
							notes += m.Name + " is " + m.Says + "\n"
						}
					}
				}
				if len(list) == 0 {
					notes = "No model is here yet: axle pull NAME. " + firsts() + "\n"
				}
				if err := terminal.Rows(c.OutOrStdout(), "", rows); err != nil || notes == "" {
					return err
				}
				_, err = fmt.Fprint(c.OutOrStdout(), "\n"+notes)
				return err
			})
		},
	}
}

// short is the part of a digest that people look at.
func short(digest string) string { return digest[:min(12, len(digest))] }
