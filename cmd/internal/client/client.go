// Package client talks to a server. It is Ollama's own client with two differences: its errors are
// what the server said, and a pull or create whose last line does not come has failed. Any number
// of goroutines may use a Client; it holds nothing that must be closed.
package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/models/store"
)

// Client is a server to talk to.
type Client struct {
	*api.Client
	URL  *url.URL
	HTTP *http.Client
}

// New makes a client of the server at base, which sends key with every request; an empty key is
// none.
func New(base *url.URL, key string) *Client {
	hc := &http.Client{Transport: transport{key}}
	return &Client{Client: api.NewClient(base, hc), URL: base, HTTP: hc}
}

// SessionHeader tells a proxy in front of several servers which requests are turns of one
// conversation, so that it sends all of them to the server whose cache has the turns before.
const SessionHeader = "X-Session-Id"

type session struct{}

// WithSession is a context whose requests are turns of the conversation id.
func WithSession(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, session{}, id)
}

// NewSession is the id of a new conversation: random, so that it tells nothing of who has it.
func NewSession() string { return rand.Text() }

// transport sends the key, and the id that a request's context has.
type transport struct{ key string }

// RoundTrip sends a request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if t.key != "" {
		r.Header.Set("Authorization", "Bearer "+t.key)
	}
	if id, ok := r.Context().Value(session{}).(string); ok {
		r.Header.Set(SessionHeader, id)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// ErrBrokeOff is a stream that ended before its last word. Ollama's client does not report it.
var ErrBrokeOff = errors.New("the answer broke off: the server ended, or what stands between")

// Listed is a model of a server's list.
type Listed struct {
	api.ListModelResponse
	Says string `json:"says"`       // why it cannot be asked, where axle does not run its kind
	Card int64  `json:"card_bytes"` // of a card's memory; 0: the server does not tell
}

// List lists the server's models.
func (c *Client) List(ctx context.Context) ([]Listed, error) {
	var list struct {
		Models []Listed `json:"models"`
	}
	err := c.Get(ctx, "/api/tags", &list)
	return list.Models, err
}

// Where is where a server of this machine keeps its models.
type Where struct {
	Folder string   `json:"folder"` // the store's
	Paths  []string `json:"paths"`  // of packages in place
	User   string   `json:"user"`   // as whom the server runs
}

// Where asks the server for it. It fails where the server is on another machine, is none of axle's,
// or does not tell who asks.
func (c *Client) Where(ctx context.Context) (w Where, err error) {
	err = c.Get(ctx, "/api/axle/store", &w)
	return w, err
}

// Card is one that a server has open.
type Card struct {
	Device   string `json:"device"`
	State    string `json:"state"` // ready, lost
	Software bool   `json:"software"`
}

// ErrNoCards: what answers is no server of axle's, and tells of no cards.
var ErrNoCards = errors.New("the server tells of no cards")

// Cards asks the server which it has open. It fails with ErrNoCards, or with what the server said.
func (c *Client) Cards(ctx context.Context) ([]Card, error) {
	var state struct {
		Cards []Card `json:"cards"`
	}
	err := c.Get(ctx, "/api/axle/state", &state)
	if StatusIs(err, http.StatusNotFound) {
		return nil, ErrNoCards
	}
	return state.Cards, Error(err)
}

// Get decodes what the server answers on a path. It fails with api's errors where the server
// refuses.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL.JoinPath(path).String(), nil)
	if err != nil {
		return err
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return json.Unmarshal(body, into)
	case http.StatusUnauthorized:
		return api.AuthorizationError{StatusCode: resp.StatusCode, Status: resp.Status}
	}
	said := struct {
		Error string `json:"error"`
	}{string(body)} // what is no JSON is told as it is
	_ = json.Unmarshal(body, &said)
	return api.StatusError{StatusCode: resp.StatusCode, Status: resp.Status, ErrorMessage: said.Error}
}

// Pull has the server fetch a model.
func (c *Client) Pull(ctx context.Context, name string, report func(store.Progress)) error {
	return c.untilDone(ctx, func(status api.PullProgressFunc) error {
		return c.Client.Pull(ctx, &api.PullRequest{Model: name}, status)
	}, func(p api.ProgressResponse) {
		report(store.Progress{Status: p.Status, Digest: p.Digest, Total: p.Total, Completed: p.Completed})
	})
}

// Create has the server make a model.
func (c *Client) Create(ctx context.Context, req *api.CreateRequest, report func(status string)) error {
	return c.untilDone(ctx, func(status api.PullProgressFunc) error {
		return c.Client.Create(ctx, req, api.CreateProgressFunc(status))
	}, func(p api.ProgressResponse) { report(p.Status) })
}

// untilDone runs long work of the server. Its last word is success: Ollama's client takes a stream
// that ends without for a good one.
func (c *Client) untilDone(ctx context.Context, work func(api.PullProgressFunc) error, report func(api.ProgressResponse)) error {
	done := false
	err := work(func(p api.ProgressResponse) error {
		done = p.Status == "success"
		report(p)
		return nil
	})
	switch {
	case err != nil:
		return Error(err)
	case done:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return ErrBrokeOff
}

// Error makes Ollama's client errors read as the server meant them.
func Error(err error) error {
	if err == nil {
		return nil
	}
	if errors.As(err, new(api.AuthorizationError)) {
		return errors.New("the server wants a key: set AXLE_KEY to one of those in its keys file")
	}
	var se api.StatusError
	if !errors.As(err, &se) || se.ErrorMessage == "" {
		return err
	}
	if strings.HasPrefix(strings.TrimSpace(se.ErrorMessage), "<") {
		return fmt.Errorf("what answers there is no model server (%d and a page of HTML): does AXLE_HOST or OLLAMA_HOST name "+
			"the right port?", se.StatusCode)
	}
	return errors.New(se.ErrorMessage)
}

// StatusIs: the server refused with this status.
func StatusIs(err error, code int) bool {
	var se api.StatusError
	return errors.As(err, &se) && se.StatusCode == code
}

// Local says whether the server's address is one of this machine's loopback.
func (c *Client) Local() bool {
	return c.URL.Hostname() == "localhost" || net.ParseIP(c.URL.Hostname()).IsLoopback()
}
