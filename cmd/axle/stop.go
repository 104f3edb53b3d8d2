package main

import (
	"fmt"
	"net/http"

	"github.com/ollama/ollama/api"
	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
)

func init() { register(newStopCmd) }

func newStopCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "stop MODEL…",
		Short:   "Unload models",
		Long:    `Stop unloads models: the server frees the card memory that they take.`,
		Example: "  axle stop qwen3:0.6b",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return with(c.Context(), true, func(conn *connection) error {
				for _, name := range args {
					err := conn.Generate(c.Context(), &api.GenerateRequest{Model: name, KeepAlive: &api.Duration{}},
						func(api.GenerateResponse) error { return nil })
					if client.StatusIs(err, http.StatusNotFound) {
						return fmt.Errorf("couldn't find model %q to stop", name)
					}
					if err != nil {
						return client.Error(err)
					}
				}
				return nil
			})
		},
	}
}
