package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/modelstest"
)

// G8: fifty kills at random moments of pulls, every second time with what is unfinished tampered
// with: nothing corrupt is ever visible, and a last pull converges.
func TestKill(t *testing.T) {
	//proves:T10
	//proves:D9
	//proves:G8
	lane.Slow(t)
	trials := 50
	if n, err := strconv.Atoi(os.Getenv("AXLE_TEST_KILLS")); err == nil {
		trials = n
	} else if lane.Race {
		trials = 10 // the children are killed all the same, only more slowly started
	}
	h, c := bigHub(t, 3, 1<<20)
	var mu sync.Mutex
	served := 0
	wake := make(chan struct{}, 1)
	h.SetFault(func(string, int) modelstest.Fault {
		mu.Lock()
		defer mu.Unlock()
		served++
		select {
		case wake <- struct{}{}:
		default:
		}
		return modelstest.None
	})
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := rand.New(rand.NewPCG(8, 8))
	ctx := context.Background()
	// What an undisturbed pull gives: a hash that agrees with a file that was tampered with proves
	// nothing.
	calm := openStore(t)
	if err := calm.Pull(ctx, "axle/big", c, nil); err != nil {
		t.Fatal(err)
	}
	truth, err := calm.Get("axle/big")
	if err != nil {
		t.Fatal(err)
	}
	finished, visible := 0, 0
	for trial := range trials {
		cmd := pullChild(t, h.URL, dir, "axle/big", 64<<10)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
		// Killed after a random number of requests have been served: a moment that depends on no
		// clock.
		for n := r.IntN(80); n > 0; {
			select {
			case <-wake:
				n--
			case err := <-exited:
				exited <- err
				n = 0
			}
		}
		_ = cmd.Process.Kill()
		if <-exited == nil {
			finished++
		}
		if trial%2 == 1 {
			tamper(t, dir, r)
		}
		list, err := s.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			visible++
			if err := s.Verify(ctx, m.Name.String(), nil); err != nil {
				t.Fatalf("trial %d: a corrupt model is visible: %v", trial, err)
			}
			if !slices.Equal(m.Files, truth.Files) {
				t.Fatalf("trial %d: visible are %v, want %v", trial, m.Files, truth.Files)
			}
			if r.IntN(2) == 0 {
				if err := s.Delete(m.Name.String()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := s.Pull(ctx, "axle/big", c, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(ctx, "axle/big", nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d trials, %d finished before the kill, %d models seen, %d requests served", trials, finished, visible, served)
	if finished == trials {
		t.Error("no kill came in time")
	}
}

// The test binary pulls when a test starts it again: something to kill.
func TestMain(m *testing.M) {
	if url := os.Getenv("AXLE_TEST_PULL"); url != "" {
		s, err := Open(Options{Dir: os.Getenv("AXLE_TEST_STORE")})
		if err == nil {
			c := &hub.Client{Endpoints: []string{url}, Backoff: time.Millisecond}
			c.Part, _ = strconv.ParseInt(os.Getenv("AXLE_TEST_PART"), 10, 64)
			err = s.Pull(context.Background(), os.Getenv("AXLE_TEST_NAME"), c, nil)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if data, err := os.ReadFile("/proc/self/status"); err == nil { // for the test of memory
			for line := range strings.SplitSeq(string(data), "\n") {
				if strings.HasPrefix(line, "VmHWM:") || strings.HasPrefix(line, "RssAnon:") {
					fmt.Println(line)
				}
			}
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// pullChild starts this binary again to pull.
func pullChild(t *testing.T, url, dir, name string, part int) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "AXLE_TEST_PULL="+url, "AXLE_TEST_STORE="+dir, "AXLE_TEST_NAME="+name, "AXLE_TEST_PART="+
		strconv.Itoa(part))
	return cmd
}

// tamper damages what is unfinished: bytes of partial files, states of downloads, lengths.
func tamper(t *testing.T, dir string, r *rand.Rand) {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(dir, "blobs"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		name := filepath.Join(dir, "blobs", e.Name())
		switch {
		case strings.HasSuffix(e.Name(), ".parts"):
			switch r.IntN(4) {
			case 0:
				err = os.WriteFile(name, []byte(`{"size":`), 0o644)
			case 1:
				err = os.WriteFile(name, []byte(`{"size":-1,"parts":[{"start":0,"end":-5,"have":99}]}`), 0o644)
			case 2: // claims to be done
				data, rerr := os.ReadFile(name)
				var st hub.State
				if rerr == nil && json.Unmarshal(data, &st) == nil {
					for i := range st.Parts {
						st.Parts[i].Have = st.Parts[i].End - st.Parts[i].Start
					}
					data, _ = json.Marshal(&st)
					err = os.WriteFile(name, data, 0o644)
				}
			}
		case strings.HasSuffix(e.Name(), "-partial"):
			st, serr := e.Info()
			if serr != nil || st.Size() == 0 {
				continue
			}
			switch r.IntN(3) {
			case 0:
				err = os.Truncate(name, r.Int64N(st.Size()))
			case 1:
				var f *os.File
				if f, err = os.OpenFile(name, os.O_WRONLY, 0); err == nil {
					_, err = f.WriteAt([]byte{byte(r.IntN(256))}, r.Int64N(st.Size()))
					f.Close()
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A pull of much more than its memory stays below 64 MiB resident.
func TestPullMemory(t *testing.T) {
	if lane.Race {
		t.Skip("the race detector's own memory would be measured")
	}
	layers, weights := 3, 32<<20
	if os.Getenv("AXLE_TEST_BIG") != "" {
		layers, weights = 16, 60<<20
	}
	h, _ := bigHub(t, layers, weights)
	out, err := pullChild(t, h.URL, filepath.Join(t.TempDir(), "store"), "axle/big", 0).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for line := range strings.SplitSeq(string(out), "\n") {
		var key string
		var kb int
		if n, _ := fmt.Sscanf(line, "%s %d", &key, &kb); n == 2 {
			got[strings.TrimSuffix(key, ":")] = kb
		}
	}
	t.Logf("%d MB pulled, peak resident %d KB, anonymous %d KB", (layers+1)*weights>>20, got["VmHWM"], got["RssAnon"])
	if peak := got["VmHWM"]; peak == 0 || peak > 64<<10 {
		t.Errorf("peak resident %d KB, limit 65536", peak)
	}
}
