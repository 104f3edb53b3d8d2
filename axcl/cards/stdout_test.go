//go:build cgo && !fake && linux

package cards

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOwnStdout: whatever writes to descriptor 1 is not on standard output, and nothing of ours is
// lost between.
func TestOwnStdout(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CARDS_TEST_STDOUT=lines")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	next := map[string]int{}
	for line := range strings.Lines(stdout.String()) {
		var who string
		var n int
		if _, err := fmt.Sscanf(line, "ours %s %d\n", &who, &n); err != nil || n != next[who] {
			t.Fatalf("%q where line %d of %s was to come", line, next[who], who)
		}
		next[who]++
	}
	for who, n := range next {
		if n != 500 {
			t.Errorf("%d lines of %s", n, who)
		}
	}
	if n := strings.Count(stderr.String(), "noise of a library\n"); len(next) != 4 || n != 2000 {
		t.Errorf("%d writers, %d lines of noise on standard error", len(next), n)
	}
}

// The test binary is a program whose main has called OwnStdout, where a test starts it again.
func init() {
	what := os.Getenv("CARDS_TEST_STDOUT")
	if what == "" {
		return
	}
	out, err := OwnStdout()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	if again, err := OwnStdout(); again != out || err != nil || os.Stdout != out.File {
		os.Exit(4)
	}
	if what == "pipe" {
		for {
			if _, err := out.Write([]byte("more\n")); err != nil {
				os.Exit(5) // the runtime should have ended this
			}
		}
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 500 {
				fmt.Fprintf(out, "ours %d %d\n", i, n)
				_, _ = unix.Write(1, []byte("noise of a library\n")) // as C code does it
			}
		})
	}
	wg.Wait()
	os.Exit(0)
}

// TestOwnStdoutPipe: a reader that has enough ends the program as it ends any other.
func TestOwnStdoutPipe(t *testing.T) {
	//proves:D17
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CARDS_TEST_STDOUT=pipe")
	r, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(io.LimitReader(r, 5)).ReadString('\n'); err != nil || line != "more\n" {
		t.Errorf("%q, %v", line, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
		t.Errorf("ended with %v, not by SIGPIPE", err)
	}
}
