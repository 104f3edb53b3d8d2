package store

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTouched (D12): a blob with another time than when it was last hashed is hashed, once: when a
// server starts, and when the model is opened. A rotten one is named, and named again by the next
// server. A file that did not change is hashed by no server.
func TestTouched(t *testing.T) {
	//proves:D12
	_, c := testHub(t)
	d := newMemDisk()
	s, err := Open(Options{Disk: d})
	if err == nil {
		err = s.Pull(context.Background(), "axle/one", c, nil)
	}
	if err == nil {
		err = s.Create(context.Background(), CreateRequest{Name: "mine", From: "axle/one", License: []string{"a text"}}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	blob := d.inodes[d.names[table(t, s, "mine")]]
	// settle waits until all was hashed that is to be.
	settle := func(s *Store) {
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			s.checking.mu.Lock()
			n := len(s.checking.pending)
			s.checking.mu.Unlock()
			if _, err := s.List(context.Background()); n == 0 && err == nil && !s.unhashed(get(t, s, "mine"), s.hashed()) {
				return
			}
			if get(t, s, "mine").Rotten() != nil {
				return
			}
			if time.Now().After(end) {
				t.Fatal("nothing is hashed")
			}
		}
	}
	open := func(s *Store) error {
		p, err := get(t, s, "mine").Open()
		if err == nil {
			err = p.Close()
		}
		return err
	}
	use := func(s *Store, _ <-chan struct{}) {
		settle(s)
		if err := open(s); err != nil {
			t.Error(err)
		}
	}
	if told := lifeOf(t, d, use); len(told) > 0 {
		t.Errorf("after a pull and a create: %q", told)
	}
	touch := func() {
		d.mu.Lock()
		blob.time = blob.time.Add(time.Nanosecond)
		d.mu.Unlock()
	}
	touch()
	if told := lifeOf(t, d, use); len(told) == 0 || !strings.HasPrefix(told[0], "unhashed ") {
		t.Errorf("touched: %q", told)
	}
	if told := lifeOf(t, d, use); len(told) > 0 {
		t.Errorf("once hashed: %q", told)
	}
	told := lifeOf(t, d, func(s *Store, _ <-chan struct{}) {
		settle(s)
		d.mu.Lock()
		blob.data[7] ^= 1
		d.mu.Unlock()
		touch()
		if err := open(s); err != nil && !errors.Is(err, ErrMismatch) {
			t.Error(err) // it is being hashed, which may be over by now
		}
		settle(s)
		if err := open(s); !errors.Is(err, ErrMismatch) {
			t.Errorf("a rotten blob is opened: %v", err)
		}
	})
	if len(told) == 0 {
		t.Error("while a server runs: nothing was told")
	}
	for range 2 {
		told = lifeOf(t, d, func(s *Store, _ <-chan struct{}) {
			settle(s)
			if err := open(s); !errors.Is(err, ErrMismatch) {
				t.Errorf("a rotten blob is opened by the next: %v", err)
			}
		})
		if got := strings.Join(told, ", "); !strings.Contains(got, "rotten ") {
			t.Errorf("the next server: %s", got)
		}
	}
}

// lifeOf is a server's life on a disk: what it tells, until use is done.
func lifeOf(t *testing.T, d Disk, use func(s *Store, checked <-chan struct{})) (told []string) {
	t.Helper()
	s, err := Open(Options{Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	lines, checked := make(chan string, 100), make(chan struct{})
	leave, err := s.Guard(GuardOptions{
		Unclean:  func() { lines <- "unclean" },
		Unhashed: func(model string) { lines <- "unhashed " + model },
		Rotten:   func(model string, err error) { lines <- "rotten " + model },
		Unread:   func(model string, err error) { lines <- "unread " + model },
		Checked:  func(int, int64) { close(checked) }})
	if err != nil {
		t.Fatal(err)
	}
	use(s, checked)
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case l := <-lines:
			told = append(told, l)
		default:
			return told
		}
	}
}

// table is a large blob of a model.
func table(t *testing.T, s *Store, model string) string {
	t.Helper()
	for _, f := range get(t, s, model).Files {
		if strings.HasSuffix(f.Name, ".bfloat16.bin") {
			return "blobs/" + f.Digest.File()
		}
	}
	t.Fatal("no table")
	return ""
}

// unreadable is a disk with a file that cannot be read.
type unreadable struct {
	*memDisk
	name string
}

type unreadableFile struct{ File }

func (unreadableFile) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: "blob", Err: syscall.EIO}
}

