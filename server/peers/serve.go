package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models/rows"
)

const (
	sending     = 2 // files at a time
	waitToSend  = time.Second
	mostRate    = 120 << 20 // bytes a second that all peers together are sent
	piece       = 256 << 10 // that is sent or read at once
	pieceTime   = 10 * time.Second
	mostHanded  = 256 << 20 // bytes of a file that is handed over
	eventHeader = "Axle-Events"
)

// Folder is where a server's files are: a rows.Disk.
type Folder interface {
	Has(names []string) int
	Sealed(name string) ([]byte, error)
	Accept(name string, data []byte) error
	Room() (int64, error)
}

// ServerOptions of a [Server].
type ServerOptions struct {
	Secret []byte // of at least 32 bytes, the same for all servers
	// Events returns the port of this server's KV events, where a peer at that address may follow
	// them; 0: it may not. nil: there are none.
	Events func(from netip.Addr) int
	Rate   int64            // bytes a second that all peers together are sent; 0: 120 MiB
	Now    func() time.Time // nil: the system's clock
}

// Server answers peers.
type Server struct {
	o       ServerOptions
	folder  Folder
	gate    *gate
	sends   chan struct{}
	takes   chan struct{}
	pace    pace
	sent    atomic.Int64
	refused atomic.Int64
}

// NewServer returns a server of a folder's files.
func NewServer(folder Folder, o ServerOptions) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rate <= 0 {
		o.Rate = mostRate
	}
	s := &Server{o: o, folder: folder, gate: newGate(o.Secret, o.Now), sends: make(chan struct{}, sending), takes: make(chan struct{}, 1)}
	s.pace.rate = float64(o.Rate)
	return s
}

// refusal is an answer without a file.
type refusal struct {
	status int
	text   string
}

func (r refusal) Error() string { return r.text }

// Answer answers a request for the file of a name, "PACKAGE/NAME". It returns the error that the
// request failed with, for the log; the answer is sent.
func (s *Server) Answer(w http.ResponseWriter, r *http.Request, name string) error {
	err := s.answer(w, r, name)
	if err == nil {
		return nil
	}
	return s.refuse(w, r, err)
}

// refuse says why a request fails, and returns it.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) error {
	s.refused.Add(1)
	status, text := http.StatusInternalServerError, "the file cannot be read or kept"
	if no := (refusal{}); errors.As(err, &no) {
		status, text = no.status, no.text
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // its body is not read
	}
	http.Error(w, text, status)
	return err
}

// admit lets in who has the secret.
func (s *Server) admit(r *http.Request) error {
	switch err := s.gate.admit(r); {
	case errors.Is(err, errMany):
		return refusal{http.StatusTooManyRequests, err.Error()}
	case err != nil:
		return refusal{http.StatusUnauthorized, err.Error()}
	}
	return nil
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, name string) error {
	if err := s.admit(r); err != nil {
		return err
	}
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && s.o.Events != nil {
		if port := s.o.Events(from.Addr().Unmap()); port > 0 {
			w.Header().Set(eventHeader, strconv.Itoa(port))
		}
	}
	if !rows.IsName(name) {
		return refusal{http.StatusBadRequest, "this is no name of a file of rows"}
	}
	switch r.Method {
	case http.MethodHead:
		if s.folder.Has([]string{name}) == 0 {
			w.WriteHeader(http.StatusNotFound)
		}
		return nil
	case http.MethodGet:
		return s.send(w, r, name)
	case http.MethodPut:
		return s.take(w, r, name)
	}
	return refusal{http.StatusMethodNotAllowed, "files of rows are asked for with HEAD, GET and PUT"}
}

// turn waits for a place among those at work, not for long.
func turn(ctx context.Context, places chan struct{}) error {
	t := time.NewTimer(waitToSend)
	defer t.Stop()
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return refusal{http.StatusServiceUnavailable, "other peers are being served: try again later"}
	}
}

// send sends a file, in pieces.
func (s *Server) send(w http.ResponseWriter, r *http.Request, name string) error {
	if s.folder.Has([]string{name}) == 0 {
		return refusal{http.StatusNotFound, "there is no such file"}
	}
	if err := turn(r.Context(), s.sends); err != nil {
		return err
	}
	defer func() { <-s.sends }()
	data, err := s.folder.Sealed(name)
	if err != nil {
		return refusal{http.StatusNotFound, "there is no such file"}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	rc := http.NewResponseController(w)
	for len(data) > 0 {
		n := min(len(data), piece)
		if err := s.pace.wait(r.Context(), n); err != nil {
			return nil // the peer has gone
		}
		_ = rc.SetWriteDeadline(s.o.Now().Add(pieceTime))
		if _, err := w.Write(data[:n]); err != nil {
			return nil
		}
		s.sent.Add(int64(n))
		data = data[n:]
	}
	return nil
}

// take takes a file over. What it lacks the room for is refused before the peer sends it.
func (s *Server) take(w http.ResponseWriter, r *http.Request, name string) error {
	size := r.ContentLength
	switch {
	case size <= 0:
		return refusal{http.StatusLengthRequired, "a file has a length"}
	case size > mostHanded:
		return refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("a file of %d bytes, %d are taken", size, int64(mostHanded))}
	}
	if err := turn(r.Context(), s.takes); err != nil {
		return err
	}
	defer func() { <-s.takes }()
	if s.folder.Has([]string{name}) == 1 {
		w.Header().Set("Connection", "close") // the body is not wanted
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	room, err := s.folder.Room()
	if err != nil {
		return err
	}
	if room < size {
		return refusal{http.StatusInsufficientStorage, "there is no room that is free"}
	}
	data, err := s.read(w, r, size)
	if err != nil {
		return refusal{http.StatusBadRequest, "the file did not come whole"}
	}
	switch err := s.folder.Accept(name, data); {
	case errors.Is(err, rows.ErrForged):
		return refusal{http.StatusUnprocessableEntity, "the file was not sealed with this server's secret"}
	case errors.Is(err, rows.ErrFull), errors.Is(err, rows.ErrOff):
		return refusal{http.StatusInsufficientStorage, "there is no room that is free"}
	case err != nil:
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// read reads a body of this size. Room is made as it comes.
func (s *Server) read(w http.ResponseWriter, r *http.Request, size int64) (data []byte, err error) {
	rc := http.NewResponseController(w)
	for int64(len(data)) < size {
		_ = rc.SetReadDeadline(s.o.Now().Add(pieceTime))
		from := len(data)
		data = append(data, make([]byte, min(size-int64(from), piece))...)
		if _, err := io.ReadFull(r.Body, data[from:]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// Sent returns how many bytes peers were sent, and how many of their requests failed.
func (s *Server) Sent() (bytes, refused int64) { return s.sent.Load(), s.refused.Load() }

// pace spreads what is sent over time.
type pace struct {
	rate float64 // bytes a second
	mu   ranked.Mutex[ranked.Peers]
	next time.Time // when the next byte may go
}

// wait waits until n bytes may be sent.
func (p *pace) wait(ctx context.Context, n int) error {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	at := p.next
	p.next = at.Add(time.Duration(float64(n) / p.rate * 1e9))
	p.mu.Unlock()
	t := time.NewTimer(at.Sub(now))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
