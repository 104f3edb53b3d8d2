package server

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// Secret is a key. It prints as ***, whatever prints it.
type Secret string

// Format hides the key from every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// String hides the key.
func (Secret) String() string { return "***" }

// GoString hides the key.
func (Secret) GoString() string { return "***" }

// MarshalText hides the key.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Keys are the bearer keys that may ask. A nil Keys lets everyone in.
type Keys struct {
	sums  [][sha256.Size]byte
	names []string
}

// NewKeys takes names and keys by turns of the same index.
func NewKeys(names []string, keys []Secret) *Keys {
	k := &Keys{names: names}
	for _, s := range keys {
		k.sums = append(k.sums, sha256.Sum256([]byte(s)))
	}
	return k
}

// LoadKeys reads a file of keys, a line each: KEY, or NAME: KEY. Empty lines and lines that begin with # are skipped; a key has 8
// characters or more and none of them is a space or a colon, a name is no other's. What a line without a name is called is its number among
// the keys: key3. The file must be readable by its owner only. Errors name the line and never what is in it.
func LoadKeys(path string) (*Keys, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("server: keys: %w", err)
	}
	if m := st.Mode().Perm(); m&0o077 != 0 {
		return nil, fmt.Errorf("server: keys: others can read %s (mode %#o): chmod 600 it", path, m)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("server: keys: %w", err)
	}
	defer f.Close()
	var names []string
	var keys []Secret
	named, sums := map[string]int{}, map[[sha256.Size]byte]int{} // and in which lines
	sc := bufio.NewScanner(f)
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		wrong := func(format string, args ...any) (*Keys, error) {
			return nil, fmt.Errorf("server: keys: %s, line %d: %w", path, n, fmt.Errorf(format, args...))
		}
		name, key, ok := strings.Cut(line, ":")
		// A colon that no space follows may be one of the key, whose first half would be in the log as a name.
		if ok && !strings.HasPrefix(key, " ") && !strings.HasPrefix(key, "\t") {
			return wrong("a colon without a space after it: a line is KEY or NAME: KEY, and there is no colon in a key")
		}
		if !ok {
			name, key = fmt.Sprintf("key%d", len(keys)+1), line
		}
		name, key = strings.TrimSpace(name), strings.TrimSpace(key)
		switch sum := sha256.Sum256([]byte(key)); {
		case name == "":
			return wrong("the name is empty")
		case len(key) < 8:
			return wrong("the key is shorter than 8 characters")
		case strings.ContainsAny(key, ": \t"):
			return wrong("a key holds no space and no colon")
		case named[name] > 0:
			return wrong("the name is that of line %d; a line without a name is called by its number", named[name])
		case sums[sum] > 0:
			return wrong("the key is that of line %d", sums[sum])
		default:
			named[name], sums[sum] = n, n
		}
		names, keys = append(names, name), append(keys, Secret(key))
	}
	if err := sc.Err(); err != nil { // half of the keys would be worse than none
		return nil, fmt.Errorf("server: keys: %s: %w", path, err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("server: keys: %s holds none", path)
	}
	return NewKeys(names, keys), nil
}

// open are the paths that need no key: they tell nothing but that we are here. The files of the page are the same for everyone.
func open(path string) bool {
	return path == "/" || path == "/health" || path == "/ui" || strings.HasPrefix(path, "/ui/") && !strings.Contains(path, "..")
}

// Check compares the request's key with each of ours, all of them and in constant time. name is the key's name.
func (k *Keys) Check(r *http.Request) (name string, ok bool) {
	if k == nil {
		return "", true
	}
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		given = r.Header.Get("X-Api-Key")
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
	for i := range k.sums {
		if subtle.ConstantTimeCompare(sum[:], k.sums[i][:]) == 1 {
			name, ok = k.names[i], true
		}
	}
	return name, ok || open(r.URL.Path) && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}
