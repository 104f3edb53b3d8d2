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
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/models/pocket"
)

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

// keep stores pocket's files as a model of their own, with a further file that makes it another than the rest, and gives the blob of each.
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

// TestRottenAfterKill (D12, D9): a server killed under load, and a file that rots meanwhile with its size and time kept. The next server
// answers at once, hashes in the background, and refuses the model by the file's name from then on; others are served as before. After an
// orderly end nothing is hashed.
func TestRottenAfterKill(t *testing.T) {
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
	p.until("answers", 20*time.Second, func() bool { return p.metric("axle_running") >= 4 })
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
	p.until("hashed", 30*time.Second, func() bool { return strings.Contains(p.said(), "the models were hashed") })
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
