package diagnosis

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/internal/terminal"
)

// Mender does what findings say can be done, each after a yes.
type Mender struct {
	// Root is the folder that the files are below; empty: /.
	Root string
	// Run runs a command as root and gives what it wrote; nil: on this machine.
	Run func(ctx context.Context, argv []string) ([]byte, error)
	// Superuser: this process may change the machine. Where it may not, all is only shown.
	Superuser bool
	// Ask asks for a yes; nil: no one can be asked, and nothing is done without Yes.
	Ask func(question string) (bool, error)
	Yes bool // all of it is done without a question
	Dry bool // nothing is done: it is shown
	// Again is the command that Mend names where it may do nothing.
	Again string
	Now   func() time.Time // nil: time.Now; in the names of copies
}

// Mended is what Mend did.
type Mended struct {
	Offered, Done int      // findings
	After         []string // what is left to do: cards.Reboot, cards.LogIn
}

// Mend shows what mends each finding, asks, and does it. What is so already is left out: a second
// run does nothing. A step that fails ends its finding's; its error says what was written. Files
// are changed whole, and a copy of what was there stays beside them.
func (m Mender) Mend(ctx context.Context, w io.Writer, findings []cards.Finding) (Mended, error) {
	var res Mended
	var failed []error
	say := func(head, text string) {
		width, _ := terminal.Screen(w)
		fmt.Fprintln(w, terminal.Fold(head+text, strings.Repeat(" ", len(head)), min(width, 80)))
	}
	may := m.Superuser && !m.Dry && (m.Yes || m.Ask != nil)
	for _, f := range findings {
		todo, err := m.todo(f.Mend)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", f.Name, err))
			continue
		}
		if len(todo) == 0 {
			continue
		}
		res.Offered++
		say("", f.Name+": "+f.Text)
		for _, a := range todo {
			if a.File != "" {
				fmt.Fprintf(w, "  + %s  into %s\n", strings.Join(append(slices.Clone(a.Lines), a.Words...), " | "), a.File)
			} else {
				fmt.Fprintf(w, "  $ %s\n", line(a.Run, !m.Superuser))
			}
			if a.After != "" {
				fmt.Fprintf(w, "    then: %s\n", a.After)
			}
		}
		if !may {
			continue
		}
		if !m.Yes {
			yes, err := m.Ask("Do this? [y/N] ")
			if err != nil {
				return res, err
			}
			if !yes {
				say("  ", "left as it is")
				continue
			}
		}
		if err := m.do(ctx, w, todo, &res); err != nil {
			say("  ", "failed: "+err.Error())
			failed = append(failed, fmt.Errorf("%s: %w", f.Name, err))
			continue
		}
		res.Done++
		say("  ", "done")
	}
	switch {
	case res.Offered == 0 && len(failed) == 0:
		say("", "There is nothing here that this command can mend.")
	case res.Offered == 0, may, m.Dry:
	case !m.Superuser:
		fmt.Fprintf(w, "Nothing was changed: this needs root.\n  $ sudo %s\n", m.Again)
	default:
		fmt.Fprintf(w, "Nothing was changed: there is no terminal to ask at. To do all of it:\n  $ %s --yes\n", m.Again)
	}
	return res, errors.Join(failed...)
}

func (m Mender) do(ctx context.Context, w io.Writer, todo []cards.Action, res *Mended) error {
	run := m.Run
	if run == nil {
		run = runHere
	}
	for _, a := range todo {
		if err := ctx.Err(); err != nil {
			return err
		}
		if a.File != "" {
			kept, err := m.edit(a)
			if err != nil {
				return err
			}
			if kept != "" {
				fmt.Fprintf(w, "  what %s was is in %s\n", a.File, kept)
			}
		} else if out, err := run(ctx, a.Run); err != nil {
			said := strings.Join(strings.FieldsFunc(string(out[:min(len(out), 2000)]), unseen), " ")
			return fmt.Errorf("%s: %w%s", line(a.Run, false), err, cmp.Or(strings.TrimRight(": "+said, ": "), ""))
		}
		if a.After != "" && !slices.Contains(res.After, a.After) {
			res.After = append(res.After, a.After)
		}
	}
	return nil
}

