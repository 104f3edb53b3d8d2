package hub

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/axle-llm/axle/models"
)

// File is one file of a repository. Its hash is SHA-256 where the hub keeps the file in LFS, else Git's own, else unknown.
type File struct {
	Path   string
	Size   int64
	Digest models.Digest // zero when unknown
	Git    string        // 40 hex, the Git blob id; empty when Digest is known, or neither is
}

// Snapshot is a repository at one commit.
type Snapshot struct {
	Repo   string
	Commit string // or the revision that was asked for, where the hub does not say
	Files  []File // in the order of their paths
}

const (
	maxListing = 32 << 20
	maxPages   = 100
	maxFiles   = 20000
)

// Snapshot lists the repository repo (org/name) at a revision; empty means main. It fails with [ErrNotFound], [ErrDenied], or what the network said.
func (c *Client) Snapshot(ctx context.Context, repo, rev string) (*Snapshot, error) {
	c.init()
	rev = cmp.Or(rev, "main")
	org, name, ok := strings.Cut(repo, "/")
	if !ok || org == "" || name == "" || strings.ContainsAny(repo, "?#%\\ ") || strings.Contains(name, "/") || strings.Contains(repo, "..") {
		return nil, &Error{What: fmt.Sprintf("%.100q", repo), Detail: "not a repository name", Fix: "write org/name", Err: ErrNotFound}
	}
	s := &Snapshot{Repo: repo, Commit: rev}
	err := c.try(ctx, func(endpoint string) error { return c.list(ctx, endpoint, s, rev) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(s.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return s, nil
}

func (c *Client) list(ctx context.Context, endpoint string, s *Snapshot, rev string) error {
	s.Files = nil
	s.Commit = rev
	base := endpoint + "/api/models/" + s.Repo
	var model struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
			Size int64  `json:"size"`
			Blob string `json:"blobId"`
			LFS  *lfs   `json:"lfs"`
		} `json:"siblings"`
	}
	_, err := c.json(ctx, s.Repo, base+"/revision/"+url.PathEscape(rev)+"?blobs=true", &model)
	var he *Error
	if err != nil && (!lasting(err) || errors.Is(err, ErrDenied) || !errors.As(err, &he)) {
		return err // else a hub without this call: the revision is not pinned
	}
	if isHex(model.SHA, 40) { // everything that follows is of one commit, whatever is pushed meanwhile
		s.Commit = model.SHA
	}
	terr := c.tree(ctx, base+"/tree/"+url.PathEscape(s.Commit)+"?recursive=true", s)
	if terr == nil {
		return nil
	}
	if !lasting(terr) || len(model.Siblings) == 0 {
		return terr
	}
	for _, f := range model.Siblings { // a mirror without the tree call
		if err := s.add(f.Name, f.Size, f.Blob, f.LFS); err != nil {
			return err
		}
	}
	return nil
}

type lfs struct {
	OID    string `json:"oid"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

func (c *Client) tree(ctx context.Context, target string, s *Snapshot) error {
	for range maxPages {
		var page []struct {
			Type string `json:"type"`
			Path string `json:"path"`
			Size int64  `json:"size"`
			OID  string `json:"oid"`
			LFS  *lfs   `json:"lfs"`
		}
		resp, err := c.json(ctx, s.Repo, target, &page)
		if err != nil {
			return err
		}
		for _, f := range page {
			if f.Type != "" && f.Type != "file" {
				continue
			}
			if err := s.add(f.Path, f.Size, f.OID, f.LFS); err != nil {
				return err
			}
		}
		next := nextPage(resp)
		if next == "" {
			return nil
		}
		target = next
	}
	return &Error{What: s.Repo, Detail: fmt.Sprintf("a listing of more than %d pages", maxPages)}
}

// nextPage reads the Link header; a page on another host is none.
func nextPage(resp *http.Response) string {
	for part := range strings.SplitSeq(resp.Header.Get("Link"), ",") {
		link, rel, ok := strings.Cut(part, ">")
		if !ok || !strings.Contains(rel, `rel="next"`) {
			continue
		}
		u, err := resp.Request.URL.Parse(strings.TrimLeft(link, " <"))
		if err == nil && u.Host == resp.Request.URL.Host && u.Scheme == resp.Request.URL.Scheme {
			return u.String()
		}
	}
	return ""
}

func (s *Snapshot) add(path string, size int64, git string, l *lfs) error {
	if !fs.ValidPath(path) || path == "." || strings.ContainsAny(path, "\\\x00") {
		return nil // nothing by such a name can be part of a package
	}
	if len(s.Files) == maxFiles {
		return &Error{What: s.Repo, Detail: fmt.Sprintf("more than %d files", maxFiles)}
	}
	f := File{Path: path, Size: size}
	if l != nil {
		f.Size = cmp.Or(l.Size, size)
		f.Digest, _ = models.ParseDigest("sha256:" + strings.TrimPrefix(cmp.Or(l.OID, l.SHA256), "sha256:"))
	}
	if f.Digest.IsZero() && isHex(git, 40) && l == nil {
		f.Git = strings.ToLower(git)
	}
	if f.Size < 0 {
		return &Error{What: s.Repo, Detail: fmt.Sprintf("%s has %d bytes", path, f.Size)}
	}
	s.Files = append(s.Files, f)
	return nil
}

func isHex(s string, n int) bool {
	_, err := hex.DecodeString(s)
	return len(s) == n && err == nil
}

func (c *Client) json(ctx context.Context, what, target string, v any) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.do(ctx, what, http.MethodGet, target, nil, true)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refuse(what, resp)
	}
	body := watch(resp.Body, c.Stall, cancel)
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, maxListing+1))
	if err == nil && len(data) > maxListing {
		err = fmt.Errorf("a listing of more than %d bytes", maxListing)
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return nil, &Error{What: what, Host: resp.Request.URL.Host, Detail: networkText(err), Err: err}
	}
	return resp, nil
}

// fileURL is where a file of the snapshot is served.
func (s *Snapshot) fileURL(endpoint, path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return endpoint + "/" + s.Repo + "/resolve/" + url.PathEscape(s.Commit) + "/" + strings.Join(parts, "/")
}

const emptyGit = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

// Describe asks for size and hash of a file whose listing gave none: X-Linked-Etag is the SHA-256 of an LFS file, ETag the Git id of another.
func (c *Client) Describe(ctx context.Context, s *Snapshot, f File) (File, error) {
	c.init()
	if (!f.Digest.IsZero() || f.Git != "") && (f.Size > 0 || f.Git == emptyGit) {
		return f, nil
	}
	err := c.try(ctx, func(endpoint string) error {
		resp, err := c.do(ctx, f.Path, http.MethodHead, s.fileURL(endpoint, f.Path), nil, false)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 400 {
			return refuse(f.Path, resp)
		}
		tag := strings.Trim(strings.TrimPrefix(cmp.Or(resp.Header.Get("X-Linked-Etag"), resp.Header.Get("ETag")), "W/"), `"`)
		if d, err := models.ParseDigest("sha256:" + tag); err == nil {
			f.Digest = d
		} else if isHex(tag, 40) && f.Digest.IsZero() {
			f.Git = tag
		}
		var size int64
		if _, err := fmt.Sscan(resp.Header.Get("X-Linked-Size"), &size); err == nil && size > 0 {
			f.Size = size
		} else if f.Size == 0 && resp.StatusCode == http.StatusOK && resp.ContentLength > 0 {
			f.Size = resp.ContentLength
		}
		return nil
	})
	return f, err
}

// Read fetches a small file whole; more than limit bytes is an error. The content is not compared with its hash.
func (c *Client) Read(ctx context.Context, s *Snapshot, f File, limit int64) (data []byte, err error) {
	c.init()
	if f.Size > limit {
		return nil, &Error{What: f.Path, Detail: fmt.Sprintf("%d bytes, limit %d", f.Size, limit)}
	}
	err = c.try(ctx, func(endpoint string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := c.do(ctx, f.Path, http.MethodGet, s.fileURL(endpoint, f.Path), nil, true)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return refuse(f.Path, resp)
		}
		body := watch(resp.Body, c.Stall, cancel)
		defer body.Close()
		data, err = io.ReadAll(io.LimitReader(body, limit+1))
		if err == nil && int64(len(data)) > limit {
			err = fmt.Errorf("more than %d bytes", limit)
		}
		if err == nil && f.Size > 0 && int64(len(data)) != f.Size {
			err = fmt.Errorf("%d bytes of %d", len(data), f.Size)
		}
		if err != nil {
			return &Error{What: f.Path, Host: resp.Request.URL.Host, Detail: networkText(err), Err: err}
		}
		return nil
	})
	return data, err
}
