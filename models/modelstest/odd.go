package modelstest

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// Odd puts what is no regular file under a name, by the kind's: pipes, sockets, folders, devices
// and links to them. Who may make no devices gets syscall.EPERM for one.
func Odd() map[string]func(name string) error {
	link := func(to string) func(string) error {
		return func(name string) error { return os.Symlink(to, name) }
	}
	return map[string]func(string) error{
		"pipe":   func(name string) error { return syscall.Mkfifo(name, 0o644) },
		"folder": func(name string) error { return os.Mkdir(name, 0o755) },
		"device": func(name string) error { return syscall.Mknod(name, syscall.S_IFCHR|0o644, 1<<8|5) },
		"socket": func(name string) error {
			dir, err := os.MkdirTemp("", "s") // a socket's own path is short
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
			if err != nil {
				return err
			}
			defer l.Close()
			l.SetUnlinkOnClose(false)
			return os.Rename(filepath.Join(dir, "s"), name)
		},
		"link to a device": link("/dev/zero"),
		"link to nothing":  link("/dev/null/x"),
		"link to a pipe": func(name string) error {
			if err := syscall.Mkfifo(name+".pipe", 0o644); err != nil {
				return err
			}
			return os.Symlink(filepath.Base(name)+".pipe", name)
		},
	}
}