func (d *unreadable) Open(name string) (File, error) {
	f, err := d.memDisk.Open(name)
	if err == nil && name == d.name {
		f = unreadableFile{f}
	}
	return f, err
}

// TestUnread (D12): a file that cannot be read counts as neither sound nor rotten: it is told, and
// the next server tries again.
func TestUnread(t *testing.T) {
	//proves:D12
	s, d := pulled(t)
	_, leave := guard(t, s)
	defer leave()
	d = killed(d)
	bad := &unreadable{d, table(t, s, "axle/one")}
	wait := func(s *Store, checked <-chan struct{}) {
		<-checked
		if got := s.unhashed(get(t, s, "axle/one"), s.hashed()); got != (bad.name != "") {
			t.Errorf("unhashed: %v", got)
		}
	}
	for range 2 {
		told := lifeOf(t, bad, wait)
		if got := strings.Join(told, ", "); !strings.HasPrefix(got, "unclean, unread axle/one:latest") {
			t.Errorf("with a file that cannot be read: %s", got)
		}
	}
	bad.name = ""
	if got := strings.Join(lifeOf(t, bad, wait), ", "); !strings.HasPrefix(got, "unclean") || strings.Contains(got, "unread") {
		t.Errorf("once it can be read: %s", got)
	}
}

// endless is a disk with a file whose reading does not end until it is broken off.
type endless struct {
	*memDisk
	name  string
	begun chan struct{}
}

type endlessFile struct {
	File
	begun chan struct{}
}

func (f endlessFile) Read([]byte) (int, error) {
	select {
	case f.begun <- struct{}{}:
	default:
	}
	return 0, nil
}

func (d *endless) Open(name string) (File, error) {
	f, err := d.memDisk.Open(name)
	if err == nil && name == d.name {
		f = endlessFile{f, d.begun}
	}
	return f, err
}

// TestLeftWhileHashing (D12): a server that ends while a model is hashed has told of the files that
// it found rotten by then, and the next hashes none again that it found sound.
func TestLeftWhileHashing(t *testing.T) {
	//proves:D12
	s, d := pulled(t)
	files := get(t, s, "axle/one").m.Layers
	for _, l := range files {
		blob := d.inodes[d.names[blobPath(l)]]
		blob.time = blob.time.Add(time.Nanosecond)
	}
	at := func(name string) int {
		i := slices.IndexFunc(files, func(l descriptor) bool { return strings.HasSuffix(l.Name, name) })
		if i < 0 {
			t.Fatal("no " + name)
		}
		return i
	}
	rotten, reading := at(".bfloat16.bin"), at("_post.axmodel")
	d.inodes[d.names[blobPath(files[rotten])]].data[0] ^= 1
	slow := &endless{d, blobPath(files[reading]), make(chan struct{})}
	told := strings.Join(lifeOf(t, slow, func(*Store, <-chan struct{}) { <-slow.begun }), ", ")
	if !strings.Contains(told, "rotten axle/one") || strings.Contains(told, "unread") {
		t.Errorf("left while hashing: %s", told)
	}
	s, err := Open(Options{Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	all := s.hashed()
	for i, l := range files[:reading+1] {
		st, err := d.Stat(blobPath(l))
		if err != nil {
			t.Fatal(err)
		}
		if known, want := all[l.Digest.File()] == stampOf(st), i != rotten && i != reading; known != want {
			t.Errorf("%s is known to be sound: %v", l.Name, known)
		}
	}
}

// TestVerifyBrokenOff (D12): what a verification had read when it was broken off counts too.
func TestVerifyBrokenOff(t *testing.T) {
	//proves:D12
	s, d := pulled(t)
	first := blobPath(get(t, s, "axle/one").m.Layers[0])
	d.inodes[d.names[first]].time = time.Now().Add(time.Hour)
	slow := &endless{d, table(t, s, "axle/one"), make(chan struct{})}
	s, err := Open(Options{Disk: slow})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-slow.begun; cancel() }()
	if err := s.Verify(ctx, "axle/one", nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if s, err = Open(Options{Disk: d}); err != nil {
		t.Fatal(err)
	}
	st, err := d.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	if s.hashed()[strings.TrimPrefix(first, "blobs/")] != stampOf(st) {
		t.Error("what was read is forgotten")
	}
}
