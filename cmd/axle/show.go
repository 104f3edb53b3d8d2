package main

import (
	"github.com/ollama/ollama/api"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/cmd/internal/conversation"
)

func init() { register(newShowCmd) }

func newShowCmd() *cobra.Command {
	var parts [5]bool
	var verbose bool
	names := [...]string{"license", "modelfile", "parameters", "system", "template"}
	cmd := &cobra.Command{
		Use:   "show MODEL",
		Short: "Show the details of a model",
		Long: `Show prints what a model is: its architecture and context, what it can do, its
parameters, system message and license. A flag prints one part only.`,
		Example: "  axle show qwen3:0.6b --modelfile",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			chosen := ""
			for i, on := range parts {
				if on && chosen != "" {
					return usageError("only one of --license, --modelfile, --parameters, --system and --template can be given")
				}
				if on {
					chosen = names[i]
				}
			}
			return with(c.Context(), false, func(conn *connection) error {
				r, err := conn.Show(c.Context(), &api.ShowRequest{Model: args[0], Verbose: verbose})
				if err != nil {
					return client.Error(err)
				}
				return conversation.Show(c.OutOrStdout(), r, chosen, verbose)
			})
		},
	}
	for i, n := range names {
		cmd.Flags().BoolVar(&parts[i], n, false, "show the "+n+" only")
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show all that is known")
	return cmd
}
