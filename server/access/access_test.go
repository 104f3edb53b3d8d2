package access_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/server/access"
)

// What a key leaves behind is found by this key only, whatever is done to the file's lines (promise
// T17): a name, a place or a line without a name that passes to another key takes nothing with it,
// and a key that keeps its id keeps what is its.
func TestOwners(t *testing.T) {
	const ann, bob = "secret-of-ann", "secret-of-bob"
	const annID, bobID = " id=0123456789abcdef-ann", " id=0123456789abcdef-bob"
	for _, tt := range []struct {
		name, before, after string
		who, then           string // keys before and after
		same                bool
	}{
		{"a line of no name takes the place of one that is gone", ann + "\n" + bob + "\n", bob + "\n", ann, bob, false},
		{"it keeps what is its", ann + "\n" + bob + "\n", bob + "\n", bob, bob, true},
		{"a line of no name is replaced", ann + "\n", bob + "\n", ann, bob, false},
		{"a name passes to another key", "x: " + ann + "\n", "x: " + bob + "\n", ann, bob, false},
		{"a name is given to a line", ann + "\n", "x: " + ann + "\n", ann, ann, true},
		{"two names change places", "x: " + ann + "\ny: " + bob + "\n", "y: " + ann + "\nx: " + bob + "\n", ann, bob, false},
		{"a key is renewed under its id", "x: " + ann + annID + "\n", "x: " + bob + annID + "\n", ann, bob, true},
		{"a line with an id is renamed", "x: " + ann + annID + "\n", "y: " + ann + annID + "\n", ann, ann, true},
		{"a name passes to another id", "x: " + ann + annID + "\n", "x: " + bob + bobID + "\n", ann, bob, false},
		{"a key passes to another id", "x: " + ann + annID + "\n", "x: " + ann + bobID + "\n", ann, ann, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := write(t, tt.before)
			keys, err := access.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			before := of(keys, tt.who)
			if err := os.WriteFile(file, []byte(tt.after), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := keys.Reload(); err != nil {
				t.Fatal(err)
			}
			after := of(keys, tt.then)
			if before == nil || after == nil || before.Owner == "" || (before.Owner == after.Owner) != tt.same {
				t.Errorf("before %+v, after %+v", before, after)
			}
			for _, k := range []*access.Key{before, after} {
				if strings.Contains(k.Owner, ann) || strings.Contains(k.Owner, bob) {
					t.Errorf("the owner %s tells the key", k.Owner)
				}
			}
		})
	}
	// What a key is called cannot make it another's owner.
	keys := access.New(access.Line{Name: "a", Key: ann, Role: access.Ask})
	forged := access.New(access.Line{Name: "b", Key: bob, ID: strings.TrimPrefix(of(keys, ann).Owner, "key:"), Role: access.Ask})
	if of(forged, bob).Owner == of(keys, ann).Owner {
		t.Error("an id is another key's owner")
	}
}

// A file that cannot be read leaves the keys as they are; one that can takes keys away, adds others
// and changes roles, and what a key has used stays counted.
func TestReload(t *testing.T) {
	//proves:T6
	file := write(t, "ann: secret-of-ann\nbob: secret-of-bob role=ask\n")
	keys, err := access.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	of(keys, "secret-of-ann").Count(access.Tokens{Prompt: 7})
	end, err := of(keys, "secret-of-ann").Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "ann: short\n", "ann: secret-of-ann role=king\n"} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := keys.Reload(); err == nil || keys.Len() != 2 || of(keys, "secret-of-bob") == nil {
			t.Errorf("%q: %v, %d keys", bad, err, keys.Len())
		}
	}
	if err := os.WriteFile(file, []byte("carl: secret-of-carl\nann: secret-of-ann role=ask requests=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keys.Reload(); err != nil {
		t.Fatal(err)
	}
	ann := of(keys, "secret-of-ann")
	if of(keys, "secret-of-bob") != nil || of(keys, "secret-of-carl") == nil || ann == nil || ann.Role != access.Ask {
		t.Errorf("after the reload: %+v", ann)
	}
	if _, err := ann.Begin(); err == nil {
		t.Error("a request that began before the reload is not counted")
	}
	end()
	if used := keys.Used(ann); len(used) != 1 || used[0].Name != "ann" || used[0].Total.Prompt != 7 || used[0].Running != 0 {
		t.Errorf("%+v", used)
	}
	if used := keys.Used(of(keys, "secret-of-carl")); len(used) != 2 {
		t.Errorf("an admin sees %+v", used)
	}
}

