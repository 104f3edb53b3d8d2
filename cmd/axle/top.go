package main

import (
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/cmd/internal/cluster"
	"github.com/axle-llm/axle/cmd/internal/watch"
)

func init() { register(newTopCmd) }

func newTopCmd() *cobra.Command {
	var asJSON, once bool
	var hosts string
	var every time.Duration
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch a running server: cards, models, rates",
		Long: `Top shows what a running server does, drawn anew every second: its cards with
temperature, load and memory; its models with the cells of their caches,
sequences that run and wait, tokens a second, prompt tokens that were found in
a cache, and guesses that were right. q or Ctrl-C ends it.

Below the figures top plots tokens a second and the card's temperature, and
draws the cache as a map, as far as the terminal has room. Where NO_COLOR is
set, it draws without colours.

With --hosts it shows several servers, a row each. AXLE_KEY is sent to all.

Where standard output is no terminal, top prints one turn and ends.`,
		Example: `  axle top
  axle top --hosts pi-1,pi-2,pi-3
  axle top --json --every 10s`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond || every > time.Hour {
				return usageError("--every must be between 100ms and 1h, got %v", every)
			}
			o := watch.Options{In: c.InOrStdin(), Out: c.OutOrStdout(), Every: every, JSON: asJSON, Once: once}
			if !c.Flags().Changed("hosts") {
				return with(c.Context(), true, func(conn *connection) error { return watch.Server(c.Context(), conn.Client, o) })
			}
			list, err := cluster.ParseHosts(hosts)
			if err != nil {
				return usageError("--hosts: %w", err)
			}
			all := make([]watch.Named, len(list))
			for i, h := range list {
				u, err := url.Parse(h.URL())
				if err != nil {
					return err
				}
				all[i] = watch.Named{Name: h.Name(), Client: client.New(u, os.Getenv("AXLE_KEY"))}
				defer all[i].Client.HTTP.CloseIdleConnections()
			}
			return watch.Servers(c.Context(), all, o)
		},
	}
	c.Flags().StringVar(&hosts, "hosts", "", "several `servers`, with commas: host, host:port or http://host:port")
	c.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON a turn")
	c.Flags().BoolVar(&once, "once", false, "print one turn and end")
	c.Flags().DurationVar(&every, "every", time.Second, "`time` between turns, 100ms to 1h")
	return c
}
