package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/modelstest"
)

// G9: whatever a power cut leaves, at 1,000 random points of a store's life, manifests name only
// whole blobs.
func TestCrashImages(t *testing.T) {
	_, c := testHub(t)
	d := newMemDisk()
	d.keep = true
	s, err := Open(Options{Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	if err := life(s, c); err != nil {
		t.Fatal(err)
	}
	if err := whole(d); err != nil {
		t.Fatal("before any crash: ", err)
	}
	seen, images := 0, uint64(1000)
	if lane.Race {
		images = 100
	}
	for i := range images {
		r := rand.New(rand.NewPCG(i, 1))
		img := d.crash(r.IntN(len(d.log)+1), anyLuck(r))
		if err := whole(img); err != nil {
			t.Fatalf("image %d: %v", i, err)
		}
		s, err := Open(Options{Disk: img})
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.List(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			p, err := m.Open()
			if err != nil {
				t.Fatalf("image %d: %s is listed and does not open: %v", i, m.Name, err)
			}
			p.Close()
			seen++
		}
	}
	if seen < int(images)/2 {
		t.Errorf("only %d models in %d images: they are too empty to show anything", seen, images)
	}
	// The other way round: without the syncs the images must be bad, else this test could not fail.
	bad := 0
	log := d.log
	d.log = nil
	for _, e := range log {
		if e.kind != 's' && e.kind != 'D' {
			d.log = append(d.log, e)
		}
	}
	for i := range uint64(200) {
		r := rand.New(rand.NewPCG(i, 2))
		if whole(d.crash(r.IntN(len(d.log)+1), anyLuck(r))) != nil {
			bad++
		}
	}
	if bad == 0 {
		t.Error("images without any sync are whole too")
	}
}

// whole fails if a manifest on the disk does not parse, or names a blob that is missing, short or
// not what its name says (promises D13, G9).
func whole(d *memDisk) error {
	s, err := Open(Options{Disk: d})
	if err != nil {
		return err
	}
	paths, err := s.manifests()
	if err != nil {
		return err
	}
	for _, p := range paths {
		data, err := readAll(d, p, maxManifest)
		if err != nil {
			return err
		}
		m, _, err := parseManifest(data)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		for _, l := range m.Layers {
			blob, err := readAll(d, blobPath(l), 1<<30)
			if err != nil {
				return fmt.Errorf("%s names %s (%s): %w", p, l.Digest.Short(), l.Name, err)
			}
			if int64(len(blob)) != l.Size || sum(blob) != l.Digest {
				return fmt.Errorf("%s names %s (%s) of %d bytes, which is rotten: %d bytes", p, l.Digest.Short(), l.Name, l.Size, len(blob))
			}
		}
	}
	return nil
}

func (d *memDisk) clone() *memDisk {
	out := newMemDisk()
	for n, i := range d.names {
		out.names[n] = i
	}
	for _, i := range d.inodes {
		out.inodes = append(out.inodes, &inode{data: bytes.Clone(i.data), time: i.time})
	}
	return out
}

// life does everything a store is asked to do.
func life(s *Store, c *hub.Client) error {
	ctx := context.Background()
	pull := func(name string) error { return s.Pull(ctx, name, c, nil) }
	if err := pull("axle/one"); err != nil {
		return err
	}
	system, template := "Be brief.", "{{ .Prompt }}"
	if err := s.Create(ctx, CreateRequest{Name: "derived", From: "axle/one", System: &system, Params: map[string]any{"temperature": 0.1}},
		nil); err != nil {
		return err
	}
	if err := s.Create(ctx, CreateRequest{Name: "derived", From: "derived", Template: &template, License: []string{"MIT"}},
		nil); err != nil {
		return err
	}
	if err := s.Copy("derived", "other:tag"); err != nil {
		return err
	}
	if err := pull("axle/two"); err != nil {
		return err
	}
	blob := []byte("a blob by itself")
	if _, err := s.PutBlob(ctx, sum(blob), bytes.NewReader(blob)); err != nil {
		return err
	}
	if err := s.Delete("axle/one"); err != nil {
		return err
	}
	if err := s.Delete("derived"); err != nil {
		return err
	}
	if _, err := s.Prune(0); err != nil {
		return err
	}
	if err := s.Delete("other:tag"); err != nil {
		return err
	}
	return pull("axle/one")
}

// testHub serves two small packages, without sockets.
func testHub(t testing.TB) (*modelstest.Hub, *hub.Client) {
	t.Helper()
	h := modelstest.NewHub()
	t.Cleanup(h.Close)
	for repo, layout := range map[string]string{"axle/one": "A", "axle/two": "C"} {
		dir := t.TempDir()
		if err := modelstest.Write(dir, layout); err != nil {
			t.Fatal(err)
		}
		if repo == "axle/two" { // another table, so that the two share layers only
			table := dir + "/qwen3-0.1b-ax650/model.embed_tokens.weight.bfloat16.bin"
			data, err := os.ReadFile(table)
			if err != nil {
				t.Fatal(err)
			}
			data[100] ^= 1
			if err := os.WriteFile(table, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(dir+"/LICENSE", []byte("Apache-2.0"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := h.AddDir(repo, dir); err != nil {
			t.Fatal(err)
		}
	}
	return h, &hub.Client{Endpoints: []string{h.URL}, Backoff: time.Millisecond, Part: 8 << 10, Transport: h.Transport()}
}

// lasting fails if some image of a power cut now is not whole, or lists other models than these;
// with none named it asks only for wholeness.
func lasting(d *memDisk, seed uint64, want ...string) error {
	d.mu.Lock()
	n := len(d.log)
	d.mu.Unlock()
	for i, l := range append(worst(), anyLuck(rand.New(rand.NewPCG(seed, 3)))) {
		img := d.crash(n, l)
		if err := whole(img); err != nil {
			return fmt.Errorf("after a power cut (%d): %w", i, err)
		}
		if len(want) == 0 {
			continue
		}
		s, err := Open(Options{Disk: img})
		if err != nil {
			return err
		}
		list, err := s.List(context.Background())
		if err != nil {
			return err
		}
		var have []string
		for _, m := range list {
			have = append(have, m.Name.String())
		}
		slices.Sort(have)
		if !slices.Equal(have, want) {
			return fmt.Errorf("after a power cut (%d): the store has %q, want %q", i, have, want)
		}
	}
	return nil
}

// A disk error at every single write, sync, rename, create and remove: it surfaces, or what was
// asked for is there whole, also after a power cut. Nothing visible is damaged, and the same work
// succeeds afterwards on what is left, to last.
func TestDiskErrors(t *testing.T) {
	//proves:D11
	//proves:G9 every kind of error at every operation, then power cuts
	lane.Slow(t)
	lane.NoRace(t)
	_, c := testHub(t)
	old := debug.SetGCPercent(400) // three thousand small disks
	t.Cleanup(func() { debug.SetGCPercent(old) })
	for _, fault := range []struct {
		err    error
		sticky bool
	}{{syscall.EIO, false}, {syscall.ENOSPC, true}, {syscall.EROFS, true}} {
		t.Run(fault.err.Error(), func(t *testing.T) {
			t.Parallel()
			step := 1
			if lane.Race {
				step = 9
			}
			surfaced := 0
			for at := 1; ; at += step {
				d := newMemDisk()
				d.keep = true
				s, err := Open(Options{Disk: d})
				if err != nil {
					t.Fatal(err)
				}
				d.failAt, d.fail, d.sticky = at, fault.err, fault.sticky
				err = life(s, c)
				if !d.fired {
					if err != nil {
						t.Fatalf("operation %d: no fault, and %v", at, err)
					}
					break
				}
				seed := uint64(at)
				if err != nil {
					surfaced++
					if !errors.Is(err, fault.err) {
						t.Fatalf("operation %d: %v does not say %v", at, err, fault.err)
					}
					if err := lasting(d, seed); err != nil {
						t.Fatalf("operation %d: %v", at, err)
					}
				} else if err := lasting(d, seed, "axle/one:latest", "axle/two:latest"); err != nil {
					// A swallowed fault may cost only what is not needed: state of a download, a
					// file left over, an empty folder.
					t.Fatalf("operation %d failed without an error: %v", at, err)
				}
				d.mu.Lock()
				d.failAt = 0
				d.mu.Unlock()
				if err := whole(d); err != nil {
					t.Fatalf("operation %d: %v", at, err)
				}
				if err := s.Pull(context.Background(), "axle/one", c, nil); err != nil {
					t.Fatalf("operation %d: not healed: %v", at, err)
				}
				if _, err := s.Prune(0); err != nil {
					t.Fatalf("operation %d: %v", at, err)
				}
				for _, name := range []string{"derived", "other:tag", "axle/two"} {
					if err := s.Delete(name); err != nil && !errors.Is(err, ErrNotFound) {
						t.Fatalf("operation %d: %v", at, err)
					}
				}
				if err := whole(d); err != nil {
					t.Fatalf("operation %d, after healing: %v", at, err)
				}
				if err := lasting(d, seed, "axle/one:latest"); err != nil {
					t.Fatalf("operation %d, after healing: %v", at, err)
				}
			}
			if surfaced < 20/step {
				t.Errorf("only %d faults surfaced", surfaced)
			}
		})
	}
}

// D11: a disk that fills up during a pull. The error names the file, what came stays and is used,
// nothing is visible.
func TestDiskFull(t *testing.T) {
	//proves:D11
	h := modelstest.NewHub()
	defer h.Close()
	h.Add("axle/big", modelstest.Big(2, 1<<20, 1))
	c := &hub.Client{Endpoints: []string{h.URL}, Backoff: time.Millisecond, Part: 64 << 10, Transport: h.Transport()}
	d := newMemDisk()
	s, err := Open(Options{Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	room := 5 << 19 // bytes of data, of 3.7 million
	d.refuse = func(name string, n int, grows bool) error {
		if strings.HasSuffix(name, "-partial") && !grows { // the file is sparse: every write takes room
			if room -= n; room > 0 {
				return nil
			}
		}
		if room > 0 || !grows && !strings.HasSuffix(name, "-partial") {
			return nil
		}
		return syscall.ENOSPC
	}
	err = s.Pull(ctx, "axle/big", c, nil)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "/memory/blobs/") ||
		!strings.Contains(err.Error(), "stays for resuming") {
		t.Fatalf("%v", err)
	}
	if list, err := s.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("visible: %v, %v", list, err)
	}
	again := 0 // bytes written once the disk has room
	d.refuse = func(name string, n int, grows bool) error {
		if strings.HasSuffix(name, "-partial") {
			again += n
		}
		return nil
	}
	if err := s.Pull(ctx, "axle/big", c, nil); err != nil {
		t.Fatal(err)
	}
	if err := whole(d); err != nil {
		t.Fatal(err)
	}
	if most := 5 << 19; again > most {
		t.Errorf("%d bytes fetched after the disk had room again, more than %d: what was there was not used", again, most)
	}
}

// T9: names, digests and package files that mean to leave the store do not, and no canary is
// touched.
func TestHostileNames(t *testing.T) {
	base := t.TempDir()
	canaries := map[string]string{}
	for _, dir := range []string{"", "store", "etc", "store/..x"} {
		if err := os.MkdirAll(base+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"passwd", "canary", "latest", "x"} {
			p := base + "/" + dir + "/" + name
			if dir == "store" && name != "canary" {
				continue
			}
			canaries[p] = "canary " + p
			if err := os.WriteFile(p, []byte(canaries[p]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := Open(Options{Dir: base + "/store"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	blob := []byte("blob")
	if _, err := s.PutBlob(ctx, sum(blob), bytes.NewReader(blob)); err != nil {
		t.Fatal(err)
	}
	names := modelstest.HostileNames()
	if len(names) < 200 {
		t.Fatalf("%d hostile names", len(names))
	}
	h, c := testHub(t)
	for _, n := range names {
		for what, err := range map[string]error{
			"get":    second(s.Get(n)),
			"copy":   s.Copy(n, "y"),
			"delete": s.Delete(n),
			"create": s.Create(ctx, CreateRequest{Name: n, From: "nope"}, nil),
			"files":  s.Create(ctx, CreateRequest{Name: "x", Files: map[string]models.Digest{n: sum(blob)}}, nil),
			"from":   s.Create(ctx, CreateRequest{Name: "x", From: n}, nil),
			"verify": s.Verify(ctx, n, nil),
			"pull":   s.Pull(ctx, n, c, nil),
		} {
			if err == nil {
				t.Errorf("%s %q succeeded", what, n)
			}
		}
		if _, err := models.ParseDigest(n); err == nil {
			t.Errorf("%q is a digest", n)
		}
	}
	for _, r := range h.Requests() {
		if strings.Contains(r, "..") {
			t.Errorf("asked the hub for %s", r)
		}
	}
	for p, want := range canaries {
		if got, err := os.ReadFile(p); err != nil || string(got) != want {
			t.Errorf("canary %s: %q, %v", p, got, err)
		}
	}
	// A link where the store keeps blobs leads nowhere outside.
	victim := base + "/etc/victim"
	if err := os.WriteFile(victim, []byte("victim"), 0o644); err != nil {
		t.Fatal(err)
	}
	evil := sha256.Sum256([]byte("evil"))
	if err := os.Symlink("../../etc/victim", base+"/store/blobs/"+models.Digest(evil).File()+"-partial"); err != nil {
		t.Fatal(err)
	}
	if f, err := s.disk.Create("blobs/" + models.Digest(evil).File() + "-partial"); err == nil {
		_, _ = f.Write([]byte("overwritten"))
		f.Close()
		t.Error("a link out of the store was followed")
	}
	if got, _ := os.ReadFile(victim); string(got) != "victim" {
		t.Errorf("the victim is %q", got)
	}
}

func second[T any](_ T, err error) error { return err }
