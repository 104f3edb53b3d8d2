//go:build !scripted

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axle-llm/axle/models/pocket/pockettest"
)

// TestGoldens asks a server every golden question that its dialect can put, in every dialect,
// streamed and whole: text, thinking, calls, token counts and the reason of the end are those that
// the engine itself gives. With AXLE_TEST_GOLDENS the simulated card too is asked every question in
// every dialect.
func TestGoldens(t *testing.T) {
	unraced(t)
	t.Parallel()
	if testing.Short() {
		t.Skip("short: models/pocket asks the goldens, without a server")
	}
	all, err := pockettest.All()
	if err != nil {
		t.Fatal(err)
	}
	for device, prepare := range goldenCards {
		t.Run(device, func(t *testing.T) {
			url, vendor := goldenServer(t, device, prepare(t)...)
			for i, w := range ways {
				asked := 0
				for _, c := range all {
					if !w.fits(c) {
						continue
					}
					asked++
					streams := []bool{false, true}
					if device != "soft" && os.Getenv("AXLE_TEST_GOLDENS") == "" {
						// The dialects are the same on every device: each asks a third of the
						// questions, streamed and whole in turn.
						if (asked+i)%3 > 0 {
							continue
						}
						streams = streams[asked%2:][:1]
					}
					for _, stream := range streams {
						check(t, http.DefaultClient, url, w, c, stream, nil)
					}
				}
				if asked < 3 {
					t.Errorf("%s: only %d questions fit", w.path, asked)
				}
			}
			asked := 0
			for _, c := range all {
				if c.Think == nil && c.Format == nil && oneTurn(c) {
					asked++
					checkVendor(t, vendor, c)
				}
			}
			if asked < 3 {
				t.Errorf("the vendor's API: only %d questions fit", asked)
			}
		})
	}
}

// goldenCards are the devices that goldens are asked of, with what a server on each needs in its
// environment.
var goldenCards = map[string]func(*testing.T) []string{"soft": func(*testing.T) []string { return nil }}

// freePort counts on from anywhere, so that this process takes no port twice, and hardly one of
// another's.
var freePort atomic.Uint32

func init() { freePort.Store(rand.Uint32N(12000)) }

// freeAddr is an address without a listener. Its port is none of those that systems give out
// unasked, so no other program gets it before the server does.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+freePort.Add(1)%12000)); err == nil {
			defer ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal("a hundred ports are taken")
	return ""
}

// goldenServer is a server process on a card, at two addresses: ours and the vendor's.
func goldenServer(t *testing.T, device string, env ...string) (url, vendor string) {
	t.Helper()
	addrs := [2]string{freeAddr(t), freeAddr(t)}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var said bytes.Buffer
	cmd := exec.Command(exe, "serve", "--device", device, "--vendor-api", addrs[1], "--keep-alive", "-1")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "AXLE_TEST_MAIN=1", "AXLE_HOST=" + addrs[0],
		"AXLE_MODELS=" + filepath.Join(dir, "models")}, env...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := <-gone; err != nil || t.Failed() {
			t.Errorf("the server ended with %v; at last it said\n%s", err, said.Bytes()[max(0, said.Len()-4000):])
		}
	})
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", addrs[1]); err == nil {
			_ = c.Close()
			return "http://" + addrs[0], "http://" + addrs[1]
		}
		select {
		case err := <-gone:
			gone <- err
			t.Fatalf("the server ended: %v", err)
		default:
		}
		if time.Now().After(end) {
			t.Fatal("the server does not listen")
		}
	}
}

// post sends a body and reads the answer whole; a server that is busy is asked again when it says
// so.
func post(ctx context.Context, client *http.Client, url string, body []byte, busy *atomic.Int64) ([]byte, error) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w after %q", err, b)
		case resp.StatusCode == http.StatusOK:
			return b, nil
		case resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || busy == nil:
			return nil, fmt.Errorf("%s: %s", resp.Status, b)
		}
		busy.Add(1)
		<-time.After(100 * time.Millisecond) // less would take the processor from the answers
	}
}

// check asks one golden question one way and compares all that the way tells.
func check(t *testing.T, client *http.Client, base string, w way, c pockettest.Case, stream bool, busy *atomic.Int64) {
	t.Helper()
	question, err := json.Marshal(w.body(c, stream))
	if err != nil {
		t.Fatal(err)
	}
	b, err := post(t.Context(), client, base+w.path, question, busy)
	if err != nil {
		t.Errorf("%s, %s: %v", w.path, c.Name, err)
		return
	}
	got, reason, err := w.read(b, stream)
	if err != nil {
		t.Errorf("%s, %s: %v in\n%s", w.path, c.Name, err, b)
		return
	}
	want := c.Want
	if w.hides {
		want.Thinking = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, %s, stream %v (-want +got): %s", w.path, c.Name, stream, diff)
	}
	if end := w.ends[len(want.Calls) > 0]; reason != end {
		t.Errorf("%s, %s, stream %v: ended with %q, want %q", w.path, c.Name, stream, reason, end)
	}
}

// TestGoldensLoad is the goldens at 64 at once, dialects mixed, with a queue of 32: every answer is
// exactly right, or 503 with Retry-After and right when asked again (promise G6, through the
// engine; the server's own part is in server). AXLE_REQUESTS sets how many.
func TestGoldensLoad(t *testing.T) {
	//proves:G6
	unraced(t)
	t.Parallel()
	n := 300
	if testing.Short() {
		n = 100
	}
	if s, err := strconv.Atoi(os.Getenv("AXLE_REQUESTS")); err == nil {
		n = s
	}
	all, err := pockettest.All()
	if err != nil {
		t.Fatal(err)
	}
	url, _ := goldenServer(t, "soft", "AXLE_MAX_QUEUE=32")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	var busy atomic.Int64
	var wg sync.WaitGroup
	work := make(chan struct{})
	for range 64 {
		wg.Go(func() {
			for range work {
				w, c := ways[rand.IntN(len(ways))], all[rand.IntN(len(all))]
				for !w.fits(c) {
					c = all[rand.IntN(len(all))]
				}
				check(t, client, url, w, c, rand.IntN(2) == 0, &busy)
			}
		})
	}
	for range n {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	t.Logf("%d answers, %d times refused", n, busy.Load())
}
