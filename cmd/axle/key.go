package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
)

func init() { register(newKeyCmd) }

func newKeyCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make, list and remove the keys of a server",
		Long: `Key makes, lists and removes the keys that a server asks its clients for. They
are lines of the file that "axle serve --keys-file FILE" or AXLE_KEYS_FILE
names. The file's owner, or root, may change it. A running server reads the
file again on SIGHUP: systemctl reload axle.`,
		Example: `  axle key add laptop --keys-file /etc/axle/keys
  axle key list --keys-file /etc/axle/keys`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.PersistentFlags().StringVar(&file, "keys-file", "", "the `file` of keys (default: AXLE_KEYS_FILE)")
	path := func() (string, error) {
		_, named := server.Setting(os.Getenv, "KEYS_FILE")
		p := cmp.Or(file, named)
		if p == "" {
			return "", usageError("key: no file of keys: --keys-file or AXLE_KEYS_FILE names it")
		}
		return p, nil
	}
	line := access.Line{}
	role := "ask"
	add := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a key and show it, once",
		Long: `Add makes a key for the program or person of that name, and prints it. From
then on only the file has the key. What the key leaves behind in a server
belongs to the id that is made with it, even after its name has changed or its
line is gone.`,
		Example: "  axle key add laptop --role admin --tokens 1000000",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := path()
			if err != nil {
				return err
			}
			line.Name = args[0]
			if line.Role, err = access.ParseRole(role); err != nil {
				return usageError("--role: %w", err)
			}
			_, serr := os.Stat(p)
			made, err := access.Add(p, line)
			if err != nil {
				return keyError(err)
			}
			fmt.Fprintln(c.OutOrStdout(), string(made.Key))
			if errors.Is(serr, fs.ErrNotExist) && os.Geteuid() == 0 {
				fmt.Fprintf(c.ErrOrStderr(), "%s was made, for root only: a service's user must own it: chown axle %s\n", p, p)
			}
			fmt.Fprintln(c.ErrOrStderr(), tellServer)
			return nil
		},
	}
	fl := add.Flags()
	fl.StringVar(&role, "role", role,
		"the key's `role`: ask (use models), or admin (also fetch, make, delete and unload them, and see what they were told)")
	fl.Int64Var(&line.Limits.Requests, "requests", 0, "most `requests` at once; 0: no limit")
	fl.Int64Var(&line.Limits.Tokens, "tokens", 0, "most `tokens` a day, evaluated and written; 0: no limit")
	fl.Int64Var(&line.Limits.Pictures, "pictures", 0, "most `pictures` a minute; 0: no limit")
	fl.Int64Var(&line.Limits.Sessions, "sessions", 0, "most `sessions` of the Realtime API at once; 0: half of the server's")
	fl.StringVar(&line.MCP, "mcp", "",
		"`servers` whose tools it may have run: names with commas between, * or none; else admin may all, and ask none")
	cmd.AddCommand(add, &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the keys by name, without the keys themselves",
		Long: `List prints the name, role, limits and id of each key. It does not print the
keys.`,
		Example: "  axle key list --keys-file /etc/axle/keys",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := path()
			if err != nil {
				return err
			}
			lines, err := access.Read(p)
			if err != nil {
				return keyError(err)
			}
			out := [][]string{{"NAME", "ROLE", "REQUESTS", "TOKENS/DAY", "PICTURES/MIN", "SESSIONS", "ID"}}
			limit := func(n int64) string {
				if n == 0 {
					return "-"
				}
				return strconv.FormatInt(n, 10)
			}
			for _, l := range lines {
				out = append(out, []string{l.Name, l.Role.String(), limit(l.Limits.Requests), limit(l.Limits.Tokens),
					limit(l.Limits.Pictures), limit(l.Limits.Sessions), cmp.Or(l.ID, "-")})
			}
			return terminal.Rows(c.OutOrStdout(), "", out)
		},
	}, &cobra.Command{
		Use:     "rm NAME",
		Aliases: []string{"remove"},
		Short:   "Remove a key, by its name or id",
		Long: `Rm removes the line of the key with that name or id. The server refuses the key
once it has read the file again.`,
		Example: "  axle key rm laptop --keys-file /etc/axle/keys",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := path()
			if err != nil {
				return err
			}
			if err := access.Remove(p, args[0]); err != nil {
				return keyError(err)
			}
			fmt.Fprintf(c.OutOrStdout(), "removed %s\n", args[0])
			fmt.Fprintln(c.ErrOrStderr(), tellServer)
			return nil
		},
	})
	return cmd
}

// tellServer is what makes a change of the file count.
const tellServer = "A running server reads the file again on SIGHUP: systemctl reload axle, or kill -HUP with its process id."

// keyError says what helps where the file is another user's.
func keyError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; the file is for its owner only: sudo axle key", err)
	}
	return err
}
