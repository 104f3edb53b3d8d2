package access_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/server/access"
)

// Each key has one name, each name one key, each id one key: what cached text belongs to, and what
// the log says (promise T17). An error names the line and none of what is in it.
func TestKeysFile(t *testing.T) {
	//proves:T14
	//proves:T17
	for _, tt := range []struct{ text, want string }{
		{"alice: alice-secret-1\nbob: bob-secret-22\n", ""},
		{"# ours\n\n  alice:\talice-secret-1  \nbare-secret-22\n", ""},
		{"alice: alice-secret-1\nalice: other-secret-1\n", "line 2: the name is that of line 1"},
		{"key2: alice-secret-1\n#\nbare-secret-22\n", "line 3: the name is that of line 1"},
		{"bare-secret-22\nkey1: alice-secret-1\n", "line 2: the name is that of line 1"},
		{"alice: alice-secret-1\nbob: alice-secret-1\n", "line 2: the key is that of line 1"},
		{": alice-secret-1\n", "line 1: the name is empty"},
		{"bare:secret-22\n", "line 1: a colon without a space after it"},
		{"a:alice-secret-1\n", "line 1: a colon without a space after it"},
		{"alice: secret:bare-1\n", "line 1: a key holds no space and no colon"},
		{"alice: secret bare-1\n", "line 1: a key holds no space and no colon"},
		{"alice: secret\n", "line 1: the key is shorter than 8 characters"},
		{"alice:\n", "line 1: a colon without a space"},
		{"ok-secret-1\n" + strings.Repeat("secret", 20_000) + "\n", "token too long"},
		{"", "holds none"},

		{"bare=secret-22\n", ""}, // of a key itself
		{"a: alice-secret-1 role=ask requests=4 tokens=200000 pictures=10 id=0123456789abcdef\n", ""},
		{"alice-secret-1  role=admin\n", ""},
		{"a: alice-secret-1 role=secret\n", "line 1: a role is ask or admin"},
		{"a: alice-secret-1 role=anyone\n", "line 1: a role is ask or admin"},
		{"a: alice-secret-1 secret=1\n", "line 1: a setting that is not known"},
		{"a: alice-secret-1 role=ask role=ask\n", "line 1: role is there twice"},
		{"a: alice-secret-1 requests=0\n", "requests is a number from 1 to"},
		{"a: alice-secret-1 tokens=-1\n", "tokens is a number from 1 to"},
		{"a: alice-secret-1 pictures=1e3\n", "pictures is a number from 1 to"},
		{"a: alice-secret-1 sessions=0\n", "sessions is a number from 1 to"},
		{"a: alice-secret-1 tokens=1000000000001\n", "tokens is a number from 1 to 1000000000000"},
		{"a: alice-secret-1 id=secret\n", "an id is 16 to 64 letters"},
		{"a: alice-secret-1 id=0123456789abcde/\n", "an id is 16 to 64 letters"},
		{"a: alice-secret-1 id=0123456789abcdef\nb: bob-secret-12 id=0123456789abcdef\n", "line 2: the id is that of line 1"},
	} {
		file := write(t, tt.text)
		keys, err := access.Load(file)
		switch {
		case tt.want == "" && (err != nil || keys == nil):
			t.Errorf("%.80q: %v", tt.text, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(strings.ReplaceAll(err.Error(), file, ""), "secret")):
			t.Errorf("%.80q: got %v, want %s", tt.text, err, tt.want)
		}
	}
}

func TestSecretPrints(t *testing.T) {
	s := access.Secret("canary")
	j, err := json.Marshal(map[string]any{"k": s})
	if err != nil {
		t.Fatal(err)
	}
	if out := fmt.Sprintf("%v %+v %#v %s %q %x %d %t %c %v", s, s, s, s, s, s, s, s, s, struct{ K access.Secret }{s}) + s.String() +
		s.GoString() + string(j); strings.Contains(out, "canary") || strings.Contains(out, "63616e") {
		t.Errorf("a secret printed itself: %s", out)
	}
}