// The limits of a key hold exactly, tell when to come again, and begin anew with the minute and the
// day.
func TestKeyLimits(t *testing.T) {
	//proves:T6
	synctest.Test(t, func(t *testing.T) {
		keys := access.New(access.Line{Name: "ann", Key: "secret-of-ann", Role: access.Ask,
			Limits: access.Limits{Requests: 2, Tokens: 100, Pictures: 6}}, access.Line{Name: "bob", Key: "secret-of-bob", Role: access.Ask})
		ann, bob := of(keys, "secret-of-ann"), of(keys, "secret-of-bob")
		refused := func(err error, text string, after time.Duration) {
			t.Helper()
			var le *access.LimitError
			if !errors.As(err, &le) || !strings.Contains(le.Text, text) || le.After != after {
				t.Errorf("got %+v, want %q after %v", err, text, after)
			}
		}
		begin := func(k *access.Key) func() {
			t.Helper()
			end, err := k.Begin()
			if err != nil {
				t.Fatal(err)
			}
			return end
		}
		one, two := begin(ann), begin(ann)
		_, err := ann.Begin()
		refused(err, "2 requests at work", time.Second)
		begin(bob)() // whom it does not concern
		if _, ok := ann.Beside(); ok {
			t.Error("a third beside two requests")
		}
		one()
		beside, ok := ann.Beside()
		if _, err := ann.Begin(); !ok || err == nil {
			t.Errorf("beside one request: %v, and then a request: %v", ok, err)
		}
		beside()
		one = begin(ann)
		one()
		two()
		if end, ok := (*access.Key)(nil).Beside(); !ok {
			t.Error("no place where there are no keys")
		} else {
			end()
		}

		ann.Count(access.Tokens{Prompt: 150, Cached: 90, Output: 39}) // 60 evaluated, 39 written
		begin(ann)()
		ann.Count(access.Tokens{Output: 1})
		now := time.Now()
		midnight := time.Date(now.Year(), now.Month(), now.Day()+1, 0, 0, 0, 0, now.Location())
		_, err = ann.Begin()
		refused(err, "today's 100 tokens", midnight.Sub(now))
		begin(bob)()
		time.Sleep(midnight.Sub(now) - time.Second)
		_, err = ann.Begin()
		refused(err, "today's 100 tokens", time.Second)
		time.Sleep(time.Second)
		begin(ann)()

		for _, n := range []int{4, 2, 0} {
			if err := ann.Pictures(n); err != nil {
				t.Errorf("%d pictures: %v", n, err)
			}
		}
		refused(ann.Pictures(1), "6 pictures a minute", 10*time.Second)
		refused(ann.Pictures(7), "has 7 pictures", 0)
		if err := bob.Pictures(100); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		refused(ann.Pictures(2), "6 pictures a minute", 10*time.Second)
		if err := ann.Pictures(1); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if err := ann.Pictures(6); err != nil {
			t.Error(err)
		}
		refused(ann.Pictures(6), "6 pictures a minute", time.Minute)
		used := keys.Used(nil)
		if len(used) != 2 || used[0].Refused != 8 || used[0].Total != (access.Tokens{Prompt: 150, Cached: 90, Output: 40}) ||
			used[0].Today != 0 || used[1].Refused != 0 {
			t.Errorf("%+v", used)
		}
	})
}

// A server without keys has one that may do everything, without limits.
func TestNoKeys(t *testing.T) {
	var k *access.Key
	end, err := k.Begin()
	if err != nil || !k.May(access.Admin) || k.Pictures(1000) != nil {
		t.Errorf("%v", err)
	}
	k.Count(access.Tokens{Prompt: 1})
	end()
	if (&access.Key{}).May(access.Anyone) {
		t.Error("a key without a role may do something")
	}
}

func of(k *access.Keys, key string) *access.Key {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	return k.Of(r)
}
