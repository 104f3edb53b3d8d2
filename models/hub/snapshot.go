package hub

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/axle-llm/axle/models"
)

// File is one file of a repository. Its hash is SHA-256 where the hub keeps the file in LFS, else
// Git's own, else unknown.
type File struct {
	Path   string
	Size   int64
	Digest models.Digest // zero when unknown
	Git    string        // 40 hex, the Git blob id; empty when Digest is known, or neither is
	URL    string        // where it is served; empty: by the repository
}

// Snapshot is a repository at one commit.
type Snapshot struct {
	Repo   string
	Commit string // or the revision that was asked for, where the hub does not say
	Files  []File // in the order of their paths

	seen, names int // entries, and bytes of names, so far
}

// Snapshot lists the repository repo (org/name) at a revision; empty means main. It fails with
// [ErrNotFound], [ErrDenied], or what the network said.
func (c *Client) Snapshot(ctx context.Context, repo, rev string) (*Snapshot, error) {
	c.init()
	rev = cmp.Or(rev, "main")
	org, name, ok := strings.Cut(repo, "/")
	if !ok || org == "" || name == "" || strings.ContainsAny(repo, "?#%\\ ") || strings.Contains(name, "/") ||
		strings.Contains(repo, "..") {
		return nil, &Error{What: fmt.Sprintf("%.100q", repo), Detail: "not a repository name", Fix: "write org/name", Err: ErrNotFound}
	}
	s := &Snapshot{Repo: repo, Commit: rev}
	err := c.try(ctx, func(endpoint string) error { return c.list(ctx, endpoint, s, rev) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(s.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for i := 1; i < len(s.Files); i++ { // which of the two would be the package's?
		//rule:T10 TestListingLimits false
		if s.Files[i].Path == s.Files[i-1].Path {
			return nil, &Error{What: repo, Detail: fmt.Sprintf("its listing names %.200q twice", s.Files[i].Path),
				Fix: "try another hub with HF_ENDPOINT", Err: ErrListing}
		}
	}
	return s, nil
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
	//rule:T7 TestListingLimits false
	if s.seen++; s.seen > maxEntries {
		return &Error{What: s.Repo, Detail: fmt.Sprintf("a listing of more than %d entries", maxEntries), Err: ErrListing}
	}
	if !fs.ValidPath(path) || path == "." || strings.ContainsAny(path, "\\\x00") {
		return nil // nothing by such a name can be part of a package
	}
	if len(s.Files) == maxFiles {
		return &Error{What: s.Repo, Detail: fmt.Sprintf("more than %d files", maxFiles), Err: ErrListing}
	}
	if s.names += len(path); s.names > maxNames {
		return &Error{What: s.Repo, Detail: fmt.Sprintf("names of more than %d MiB together", maxNames>>20), Err: ErrListing}
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
		return &Error{What: s.Repo, Detail: fmt.Sprintf("%.200q has %d bytes", path, f.Size), Err: ErrListing}
	}
	s.Files = append(s.Files, f)
	return nil
}

func isHex(s string, n int) bool {
	_, err := hex.DecodeString(s)
	return len(s) == n && err == nil
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

// Describe asks for size and hash of a file whose listing gave none: X-Linked-Etag is the SHA-256
// of an LFS file, ETag the Git id of another.
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

// get asks for a file, or for a range of it, and gives the answer's body to read, whose error is
// told with the hub's name.
func (c *Client) get(ctx context.Context, s *Snapshot, f File, header http.Header,
	read func(resp *http.Response, body io.Reader) error) error {
	c.init()
	return c.try(ctx, func(endpoint string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := c.do(ctx, f.Path, http.MethodGet, s.fileURL(endpoint, f.Path), header, true)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
			return refuse(f.Path, resp)
		}
		body := watch(resp.Body, c.Stall, cancel)
		defer body.Close()
		if err := read(resp, body); err != nil {
			return &Error{What: f.Path, Host: resp.Request.URL.Host, Detail: networkText(err), Err: err}
		}
		return nil
	})
}

// Read fetches a small file whole; more than limit bytes is an error. The content is not compared
// with its hash.
func (c *Client) Read(ctx context.Context, s *Snapshot, f File, limit int64) (data []byte, err error) {
	if f.Size > limit {
		return nil, &Error{What: f.Path, Detail: fmt.Sprintf("%d bytes, limit %d", f.Size, limit)}
	}
	err = c.get(ctx, s, f, nil, func(_ *http.Response, body io.Reader) (err error) {
		data, err = io.ReadAll(io.LimitReader(body, limit+1))
		switch {
		case err != nil:
			return err
		case int64(len(data)) > limit:
			return fmt.Errorf("more than %d bytes", limit)
		case f.Size > 0 && int64(len(data)) != f.Size:
			return fmt.Errorf("%d bytes of %d", len(data), f.Size)
		}
		return nil
	})
	return data, err
}

// errWhole is a hub that gives other bytes than were asked for.
var errWhole = fmt.Errorf("parts of files cannot be read: %w", ErrChanged)

// ReadAt reads len(dst) bytes of a file from the offset at, by one request. It fails where the hub
// gives other bytes than were asked for.
func (c *Client) ReadAt(ctx context.Context, s *Snapshot, f File, dst []byte, at int64) error {
	header := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", at, at+int64(len(dst))-1)}}
	return c.get(ctx, s, f, header, func(resp *http.Response, body io.Reader) error {
		from, _, ok := contentRange(resp.Header.Get("Content-Range"))
		if resp.StatusCode != http.StatusPartialContent || !ok || from != at {
			return errWhole
		}
		_, err := io.ReadFull(body, dst)
		return err
	})
}
