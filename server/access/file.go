package access

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	_ "github.com/axle-llm/axle/internal/plain" // says which machines this cannot be built for
	"github.com/axle-llm/axle/internal/regular"
)

// Line is a key as a file has it.
type Line struct {
	Name   string
	Key    Secret
	ID     string // what belongs to the key belongs to it; "": to the key itself
	Role   Role   // Admin where the line says none, as keys were before there were roles
	Limits Limits
	MCP    string // servers whose tools it may have run, with commas between; "*": all, "none": none, "": what its role may
	at     int    // the line's number
}

// MaxLimit is the most that any limit of a key may be.
const MaxLimit = 1_000_000_000_000

// The settings that may follow a key.
const settings = "id, role, requests, tokens, pictures, sessions and mcp"

// Parse reads a file of keys, a line each: KEY, or NAME: KEY. After the key settings may follow,
// with spaces before them, in any order:
//
//	id=ID         16 to 64 letters, digits, - and _: what belongs to the key belongs to this ID, also when the name or the key changes
//	role=ROLE     ask or admin; without it admin
//	requests=N    at most N requests at once
//	tokens=N      at most N tokens a day, evaluated and written
//	pictures=N    at most N pictures a minute
//	sessions=N    at most N sessions of the Realtime API at once
//	mcp=A,B       may have tools of these MCP servers run; * is all, none is none; without it admin may all, and ask none
//
// Empty lines and lines that begin with # are skipped; a key has 8 characters or more and none of
// them is a space or a colon; no name, key or id is another's. What a line without a name is called
// is its number among the keys: key3. Errors name the line and never what is in it.
func Parse(file io.Reader) (lines []Line, err error) {
	names, ids, sums := map[string]int{}, map[string]int{}, map[[sha256.Size]byte]int{} // and in which lines
	sc := bufio.NewScanner(file)
	for n := 1; sc.Scan(); n++ {
		text := strings.TrimSpace(sc.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		l, err := parseLine(text, len(lines)+1)
		sum := sha256.Sum256([]byte(l.Key))
		switch {
		case err != nil:
		case names[l.Name] > 0:
			err = fmt.Errorf("the name is that of line %d; a line without a name is called by its number", names[l.Name])
		case sums[sum] > 0:
			err = fmt.Errorf("the key is that of line %d", sums[sum])
		case ids[l.ID] > 0:
			err = fmt.Errorf("the id is that of line %d: an id belongs to one key", ids[l.ID])
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		names[l.Name], sums[sum] = n, n
		if l.ID != "" {
			ids[l.ID] = n
		}
		l.at = n
		lines = append(lines, l)
	}
	return lines, sc.Err() // half of the keys would be worse than none
}

// parseLine reads a line that is the nth key.
func parseLine(text string, nth int) (l Line, err error) {
	name, rest, named := strings.Cut(text, ":")
	// A colon that no space follows may be one of the key, whose first half would be in the log as
	// a name.
	if named && !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "\t") {
		return l, errors.New("a colon without a space after it: a line is KEY or NAME: KEY, and there is no colon in a key")
	}
	if !named {
		name, rest = fmt.Sprintf("key%d", nth), text
	}
	l.Name, l.Role = strings.TrimSpace(name), Admin
	words := strings.Fields(rest)
	switch {
	case l.Name == "":
		return l, errors.New("the name is empty")
	case strings.Contains(rest, ":"),
		slices.ContainsFunc(words[min(1, len(words)):], func(w string) bool { return !strings.Contains(w, "=") }):
		return l, errors.New("a key holds no space and no colon; what follows it is " + settings + ", each with = and its value")
	case len(words) == 0 || len(words[0]) < 8:
		return l, errors.New("the key is shorter than 8 characters")
	}
	l.Key = Secret(words[0])
	seen := map[string]bool{}
	for _, w := range words[1:] {
		what, value, _ := strings.Cut(w, "=")
		if err := l.set(what, value); err != nil {
			return l, err
		}
		if seen[what] {
			return l, fmt.Errorf("%s is there twice", what)
		}
		seen[what] = true
	}
	return l, nil
}

// set takes a setting. An unknown one may be a part of a key: it is not told.
func (l *Line) set(what, value string) (err error) {
	number := func(to *int64) {
		if *to, err = strconv.ParseInt(value, 10, 64); err != nil || *to < 1 || *to > MaxLimit {
			err = fmt.Errorf("%s is a number from 1 to %d; without it there is no limit", what, int64(MaxLimit))
		}
	}
	switch what {
	case "id":
		if l.ID = value; !soundID(value) {
			err = errors.New("an id is 16 to 64 letters, digits, - and _")
		}
	case "role":
		l.Role, err = ParseRole(value)
	case "requests":
		number(&l.Limits.Requests)
	case "tokens":
		number(&l.Limits.Tokens)
	case "pictures":
		number(&l.Limits.Pictures)
	case "sessions":
		number(&l.Limits.Sessions)
	case "mcp":
		l.MCP, err = value, soundServers(value)
	default:
		err = errors.New("a setting that is not known: after a key stand " + settings)
	}
	return err
}

// soundServers checks a list of names of servers.
func soundServers(v string) error {
	for name := range strings.SplitSeq(v, ",") {
		odd := func(r rune) bool { return r > 127 || !letter(byte(r)) }
		if name == "" || len(name) > 64 || v != "*" && strings.ContainsFunc(name, odd) {
			return errors.New("mcp is names of tool servers with commas between, * or none")
		}
	}
	return nil
}

func letter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func soundID(id string) bool {
	for _, c := range []byte(id) {
		if !letter(c) {
			return false
		}
	}
	return len(id) >= 16 && len(id) <= 64
}

// Read reads the file at path. One that holds no key, or that others can read, is an error.
func Read(path string) ([]Line, error) {
	b, err := private(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("server: keys: %w: axle key add NAME --keys-file FILE makes it", err)
	}
	if err != nil {
		return nil, fmt.Errorf("server: keys: %w", err)
	}
	lines, err := Parse(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("server: keys: %s, %w", path, err)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("server: keys: %s holds none: axle key add makes one", path)
	}
	return lines, nil
}

// private reads a file that only its owner may.
func private(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	//rule:T18 ./server TestKeys false
	if err := regular.Private(path, st); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Errors of changes to a file of keys.
var (
	ErrNamed = errors.New("a key of this name is there already")
	ErrNoKey = errors.New("no key of this name or id is there")
)

// Add makes a key for l, with an id, and appends it to the file at path, which is made where it is
// not there. The name is l's; its Key and ID are not looked at. Errors: ErrNamed, one of the file's
// form, the disk's.
func Add(path string, l Line) (Line, error) {
	l.Name, l.Key, l.ID = strings.TrimSpace(l.Name), Secret("axle-"+rand.Text()), rand.Text()
	switch {
	case l.Name == "", strings.ContainsAny(l.Name, ":\n\r"), strings.HasPrefix(l.Name, "#"):
		return l, errors.New("server: keys: a name is not empty, has no colon and no line break, and does not begin with #")
	case l.Role != Ask && l.Role != Admin:
		return l, errors.New("server: keys: a role is ask or admin")
	}
	if err := soundServers(l.MCP); l.MCP != "" && err != nil {
		return l, fmt.Errorf("server: keys: %w", err)
	}
	for _, n := range []int64{l.Limits.Requests, l.Limits.Tokens, l.Limits.Pictures, l.Limits.Sessions} {
		if n < 0 || n > MaxLimit {
			return l, fmt.Errorf("server: keys: a limit is a number from 1 to %d; 0 is none", int64(MaxLimit))
		}
	}
	err := change(path, true, func(old []byte, lines []Line) ([]byte, error) {
		for _, had := range lines {
			if had.Name == l.Name {
				return nil, ErrNamed
			}
		}
		if len(old) > 0 && old[len(old)-1] != '\n' {
			old = append(old, '\n')
		}
		next := append(old, l.text()...)
		_, err := Parse(bytes.NewReader(next)) // a name such as key2, which another line has by its number
		return next, err
	})
	return l, err
}

// text is the line as a file has it.
func (l Line) text() string {
	s := fmt.Sprintf("%s: %s id=%s role=%s", l.Name, string(l.Key), l.ID, l.Role)
	for _, v := range []struct {
		what string
		n    int64
	}{{"requests", l.Limits.Requests}, {"tokens", l.Limits.Tokens}, {"pictures", l.Limits.Pictures}, {"sessions", l.Limits.Sessions}} {
		if v.n > 0 {
			s += fmt.Sprintf(" %s=%d", v.what, v.n)
		}
	}
	if l.MCP != "" {
		s += " mcp=" + l.MCP
	}
	return s + "\n"
}

// Remove takes the key of that name or id out of the file at path. Errors: ErrNoKey, one of the
// file's form, the disk's.
func Remove(path, which string) error {
	return change(path, false, func(old []byte, lines []Line) ([]byte, error) {
		for _, l := range lines {
			if l.Name == which || l.ID != "" && l.ID == which {
				all := bytes.SplitAfter(old, []byte("\n"))
				return bytes.Join(append(all[:l.at-1:l.at-1], all[l.at:]...), nil), nil
			}
		}
		return nil, ErrNoKey
	})
}

// change replaces a file of keys by what f makes of it: whole or not at all, for its owner only,
// and one change at a time.
func change(path string, create bool, f func(old []byte, lines []Line) ([]byte, error)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("server: keys: %s: %w", path, err)
		}
	}()
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // or the new file would take the link's place
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	old, err := private(path)
	if err != nil && !(create && errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	var owner *syscall.Stat_t
	if st, serr := os.Stat(path); serr == nil {
		owner, _ = st.Sys().(*syscall.Stat_t)
	}
	lines, err := Parse(bytes.NewReader(old))
	if err != nil {
		return err
	}
	next, err := f(old, lines)
	if err != nil {
		return err
	}
	err = regular.Replace(path, 0o600, next, func(temp *os.File) error {
		if owner == nil || int(owner.Uid) == os.Geteuid() {
			return nil
		}
		return temp.Chown(int(owner.Uid), int(owner.Gid)) // root's change of a service's file
	})
	if err != nil {
		return err
	}
	return dir.Sync()
}
