// Package access is who may ask a server, what, and how much of it: the file of keys, the roles
// that keys have, and what each key has used.
//
// What a key leaves behind (rows in the cache and on disk, conversations, items of answers) belongs
// to its [Key.Owner] and never to its name or its line in the file, which may be another's
// tomorrow.
//
// [Keys] may be used from any goroutine. Nothing has to be closed.
package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/axle-llm/axle/internal/ranked"
)

// Secret is a key. It prints as ***, whatever prints it.
type Secret string

// Format hides the key from every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// String hides the key.
func (s Secret) String() string {
	//rule:T14 TestSecretPrints "***" => string(s)
	return "***"
}

// GoString hides the key.
func (Secret) GoString() string { return "***" }

// MarshalText hides the key.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// Role is what a key may do. The zero Role is none, so that what was given no role by mistake lets
// no client in.
type Role int

// The roles. Each may do what the one before it may.
const (
	Anyone Role = iota + 1 // without a key
	Ask                    // asks models, and sees what runs
	Admin                  // fetches, makes, deletes and unloads models, measures, and sees system prompts
)

func (r Role) String() string {
	switch r {
	case Anyone:
		return "anyone"
	case Ask:
		return "ask"
	case Admin:
		return "admin"
	}
	return fmt.Sprintf("role %d", int(r))
}

// ParseRole reads the role of a key: ask or admin.
func ParseRole(s string) (Role, error) {
	for _, r := range []Role{Ask, Admin} {
		if s == r.String() {
			return r, nil
		}
	}
	return 0, errors.New("a role is ask or admin")
}

// Key is a key that a request came with. A nil Key is that of a server without keys: it may do
// everything.
type Key struct {
	Name   string // for people: in logs and figures
	Owner  string // what belongs to the key belongs to this; never shown
	Role   Role
	Limits Limits
	MCP    string // as in Line
	use    *use
}

// Own is the key of clients that cannot send one: all of them are one client, which may ask. No key
// of a file has its owner.
func Own(name string) *Key { return &Key{Name: name, Owner: "own:" + name, Role: Ask, use: new(use)} }

// May reports whether the key has the role.
func (k *Key) May(r Role) bool { return k == nil || k.Role >= r }

// Runs reports whether the key may have tools of an MCP server run. A key whose line says nothing
// about that may where it is an admin's.
func (k *Key) Runs(server string) bool {
	switch {
	case k == nil:
		return true
	case k.MCP == "":
		return k.Role >= Admin
	case k.MCP == "*":
		return true
	}
	//rule:T22 ./server TestToolsRoles slices.Contains(strings.Split(k.MCP, ","), server) => true
	return k.MCP != "none" && slices.Contains(strings.Split(k.MCP, ","), server)
}

// owner is what a line's things belong to: its id, or without one what only the key itself gives.
func owner(l Line) string {
	if l.ID != "" {
		return "id:" + l.ID
	}
	//rule:T17 TestOwners l.Key => l.Name
	h := hmac.New(sha256.New, []byte(l.Key))
	_, _ = io.WriteString(h, "axle: the owner of what this key leaves behind")
	return "key:" + hex.EncodeToString(h.Sum(nil))
}

// ring is what a file of keys says.
type ring struct {
	keys []*Key
	sums [][sha256.Size]byte
}

// Keys are the keys that may ask.
type Keys struct {
	path string
	ring atomic.Pointer[ring]
	mu   ranked.Mutex[ranked.Uses]
	uses map[string]*use // by owner
}

// Load reads a file of keys, whose form is [Parse]'s. The file must be readable by its owner only.
// Errors name the line and never what is in it.
func Load(path string) (*Keys, error) {
	lines, err := Read(path)
	if err != nil {
		return nil, err
	}
	k := &Keys{path: path, uses: map[string]*use{}}
	k.set(lines)
	return k, nil
}

// New makes keys of lines, for a server without a file.
func New(lines ...Line) *Keys {
	k := &Keys{uses: map[string]*use{}}
	k.set(lines)
	return k
}

// Reload reads the file again. Where that fails the keys stay as they are. What a key had used
// stays counted; requests that came with a key that is gone may end.
func (k *Keys) Reload() error {
	lines, err := Read(k.path)
	if err != nil {
		return err
	}
	k.set(lines)
	return nil
}

// Len is how many keys there are.
func (k *Keys) Len() int { return len(k.ring.Load().keys) }

func (k *Keys) set(lines []Line) {
	r := new(ring)
	k.mu.Lock()
	defer k.mu.Unlock()
	uses := map[string]*use{}
	for _, l := range lines {
		key := &Key{Name: l.Name, Owner: owner(l), Role: l.Role, Limits: l.Limits, MCP: l.MCP}
		if key.use = k.uses[key.Owner]; key.use == nil {
			key.use = new(use)
		}
		uses[key.Owner] = key.use
		r.keys, r.sums = append(r.keys, key), append(r.sums, sha256.Sum256([]byte(l.Key)))
	}
	k.uses = uses
	k.ring.Store(r)
}

// Of compares the request's key with each of ours, all of them and in constant time. It is nil
// where the request has none of them.
func (k *Keys) Of(r *http.Request) *Key { return k.Find(given(r.Header)) }

// Find is Of for a key that came elsewhere than in a header.
func (k *Keys) Find(secret string) (found *Key) {
	sum := sha256.Sum256([]byte(strings.TrimSpace(secret)))
	all := k.ring.Load()
	for i := range all.sums {
		if subtle.ConstantTimeCompare(sum[:], all.sums[i][:]) == 1 {
			found = all.keys[i]
		}
	}
	return found
}

// protocol is what stands before a key among the protocols of a WebSocket: a page cannot set
// headers of one. OpenAI's clients in browsers do so.
const protocol = "openai-insecure-api-key."

// given is the key that a request came with; "": it came with none.
func given(h http.Header) string {
	if key, bearer := strings.CutPrefix(h.Get("Authorization"), "Bearer "); bearer {
		return key
	}
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}
	for _, all := range h.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(all, ",") {
			if key, found := strings.CutPrefix(strings.TrimSpace(p), protocol); found {
				return key
			}
		}
	}
	return ""
}
