package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/axle-llm/axle/server/programs"
)

// Set is what a program is started with.
type Set struct {
	Path string // of its command; "": it was not looked for
	Args []string
	Env  []programs.Var // set for it
	Less []string       // variables that are taken away from it
}

// For is what a program is started with for these values, args behind its own.
func For(s *programs.Start, v programs.Values, args []string) (Set, error) {
	set := Set{Less: s.Unset}
	for _, e := range s.Env {
		if unknown(e.Value, v) {
			continue
		}
		set.Env = append(set.Env, programs.Var{Name: e.Name, Value: v.Fill(e.Value), Secret: e.Secret && v.Key != ""})
	}
	values := Entries(s, v)
	switch s.As {
	case "":
	case "-c":
		for _, one := range values {
			var path []string
			for _, p := range one.Path {
				path = append(path, tomlKey(p))
			}
			set.Args = append(set.Args, s.As, strings.Join(path, ".")+"="+tomlText(one.Value))
		}
	default:
		tree := map[string]any{}
		for _, one := range values {
			if err := put(tree, one.Path, one.Value); err != nil {
				return Set{}, err
			}
		}
		b, err := json.Marshal(tree)
		if err != nil {
			return Set{}, err
		}
		set.Env = append(set.Env, programs.Var{Name: s.As, Value: string(b)})
	}
	for _, a := range s.Args {
		set.Args = append(set.Args, v.Fill(a))
	}
	for _, a := range args {
		if v.Key != "" && (a == v.Key || len(v.Key) > 7 && strings.Contains(a, v.Key)) {
			return Set{}, errors.New("launch: the key stands in an argument, which every user of this machine can read: leave it out, " +
				"the program gets it in its environment")
		}
	}
	set.Args = append(set.Args, args...)
	return set, nil
}

// unknown says whether a text needs the length of a context that is not known.
func unknown(text any, v programs.Values) bool {
	return text == "{context}" && v.Context <= 0
}

// Entries are a program's, with their holes filled. What needs a key is left out where there is
// none, and what needs a length of context that is not known.
func Entries(s *programs.Start, v programs.Values) (list []Value) {
	for _, e := range s.Entries {
		if e.Keyed && v.Key == "" || unknown(e.Value, v) {
			continue
		}
		value := e.Value
		if m, ok := value.(map[string]any); ok && v.Context <= 0 {
			value = map[string]any{"name": m["name"]}
		}
		one := Value{Value: v.FillValue(value)}
		if s.As == "" && e.Path[0] == "env" { // variables of an environment are texts
			if n, ok := one.Value.(int64); ok {
				one.Value = fmt.Sprint(n)
			}
		}
		for _, p := range e.Path {
			one.Path = append(one.Path, v.Fill(p))
		}
		list = append(list, one)
	}
	return list
}

// Look finds the program's command. It fails with how to install it.
func Look(p *programs.Program) (string, error) {
	path, err := exec.LookPath(p.Launch.Command)
	if err != nil {
		return "", fmt.Errorf("launch: %s is not installed here (%w): install it with '%s'", p.Name, err, p.Launch.Install)
	}
	return path, nil
}

// Environ is an environment with what is set for the program, and without what is taken away.
func (s Set) Environ(env []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(one string) bool {
		name, _, _ := strings.Cut(one, "=")
		return slices.Contains(s.Less, name) || slices.ContainsFunc(s.Env, func(v programs.Var) bool { return v.Name == name })
	})
	for _, v := range s.Env {
		out = append(out, v.Name+"="+v.Value)
	}
	return out
}

// Text is what is set, as lines of a shell. A key is not told: the variable AXLE_KEY has it.
func (s Set) Text(command string) string {
	var b strings.Builder
	for _, name := range s.Less {
		fmt.Fprintf(&b, "unset %s\n", name)
	}
	for _, v := range s.Env {
		text := quoted(v.Value)
		if v.Secret {
			text = `"$AXLE_KEY"`
		}
		fmt.Fprintf(&b, "export %s=%s\n", v.Name, text)
	}
	b.WriteString(command)
	for _, a := range s.Args {
		b.WriteString(" " + quoted(a))
	}
	return b.String() + "\n"
}

// quoted is one word of a shell.
func quoted(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
