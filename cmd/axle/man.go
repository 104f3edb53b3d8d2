package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func init() { register(newManCmd) }

func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the man pages of all commands to a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeMan(c.Root(), args[0])
		},
	}
}

// writeMan writes a page for c and for each command below it.
func writeMan(c *cobra.Command, dir string) error {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(dir, name+".1"), manPage(c, name), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		if err := writeMan(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// roff makes text safe in a man page: a leading dot or quote would be an instruction.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

func manPage(c *cobra.Command, name string) []byte {
	var b bytes.Buffer
	section := func(s string) { fmt.Fprintf(&b, ".SH %s\n", s) }
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"axle %s\" \"axle manual\"\n", strings.ToUpper(roff(name)), version)
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(name), roff(c.Short))
	section("SYNOPSIS")
	fmt.Fprintf(&b, ".B %s\n", roff(c.UseLine()))
	section("DESCRIPTION")
	fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(cmp.Or(c.Long, c.Short+".")))
	flags := func(title string, set *pflag.FlagSet) {
		if !set.HasAvailableFlags() {
			return
		}
		section(title)
		set.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			kind, usage := pflag.UnquoteUsage(f)
			fmt.Fprintf(&b, ".TP\n.B \\-\\-%s", roff(f.Name))
			if kind != "" {
				fmt.Fprintf(&b, " %s", roff(kind))
			}
			fmt.Fprintf(&b, "\n%s\n", roff(usage))
			if d := f.DefValue; d != "" && d != "false" && d != "[]" && d != "0" && d != "0s" {
				fmt.Fprintf(&b, "Default: %s.\n", roff(d))
			}
		})
	}
	flags("OPTIONS", c.NonInheritedFlags())
	flags("GLOBAL OPTIONS", c.InheritedFlags())
	if c.HasAvailableSubCommands() {
		section("COMMANDS")
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "help" {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", roff(sub.Name()), roff(sub.Short))
			}
		}
	}
	if c.Example != "" {
		section("EXAMPLES")
		fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(c.Example))
	}
	section("EXIT STATUS")
	fmt.Fprintln(&b, "0 done, 1 failed, 2 wrong usage, 75 the card was lost.")
	return b.Bytes()
}
