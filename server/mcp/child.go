package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ChildArg is the one argument that a program is called with to be [Child].
const ChildArg = "mcp-child"

// order is the first line that a child reads: what it is to become.
type order struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	Hide    []string `json:"hide"` // files and folders that it is not to open
}

const maxOrder = maxFile + 64<<10

// Child is the process between axle and a server that it runs. It reads an [order] from its
// standard input, gives up what the server is not to have (descriptors, privileges, devices, files
// of axle's), and becomes the server. It returns only where that failed: the result is an exit
// status.
//
// Where systemd started it for a connection, it stays, and ends when the server or the connection
// does. systemd ends what is left of the unit then.
//
// Call it before anything else runs in the process.
func Child() int {
	runtime.LockOSThread() // what it gives up, this thread does
	err := becomes()
	fmt.Fprintf(os.Stderr, "%s%v\n", childSays, err)
	return 127
}

// childSays is what lines of Child's own begin with.
const childSays = "axle: "

func becomes() error {
	line, err := firstLine(os.Stdin)
	if err != nil {
		return err
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("%s is for axle itself: its first line is no order: %w", ChildArg, err)
	}
	if home := os.Getenv("HOME"); home != "" && !slices.ContainsFunc(o.Env, func(v string) bool { return strings.HasPrefix(v, "HOME=") }) {
		o.Env = append(o.Env, "HOME="+home) // that of the user as whom systemd began us
	}
	path, err := find(o.Command, o.Env)
	if err != nil {
		return err
	}
	if err := giveUp(o.Hide); err != nil {
		return err
	}
	argv := append([]string{o.Command}, o.Args...)
	if st, err := os.Stdin.Stat(); err == nil && st.Mode()&os.ModeSocket != 0 {
		return stay(path, argv, o.Env)
	}
	if err := syscall.Exec(path, argv, o.Env); err != nil {
		return fmt.Errorf("%s: %w", o.Command, err)
	}
	return nil
}

// firstLine reads a line and nothing of what follows it, which is the server's.
func firstLine(f io.Reader) ([]byte, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < maxOrder; {
		n, err := f.Read(b)
		if n > 0 && b[0] == '\n' {
			return line, nil
		}
		line = append(line, b[:n]...)
		if err != nil {
			return nil, fmt.Errorf("%s is for axle itself: %w before the end of its order", ChildArg, err)
		}
	}
	return nil, errors.New("the order has no end")
}

// find looks for a command in the PATH that the server gets, not in ours.
func find(command string, env []string) (string, error) {
	if strings.Contains(command, "/") {
		return command, nil
	}
	for _, v := range env {
		if path, is := strings.CutPrefix(v, "PATH="); is {
			for _, dir := range filepath.SplitList(path) {
				name := filepath.Join(dir, command)
				if st, err := os.Stat(name); err == nil && !st.IsDir() && st.Mode()&0o111 != 0 && filepath.IsAbs(dir) {
					return name, nil
				}
			}
			return "", fmt.Errorf("no program %q in the server's PATH, %s: give command an absolute path, or env a PATH", command, path)
		}
	}
	return "", fmt.Errorf("%q: the server has no PATH", command)
}

// stay runs the server below this process until one of both ends.
func stay(path string, argv, env []string) error {
	c := &exec.Cmd{Path: path, Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if err := c.Start(); err != nil {
		return err
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		hungUp(os.Stdin)
	}()
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		return fmt.Errorf("the server ended: %v", err)
	case <-left:
	}
	select {
	case <-ended:
	case <-time.After(patience):
	}
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	os.Exit(0)
	return nil
}
