package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/cluster"
)

func init() { register(newClusterCmd) }

func newClusterCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "cluster",
		Short: "Tell a router which of several servers are ready",
		Long: `Cluster is for several servers behind a router. docs/cluster.md says how they
are set up.`,
		Example: "  axle cluster endpoints --hosts pi-1,pi-2,pi-3 --watch -o endpoints.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var hosts, file string
	var watch bool
	var every time.Duration
	endpoints := &cobra.Command{
		Use:   "endpoints --hosts A,B,C",
		Short: "Write the endpoints file of llm-d's picker",
		Long: `Endpoints asks /readyz of each server, and writes those that are ready as the
endpoints file of llm-d's picker (file-discovery), which checks no health.

With --watch it goes on until it is ended, and replaces the file when something
has changed. A server that drains, or whose card is lost, is left out at once,
one that does not answer after the second time.`,
		Example: `  axle cluster endpoints --hosts 10.0.0.11,10.0.0.12
  axle cluster endpoints --hosts pi-1:11434,pi-2:11434 --watch -o endpoints.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := cluster.ParseHosts(hosts)
			switch {
			case err != nil:
				return usageError("--hosts: %w", err)
			case every < 100*time.Millisecond || every > time.Hour:
				return usageError("--every must be between 100ms and 1h, got %v", every)
			case !watch:
				every = 0
			}
			return cluster.Watch(c.Context(), cluster.Options{Hosts: list, File: file, Out: c.OutOrStdout(), Every: every})
		},
	}
	endpoints.Flags().StringVar(&hosts, "hosts", "", "the `servers`, with commas: host, host:port or http://host:port")
	endpoints.Flags().StringVarP(&file, "output", "o", "", "the `file` to write (default: standard output)")
	endpoints.Flags().BoolVar(&watch, "watch", false, "go on, and write the file again when something changes")
	endpoints.Flags().DurationVar(&every, "every", time.Second, "`time` between two looks, 100ms to 1h")
	c.AddCommand(endpoints)
	return c
}
