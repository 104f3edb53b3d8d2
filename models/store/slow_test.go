package store

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// A client that listens to a pull may be slow, or stop for good: the pull goes on, and other
// clients that wait for it have its model. What is told then is in order and short.
func TestSlowListener(t *testing.T) {
	//proves:T8
	_, c := testHub(t)
	c.Part = 1 << 10 // many steps to tell of
	d := &named{newMemDisk(), make(chan string, 2)}
	s, err := Open(Options{Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var told []Progress
	err = s.Pull(ctx, "axle/one", c, func(p Progress) {
		if told = append(told, p); len(told) > 1 {
			return
		}
		select { // not before the model is there, and somebody else has pulled it too
		case <-d.got:
		case <-time.After(time.Minute):
			t.Error("the pull waits for its listener")
			return
		}
		if err := s.Pull(ctx, "axle/one", c, nil); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines, files []string
	for _, p := range told {
		if p.Digest == "" {
			lines = append(lines, p.Status)
			continue
		}
		if slices.Contains(files, p.Digest) || p.Completed != p.Total {
			t.Errorf("%+v was told when all was over", p)
		}
		files = append(files, p.Digest)
	}
	if want := []string{"pulling manifest", "verifying sha256 digest", "writing manifest", "success"}; !slices.Equal(lines, want) ||
		len(files) < 3 {
		t.Errorf("%q, of %d files", lines, len(files))
	}
	if told[0].Status != "pulling manifest" || told[len(told)-1].Status != "success" {
		t.Errorf("in the order of %+v", told)
	}
}

// named tells when a manifest has got its name.
type named struct {
	*memDisk
	got chan string
}

func (d *named) Rename(old, new string) error {
	err := d.memDisk.Rename(old, new)
	if err == nil && strings.HasPrefix(new, "manifests/") {
		d.got <- new
	}
	return err
}

// A listener that ends its goroutine, as a test or a handler does, ends the pull.
func TestListenerGone(t *testing.T) {
	_, c := testHub(t)
	s, err := Open(Options{Disk: newMemDisk()})
	if err != nil {
		t.Fatal(err)
	}
	var said any
	func() {
		defer func() { said = recover() }()
		_ = s.Pull(context.Background(), "axle/one", c, func(Progress) { panic("gone") })
	}()
	if said != "gone" {
		t.Errorf("%v", said)
	}
	if err := s.Pull(context.Background(), "axle/one", c, nil); err != nil {
		t.Fatal(err)
	}
}
