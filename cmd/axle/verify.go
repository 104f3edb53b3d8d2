//go:build !scripted

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
)

func init() { register(newVerifyCmd) }

func newVerifyCmd() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:   "verify [MODEL…]",
		Short: "Read models back from disk and compare their hashes",
		Long: `Verify reads every file of the named models back from disk and compares it with
the hash that it was stored under. Without a name it reads all models. Packages
found in place bring no hashes: verify checks their shapes and sizes, and
SHA256SUMS where there is one.`,
		Example: "  axle verify qwen3:0.6b",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := wholeStore(cmd.Context())
			if err != nil {
				return err
			}
			s, err := store.Open(o)
			if err != nil {
				return err
			}
			defer s.Close()
			if len(args) == 0 {
				list, err := s.List(cmd.Context())
				if err != nil {
					return err
				}
				for _, m := range list {
					args = append(args, m.Name.String())
				}
			}
			var bad []error
			for _, name := range args {
				var files int
				var bytes int64
				err := s.Verify(cmd.Context(), name, func(file string, size int64, err error) {
					files++
					bytes += size
					if err != nil {
						fmt.Fprintf(cmd.OutOrStdout(), "%s\tBAD\t%v\n", name, err)
					} else if !quiet {
						fmt.Fprintf(cmd.OutOrStdout(), "%s\tok\t%s\t%s\n", name, models.HumanBytes(size), file)
					}
				})
				switch {
				case err == nil:
					fmt.Fprintf(cmd.OutOrStdout(), "%s\tok\t%d files, %s\n", name, files, models.HumanBytes(bytes))
				case cmd.Context().Err() != nil:
					return cmd.Context().Err()
				case files == 0: // nothing was reported yet
					fmt.Fprintf(cmd.OutOrStdout(), "%s\tBAD\t%v\n", name, err)
				}
				if err != nil {
					bad = append(bad, fmt.Errorf("%s: %w", name, err))
				}
			}
			if len(bad) > 0 {
				return fmt.Errorf("%d of %d models failed: %w", len(bad), len(args), errors.Join(bad...))
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "one line a model")
	return cmd
}
