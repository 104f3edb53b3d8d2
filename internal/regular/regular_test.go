package regular

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/fstest"
)

// Whatever stands where a file should, no way of opening it waits, and only a regular file is
// opened.
func TestOpen(t *testing.T) {
	for kind := range kinds(t, "") {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			err := kinds(t, filepath.Join(dir, "x"))[kind]()
			if errors.Is(err, syscall.EPERM) {
				t.Skip("this user may make no devices")
			}
			if err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			fsys := FS(root)
			check := func(how string, err error) {
				if err == nil {
					t.Errorf("%s: opened", how)
				}
				if st, serr := os.Stat(filepath.Join(dir, "x")); serr == nil && kind != "a link to a device" && !errors.Is(err, ErrNot) {
					t.Errorf("%s: %v of %v", how, err, st.Mode())
				}
			}
			_, err = Open(root, "x")
			check("Open", err)
			_, err = OpenPath(filepath.Join(dir, "x"))
			check("OpenPath", err)
			_, err = Read(fsys, "x", 10)
			check("Read", err)
			_, err = ReadPath(filepath.Join(dir, "x"), 10)
			check("ReadPath", err)
			f, err := fsys.Open("x")
			if kind == "a folder" {
				if err != nil {
					t.Error(err)
				} else {
					f.Close()
				}
			} else {
				check("FS.Open", err)
			}
			if st, err := fs.Stat(fsys, "x"); err == nil && st.Mode().IsRegular() {
				t.Errorf("Stat: %v", st.Mode())
			}
			if err := fs.WalkDir(fsys, ".", func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
				t.Errorf("WalkDir: %v", err)
			}
		})
	}
}

// kinds puts what is no regular file under name, each kind that this user may make.
func kinds(t *testing.T, name string) map[string]func() error {
	return map[string]func() error{
		"a pipe": func() error { return syscall.Mkfifo(name, 0o644) },
		"a socket": func() error {
			t.Chdir(filepath.Dir(name)) // a socket's path is short
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Base(name), Net: "unix"})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		},
		"a folder":           func() error { return os.Mkdir(name, 0o755) },
		"a link to a device": func() error { return os.Symlink("/dev/zero", name) },
		"a device":           func() error { return syscall.Mknod(name, syscall.S_IFCHR|0o644, 1<<8|5) },
		"a link to a pipe beside it": func() error {
			return errors.Join(syscall.Mkfifo(name+".pipe", 0o644), os.Symlink(filepath.Base(name)+".pipe", name))
		},
		"a link to itself": func() error { return os.Symlink(filepath.Base(name), name) },
		"nothing":          func() error { return nil },
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "x"), []byte("12345"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := fstest.TestFS(FS(root), "a/x"); err != nil {
		t.Error(err)
	}
	for limit, ok := range map[int64]bool{4: false, 5: true, 6: true} {
		b, err := Read(FS(root), "a/x", limit)
		if ok && (err != nil || string(b) != "12345") || !ok && !errors.Is(err, ErrLarge) {
			t.Errorf("limit %d: %q %v", limit, b, err)
		}
		b, err = ReadPath(filepath.Join(dir, "a", "x"), limit)
		if ok && (err != nil || string(b) != "12345") || !ok && !errors.Is(err, ErrLarge) {
			t.Errorf("limit %d: %q %v", limit, b, err)
		}
	}
}

type info struct {
	fs.FileInfo
	mode fs.FileMode
	uid  uint32
}

func (i info) Mode() fs.FileMode { return i.mode }
func (i info) Sys() any          { return &syscall.Stat_t{Uid: i.uid} }

// A file of secrets is its owner's alone. What root gives a group is that group's too, for a
// process that is not root.
func TestPrivate(t *testing.T) {
	for _, c := range []struct {
		mode fs.FileMode
		uid  uint32
		user int
		ok   bool
	}{
		{0o600, 1000, 1000, true}, {0o400, 1000, 1000, true}, {0o640, 1000, 1000, false}, {0o604, 1000, 1000, false},
		{0o600, 0, 0, true}, {0o640, 0, 0, false},
		{0o440, 0, 1000, true}, {0o640, 0, 1000, true}, {0o660, 0, 1000, false}, {0o444, 0, 1000, false},
	} {
		if err := private("x", info{mode: c.mode, uid: c.uid}, c.user); (err == nil) != c.ok {
			t.Errorf("%#o of user %d for user %d: %v", c.mode, c.uid, c.user, err)
		}
	}
}
