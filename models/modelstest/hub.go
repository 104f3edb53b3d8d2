package modelstest

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // Git's ids
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Content is a file's bytes; large ones are computed where they are read.
type Content interface {
	io.ReaderAt
	Size() int64
}

// Noise is a file of n bytes that look random and follow from the seed.
type Noise struct {
	Seed uint64
	N    int64
}

// Size is n.
func (f Noise) Size() int64 { return f.N }

// ReadAt computes the bytes.
func (f Noise) ReadAt(p []byte, off int64) (int, error) {
	n := int64(len(p))
	if off >= f.N {
		return 0, io.EOF
	}
	n = min(n, f.N-off)
	var word [8]byte
	for i := int64(0); i < n; {
		block := uint64(off+i) / 8
		x := (block + f.Seed) * 0x9e3779b97f4a7c15
		x ^= x >> 29
		x *= 0xbf58476d1ce4e5b9
		binary.LittleEndian.PutUint64(word[:], x^x>>32)
		i += int64(copy(p[i:n], word[(off+i)%8:]))
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// Fault is what a hub does wrong with one request for a file.
type Fault int

// Faults.
const (
	None     Fault = iota
	Cut            // the connection ends in the middle
	Reset          // the connection ends before an answer
	Denied         // 403
	Broken         // 500
	Busy           // 429
	Stall          // bytes stop coming, the connection stays
	Flip           // a byte is wrong
	NoRanges       // the whole file, whatever was asked for
	Away           // one more redirect, to another host
)

// Hub serves repositories as Hugging Face does: listings and small files from one host, large files
// by redirect from another. Close it.
type Hub struct {
	URL string // the endpoint

	Page int // files a page of a listing; 0: all

	api, store *httptest.Server
	mu         sync.Mutex
	token      string // required when set
	fault      func(path string, n int) Fault
	repos      map[string]map[string]Content
	counts     map[string]int
	leaks      []string
	requests   []string
	held       chan struct{} // closed by Close: lets stalled requests go
	sums       map[Content][2]string
}

// NewHub starts a hub on the loopback interface.
func NewHub() *Hub {
	h := &Hub{repos: map[string]map[string]Content{}, counts: map[string]int{}, held: make(chan struct{}), sums: map[Content][2]string{}}
	h.store = httptest.NewServer(http.HandlerFunc(h.large))
	h.api = httptest.NewServer(http.HandlerFunc(h.serve))
	h.URL = h.api.URL
	return h
}

// Close ends it.
func (h *Hub) Close() {
	close(h.held)
	h.api.CloseClientConnections()
	h.store.CloseClientConnections()
	h.api.Close()
	h.store.Close()
}

// SetToken makes the hub ask for a token; none when it is empty.
func (h *Hub) SetToken(token string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.token = token
}

// SetFault says what goes wrong with the n-th request (from 0) for the content of a large file.
func (h *Hub) SetFault(f func(path string, n int) Fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = f
}

// Add puts files into a repository.
func (h *Hub) Add(repo string, files map[string]Content) {
	for _, c := range files {
		h.sum(c) // here, not while a client waits for an answer
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.repos[repo] == nil {
		h.repos[repo] = map[string]Content{}
	}
	for name, c := range files {
		h.repos[repo][name] = c
	}
}

// AddDir puts all files of a folder into a repository.
func (h *Hub) AddDir(repo, dir string) error {
	files := map[string]Content{}
	fsys := os.DirFS(dir)
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		files[name] = bytes.NewReader(data)
		return err
	})
	h.Add(repo, files)
	return err
}

// Transport answers without sockets, for tests that make many requests for small files.
func (h *Hub) Transport() http.RoundTripper { return direct{h} }

type direct struct{ h *Hub }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	if r.URL.Host == strings.TrimPrefix(d.h.store.URL, "http://") {
		d.h.large(rec, r)
	} else {
		d.h.serve(rec, r)
	}
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

// Leaks are requests to the storage host that carried a token.
func (h *Hub) Leaks() []string { h.mu.Lock(); defer h.mu.Unlock(); return slices.Clone(h.leaks) }

// Requests are all requests so far: method, path and range.
func (h *Hub) Requests() []string { h.mu.Lock(); defer h.mu.Unlock(); return slices.Clone(h.requests) }

func (h *Hub) sum(c Content) (sha, git string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.sums[c]; ok {
		return s[0], s[1]
	}
	a, b := sha256.New(), sha1.New() //nolint:gosec // Git's ids
	fmt.Fprintf(b, "blob %d\x00", c.Size())
	_, _ = io.Copy(io.MultiWriter(a, b), io.NewSectionReader(c, 0, c.Size()))
	s := [2]string{hex.EncodeToString(a.Sum(nil)), hex.EncodeToString(b.Sum(nil))}
	h.sums[c] = s
	return s[0], s[1]
}

// isLarge says what the hub keeps in LFS.
func isLarge(name string) bool {
	return strings.HasSuffix(name, ".axmodel") || strings.HasSuffix(name, ".bin") || strings.HasSuffix(name, ".npy") ||
		strings.HasSuffix(name, "tokenizer.json")
}

const commit = "0123456789abcdef0123456789abcdef01234567"

func (h *Hub) serve(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests = append(h.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Range"))
	token := h.token
	h.mu.Unlock()
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		w.Header().Set("X-Error-Message", "Invalid username or password.")
		http.Error(w, "", http.StatusUnauthorized)
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 6 && parts[0] == "api" && parts[1] == "models":
		h.list(w, r, parts[2]+"/"+parts[3], parts[4], parts[5])
	case len(parts) >= 5 && parts[2] == "resolve":
		name := strings.Join(parts[4:], "/")
		h.mu.Lock()
		c, ok := h.repos[parts[0]+"/"+parts[1]][name]
		h.mu.Unlock()
		if !ok || parts[3] != commit && parts[3] != "main" {
			http.Error(w, "Entry not found", http.StatusNotFound)
			return
		}
		sha, git := h.sum(c)
		w.Header().Set("X-Repo-Commit", commit)
		if !isLarge(name) {
			w.Header().Set("ETag", `"`+git+`"`)
			h.send(w, r, name, c, None)
			return
		}
		w.Header().Set("X-Linked-Etag", `"`+sha+`"`)
		w.Header().Set("X-Linked-Size", strconv.FormatInt(c.Size(), 10))
		w.Header().Set("Location", h.store.URL+"/"+parts[0]+"/"+parts[1]+"/"+name+"?Signature=secret")
		w.WriteHeader(http.StatusFound)
	default:
		http.Error(w, "not found", http.StatusNotFound)
	}
}

func (h *Hub) list(w http.ResponseWriter, r *http.Request, repo, kind, rev string) {
	h.mu.Lock()
	files, ok := h.repos[repo]
	var names []string
	for n := range files {
		names = append(names, n)
	}
	h.mu.Unlock()
	if !ok || rev != "main" && rev != commit {
		http.Error(w, `{"error":"Repository not found"}`, http.StatusNotFound)
		return
	}
	slices.Sort(names)
	switch kind {
	case "revision":
		_ = json.NewEncoder(w).Encode(map[string]any{"id": repo, "sha": commit})
	case "tree":
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		to := len(names)
		if h.Page > 0 && from+h.Page < to {
			to = from + h.Page
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=%d>; rel="next"`, h.URL, r.URL.Path, to))
		}
		list := []map[string]any{{"type": "directory", "oid": strings.Repeat("0", 40), "size": 0, "path": "folder"}}
		for _, n := range names[from:to] {
			sha, git := h.sum(files[n])
			e := map[string]any{"type": "file", "oid": git, "size": files[n].Size(), "path": n}
			if isLarge(n) {
				e["oid"] = strings.Repeat("a", 40) // of the pointer
				e["lfs"] = map[string]any{"oid": sha, "size": files[n].Size(), "pointerSize": 134}
			}
			list = append(list, e)
		}
		_ = json.NewEncoder(w).Encode(list)
	default:
		http.Error(w, "not found", http.StatusNotFound)
	}
}

// large is the storage host.
func (h *Hub) large(w http.ResponseWriter, r *http.Request) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 3)
	h.mu.Lock()
	h.requests = append(h.requests, "GET store "+r.URL.Path+" "+r.Header.Get("Range"))
	if r.Header.Get("Authorization") != "" {
		h.leaks = append(h.leaks, r.URL.Path)
	}
	var c Content
	ok := len(parts) == 3
	if ok {
		c, ok = h.repos[parts[0]+"/"+parts[1]][parts[2]]
	}
	n := h.counts[r.URL.Path]
	h.counts[r.URL.Path]++
	wrong := h.fault
	h.mu.Unlock()
	if !ok || r.URL.Query().Get("Signature") != "secret" {
		http.Error(w, "AccessDenied", http.StatusForbidden)
		return
	}
	fault := None
	if wrong != nil {
		fault = wrong(parts[2], n)
	}
	h.send(w, r, parts[2], c, fault)
}

// send serves a file or a range of it, with a fault.
func (h *Hub) send(w http.ResponseWriter, r *http.Request, name string, c Content, fault Fault) {
	size := c.Size()
	from, to := int64(0), size
	if spec, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok && fault != NoRanges {
		a, b, _ := strings.Cut(spec, "-")
		from, _ = strconv.ParseInt(a, 10, 64)
		if b != "" {
			last, _ := strconv.ParseInt(b, 10, 64)
			to = min(last+1, size)
		}
		if from >= size || from >= to {
			http.Error(w, "", http.StatusRequestedRangeNotSatisfiable)
			return
		}
	}
	switch fault {
	case Reset:
		panic(http.ErrAbortHandler)
	case Denied, Broken, Busy:
		http.Error(w, "", map[Fault]int{Denied: 403, Broken: 500, Busy: 429}[fault])
		return
	case Away:
		u := *r.URL
		u.Scheme, u.Host = "http", strings.Replace(r.Host, "127.0.0.1", "localhost", 1)
		http.Redirect(w, r, u.String(), http.StatusFound)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(to-from, 10))
	if r.Header.Get("Range") != "" && fault != NoRanges {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, size))
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == http.MethodHead {
		return
	}
	half := from + (to-from)/2
	buf := make([]byte, 64<<10)
	for at := from; at < to; {
		n, err := c.ReadAt(buf[:min(int64(len(buf)), to-at)], at)
		if n == 0 && err != nil {
			panic(http.ErrAbortHandler)
		}
		end := at + int64(n)
		if fault != None && end > half && at <= half {
			switch fault {
			case Cut:
				_, _ = w.Write(buf[:half-at])
				panic(http.ErrAbortHandler)
			case Flip:
				buf[half-at] ^= 1
			case Stall:
				_, _ = w.Write(buf[:half-at])
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-h.held:
				}
				panic(http.ErrAbortHandler)
			}
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return
		}
		at = end
	}
}
