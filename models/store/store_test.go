package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/pocket"
)

func TestCreate(t *testing.T) {
	s, _ := withFiles(t)
	ctx := context.Background()
	files := len(blobs(t, s))
	str := func(s string) *string { return &s }
	var lines []string
	err := s.Create(ctx, CreateRequest{Name: "ns/derived:v1", From: "base", Template: str("{{ .Prompt }}"), System: str("Be brief."),
		License:  []string{"MIT"},
		Params:   map[string]any{"temperature": 0.5, "stop": []string{"<|end|>", "\n\n"}, "num_ctx": 2048},
		Messages: []Message{{"user", "hi"}, {"assistant", "hello"}}}, func(l string) { lines = append(lines, l) })
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, l := range lines {
		kind, rest, _ := strings.Cut(l, " sha256:")
		if rest != "" && len(rest) != 64 {
			t.Errorf("line %q", l)
		}
		kinds[kind]++
	}
	if want := map[string]int{"using existing layer": files, "creating new layer": 5, "writing manifest": 1,
		"success": 1}; !maps.Equal(kinds, want) || lines[len(lines)-1] != "success" {
		t.Errorf("lines %v, want %v", kinds, want)
	}
	if n := len(blobs(t, s)); n != files+5 {
		t.Errorf("%d blobs, want the package's %d and 5", n, files)
	}
	m := get(t, s, "ns/derived:v1")
	if m.Template != "{{ .Prompt }}" || m.System != "Be brief." || !slices.Equal(m.License, []string{"MIT"}) || len(m.Messages) != 2 ||
		m.Messages[1].Content != "hello" || m.From != "base:latest" {
		t.Errorf("%+v", m)
	}
	if d := cmp.Diff(map[string]any{"temperature": 0.5, "stop": []any{"<|end|>", "\n\n"}, "num_ctx": 2048.0}, m.Params); d != "" {
		t.Error(d)
	}
	// A model of a derived model: what is not said is inherited, parameters add up, licences too,
	// "" removes.
	if err := s.Create(ctx, CreateRequest{Name: "second", From: "ns/derived:v1", System: str(""), License: []string{"Apache-2.0"},
		Params: map[string]any{"temperature": 0.9}}, nil); err != nil {
		t.Fatal(err)
	}
	m2 := get(t, s, "second")
	if m2.Template != "{{ .Prompt }}" || m2.System != "" || !slices.Equal(m2.License, []string{"MIT", "Apache-2.0"}) ||
		m2.Params["temperature"] != 0.9 || m2.Params["num_ctx"] != 2048.0 || len(m2.Messages) != 2 {
		t.Errorf("%+v", m2)
	}
	p, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	q, err := get(t, s, "base").Open()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if p.Digest() != q.Digest() || m.Digest == get(t, s, "base").Digest {
		t.Error("a derived model is the same package and another model")
	}
	// Deleting one frees what it alone had; the package goes with its last user.
	if err := s.Delete("base"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete("ns/derived:v1"); err != nil {
		t.Fatal(err)
	}
	if n := len(blobs(t, s)); n != files+5 { // + template, messages, params, 2 licences of "second"
		t.Errorf("%d blobs: %v", n, blobs(t, s))
	}
	if err := s.Verify(ctx, "second", nil); err != nil {
		t.Error(err)
	}
	if err := s.Delete("second"); err != nil {
		t.Fatal(err)
	}
	if left := blobs(t, s); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if list, err := os.ReadDir(filepath.Join(s.Dir(), "manifests")); err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// withFiles makes a store that has a package of uploaded blobs, called base.
func withFiles(t *testing.T) (*Store, map[string]models.Digest) {
	t.Helper()
	s := openStore(t)
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	files := map[string]models.Digest{}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		d := sum(data)
		if created, err := s.PutBlob(context.Background(), d, bytes.NewReader(data)); err != nil || !created {
			t.Fatal(created, err)
		}
		files[e.Name()] = d
	}
	if err := s.Create(context.Background(), CreateRequest{Name: "base", Files: files}, nil); err != nil {
		t.Fatal(err)
	}
	return s, files
}

func blobs(t *testing.T, s *Store) []string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(s.Dir(), "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

func get(t *testing.T, s *Store, name string) *Model {
	t.Helper()
	m, err := s.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCreateErrors(t *testing.T) {
	s, files := withFiles(t)
	other := maps.Clone(files)
	other["config.json"] = sum([]byte("never uploaded"))
	lacking := maps.Clone(files)
	delete(lacking, "qwen3_post.axmodel")
	for _, c := range []struct {
		name string
		r    CreateRequest
		is   error
		text string
	}{
		{"nothing", CreateRequest{Name: "x"}, ErrNoBase, "neither 'from' or 'files' was specified"},
		{"bad name", CreateRequest{Name: "../x", From: "base"}, models.ErrName, "invalid model name"},
		{"bad parent", CreateRequest{Name: "x", From: "../x"}, models.ErrName, "invalid model name"},
		{"no parent", CreateRequest{Name: "x", From: "nope"}, ErrNotFound, "nope:latest"},
		{"blob missing", CreateRequest{Name: "x", Files: other}, nil, "was not uploaded"},
		{"no package", CreateRequest{Name: "x", Files: lacking}, models.ErrMissing, "qwen3_post.axmodel"},
		{"folder missing", CreateRequest{Name: "x", Folder: "/nonexistent"}, models.ErrNotPackage, "/nonexistent"},
		{"params", CreateRequest{Name: "x", From: "base", Params: map[string]any{"f": func() {}}}, nil, "parameters"},
	} {
		err := s.Create(context.Background(), c.r, nil)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if list, err := s.List(context.Background()); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestBlobs(t *testing.T) {
	s := openStore(t)
	ctx := context.Background()
	data := []byte("some bytes")
	d := sum(data)
	if _, ok, err := s.HasBlob(d); ok || err != nil {
		t.Error(ok, err)
	}
	if created, err := s.PutBlob(ctx, d, iotest.HalfReader(bytes.NewReader(data))); !created || err != nil {
		t.Error(created, err)
	}
	if size, ok, err := s.HasBlob(d); size != 10 || !ok || err != nil {
		t.Error(size, ok, err)
	}
	if created, err := s.PutBlob(ctx, d, iotest.ErrReader(errors.New("read"))); created || err != nil {
		t.Error(created, err)
	}
	other := sum([]byte("other"))
	_, err := s.PutBlob(ctx, other, bytes.NewReader(data))
	if !errors.Is(err, ErrMismatch) || err.Error() != fmt.Sprintf("digest mismatch, expected %q, got %q", other, d) {
		t.Error(err)
	}
	if _, err := s.PutBlob(ctx, other, iotest.ErrReader(errors.New("cut off"))); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Error(err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.PutBlob(done, other, bytes.NewReader([]byte("other"))); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left := blobs(t, s); !slices.Equal(left, []string{d.File()}) {
		t.Errorf("left: %v", left)
	}
	if freed, err := s.Prune(time.Hour); freed != 0 || err != nil {
		t.Error(freed, err)
	}
	if freed, err := s.Prune(-time.Hour); freed != 10 || err != nil {
		t.Error(freed, err)
	}
}

func TestListAndNames(t *testing.T) {
	s, _ := withFiles(t)
	ctx := context.Background()
	if list, err := openStore(t).List(ctx); err != nil || len(list) != 0 {
		t.Errorf("an empty store: %v, %v", list, err)
	}
	for i, n := range []string{"b", "a", "C/D:E"} {
		if err := s.Copy("base", n); err != nil {
			t.Fatal(err)
		}
		m := get(t, s, n)
		at := time.Unix(int64(2_000_000_000+i), 0)
		if err := os.Chtimes(filepath.Join(s.Dir(), m.path), at, at); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range list {
		names = append(names, m.Name.String())
	}
	if want := []string{"C/D:E", "a:latest", "b:latest", "base:latest"}; !slices.Equal(names, want) {
		t.Errorf("newest first: %v, want %v", names, want)
	}
	if m := get(t, s, "c/d:e"); m.Name.String() != "C/D:E" {
		t.Errorf("letters of either case are the same: %s", m.Name)
	}
	if err := s.Copy("a", "c/D:e"); err != nil {
		t.Fatal(err)
	}
	if list, _ := s.List(ctx); len(list) != 4 {
		t.Errorf("a name in other letters made a second model: %d", len(list))
	}
	for name, want := range map[string]error{"nope": ErrNotFound, "": models.ErrName, "a:": models.ErrName} {
		if _, err := s.Get(name); !errors.Is(err, want) {
			t.Errorf("get %q: %v", name, err)
		}
		if err := s.Delete(name); !errors.Is(err, want) {
			t.Errorf("delete %q: %v", name, err)
		}
		if err := s.Copy(name, "x"); !errors.Is(err, want) {
			t.Errorf("copy %q: %v", name, err)
		}
	}
	if i, err := get(t, s, "a").Info(); err != nil || i.Architecture != "qwen3" || i.Context != 64 {
		t.Errorf("%+v, %v", i, err)
	}
}

// Ollama's own models in the same folder are passed over, never harmed, and named for what they
// are.
func TestBesideOllama(t *testing.T) {
	s, _ := withFiles(t)
	gguf := []byte("GGUF...")
	if _, err := s.PutBlob(context.Background(), sum(gguf), bytes.NewReader(gguf)); err != nil {
		t.Fatal(err)
	}
	config := []byte("{}")
	if _, err := s.PutBlob(context.Background(), sum(config), bytes.NewReader(config)); err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(s.Dir(), "manifests/registry.ollama.ai/library/llama3/8b")
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	data := fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","config":{"mediaType":"application/vnd.docker.container.image.v1+json","digest":%q,"size":2},
		"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":%q,"size":7}]}`, sum(config), sum(gguf))
	if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(p), "broken"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("llama3:8b"); !errors.Is(err, ErrGGUF) {
		t.Errorf("%v", err)
	}
	if list, err := s.List(context.Background()); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if err := s.Delete("base"); err != nil {
		t.Fatal(err)
	}
	if freed, err := s.Prune(-time.Hour); freed != 0 || err != nil {
		t.Errorf("pruned %d bytes of Ollama's, %v", freed, err)
	}
	if left := blobs(t, s); len(left) != 2 {
		t.Errorf("left: %v", left)
	}
	if err := s.Delete("llama3:broken"); err != nil { // what is damaged can be removed
		t.Error(err)
	}
}

func TestInPlace(t *testing.T) {
	root := t.TempDir()
	write := func(dir, layout string) string {
		dir = filepath.Join(root, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := modelstest.Write(dir, layout); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	write("many/Qwen3-0.6B", "A")
	write("many/AXERA-TECH/Qwen3-4B-Int8", "E")
	write("many/qwen3:tiny", "C")
	write("many/Bündel 1", "D")
	write("many/Reaching", "B")
	write("many/Mode", "F")
	write("many/Old", "H")
	hubbed := write("many/models--org--Name/snapshots/0123", "A")
	single := write("single/My Model", "G")
	if err := os.MkdirAll(filepath.Join(root, "many/photos/2026"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "many/photos/config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(single, filepath.Join(root, "many/linked")); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(root, "store")
	s, err := Open(Options{Dir: store, Paths: []string{filepath.Join(root, "many"), single, filepath.Join(root, "nowhere"), ""}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	list, err := s.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range list {
		names = append(names, m.Name.String())
		if len(m.Digest) != 64 || m.Size == 0 || m.ModifiedAt.IsZero() || m.path != "" || m.Folder == "" {
			t.Errorf("%+v", m)
		}
		p, err := m.Open()
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		p.Close()
		if err := s.Verify(ctx, m.Name.String(), nil); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	slices.Sort(names)
	if want := []string{"AXERA-TECH/Qwen3-4B-Int8:latest", "B-ndel-1:latest", "Mode:latest", "My-Model:latest", "Old:latest",
		"Qwen3-0.6B:latest", "Reaching:latest", "linked:latest", "org/Name:latest", "qwen3:tiny"}; !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
	if err := s.Delete("qwen3-0.6b"); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "AXLE_MODEL_PATH") {
		t.Errorf("delete: %v", err)
	}
	// Derived from a package in place: its files are shared where they lie.
	sys := "Hi."
	if err := s.Create(ctx, CreateRequest{Name: "mine", From: "Qwen3-0.6B", System: &sys}, nil); err != nil {
		t.Fatal(err)
	}
	m := get(t, s, "mine")
	p, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if base := get(t, s, "Qwen3-0.6B"); m.Size != base.Size+3 || len(m.Files) != len(base.Files) || m.Digest == base.Digest {
		t.Errorf("size %d of a base of %d", m.Size, base.Size)
	}
	if m.System != "Hi." || m.Folder != filepath.Join(root, "many/Qwen3-0.6B") || m.path == "" || p.Dir != m.Folder ||
		len(blobs(t, s)) != 1 {
		t.Errorf("%+v", m)
	}
	if err := os.WriteFile(filepath.Join(hubbed, "SHA256SUMS"), []byte(strings.Repeat("0", 64)+"  config.json\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "many/Qwen3-0.6B/SHA256SUMS"), []byte(strings.Repeat("0", 64)+"  config.json\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(ctx, "qwen3-0.6b", nil); !errors.Is(err, ErrMismatch) {
		t.Errorf("SHA256SUMS: %v", err)
	}
	before := get(t, s, "My-Model").Digest
	if err := os.Chtimes(filepath.Join(single, "qwen3_l0.axmodel"), time.Time{}, time.Unix(5, 0)); err != nil {
		t.Fatal(err)
	}
	if get(t, s, "My-Model").Digest == before {
		t.Error("a changed folder has the same digest")
	}
	if err := os.RemoveAll(filepath.Join(root, "many/Qwen3-0.6B")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Open(); !errors.Is(err, models.ErrNotPackage) || !strings.Contains(err.Error(), "many/Qwen3-0.6B") {
		t.Errorf("a folder that went: %v", err)
	}
	if err := s.Delete("mine"); err != nil {
		t.Error(err)
	}
}

func TestBuiltin(t *testing.T) {
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	mem := fstest.MapFS{}
	if err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, p))
		mem[p] = &fstest.MapFile{Data: data, Mode: 0o444}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: t.TempDir(), Builtin: map[string]fs.FS{"pocket": mem}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := get(t, s, "pocket")
	if !m.Builtin || m.path != "" || len(m.Digest) != 64 || m.Size == 0 {
		t.Errorf("%+v", m)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			p, err := m.Open()
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(p.Layers[0]); err != nil {
				t.Error(err)
			}
			p.Close()
		})
	}
	wg.Wait()
	if err := s.Delete("pocket"); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	if err := s.Copy("pocket", "purse"); err != nil {
		t.Fatal(err)
	}
	if p, err := get(t, s, "purse").Open(); err != nil {
		t.Error(err)
	} else {
		p.Close()
	}
	if err := s.Delete("purse"); err != nil {
		t.Error(err)
	}
	if _, err := Open(Options{Dir: t.TempDir(), Builtin: map[string]fs.FS{"../x": mem}}); !errors.Is(err, models.ErrName) {
		t.Error(err)
	}
}

// The model inside opens as any other: written out once, with a tokenizer and a template that knows
// tools and thinking.
func TestPocket(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir(), Builtin: map[string]fs.FS{pocket.Name: pocket.FS()}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := get(t, s, "pocket")
	p, err := m.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	tok, err := p.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	if tok.Vocab() > p.Vocab || p.Out > p.Vocab || !slices.Contains(p.Capabilities(), "tools") ||
		!slices.Contains(p.Capabilities(), "thinking") {
		t.Errorf("%d ids, %d embeddings, %d logits, %v", tok.Vocab(), p.Vocab, p.Out, p.Capabilities())
	}
	i, err := m.Info()
	if err != nil || i.Estimated || i.Parameters < 3e6 || i.Parameters > 8e6 {
		t.Errorf("%d parameters, estimated %v, %v", i.Parameters, i.Estimated, err)
	}
	q, err := models.OpenFS(pocket.FS(), ".")
	if err != nil {
		t.Fatal(err)
	}
	if q.Digest() != p.Digest() {
		t.Error("the package inside and the one written out differ")
	}
	q.Close()
	t.Logf("%s: %s parameters, %s, context %d, notes %q", m.Name, i.ParameterSize, i.Quantization, i.Context, i.Notes)
}

// Blobs seen as the folder they were.
func TestPackageFS(t *testing.T) {
	s := openStore(t)
	var files []descriptor
	for _, name := range []string{"config.json", "a/b/c.txt", "a/d.txt", "z/e.bin"} {
		data := []byte("content of " + name)
		if _, err := s.PutBlob(context.Background(), sum(data), bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		files = append(files, descriptor{mediaFile, sum(data), int64(len(data)), name})
	}
	p := newPackageFS(s.disk, files)
	var seen []string
	err := fs.WalkDir(p, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := fs.Stat(p, name)
		if err != nil || st.IsDir() != d.IsDir() {
			t.Errorf("%s: %v, %v", name, st, err)
		}
		if d.IsDir() {
			seen = append(seen, name+"/")
			return nil
		}
		seen = append(seen, name)
		data, err := fs.ReadFile(p, name)
		if err != nil || string(data) != "content of "+name {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		if real, ok := p.RealPath(name); !ok || !strings.HasPrefix(real, s.Dir()) {
			t.Errorf("%s lies at %q", name, real)
		}
		return nil
	})
	if want := []string{"./", "a/", "a/b/", "a/b/c.txt", "a/d.txt", "config.json", "z/", "z/e.bin"}; err != nil ||
		!slices.Equal(seen, want) {
		t.Errorf("%v, want %v, %v", seen, want, err)
	}
	for _, bad := range []string{"nope", "a/nope", "../x", "/a", "a/../config.json", ""} {
		if _, err := p.Open(bad); err == nil {
			t.Errorf("opened %q", bad)
		}
		if _, err := p.Stat(bad); err == nil {
			t.Errorf("stat of %q", bad)
		}
		if _, ok := p.RealPath(bad); ok {
			t.Errorf("%q has a real path", bad)
		}
	}
}

func TestFromEnv(t *testing.T) {
	t.Setenv("OLLAMA_MODELS", "/o")
	t.Setenv("AXLE_MODEL_PATH", "/a:/b")
	if o := FromEnv(); o.Dir != "/o" || !slices.Equal(o.Paths, []string{"/a", "/b"}) {
		t.Errorf("%+v", o)
	}
	t.Setenv("AXLE_MODELS", "/x")
	if o := FromEnv(); o.Dir != "/x" {
		t.Errorf("%+v", o)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: filepath.Join(file, "x")}); err == nil || !strings.Contains(err.Error(), "AXLE_MODELS") {
		t.Errorf("%v", err)
	}
}

// Many goroutines do everything at once; whatever order it happened in, what is left is whole and
// every error is one that was asked for.
func TestConcurrent(t *testing.T) {
	s, _ := withFiles(t)
	ctx := context.Background()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				name := fmt.Sprintf("m%d", (g*7+i)%5)
				sys := fmt.Sprintf("system %d", i%3)
				var err error
				switch (g + i) % 5 {
				case 0:
					err = s.Create(ctx, CreateRequest{Name: name, From: "base", System: &sys}, nil)
				case 1:
					err = s.Copy("base", name)
				case 2:
					err = s.Delete(name)
				case 3:
					_, err = s.List(ctx)
				case 4:
					var m *Model
					if m, err = s.Get(name); err == nil {
						var p *models.Package
						if p, err = m.Open(); err == nil {
							err = p.Close()
						}
					}
				}
				if err != nil && !errors.Is(err, ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	list, err := s.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, m := range list {
		if err := s.Verify(ctx, m.Name.String(), nil); err != nil {
			t.Error(err)
		}
		for _, l := range m.m.Layers {
			used[l.Digest.File()] = true
		}
		if _, err := json.Marshal(m.m); err != nil {
			t.Error(err)
		}
	}
	for _, b := range blobs(t, s) {
		if !used[b] {
			// A blob of a model whose create lost against nothing: only Prune may find such.
			t.Logf("unused %s", b)
		}
	}
	if _, err := s.Prune(-time.Hour); err != nil {
		t.Error(err)
	}
	for _, b := range blobs(t, s) {
		if !used[b] {
			t.Errorf("still there: %s", b)
		}
	}
}
