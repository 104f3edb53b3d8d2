//go:build cgo && !fake && !scripted && linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/pocket"
)

// TestRottenAfterKill (D12, D9): a server killed under load, and a file that rots meanwhile with
// its size and time kept. The next server answers at once, hashes in the background, and refuses
// the model by the file's name from then on; others are served as before. After an orderly end
// nothing is hashed.
func TestRottenAfterKill(t *testing.T) {
	//proves:D12
	unraced(t)
	t.Parallel()
	u := newUnit(t)
	p := u.start()
	right := goldens(t, p)
	blobs := p.keep("kept")
	if o := p.say("kept"); o.text != right[prompts[0]] {
		t.Fatalf("%+v", o)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		streams(p, nil, nil)
	}()
	p.until("answers", func() bool { return p.metric("axle_running") >= 4 })
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.gone
	<-done
	// The last token's row of the embeddings: answers stay right, only the hash can tell.
	name := filepath.Join(u.dir, "models", "blobs", blobs["model.embed_tokens.weight.bfloat16.bin"])
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], st.Size()-2)
	b[0] ^= 1
	if err == nil {
		_, err = f.WriteAt(b[:], st.Size()-2)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Chtimes(name, st.ModTime(), st.ModTime())
	}
	if err != nil {
		t.Fatal(err)
	}
	p = u.start()
	stop := make(chan struct{})
	all := make(chan []outcome, 1)
	go func() { all <- streams(p, right, stop) }()
	p.until("hashed", func() bool { return strings.Contains(p.said(), "the models were hashed") })
	said := p.said()
	for _, want := range []string{"the last server did not end in order", "a file of a model is rotten", name, "pull the model again"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log does not say %q:\n%s", want, said)
		}
	}
	if o := p.say("kept"); o.end != endRefused || o.code != 500 || !strings.Contains(o.detail, name) {
		t.Errorf("the rotten model: %+v", o)
	}
	close(stop)
	for _, o := range <-all {
		if o.end != endWhole {
			t.Errorf("%+v", o)
		}
	}
	// Stored anew it is served again.
	p.keep("kept")
	if o := p.say("kept"); o.end != endWhole || o.text != right[prompts[0]] {
		t.Errorf("stored anew: %+v", o)
	}
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
	p = u.start()
	if o := p.say("kept"); o.end != endWhole {
		t.Errorf("%+v", o)
	}
	if c := p.stop(); c != 0 || strings.Contains(p.said(), "hashed") {
		t.Errorf("exit code %d; hashed after an orderly end: %v", c, strings.Contains(p.said(), "hashed"))
	}
}

// post sends a body to the server and gives what came, whole.
func (p *process) post(path string, body []byte) (code int, answer string) {
	p.t.Helper()
	resp, err := http.Post(p.url+path, "application/json", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// keep stores pocket's files as a model of their own, with a further file that makes it another
// than the rest, and gives the blob of each.
func (p *process) keep(name string) (blobs map[string]string) {
	p.t.Helper()
	blobs = map[string]string{}
	files := map[string][]byte{"NAME": []byte(name)}
	err := fs.WalkDir(pocket.FS(), ".", func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[file], err = fs.ReadFile(pocket.FS(), file)
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	// The configuration tells two packages with the same layers apart.
	files["config.json"] = append(files["config.json"], strings.Repeat(" ", len(name))...)
	for file, data := range files {
		blobs[file] = fmt.Sprintf("sha256:%x", sha256.Sum256(data))
		if code, answer := p.post("/api/blobs/"+blobs[file], data); code != 201 && code != 200 {
			p.t.Fatalf("%s: %d %s", file, code, answer)
		}
	}
	body, _ := json.Marshal(map[string]any{"model": name, "files": blobs, "stream": false})
	if code, answer := p.post("/api/create", body); code != 200 {
		p.t.Fatalf("create %s: %d %s", name, code, answer)
	}
	for file, d := range maps.Clone(blobs) {
		blobs[file] = strings.Replace(d, ":", "-", 1)
	}
	return blobs
}

// say asks a model by name for an answer to the first prompt, and gives it.
func (p *process) say(model string) outcome {
	path, body := question(0, prompts[0])
	return ask(context.Background(), http.DefaultClient, p.url+path, strings.Replace(body, `"pocket"`, fmt.Sprintf("%q", model), 1))
}

const testDisk = "AXLE_TEST_DISK" // a folder, on which the process mounts a disk of its own

func init() {
	prepare = func() error {
		if os.Getenv(testBus) != "" {
			return ownBus()
		}
		dir := os.Getenv(testDisk)
		if dir == "" {
			return nil
		}
		if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("no disk: %w", err)
		}
		return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=90m")
	}
}

// apart gives the unit's processes a view of the file system of their own, which prepare makes as
// env says; without the right to it the test is skipped.
func (u *unit) apart(env string) {
	u.t.Helper()
	u.attr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		u.attr.Cloneflags |= syscall.CLONE_NEWUSER
		u.attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	exe, err := os.Executable()
	if err != nil {
		u.t.Fatal(err)
	}
	probe := exec.Command(exe, "--version")
	probe.SysProcAttr, probe.Env = u.attr, []string{"AXLE_TEST_MAIN=1", env}
	if out, err := probe.CombinedOutput(); err != nil {
		u.t.Skipf("SKIPPED, not tested: nothing can be mounted here: %v %s", err, out)
	}
}

// TestFullDisk (D11): under sixteen streams a disk, a real one, fills up in the middle of a pull.
// The error names the file, nothing is visible, what came stays, and the pull goes on when there is
// room.
func TestFullDisk(t *testing.T) {
	//proves:D11 a real one
	unraced(t)
	t.Parallel()
	u := newUnit(t)
	dir := filepath.Join(u.dir, "models")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	u.apart(testDisk + "=" + dir)
	h := modelstest.NewHub()
	defer h.Close()
	h.Add("axle/big", modelstest.Big(2, 4<<20, 1))
	p := u.start(testDisk+"="+dir, "HF_ENDPOINT="+h.URL)
	right := goldens(t, p)
	inside := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "root", dir)
	ballast := filepath.Join(inside, "ballast")
	var once sync.Once
	h.SetFault(func(string, int) modelstest.Fault {
		once.Do(func() { // the space was looked at, and somebody else takes it
			f, err := os.Create(ballast)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			var st unix.Statfs_t
			if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
				t.Error(err)
			} else if err := unix.Fallocate(int(f.Fd()), 0, 0, (int64(st.Bavail)-256)*int64(st.Bsize)); err != nil {
				t.Error(err)
			}
		})
		return modelstest.None
	})
	p.underStreams(right, func() {
		_, answer := p.post("/api/pull", []byte(`{"model":"axle/big","stream":false}`))
		if !strings.Contains(answer, "no space left on device") || !strings.Contains(answer, filepath.Join(dir, "blobs", "sha256-")) {
			t.Errorf("with a full disk: %s", answer)
		}
		if o := p.say("axle/big"); o.end != endRefused || o.code != http.StatusNotFound {
			t.Errorf("half a model is visible: %+v", o)
		}
		partial := regexp.MustCompile(`blobs/sha256-[0-9a-f]{64}-partial`).FindString(answer)
		if _, err := os.Stat(filepath.Join(inside, partial)); partial == "" || err != nil {
			t.Errorf("nothing stayed of what had come: %v", err)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if code, answer := p.post("/api/pull", []byte(`{"model":"axle/big","stream":false}`)); code != 200 ||
			!strings.Contains(answer, "success") {
			t.Errorf("with room again: %d %s", code, answer)
		}
	})
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
}
