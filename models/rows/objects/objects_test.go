package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"go.uber.org/goleak"

	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/prefix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStore: what one server put, another one gets: the same bytes. What is not there is told so,
// and no request lists the bucket.
func TestStore(t *testing.T) {
	b := newBucket(t)
	one, two := b.store(t, Options{}), b.store(t, Options{})
	for n := range 3 {
		if err := one.Put(t.Context(), name(n), fmt.Append(nil, "content ", n)); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for n := range 10 {
		names = append(names, name(n))
	}
	if n, err := two.Has(t.Context(), names); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	asked := b.asked.Load()
	if n, err := two.Has(t.Context(), names[5:]); n != 0 || err != nil || b.asked.Load() != asked+1 {
		t.Errorf("%d, %v after %d questions", n, err, b.asked.Load()-asked)
	}
	for n := range 3 {
		if data, err := two.Get(t.Context(), name(n), 100); err != nil || string(data) != fmt.Sprint("content ", n) {
			t.Errorf("%d: %q, %v", n, data, err)
		}
	}
	if _, err := two.Get(t.Context(), name(5), 100); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := two.Get(t.Context(), name(0), 5); err == nil || !strings.Contains(err.Error(), "9 bytes, 5 may be") {
		t.Errorf("more than may be: %v", err)
	}
	for _, bad := range []string{"", "secret", "../x", name(0) + "/x", "?list-type=2"} {
		asked := b.asked.Load()
		n, _ := two.Has(t.Context(), []string{bad})
		_, err := two.Get(t.Context(), bad, 100)
		if perr := two.Put(t.Context(), bad, []byte("x")); n != 0 || err == nil || perr == nil || b.asked.Load() != asked {
			t.Errorf("%q is asked for: %v, %v", bad, err, perr)
		}
	}
	if b.lists.Load() != 0 {
		t.Errorf("%d requests list the bucket", b.lists.Load())
	}
}

// TestSealedInBucket: a file goes through a bucket from one folder to another with the same secret.
// What is changed there is not taken in.
func TestSealedInBucket(t *testing.T) {
	//proves:G28
	b := newBucket(t)
	s := b.store(t, Options{})
	secret := bytes.Repeat([]byte("S"), 32)
	dir := ""
	folder := func() *rows.Disk {
		dir = filepath.Join(t.TempDir(), "rows")
		d, err := rows.Open(rows.Options{Dir: dir, Size: 1 << 20, Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	from := folder()
	owner := rows.Owner{Package: "p", Card: "soft", Row: 8}
	key := from.Space(owner).Keys(make([]int32, prefix.Shared))[0]
	if err := from.Space(owner).Save(key, bytes.Repeat([]byte{5}, prefix.Shared*owner.Row)); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "*", strings.Repeat("?", 64)))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q %v", found, err)
	}
	found[0], _ = filepath.Rel(dir, found[0])
	to := folder()
	data, err := from.Sealed(found[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, spoilt := range []bool{true, false} {
		sent := bytes.Clone(data)
		if spoilt {
			sent[len(sent)/2] ^= 1
		}
		if err := s.Put(t.Context(), found[0], sent); err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), found[0], rows.MaxSealed)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Accept(found[0], got); errors.Is(err, rows.ErrForged) != spoilt || !spoilt && err != nil {
			t.Errorf("spoilt %v: %v", spoilt, err)
		}
	}
	if to.Space(owner).Find(to.Space(owner).Keys(make([]int32, prefix.Shared))) != 1 {
		t.Error("it is not found")
	}
}

// TestDown: a store that fails is told of once, not asked for a while, and asked again.
func TestDown(t *testing.T) {
	b := newBucket(t)
	now := time.Now()
	var told []error
	s := b.store(t, Options{Told: func(err error) { told = append(told, err) }, Now: func() time.Time { return now }})
	b.down.Store(true)
	for range 3 {
		if n, err := s.Has(t.Context(), []string{name(0)}); n != 0 || err == nil {
			t.Errorf("%d, %v", n, err)
		}
		if err := s.Put(t.Context(), name(0), []byte("x")); err == nil {
			t.Error("it keeps something")
		}
	}
	if len(told) != 1 || told[0] == nil || b.asked.Load() != 1 {
		t.Errorf("told %v after %d requests", told, b.asked.Load())
	}
	b.down.Store(false)
	now = now.Add(6 * time.Second)
	if err := s.Put(t.Context(), name(0), []byte("x")); err != nil || len(told) != 2 || told[1] != nil {
		t.Errorf("%v, told %v", err, told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, name(0), 10); err == nil || len(told) != 2 {
		t.Errorf("who gives up does not blame the store: %v, told %v", err, told)
	}
	// A bucket that is not there is a mistake that has to be told.
	p := b.place
	p.Bucket = "nowhere"
	gone, err := Open(p, Options{keys: keys, Told: func(err error) { told = append(told, err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	if err := gone.Put(t.Context(), name(0), []byte("x")); err == nil || len(told) != 3 || !strings.Contains(told[2].Error(), "nowhere") {
		t.Errorf("%v, told %v", err, told)
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Place
		says string
	}{
		{"s3://rows", Place{"rows", "", "s3.amazonaws.com", "us-east-1", false}, ""},
		{"s3://rows/a/b/?endpoint=https://nas:3900&region=garage", Place{"rows", "a/b/", "nas:3900", "garage", false}, ""},
		{"s3://rows/?endpoint=http://10.0.0.2:9000", Place{"rows", "", "10.0.0.2:9000", "us-east-1", true}, ""},
		{"s3://rows?endpoint=nas", Place{"rows", "", "nas", "us-east-1", false}, ""},
		{"/srv/rows", Place{}, "no URL of s3"},
		{"s3://", Place{}, "no URL of s3"},
		{"s3://id:secret@rows", Place{}, "AWS_ACCESS_KEY_ID"},
		{"s3://rows?endpoint=ftp://x", Place{}, "endpoint"},
		{"s3://rows?endpoint=https://x/path", Place{}, "endpoint"},
		{"s3://rows?region=", Place{}, "region"},
		{"s3://rows?secret=x", Place{}, "nothing is called secret"},
		{"s3://rows?%zz", Place{}, "cannot be read"},
	} {
		p, err := Parse(tt.in)
		if p != tt.want || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %+v %v", tt.in, p, err)
		}
	}
}

// TestKeys: keys come from the environment or from a file, and a server without any does not start.
func TestKeys(t *testing.T) {
	for _, v := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_PROFILE"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	p, _ := Parse("s3://rows?endpoint=http://127.0.0.1:1")
	if _, err := Open(p, Options{}); err == nil || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("without keys: %v", err)
	}
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = a\naws_secret_access_key = b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}

var keys = credentials.NewStaticV4("id", "secret", "")

func name(n int) string { return strings.Repeat("0", 32) + fmt.Sprintf("/%064x", n) }

// bucket is a store in this process, with one bucket.
type bucket struct {
	place        Place
	asked, lists atomic.Int64
	down         atomic.Bool
}

func newBucket(t *testing.T) *bucket {
	t.Helper()
	fake := s3mem.New()
	if err := fake.CreateBucket("rows"); err != nil {
		t.Fatal(err)
	}
	b := &bucket{}
	h := gofakes3.New(fake, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		if r.Method == http.MethodGet && strings.Count(strings.Trim(r.URL.Path, "/"), "/") == 0 {
			b.lists.Add(1)
		}
		if b.down.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(ts.Close)
	p, err := Parse("s3://rows/axle?endpoint=" + ts.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.place = p
	return b
}

func (b *bucket) store(t *testing.T, o Options) *Store {
	t.Helper()
	o.keys = keys
	s, err := Open(b.place, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
