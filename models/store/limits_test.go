package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestPullPlans: what is read of a repository to know what it is has a limit in all, and its
// licences too.
func TestPullPlans(t *testing.T) {
	lane.Slow(t)
	h := modelstest.NewHub()
	defer h.Close()
	files := map[string]modelstest.Content{}
	for i := range 400 {
		files[fmt.Sprintf("run_%d_axcl_aarch64.sh", i)] = modelstest.Noise{Seed: uint64(i), N: 1 << 20}
	}
	h.Add("x/scripts", files)
	licensed := modelstest.Big(2, 1000, 1)
	for i := range 50 {
		licensed[fmt.Sprintf("LICENSE-%d", i)] = bytes.NewReader([]byte(strings.Repeat(fmt.Sprint(i), 40<<10)))
	}
	h.Add("x/licensed", licensed)
	s := openStore(t)
	c := &hub.Client{Endpoints: []string{h.URL}}
	if err := s.Pull(context.Background(), "x/scripts", c, nil); !errors.Is(err, hub.ErrListing) ||
		!strings.Contains(err.Error(), "4 MiB") {
		t.Errorf("got %v", err)
	}
	if n := len(h.Requests()); n > 16 { // of four at a time
		t.Errorf("%d requests", n)
	}
	if err := s.Pull(context.Background(), "x/licensed", c, nil); err != nil {
		t.Fatal(err)
	}
	m, err := s.Get("x/licensed")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range m.License {
		n += len(l)
	}
	if n > maxLicenses || len(m.License) == 0 || len(m.License) > 16 {
		t.Errorf("%d licences of %d bytes", len(m.License), n)
	}
}

// TestPullQueue: three pulls work at once; a fourth says that it waits, may be given up, and gets
// its turn.
func TestPullQueue(t *testing.T) {
	//proves:T7
	h, c := bigHub(t, 2, 1000)
	s := openStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	for range maxPulls {
		leave, err := s.queue(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	var lines []string
	before := len(h.Requests())
	err := s.Pull(ctx, "axle/big", c, func(p Progress) {
		lines = append(lines, p.Status)
		if strings.HasPrefix(p.Status, "waiting") {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || len(h.Requests()) != before ||
		!strings.HasPrefix(lines[len(lines)-1], "waiting for one of 3 other pulls") {
		t.Errorf("%v after %q", err, lines)
	}
	var wg sync.WaitGroup
	s.pulls.Release(1) // one ends
	for range 5 {
		wg.Go(func() {
			if err := s.Pull(context.Background(), "axle/big", c, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	_ = s.pulls.Acquire(context.Background(), 1)
}

// TestPartialsApart: where the hub gives no hash, what is kept of a file is kept apart for each
// repository, commit, name and size.
func TestPartialsApart(t *testing.T) {
	seen := map[string]string{}
	for _, repo := range []string{"a/m", "b/m"} {
		for _, commit := range []string{"main", strings.Repeat("0", 40)} {
			for _, name := range []string{"config.json", "l0.axmodel"} {
				for _, size := range []int64{5, 6} {
					p := &pull{snap: &hub.Snapshot{Repo: repo, Commit: commit}}
					f := hub.File{Path: name, Size: size}
					key, what := p.partialName(f), fmt.Sprint(repo, commit, name, size)
					if other, ok := seen[key]; ok {
						t.Errorf("%s and %s are one", what, other)
					}
					if seen[key] = what; key != p.partialName(f) || !strings.HasPrefix(key, "blobs/git-") {
						t.Errorf("%s is %s", what, key)
					}
				}
			}
		}
	}
}
