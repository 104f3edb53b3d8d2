package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/store"
)

func init() { register(newPullCmd) }

func newPullCmd() *cobra.Command {
	var endpoint string
	var connections int
	var all bool
	cmd := &cobra.Command{
		Use:   "pull [NAME]",
		Short: "Fetch a model from a hub",
		Long: `Pull fetches a model. NAME is a short name of the catalogue (qwen3:0.6b) or a
Hugging Face repository of .axmodel files (AXERA-TECH/Qwen3-0.6B, or
AXERA-TECH/Qwen3-0.6B:revision). Without NAME pull lists the models of the
catalogue whose speed is known and those that hear or speak; with --list it
lists all.

Where a server runs, the server fetches, into its own store and with its own
settings. Where none runs, or with --endpoint or --connections, this command
fetches into AXLE_MODELS.

A pull that was interrupted goes on where it stopped. HF_ENDPOINT names another
hub, or several with commas between: the hub and its mirrors. HF_TOKEN is sent
to the first of them and to no other host. The dictionaries of a model that
speaks come from the project that made them; AXLE_DICTIONARIES names the
address of another folder with the same files.`,
		Example: "  axle pull qwen3:0.6b",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("pull takes one name, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listCatalogue(cmd.OutOrStdout(), all)
			}
			if all {
				return usageError("--list pulls nothing: leave out %s", args[0])
			}
			if connections < 0 || connections > 64 {
				return usageError("--connections is %d, want 1 to 64", connections)
			}
			view := client.NewPullView(cmd.ErrOrStderr())
			err := fetch(cmd.Context(), args[0], endpoint, connections, view.Update)
			view.End()
			if cmd.Context().Err() != nil {
				return &exitError{code: exitInterrupted,
					err: errors.New("interrupted: what has come stays, and the same command goes on from there")}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&endpoint, "endpoint", "", "the hub's `URL`, instead of HF_ENDPOINT")
	cmd.Flags().IntVar(&connections, "connections", 0, "`connections` at once, 1 to 64; 0: 6")
	cmd.Flags().BoolVar(&all, "list", false, "without NAME: list the whole catalogue, with weights and repositories")
	cmd.Flags().Bool("insecure", false, "accepted for Ollama's sake; has no effect")
	return cmd
}

// fetch pulls a model through the server, or into the store itself where none runs or the settings
// are this command's own.
func fetch(ctx context.Context, name, endpoint string, connections int, report func(store.Progress)) error {
	if endpoint == "" && connections == 0 {
		c, err := connect(ctx, true)
		if err == nil {
			return errors.Join(c.Pull(ctx, name, report), c.stop())
		}
		var none *noServerError
		if !errors.As(err, &none) || !none.local {
			return err
		}
	}
	s, err := store.Open(store.FromEnv())
	if err != nil {
		return err
	}
	defer s.Close()
	from := hub.FromEnv()
	if endpoint != "" {
		from.Endpoints = []string{strings.TrimRight(endpoint, "/")}
	}
	from.Connections = connections
	from.Agent = "axle/" + version
	return s.Pull(ctx, name, from, report)
}

// listCatalogue writes what can be pulled: the models whose speed is known, or all of them, with
// their weights and repositories.
func listCatalogue(w io.Writer, all bool) error {
	t := terminal.TabsFor(w)
	row := func(name, size, card, speed, parameters, weights, repo string) {
		cells := []string{name, cmp.Or(parameters, "-"), size, card, speed}
		if all {
			cells = append(cells, cmp.Or(weights, "-"), repo)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	row("NAME", "DOWNLOAD", "CARD OF", "TOKENS/S", "SIZE", "WEIGHTS", "REPOSITORY")
	for _, e := range hub.Catalogue {
		if !all && e.Speed == 0 && e.Kind != "audio" && e.Kind != "speech" {
			continue
		}
		n, told := e.Size()
		size, speed := "~"+models.HumanBytes(n), "-"
		if !told {
			size += "?"
		}
		if e.Speed > 0 {
			speed = fmt.Sprintf("%.4g", e.Speed)
		}
		if e.NotYet != "" {
			speed = "not yet"
		}
		card, _ := e.CardMemory()
		row(e.Name, size, models.CardWords(card), speed, e.Parameters, e.Quant, e.Repo)
	}
	more := fmt.Sprintf("'axle pull --list' lists all %d models, with those of unknown speed.", len(hub.Catalogue))
	if all {
		more = "- is not known; not yet: axle does not run it yet. CARD OF tells which sizes of cards hold the model; axle plan " +
			"tells more."
	}
	more += " " + firsts()
	fmt.Fprintln(t, "\nTokens a second are on a Raspberry Pi 5, by the vendor's runtime with one request, as others published them. A "+
		"size with ? is estimated; a pull asks the hub before it begins.\n"+more)
	return t.Flush()
}

// firsts says which model to begin with, by the card's memory.
func firsts() string {
	text := "To begin with:"
	between := " "
	for _, card := range models.CardSizes {
		if e := hub.First(card); e != nil {
			text += fmt.Sprintf("%s%s on a card of %d GB", between, e.Name, card.GB)
			between = ", "
		}
	}
	return text + "."
}