// todo leaves out the files that are already as they should be.
func (m Mender) todo(actions []cards.Action) ([]cards.Action, error) {
	var out []cards.Action
	for _, a := range actions {
		if a.File != "" {
			had, err := m.read(a.File)
			if err != nil {
				return nil, err
			}
			if bytes.Equal(had, changed(had, a)) {
				continue
			}
		}
		out = append(out, a)
	}
	return out, nil
}

const mostFile = 1 << 20 // bytes of a file that is changed

func (m Mender) read(name string) ([]byte, error) {
	at := m.at(name)
	st, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file: change it by hand", name)
	case st.Size() > mostFile:
		return nil, fmt.Errorf("%s is far too large for what it is: change it by hand", name)
	}
	return os.ReadFile(at)
}

func (m Mender) at(name string) string { return filepath.Join(cmp.Or(m.Root, "/"), name) }

// changed is a file with what an action wants of it.
func changed(had []byte, a cards.Action) []byte {
	text := string(had)
	if len(a.Words) > 0 {
		words := strings.Fields(text)
		for _, w := range a.Words {
			name, _, valued := strings.Cut(w, "=")
			words = slices.DeleteFunc(words, func(x string) bool { return x == w || valued && strings.HasPrefix(x, name+"=") })
		}
		if next := strings.Join(append(words, a.Words...), " "); !sameWords(strings.Fields(text), strings.Fields(next)) {
			return []byte(next + "\n")
		}
		return had
	}
	section, in := "", map[string]string{} // of each line, the section it stands in last
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "[") {
			section = l
		}
		in[l] = section
	}
	var missing []string
	want := section
	for _, l := range a.Lines {
		if strings.HasPrefix(l, "[") {
			want = l
			continue
		}
		if at, there := in[l]; !there || at != want && (at != "" || want != "[all]") {
			missing = append(missing, l)
		}
	}
	if len(missing) == 0 {
		return had
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if want != section && (section != "" || want != "[all]") {
		text += want + "\n"
	}
	return []byte(text + strings.Join(missing, "\n") + "\n")
}

func sameWords(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// edit changes a file as a whole, and gives the name of the copy of what was there.
func (m Mender) edit(a cards.Action) (string, error) {
	had, err := m.read(a.File)
	if err != nil {
		return "", err
	}
	next, at, kept := changed(had, a), m.at(a.File), ""
	mode := fs.FileMode(0o644)
	if st, err := os.Lstat(at); err == nil {
		mode = st.Mode().Perm()
		now := time.Now
		if m.Now != nil {
			now = m.Now
		}
		kept = a.File + ".axle-" + now().UTC().Format("20060102-150405")
		if err := writeNew(m.at(kept), had, mode); err != nil {
			return "", fmt.Errorf("a copy of %s: %w", a.File, err)
		}
	} else if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return "", err
	}
	part := at + ".axle-new"
	_ = os.Remove(part) // of a run that was cut off
	if err := writeNew(part, next, mode); err != nil {
		return kept, err
	}
	if err := os.Rename(part, at); err != nil {
		return kept, errors.Join(err, os.Remove(part))
	}
	return kept, nil
}

func writeNew(name string, b []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// unseen: a sign that a line of an error must not have.
func unseen(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }

// line is a command as one types it.
func line(argv []string, sudo bool) string {
	words := slices.Clone(argv)
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " |*[]'\"$\\") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	if sudo {
		words = append([]string{"sudo"}, words...)
	}
	return strings.Join(words, " ")
}

// commandLimit is how long one command may take: a driver that is built takes minutes.
const commandLimit = 20 * time.Minute

func runHere(ctx context.Context, argv []string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	cmd.WaitDelay = 5 * time.Second
	return cmd.CombinedOutput()
}
