package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Limits of a listing. It is read as it comes, an entry at a time, so that what it takes is what is
// kept of it.
const (
	maxListing = 8 << 20 // bytes of a page
	maxPages   = 100
	maxEntries = 50_000 // folders and odd names among them
	maxFiles   = 20_000
	maxNames   = 4 << 20 // bytes of all names
)

// ErrListing is a listing that no repository has: too long, or one that contradicts itself. Another
// try would not help.
var ErrListing = errors.New("models: the hub's listing cannot be used")

// list fills s from one endpoint.
func (c *Client) list(ctx context.Context, endpoint string, s *Snapshot, rev string) error {
	*s = Snapshot{Repo: s.Repo, Commit: rev}
	base := endpoint + "/api/models/" + s.Repo
	sha, rest := "", &Snapshot{Repo: s.Repo}
	var restErr error
	_, err := c.stream(ctx, s.Repo, base+"/revision/"+url.PathEscape(rev)+"?blobs=true", func(d *json.Decoder) error {
		return members(d, '{', func() error {
			t, err := d.Token()
			if err != nil {
				return err
			}
			switch key, _ := t.(string); {
			case strings.EqualFold(key, "sha"):
				return d.Decode(&sha)
			case strings.EqualFold(key, "siblings"):
				return members(d, '[', func() error {
					var f struct {
						Name string `json:"rfilename"`
						Size int64  `json:"size"`
						Blob string `json:"blobId"`
						LFS  *lfs   `json:"lfs"`
					}
					if err := d.Decode(&f); err != nil {
						return err
					}
					if restErr == nil { // what is wrong with it matters only where nothing better comes
						restErr = rest.add(f.Name, f.Size, f.Blob, f.LFS)
					}
					return nil
				})
			}
			return skip(d)
		})
	})
	var he *Error
	if err != nil && (!lasting(err) || errors.Is(err, ErrDenied) || errors.Is(err, ErrListing) || !errors.As(err, &he)) {
		return err // else a hub without this call: the revision is not pinned
	}
	if isHex(sha, 40) { // everything that follows is of one commit, whatever is pushed meanwhile
		s.Commit = sha
	}
	terr := c.tree(ctx, base+"/tree/"+url.PathEscape(s.Commit)+"?recursive=true", s)
	if terr == nil {
		return nil
	}
	if !lasting(terr) || errors.Is(terr, ErrListing) || rest.seen == 0 {
		return terr
	}
	s.Files = rest.Files // a mirror without the tree call
	return restErr
}

type lfs struct {
	OID    string `json:"oid"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

func (c *Client) tree(ctx context.Context, target string, s *Snapshot) error {
	for range maxPages {
		resp, err := c.stream(ctx, s.Repo, target, func(d *json.Decoder) error {
			return members(d, '[', func() error {
				var f struct {
					Type string `json:"type"`
					Path string `json:"path"`
					Size int64  `json:"size"`
					OID  string `json:"oid"`
					LFS  *lfs   `json:"lfs"`
				}
				if err := d.Decode(&f); err != nil {
					return err
				}
				if f.Type != "" && f.Type != "file" {
					f.Path = "" // counted, not kept
				}
				return s.add(f.Path, f.Size, f.OID, f.LFS)
			})
		})
		if err != nil {
			return err
		}
		next := nextPage(resp)
		if next == "" {
			return nil
		}
		target = next
	}
	return &Error{What: s.Repo, Detail: fmt.Sprintf("a listing of more than %d pages", maxPages), Err: ErrListing}
}

// stream gives an answer of JSON to f as it comes.
func (c *Client) stream(ctx context.Context, what, target string, f func(*json.Decoder) error) (*http.Response, error) {
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
	most := &io.LimitedReader{R: body, N: maxListing + 1}
	d := json.NewDecoder(most)
	err = f(d)
	if err == nil {
		if _, err = d.Token(); err == io.EOF { //nolint:errorlint // as Token has it
			err = nil
		} else if err == nil {
			err = errors.New("more than one JSON value")
		}
	}
	var known *Error
	switch {
	case most.N <= 0:
		return nil, &Error{What: what, Host: resp.Request.URL.Host, Detail: fmt.Sprintf("a listing of more than %d MiB", maxListing>>20),
			Err: ErrListing}
	case errors.As(err, &known):
		return nil, err
	case err != nil:
		return nil, &Error{What: what, Host: resp.Request.URL.Host, Detail: networkText(err), Err: err}
	}
	return resp, nil
}

// members calls each for every element of the list that comes next, or every key of the object, by
// its first bracket; each takes the element, or the key and its value. null has none.
func members(d *json.Decoder, open json.Delim, each func() error) error {
	t, err := d.Token()
	if err != nil || t == nil {
		return err
	}
	if t != open {
		return fmt.Errorf("a listing that begins with %.20v", t)
	}
	for d.More() {
		if err := each(); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// skip passes over the value that comes next.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
