package main

import "slices"

// groups are the commands as help lists them: what a newcomer wants first.
var groups = []struct {
	title    string
	commands []string
}{
	{"Ask a model:", []string{"run", "talk", "transcribe", "say", "draw", "detect", "launch"}},
	{"Models:", []string{"pull", "list", "show", "ps", "stop", "rm", "cp", "create", "plan", "verify"}},
	{"The server and its card:", []string{"serve", "doctor", "top", "bench", "key", "cache", "cluster"}},
	{"Files and tokens, for who builds models:", []string{"compile", "inspect", "run-net", "render", "tokenize"}},
}

// groupOf is a command's group; "": it has none, and stands below them.
func groupOf(name string) string {
	for _, g := range groups {
		if slices.Contains(g.commands, name) {
			return g.title
		}
	}
	return ""
}