func TestLine(t *testing.T) {
	lines, err := access.Parse(strings.NewReader("alice-secret-1\n" +
		"bob smith: bob-secret-22 pictures=3  role=ask id=0123456789abcdef sessions=5 tokens=7 requests=2\n"))
	if err != nil || len(lines) != 2 {
		t.Fatal(lines, err)
	}
	for i, want := range []access.Line{
		{Name: "key1", Key: "alice-secret-1", Role: access.Admin}, // as before there were roles
		{Name: "bob smith", Key: "bob-secret-22", ID: "0123456789abcdef", Role: access.Ask,
			Limits: access.Limits{Requests: 2, Tokens: 7, Pictures: 3, Sessions: 5}},
	} {
		got := lines[i]
		got = access.Line{Name: got.Name, Key: got.Key, ID: got.ID, Role: got.Role, Limits: got.Limits}
		if !reflect.DeepEqual(got, want) || string(got.Key) != string(want.Key) {
			t.Errorf("line %d: %+v, want %+v", i+1, got, want)
		}
	}
}

// A key that is added has an id and the role that was asked for; what else stands in the file stays
// as it was, comments too.
func TestAddRemove(t *testing.T) {
	file := write(t, "# ours\nbare-secret-22\n\n# last, without an end")
	ann, err := access.Add(file, access.Line{Name: "ann", Role: access.Ask, Limits: access.Limits{Tokens: 9}})
	if err != nil {
		t.Fatal(err)
	}
	bob, err := access.Add(file, access.Line{Name: "bob", Role: access.Admin})
	if err != nil {
		t.Fatal(err)
	}
	if len(ann.Key) < 24 || ann.Key == bob.Key || ann.ID == bob.ID || len(ann.ID) < 16 {
		t.Errorf("the keys and ids are not random: %s %s, %d characters", ann.ID, bob.ID, len(ann.Key))
	}
	before := "# ours\nbare-secret-22\n\n# last, without an end\nann: " + string(ann.Key) + " id=" + ann.ID + " role=ask tokens=9\n"
	if got := text(t, file); got != before+"bob: "+string(bob.Key)+" id="+bob.ID+" role=admin\n" {
		t.Errorf("the file is\n%s", got)
	}
	for _, tt := range []struct {
		line access.Line
		want string
	}{
		{access.Line{Name: "ann", Role: access.Ask}, access.ErrNamed.Error()},
		{access.Line{Name: "key1", Role: access.Ask}, access.ErrNamed.Error()}, // the bare one
		{access.Line{Name: "", Role: access.Ask}, "a name is not empty"},
		{access.Line{Name: "a: b", Role: access.Ask}, "has no colon"},
		{access.Line{Name: "a\nb", Role: access.Ask}, "no line break"},
		{access.Line{Name: "#a", Role: access.Ask}, "does not begin with #"},
		{access.Line{Name: "carl"}, "a role is ask or admin"},
		{access.Line{Name: "carl", Role: access.Anyone}, "a role is ask or admin"},
		{access.Line{Name: "carl", Role: access.Ask, Limits: access.Limits{Tokens: -1}}, "a limit is a number"},
	} {
		if _, err := access.Add(file, tt.line); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("adding %+v: %v, want %s", tt.line, err, tt.want)
		}
	}
	if err := access.Remove(file, bob.ID); err != nil {
		t.Fatal(err)
	}
	if got := text(t, file); got != before {
		t.Errorf("after bob was removed the file is\n%s", got)
	}
	if err := access.Remove(file, "bob"); !errors.Is(err, access.ErrNoKey) {
		t.Errorf("removing what is not there: %v", err)
	}
	if err := errors.Join(access.Remove(file, "key1"), access.Remove(file, "ann")); err != nil {
		t.Fatal(err)
	}
	if got := text(t, file); got != "# ours\n\n# last, without an end\n" {
		t.Errorf("at last the file is\n%s", got)
	}
	st, err := os.Stat(file)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); err != nil || st.Mode().Perm() != 0o600 || len(left) != 1 {
		t.Errorf("mode %v, %v, files %v", st.Mode(), err, left)
	}
	fresh := filepath.Join(t.TempDir(), "keys")
	if _, err := access.Load(fresh); err == nil || !strings.Contains(err.Error(), "axle key add NAME --keys-file FILE makes it") {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := access.Add(fresh, access.Line{Name: "ann", Role: access.Ask}); err != nil {
		t.Error(err)
	}
	if _, err := access.Load(fresh); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(fresh, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := access.Add(fresh, access.Line{Name: "bob", Role: access.Ask}); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("adding to a file that others can read: %v", err)
	}
}

// Keys that are added at the same time are all there.
func TestAddAtOnce(t *testing.T) {
	file := write(t, "bare-secret-22\n")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := access.Add(link, access.Line{Name: fmt.Sprint("n", i), Role: access.Ask}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if k, err := access.Load(file); err != nil || k.Len() != 9 {
		t.Errorf("%v, %v", k, err)
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// write makes a file of keys, for its owner only.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
