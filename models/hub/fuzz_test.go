package hub

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/models"
)

// A listing is refused or names files inside the package, whatever the hub says; no other host is
// asked.
func FuzzListing(f *testing.F) {
	const (
		sha   = "0123456789abcdef0123456789abcdef01234567"
		model = `{"sha":"` + sha + `","siblings":[{"rfilename":"config.json","size":9,"blobId":"` + sha +
			`"},{"rfilename":"a/x.axmodel","lfs":{"sha256":"` + sha + sha + `","size":5}}]}`
		tree = `[{"type":"directory","oid":"` + sha + `","size":0,"path":"a"},{"type":"file","oid":"` + sha +
			`","size":200,"path":"config.json"},` +
			`{"type":"file","oid":"` + sha + `","size":7000,"path":"a/x.axmodel","lfs":{"oid":"` + sha + sha +
			`","size":7000,"pointerSize":134}}]`
	)
	f.Add(model, tree, `<https://hub.example/api/models/o/m/tree/main?recursive=true&cursor=5>; rel="next"`)
	f.Add(model, `{"error":"no such call"}`, "")
	f.Add(`{"sha":"../..","siblings":[{"rfilename":"../x","size":-1}]}`,
		`[{"path":"../../etc/passwd","size":-5},{"path":"a\\b"},{"path":"/x"},{"path":"ok","lfs":{"oid":"sha256:zz","size":-9}}]`,
		`</elsewhere>; rel="next", <//evil.example>; rel="next"`)
	f.Add("null", "[null,{}]", `<>; rel="next"`)
	f.Fuzz(func(t *testing.T, model, tree, link string) {
		fuzzguard.Check(t, len(model)+len(tree), func() { listed(t, &says{model: model, tree: tree, link: link}) })
	})
}

// says answers every request, for the first three pages of a listing with its link to a next one.
type says struct {
	model, tree, link, tag, size, length string
	pages                                int
	strayed                              string // a request to another host
}

func (s *says) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != "hub.example" || r.URL.Scheme != "https" {
		s.strayed = r.URL.String()
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r, ContentLength: -1}
	body := s.model
	switch {
	case r.Method == http.MethodHead:
		body = ""
		resp.Header["X-Linked-Etag"], resp.Header["X-Linked-Size"] = []string{s.tag}, []string{s.size}
	case strings.Contains(r.URL.Path, "/tree/"):
		if body = s.tree; s.pages < 3 {
			resp.Header["Link"] = []string{s.link}
		}
		s.pages++
	}
	resp.Body = io.NopCloser(strings.NewReader(body))
	return resp, nil
}

func (s *says) client() *Client {
	return &Client{Endpoints: []string{"https://hub.example"}, Retries: 1, Backoff: time.Nanosecond, Transport: s}
}

// listed fails where a listing has given what nothing behind it expects.
func listed(t *testing.T, h *says) {
	t.Helper()
	h.pages = 0
	s, err := h.client().Snapshot(context.Background(), "o/m", "v1")
	if h.strayed != "" {
		t.Fatalf("asked %s", h.strayed)
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%T: %v", err, err)
		}
		return
	}
	if s.Commit != "v1" && !isHex(s.Commit, 40) || len(s.Files) > maxFiles {
		t.Fatalf("commit %q, %d files", s.Commit, len(s.Files))
	}
	for _, f := range s.Files {
		if !fs.ValidPath(f.Path) || f.Path == "." || strings.ContainsAny(f.Path, "\\\x00") || f.Size < 0 || f.Git != "" &&
			!isHex(f.Git, 40) || f.Git != "" && !f.Digest.IsZero() {
			t.Fatalf("%+v", f)
		}
		u, err := url.Parse(s.fileURL("https://hub.example", f.Path))
		if err != nil || u.Host != "hub.example" || !strings.HasPrefix(u.Path, "/o/m/resolve/"+s.Commit+"/") || u.RawQuery != "" ||
			u.Fragment != "" {
			t.Fatalf("%q is served at %v, %v", f.Path, u, err)
		}
	}
}

