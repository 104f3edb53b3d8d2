package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ollama/ollama/types/model"
	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/server/programs"
)

// entry is a line of the menu, and the command line that it stands for, or what finds that.
type entry struct {
	terminal.Item
	args []string
	more func(context.Context) ([]entry, error) // the lines to choose from next
}

// menuEntries are what people begin with.
func menuEntries() []entry {
	item := func(name, says string, args ...string) entry {
		return entry{Item: terminal.Item{Name: name, Says: says}, args: args}
	}
	chat, start, fetch := item("Chat", "talk to a model here"), item("Launch a program", "Claude Code, Codex and others"),
		item("Pull a model", "download one from the catalogue")
	chat.more, start.more, fetch.more = menuModels, menuPrograms, menuCatalogue
	return []entry{chat, start, fetch, item("Watch the card", "axle top", "top"), item("Check the card", "axle doctor", "doctor"),
		item("Help", "all commands", "help")}
}

// menuModels are the server's models that answer.
func menuModels(ctx context.Context) (list []entry, err error) {
	err = with(ctx, false, func(conn *connection) error {
		models, err := conn.List(ctx)
		for _, m := range models {
			if m.Says == "" && slices.Contains(m.Capabilities, model.CapabilityCompletion) {
				name := strings.TrimSuffix(m.Name, ":latest")
				list = append(list, entry{Item: terminal.Item{Name: plain.Line(name), Says: plain.Line(m.Details.ParameterSize)},
					args: []string{"run", name}})
			}
		}
		return err
	})
	if err == nil && len(list) == 0 {
		err = errors.New("the server has no model that answers: 'axle pull' lists some to choose from")
	}
	return list, err
}

func menuPrograms(context.Context) (list []entry, err error) {
	for _, p := range programs.Table {
		if p.Launch != nil {
			list = append(list, entry{Item: terminal.Item{Name: p.Name, Says: fmt.Sprintf("begins with %d tokens", p.Needs.First)},
				args: []string{"launch", p.ID}})
		}
	}
	return list, nil
}

func menuCatalogue(context.Context) (list []entry, err error) {
	for _, e := range hub.Catalogue {
		if e.NotYet == "" {
			list = append(list, entry{Item: terminal.Item{Name: e.Name, Says: strings.TrimSpace(e.Parameters + " " + e.Kind)},
				args: []string{"pull", e.Name}})
		}
	}
	return list, nil
}

// menu lets a person choose what to do, and returns the command line for it; none: nothing was
// chosen. It is for a terminal that draws.
func menu(ctx context.Context, in *os.File, out io.Writer) ([]string, error) {
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = term.Restore(int(in.Fd()), state) }()
	size := func() (int, int) {
		columns, rows, _ := term.GetSize(int(in.Fd()))
		return columns, rows
	}
	m := terminal.NewMenu(terminal.Options{In: in, Out: out, Size: size}, os.Getenv("NO_COLOR") == "")
	first := menuEntries()
	title, list := "axle "+version, first
	for {
		var items []terminal.Item
		for _, e := range list {
			items = append(items, e.Item)
		}
		at, err := chooseItem(ctx, m, title, items)
		switch {
		case errors.Is(err, io.EOF) && len(list) > 0 && &list[0] != &first[0]:
			title, list = "axle "+version, first
			continue
		case errors.Is(err, io.EOF):
			return nil, nil
		case errors.Is(err, terminal.ErrInterrupted), errors.Is(err, context.Canceled):
			return nil, &exitError{code: exitInterrupted}
		case err != nil:
			return nil, err
		}
		chosen := list[at]
		if chosen.more == nil {
			return chosen.args, nil
		}
		if list, err = chosen.more(ctx); err != nil {
			return nil, err
		}
		title = chosen.Name
	}
}

// chooseItem is m.Choose until ctx ends. What still waits for a key then is left behind: the
// program is about to end.
func chooseItem(ctx context.Context, m *terminal.Menu, title string, items []terminal.Item) (int, error) {
	var at int
	var err error
	chosen := make(chan struct{})
	go func() {
		defer close(chosen)
		at, err = m.Choose(title, items)
	}()
	select {
	case <-chosen:
		return at, err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// asksForMenu says whether a command line has nothing to do, and somebody is there to be asked.
func asksForMenu(args []string, in *os.File, out io.Writer) bool {
	_, draws := terminal.Screen(out)
	return len(args) == 0 && draws && in != nil && terminal.Is(in)
}
