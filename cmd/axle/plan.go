//go:build !scripted

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/cmd/internal/plan"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
)

func init() { register(newPlanCmd) }

func newPlanCmd() *cobra.Command {
	var profile string
	var memory int64
	var used, tokens int
	var asJSON bool
	var with []string
	var ram, cacheRAM, cacheDisk string
	c := &cobra.Command{
		Use:   "plan MODEL",
		Short: "Compute how a model would run on a card that you do not have",
		Long: `Plan computes how a model would run on a card that you do not have: whether it
fits, how fast it answers, and how many conversations stay on the card, in
memory and on disk. It computes from the model's shapes and from the known
speeds of such a card. It measures nothing; 'axle bench' measures.

With --with it computes whether several models fit on a card together, and with
a detector of things in pictures among them how soon a picture is answered.

MODEL is a name in the store or in the catalogue, a package's folder, or one of
the shapes
` + plan.Names + `.`,
		Example: `  axle plan qwen3:4b
  axle plan qwen3-0.6b --profile cm3588
  axle plan qwen3-4b --ram 16GB --cache-disk 20GB --conversation 1500
  axle plan qwen3:1.7b --with qwen3-embedding:0.6b,smolvlm2:500m
  axle plan yolo11s --with qwen3:0.6b,sensevoice`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := profiles.Load(profile)
			if err != nil {
				return usageError("%w", err)
			}
			if memory < 1 || memory > 1<<20 {
				return usageError("--memory is in MiB, between 1 and %d, got %d", 1<<20, memory)
			}
			m, err := planShape(args[0])
			if err != nil {
				return err
			}
			if len(with) > 0 {
				all := []plan.Model{m}
				for _, name := range with {
					other, err := planShape(name)
					if err != nil {
						return err
					}
					all = append(all, other)
				}
				set := plan.Together(p, memory<<20, all...)
				if asJSON {
					return printJSON(c.OutOrStdout(), set)
				}
				return set.Text(c.OutOrStdout())
			}
			if !c.Flags().Changed("clients-context") {
				used = min(used, m.Context)
			} else if used < 0 || used > m.Context {
				return usageError("--clients-context must be between 0 and the model's %d, got %d", m.Context, used)
			}
			if tokens < 1 || tokens >= m.Context {
				if c.Flags().Changed("conversation") {
					return usageError("--conversation must be between 1 and %d, got %d", m.Context-1, tokens)
				}
				tokens = 0
			}
			keep, err := keptOn(ram, cacheRAM, cacheDisk)
			if err != nil {
				return err
			}
			keep.Tokens = tokens
			r := plan.Make(m, p, memory<<20, used, keep)
			if asJSON {
				return printJSON(c.OutOrStdout(), r)
			}
			return r.Text(c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&profile, "profile", "pi5",
		"the host and card: pi5, cm3588, onboard, or a `file` in the form of the simulated card's profiles")
	c.Flags().Int64Var(&memory, "memory", 7040, "card memory that models may take, in `MiB`")
	c.Flags().StringSliceVar(&with, "with", nil, "`models` to be on the card at the same time, with commas between")
	c.Flags().IntVar(&used, "clients-context", 256, "`tokens` that all clients' sequences hold together")
	c.Flags().StringVar(&ram, "ram", "8GiB", "the machine's `memory`; rows take an eighth of it, 4 GiB at most")
	c.Flags().StringVar(&cacheRAM, "cache-ram", "", "`memory` of the machine for rows, as in serve; 0: none")
	c.Flags().StringVar(&cacheDisk, "cache-disk", "", "`size` on disk for rows, as in serve (20GB); 0: none")
	c.Flags().IntVar(&tokens, "conversation", 1024, "`tokens` of a conversation that is kept")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// keptOn is where a server on a machine with so much memory keeps rows.
func keptOn(ram, cacheRAM, cacheDisk string) (k plan.Keep, err error) {
	total, err := parseSize(ram)
	if err != nil {
		return k, usageError("--ram: %w", err)
	}
	if k.Memory = ramShare(total); cacheRAM != "" {
		if k.Memory, err = parseSize(cacheRAM); err != nil {
			return k, usageError("--cache-ram: %w", err)
		}
	}
	if cacheDisk != "" {
		if k.Disk, err = parseSize(cacheDisk); err != nil {
			return k, usageError("--cache-disk: %w", err)
		}
	}
	return k, nil
}

// planShape describes one of the shapes, a package, or a model that is not here as far as the
// catalogue knows it. A name in Ollama's form, qwen3:0.6b, is a model in a store before it is one
// of the catalogue.
func planShape(name string) (plan.Model, error) {
	if m, ok := plan.Shape(name); ok {
		return m, nil
	}
	p, m, err := openModel(name)
	if err == nil {
		defer p.Close()
		if m == nil {
			return plan.Package(p), nil
		}
		repo, _, _ := strings.Cut(m.Hub, "@")
		return plan.Pulled(p, hub.Of(repo)), nil
	}
	not, kind := new(absentError), new(models.KindError)
	switch {
	case errors.As(err, &not) && not.entry != nil:
		return plan.Listed(*not.entry), nil
	case errors.As(err, &kind) && kind.Runs():
		m := plan.Net(kind.Info)
		if _, err := os.Stat(name); err != nil { // a name in the store, whose folder has another
			m.Name = name
		}
		return m, nil
	}
	if _, there := os.Stat(name); there == nil || errors.Is(err, models.ErrKind) || errors.As(err, new(*lockedError)) {
		return plan.Model{}, err
	}
	return plan.Model{}, fmt.Errorf("%w; %s are shapes that need no files", err, plan.Names)
}
