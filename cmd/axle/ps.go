package main

import (
	"strconv"
	"time"

	"github.com/ollama/ollama/format"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/internal/terminal"
)

func init() { register(newPsCmd) }

func newPsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "ps",
		Short: "List loaded models",
		Long: `Ps lists the models that the server has loaded: the memory that each takes, its
context in tokens, and when it goes.`,
		Example: "  axle ps",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return with(c.Context(), true, func(conn *connection) error {
				list, err := conn.ListRunning(c.Context())
				if err != nil {
					return client.Error(err)
				}
				rows := [][]string{{"NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"}}
				for _, m := range list.Models {
					until := format.HumanTime(m.ExpiresAt, "Never")
					switch left := time.Until(m.ExpiresAt); {
					case left < 0:
						until = "Stopping..."
					case left > 100*365*24*time.Hour:
						until = "Forever"
					}
					processor := "100% NPU"
					if m.SizeVRAM == 0 && m.Size > 0 {
						processor = "100% CPU"
					}
					rows = append(rows, []string{m.Name, short(m.Digest), format.HumanBytes(m.Size), processor,
						strconv.Itoa(m.ContextLength), until})
				}
				return terminal.Rows(c.OutOrStdout(), "", rows)
			})
		},
	}
}
