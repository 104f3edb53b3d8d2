package server

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Secret is a key. It prints as ***, whatever prints it.
type Secret string

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

// LoadKeys reads a file of keys, a line each: KEY, or NAME: KEY. Empty lines and lines that begin with # are skipped. The file must be
// readable by its owner only.
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
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, key, ok := strings.Cut(line, ":")
		if !ok {
			name, key = fmt.Sprintf("key%d", len(keys)+1), line
		}
		if key = strings.TrimSpace(key); len(key) < 8 {
			return nil, fmt.Errorf("server: keys: %s: key %d is shorter than 8 characters", path, len(keys)+1)
		}
		names, keys = append(names, strings.TrimSpace(name)), append(keys, Secret(key))
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("server: keys: %s holds none", path)
	}
	return NewKeys(names, keys), nil
}

// open are the paths that need no key: they tell nothing but that we are here.
var open = map[string]bool{"/": true, "/health": true, "/ui": true, "/ui/": true}

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
	return name, ok || open[r.URL.Path] && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

type keyName struct{}

func withKey(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, keyName{}, name)
}

// keyOf is the name of the key a request came with; cached text is shared only within one.
func keyOf(ctx context.Context) string {
	s, _ := ctx.Value(keyName{}).(string)
	return s
}
