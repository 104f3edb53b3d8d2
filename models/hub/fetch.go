package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/axle-llm/axle/internal/ranked"
)

// State is how far the parts of a download are. It is kept beside the unfinished file, as JSON;
// what it claims is only a hint where to go on: the hash of the whole file decides.
type State struct {
	Size  int64  `json:"size"`
	Parts []Part `json:"parts"`

	mu ranked.Mutex[ranked.PullParts]
}

// Part is the bytes [Start, End) of the file. The first Have of them are there.
type Part struct {
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	Have  int64 `json:"have"`
}

// NewState divides size bytes into parts of at most part bytes, 32 MiB where that is 0. It never
// makes more than 1,024 parts.
func NewState(size, part int64) *State {
	part = max(cmp.Or(part, 32<<20), size/1024+1, 1)
	s := &State{Size: size}
	for at := int64(0); at < size; at += part {
		s.Parts = append(s.Parts, Part{Start: at, End: min(at+part, size)})
	}
	return s
}

// Valid says whether a state read back can be one of a file of size bytes: parts in order, without
// gaps.
func (s *State) Valid(size int64) bool {
	at := int64(0)
	for _, p := range s.Parts {
		if p.Start != at || p.End <= p.Start || p.Have < 0 || p.Have > p.End-p.Start {
			return false
		}
		at = p.End
	}
	return s.Size == size && at == size && len(s.Parts) <= 4096
}

// Done is how many bytes are there.
func (s *State) Done() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.Parts {
		n += p.Have
	}
	return n
}

// Lock and Unlock let a caller read the parts while they are being fetched.
func (s *State) Lock()   { s.mu.Lock() }
func (s *State) Unlock() { s.mu.Unlock() }

// Fetch writes what st says is missing of f to dst, by as many connections as there are parts and
// the client allows. progress is called with the bytes just written, from several goroutines. It
// returns when all bytes are written, or with the first failure that lasts: a part's connection is
// tried again while it makes progress, and [Client.Retries] times in a row when it makes none.
func (c *Client) Fetch(ctx context.Context, s *Snapshot, f File, st *State, dst io.WriterAt, progress func(n int64)) error {
	c.init()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.Connections)
	for i := range st.Parts {
		p := &st.Parts[i]
		st.Lock()
		missing := p.Have < p.End-p.Start
		st.Unlock()
		if !missing {
			continue
		}
		g.Go(func() error {
			select { // shared by all files being fetched
			case c.sem <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			defer func() { <-c.sem }()
			return c.part(ctx, s, f, st, p, dst, progress)
		})
	}
	return g.Wait()
}

// part fetches one part, over as many connections as it takes.
func (c *Client) part(ctx context.Context, s *Snapshot, f File, st *State, p *Part, dst io.WriterAt, progress func(int64)) error {
	buf := make([]byte, 128<<10)
	failures, denied := 0, 0
	for try := 0; ; try++ {
		target := f.URL
		if target == "" {
			target = s.fileURL(c.Endpoints[try%len(c.Endpoints)], f.Path)
		}
		n, err := c.attempt(ctx, target, f, st, p, dst, buf, progress)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var disk *writeError
		if errors.As(err, &disk) {
			return disk.error
		}
		// A signed link may have run out, or a mirror not have the file: another try gets a new
		// link, or another mirror.
		if lasting(err) {
			if denied++; denied > 2+len(c.Endpoints) {
				return f.wayOut(err)
			}
		}
		if n > 0 {
			failures = 0
		} else if failures++; failures >= c.Retries {
			return f.wayOut(err)
		}
		if err := c.wait(ctx, failures, err); err != nil {
			return err
		}
	}
}

// writeError marks a failure of the disk, which no other connection would heal.
type writeError struct{ error }

// attempt makes one request for what is left of a part and writes what comes. It returns how much
// that was.
func (c *Client) attempt(ctx context.Context, target string, f File, st *State, p *Part, dst io.WriterAt, buf []byte,
	progress func(int64)) (written int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st.Lock()
	at, end := p.Start+p.Have, p.End
	st.Unlock()
	header := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", at, end-1)}}
	resp, err := c.do(ctx, f.Path, http.MethodGet, target, header, true)
	if err != nil {
		return 0, err
	}
	body := watch(resp.Body, c.Stall, cancel)
	defer body.Close()
	switch resp.StatusCode {
	case http.StatusPartialContent:
		from, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || from != at || total >= 0 && total != f.Size {
			return 0, &Error{What: f.Path, Host: resp.Request.URL.Host, Detail: fmt.Sprintf("asked for bytes from %d of %d, got %q", at,
				f.Size, resp.Header.Get("Content-Range")), Err: ErrChanged}
		}
	case http.StatusOK: // a server that knows no ranges: read past what is there
		if resp.ContentLength >= 0 && resp.ContentLength != f.Size {
			return 0, &Error{What: f.Path, Host: resp.Request.URL.Host, Detail: fmt.Sprintf("%d bytes, the listing says %d",
				resp.ContentLength, f.Size), Err: ErrChanged}
		}
		if _, err := io.CopyN(io.Discard, body, at); err != nil {
			return 0, &Error{What: f.Path, Host: resp.Request.URL.Host, Detail: networkText(err), Err: err}
		}
	case http.StatusRequestedRangeNotSatisfiable:
		e := refuse(f.Path, resp)
		return 0, &Error{What: f.Path, Host: resp.Request.URL.Host, Detail: e.Error(), Err: ErrChanged}
	default:
		return 0, refuse(f.Path, resp)
	}
	for at < end {
		n, err := body.Read(buf[:min(int64(len(buf)), end-at)])
		if n > 0 {
			if _, werr := dst.WriteAt(buf[:n], at); werr != nil {
				return written, &writeError{werr}
			}
			at += int64(n)
			written += int64(n)
			st.Lock()
			p.Have += int64(n)
			st.Unlock()
			progress(int64(n))
		}
		if at < end && err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return written, &Error{What: f.Path, Host: resp.Request.URL.Host, Detail: networkText(err), Err: err}
		}
	}
	return written, nil
}

// contentRange reads "bytes 5-9/100"; total is −1 for "*".
func contentRange(s string) (from, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, size, found := strings.Cut(s, "/")
	first, _, dash := strings.Cut(span, "-")
	if !ok || !found || !dash {
		return 0, 0, false
	}
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if size == "*" {
		return from, -1, from >= 0
	}
	total, err = strconv.ParseInt(size, 10, 64)
	return from, total, err == nil && from >= 0 && total >= 0
}
