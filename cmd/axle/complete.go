package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/models/hub"
)

// completionTime is the longest a shell waits for names: somebody has pressed a key.
const completionTime = 2 * time.Second

// completeModels completes the names of the server's models as the first n arguments; 0: as all.
// Further arguments are files. Nothing is started for it, and what goes wrong completes nothing.
func completeModels(n int) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if n > 0 && len(args) >= n {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return without(modelNames(c.Context(), begun), args), cobra.ShellCompDirectiveNoFileComp
	}
}

// modelNames are the names of the server's models that begin so.
func modelNames(ctx context.Context, begun string) (names []string) {
	if ctx == nil { // cobra has none where a shell asks
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	_ = with(ctx, true, func(conn *connection) error {
		list, err := conn.List(ctx)
		for _, m := range list {
			name := strings.TrimSuffix(m.Name, ":latest")
			if strings.HasPrefix(name, begun) && plain.Line(name) == name && !strings.ContainsAny(name, "\t ") {
				names = append(names, name)
			}
		}
		return err
	})
	return names
}

// completeCatalogue completes the names of models that can be pulled.
func completeCatalogue(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, e := range hub.Catalogue {
		if e.NotYet == "" && strings.HasPrefix(e.Name, begun) {
			names = append(names, e.Name)
		}
	}
	return without(names, args), cobra.ShellCompDirectiveNoFileComp
}

// without leaves out what the command line has already.
func without(names, args []string) []string {
	return slices.DeleteFunc(names, func(s string) bool { return slices.Contains(args, s) })
}

// completions are what the arguments of commands complete to, by the command's name; a shell offers
// files for the others.
var completions = map[string]cobra.CompletionFunc{
	"run": completeModels(1), "talk": completeModels(1), "show": completeModels(1), "plan": completeModels(1), "cp": completeModels(1),
	"stop": completeModels(0), "rm": completeModels(0), "verify": completeModels(0), "bench": completeModels(0), "clear": completeModels(0),
	"list": completeModels(1), "pull": completeCatalogue,
	"inspect": orFiles(completeModels(1)), "tokenize": orFiles(completeModels(1)), "render": orFiles(completeModels(1)),
}

// orFiles is a completion that a shell adds files to.
func orFiles(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		names, _ := f(c, args, begun)
		return names, cobra.ShellCompDirectiveDefault
	}
}