// The next page of a listing is on the host that was asked, by the same scheme.
func FuzzLink(f *testing.F) {
	for _, s := range []string{`<https://hub.example/b?cursor=1>; rel="next"`, `<http://hub.example/b>; rel="next"`,
		`<https://hub.example@evil.example/>; rel="next"`,
		`</a?x=1,2>; rel="prev", <?page=3>; rel="next"`, `<//evil.example/x>; rel="next"`, `<:>; rel="next"`, strings.Repeat(`<`, 99) +
			`>rel="next"`} {
		f.Add(s)
	}
	asked, _ := url.Parse("https://hub.example/api/models/o/m/tree/main?recursive=true")
	f.Fuzz(func(t *testing.T, link string) {
		fuzzguard.Check(t, len(link), func() {
			next := nextPage(&http.Response{Header: http.Header{"Link": {link}}, Request: &http.Request{URL: asked}})
			if next == "" {
				return
			}
			if u, err := url.Parse(next); err != nil || u.Host != asked.Host || u.Scheme != asked.Scheme {
				t.Fatalf("%q leads to %q", link, next)
			}
		})
	})
}

// A Content-Range is refused or begins at a place and has a size that files have.
func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 5-9/100", "bytes 0-0/*", "bytes */100", "bytes 5/100", "bytes -5-9/100", "bytes 9-5/-7",
		"bytes 99999999999999999999-1/1", "bytes 1-2/9223372036854775807", "items 1-2/3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fuzzguard.Check(t, len(s), func() {
			from, total, ok := contentRange(s)
			if ok && (from < 0 || total < -1 || !strings.HasPrefix(s, "bytes ") || strings.HasSuffix(s, "/*") != (total == -1)) {
				t.Fatalf("%q is %d of %d", s, from, total)
			}
		})
	})
}

// What the headers say of a file that the listing says nothing of is a size and a hash, or nothing.
func FuzzDescribe(f *testing.F) {
	f.Add(`"`+strings.Repeat("ab", 32)+`"`, "7000")
	f.Add(`W/"`+strings.Repeat("0", 40)+`"`, "-1")
	f.Add(strings.Repeat(`"`, 9), "0x10 1e9")
	f.Fuzz(func(t *testing.T, tag, size string) {
		fuzzguard.Check(t, len(tag)+len(size), func() {
			h := &says{tag: tag, size: size}
			got, err := h.client().Describe(context.Background(), &Snapshot{Repo: "o/m", Commit: "main"}, File{Path: "x"})
			if err != nil || got.Path != "x" || got.Size < 0 || got.Git != "" && !isHex(got.Git, 40) {
				t.Fatalf("%+v, %v", got, err)
			}
			if d, derr := models.ParseDigest("sha256:" + strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)); derr == nil && got.Digest != d {
				t.Fatalf("%+v, want %s", got, d)
			}
		})
	})
}

// A mebibyte of listing keeps within the limits too.
func TestHostileListings(t *testing.T) {
	//proves:G5 a mebibyte of hostile bytes each
	for name, tree := range map[string][]byte{
		"empty files":   fuzzguard.Fill("[{}", ",{}", "]"),
		"nulls":         fuzzguard.Fill("[null", ",null", "]"),
		"files":         fuzzguard.Fill(`[{"path":"a"}`, `,{"path":"a"}`, "]"),
		"large files":   fuzzguard.Fill(`[{"path":"a","lfs":{}}`, `,{"path":"a","lfs":{}}`, "]"),
		"one key":       fuzzguard.Fill(`[{"path":"a"`, `,"path":"b"`, "}]"),
		"deep":          fuzzguard.Fill("", "[", ""),
		"a long name":   fuzzguard.Fill(`[{"path":"`, `a/`, `a"}]`),
		"escapes":       fuzzguard.Fill(`[{"path":"`, `\u0061`, `"}]`),
		"not a listing": fuzzguard.Fill(`{"a":0`, `,"a":0`, "}"),
	} {
		t.Run(name, func(t *testing.T) {
			fuzzguard.Check(t, len(tree), func() { listed(t, &says{model: "{}", tree: string(tree)}) })
			model := bytes.ReplaceAll(append(append([]byte(`{"siblings":`), tree...), '}'), []byte(`"path"`), []byte(`"rfilename"`))
			fuzzguard.Check(t, len(model), func() { listed(t, &says{model: string(model), tree: "{}"}) })
		})
	}
	link := string(fuzzguard.Fill("", `<a>; rel="next",`, ""))
	fuzzguard.Check(t, len(link), func() { listed(t, &says{model: "{}", tree: "[]", link: link}) })
}
