package monitor

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/pool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFits(t *testing.T) {
	for _, c := range []struct {
		need, free, total int64
		want              string
	}{{1, 1, 2, "now"}, {2, 1, 2, "alone"}, {3, 1, 2, "no"}, {0, 1, 2, "unknown"}, {1, 0, 0, "unknown"}} {
		if got := Fits(c.need, c.free, c.total); got != c.want {
			t.Errorf("%d of %d free, %d in all: %s, want %s", c.need, c.free, c.total, got, c.want)
		}
	}
}

// Who is whose, with keys and without.
func TestSame(t *testing.T) {
	//proves:T19
	who := func(key string, keyed bool, session string) Owner {
		o, err := OwnerOf(key, keyed, http.Header{Header: {session}})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	const one, two = "0123456789abcdef", "fedcba9876543210"
	for _, c := range []struct {
		a, b Owner
		want bool
	}{
		{who("", false, one), who("", false, one), true},
		{who("", false, one), who("", false, two), false},
		{who("", false, ""), who("", false, ""), false},
		{who("ann", true, one), who("ann", true, two), true},
		{who("ann", true, one), who("bob", true, one), false},
		{who("", true, one), who("", true, one), false},
	} {
		if c.a.Same(c.b) != c.want || c.b.Same(c.a) != c.want {
			t.Errorf("%+v and %+v: want %v", c.a, c.b, c.want)
		}
	}
	for _, bad := range []string{"short", strings.Repeat("x", 65), "0123456789abcde;", "0123456789abcdé"} {
		if _, err := OwnerOf("", false, http.Header{Header: {bad}}); !errors.Is(err, ErrSession) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A load is told with its file, its rate and what is left, is measured when all files are there,
// and is forgotten when no request waits for it.
func TestLoads(t *testing.T) {
	var l Loads
	wait := []pool.Pending{{Model: "a", Since: time.Now()}, {Model: "b", Since: time.Now(), Waiting: true}}
	l.Progress(ask.Progress{Model: "a", Total: 4, Of: 400, Needs: 500, Free: 900})
	if got := l.Of(wait)[0]; got.State != "loading" || got.Left != nil || got.Needs != 500 || got.Free != 900 {
		t.Errorf("at the beginning %+v", got)
	}
	l.Progress(ask.Progress{Model: "a", File: "l0", Done: 1, Total: 4, Bytes: 100, Of: 400, Elapsed: 2 * time.Second,
		Left: 6 * time.Second})
	l.Progress(ask.Progress{Model: "draft", Done: 1, Total: 1})
	got := l.Of(wait)
	if len(got) != 2 || got[0].State != "loading" || got[0].File != "l0" || got[0].Rate != 50 || *got[0].Left != 6 ||
		got[1].State != "waiting" || got[1].Left != nil {
		t.Fatalf("%+v", got)
	}
	l.Progress(ask.Progress{Model: "a", Done: 4, Total: 4, Bytes: 400, Of: 400, Elapsed: 8 * time.Second})
	if got = l.Of(wait); got[0].State != "measuring" {
		t.Errorf("%+v", got[0])
	}
	l.Of(nil)
	if got = l.Of(wait); got[0].Files != 0 {
		t.Errorf("a load of before is told of the next: %+v", got[0])
	}
}

// A result that cannot be saved is there all the same, with the reason; names that no file should
// have have files.
func TestResultsSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bench")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := NewBench(dir, nil)
	defer b.Close()
	if err := b.save(&Result{Model: "a"}); err == nil {
		t.Error("kept in a folder that is a file")
	}
	for _, name := range []string{"../../etc/passwd", "a/b:c", ".hidden", strings.Repeat("/", 300)} {
		if f := fileOf(name); strings.ContainsAny(f, "/\\:") || f[0] == '.' || len(f) > 255 {
			t.Errorf("%q is kept in %q", name, f)
		}
	}
	if fileOf("a:b") == fileOf("a_3ab") {
		t.Error("two models, one file")
	}
}

// A result that was told stays as it is when newer ones come: an answer may be encoding it.
func TestToldResults(t *testing.T) {
	b := NewBench("", nil)
	defer b.Close()
	keep := func(digest string) *Result {
		if err := b.keep(&Result{Model: "a", Digest: digest}); err != nil {
			t.Fatal(err)
		}
		_, _, told := b.Tell(Owner{})
		return told[0]
	}
	keep("1")
	second := keep("2")
	third := keep("3")
	if second.Last == nil || second.Last.Digest != "1" {
		t.Errorf("the second result's last one, after a third: %+v", second.Last)
	}
	if third.Last == nil || third.Last.Digest != "2" || third.Last.Last != nil {
		t.Errorf("the third result's last one: %+v", third.Last)
	}
}

// A nil stream takes everything: requests of the vendor's API have none.
func TestNoStream(t *testing.T) {
	st := Of(context.Background())
	st.Named("x")
	st.Loaded()
	st.Usage(ask.Usage{Output: 1})
}
