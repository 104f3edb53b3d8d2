package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// patience is how long a process may take to end when it is asked to, each way of asking.
const patience = 2 * time.Second

// link is the way to a server that speaks over two streams.
type link struct {
	in   io.WriteCloser // to the server
	out  io.ReadCloser  // from it
	kill func()         // ends it and everything that it began, and waits for that
}

// place is how servers are run on this machine.
type place struct {
	self   []string // the program that is Child, and its argument
	socket string   // behind which systemd starts them; "": we start them
	hide   []string
	as     *syscall.Credential // nil: as ourselves
	home   string
	says   string // for the log
	warns  bool   // they could read what is ours
}

// User is the user that servers run as where the server may choose.
const User = "axle-mcp"

// newPlace looks at what this process may do.
func newPlace(o Options) place {
	p := place{self: o.Self, socket: o.Socket, home: os.Getenv("HOME")}
	if p.self == nil {
		p.self = []string{"/proc/self/exe", ChildArg}
	}
	for _, h := range append([]string{o.File}, o.Hide...) {
		if h == "" {
			continue
		}
		if abs, err := filepath.Abs(h); err == nil {
			p.hide = append(p.hide, abs)
			if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
				p.hide = append(p.hide, real)
			}
		}
	}
	if p.socket != "" {
		p.home, p.says = "", "systemd starts them as another user, behind "+p.socket
		return p
	}
	if os.Geteuid() == 0 {
		p.as, p.home, p.says = &syscall.Credential{Uid: 65534, Gid: 65534}, "/nonexistent", "as nobody"
		if u, err := user.Lookup(User); err == nil {
			uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
			gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
			if err := errors.Join(err1, err2); err == nil && uid != 0 {
				p.as, p.home, p.says = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, u.HomeDir, "as the user "+User
			}
		}
		return p
	}
	p.says = "as this server's own user, whose devices, key file and settings are shut to them (Landlock)"
	if landlocks() == 0 {
		p.says = "as this server's own user: this kernel has no Landlock, so that they could read the key file and open the card"
		p.warns = true
	}
	return p
}

// environment is all that a server's process knows: what the file gives, and the least that
// programs need.
func (p *place) environment(s *spec) (env []string) {
	least := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
	if p.home != "" {
		least["HOME"] = p.home
	}
	for k, v := range s.env {
		least[k] = v
	}
	for k, v := range least {
		env = append(env, k+"="+v)
	}
	return env
}

// start runs a server. Nothing of it is left once kill has returned, but what left its group on
// purpose.
func (p *place) start(ctx context.Context, s *spec, said func(line string)) (*link, error) {
	b, err := json.Marshal(order{Command: s.command, Args: s.args, Env: p.environment(s), Hide: p.hide})
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	if p.socket != "" {
		return p.dial(ctx, b)
	}
	var files []*os.File
	shut := func(from int) {
		for _, f := range files[from:] {
			_ = f.Close()
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			shut(0)
			return nil, fmt.Errorf("pipe: %w", err)
		}
		files = append(files, r, w)
	}
	in, out, errs := files[0:2], files[2:4], files[4:6]
	c := exec.Command(p.self[0], p.self[1:]...)
	c.Dir = "/"
	c.Env = []string{} // an empty one: nil would be ours
	c.Stdin, c.Stdout, c.Stderr = in[0], out[1], errs[1]
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.as}
	if err := c.Start(); err != nil {
		shut(0)
		return nil, err
	}
	for _, f := range []*os.File{in[0], out[1], errs[1]} {
		_ = f.Close()
	}
	gone, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		ended(c.Process.Pid)
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // whom it left behind, while the group cannot be another's
		_ = c.Wait()
	}()
	go func() {
		defer close(read)
		listen(errs[0], said)
	}()
	l := &link{in: in[1], out: out[0], kill: sync.OnceFunc(func() {
		_ = in[1].Close() // the protocol's way to say that it is over
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			select {
			case <-gone:
			case <-time.After(patience):
				_ = syscall.Kill(-c.Process.Pid, sig)
			}
		}
		<-gone
		_ = errs[0].Close() // someone who left the group may hold it
		<-read
		_ = out[0].Close()
	})}
	go func() {
		<-gone
		_ = out[0].SetReadDeadline(time.Now().Add(patience)) // what was written is still read
	}()
	_ = in[1].SetWriteDeadline(time.Now().Add(startTime))
	if _, err := in[1].Write(b); err != nil {
		l.kill()
		return nil, fmt.Errorf("it does not begin: %w", err)
	}
	_ = in[1].SetWriteDeadline(time.Time{})
	return l, nil
}

// dial has systemd start a server.
func (p *place) dial(ctx context.Context, b []byte) (*link, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", p.socket)
	if err != nil {
		return nil, fmt.Errorf("%w: is axle-mcp.socket enabled? sudo systemctl enable --now axle-mcp.socket", err)
	}
	_ = c.SetWriteDeadline(time.Now().Add(startTime))
	if _, err := c.Write(b); err != nil {
		_ = c.Close()
		return nil, err
	}
	_ = c.SetWriteDeadline(time.Time{})
	return &link{in: c, out: c, kill: func() { _ = c.Close() }}, nil
}

// What of a server's standard error is taken, in lines and in bytes of one.
const (
	maxSaid = 200 // of a session
	maxLine = 2 << 10
)

// listen gives lines to said, bounded, and reads on to the end: a server whose standard error
// no one reads would hang.
func listen(r io.Reader, said func(string)) {
	br := bufio.NewReaderSize(r, maxLine)
	for n, cut := 0, false; ; {
		line, more, err := br.ReadLine()
		if err != nil {
			return
		}
		if !cut && n < maxSaid {
			if s := text(string(line), maxLine); s != "" {
				said(s)
				if n++; n == maxSaid {
					said("(it says more, which is not kept)")
				}
			}
		}
		cut = more
	}
}

// logged writes what a server says to the log, until it has been called: what it says then may be
// what it was told, which is somebody's conversation.
func (t *Tools) logged(s *session) func(string) {
	return func(line string) {
		if s.told.Load() && !t.o.LogPrompts {
			s.hushed.Add(1)
			return
		}
		if own, is := strings.CutPrefix(line, childSays); is {
			s.why.Store(&own)
		}
		t.o.Log.Info("a tool server says", zap.String("server", s.spec.name), zap.String("line", line))
	}
}
