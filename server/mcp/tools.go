package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/internal/fair"
	_ "github.com/axle-llm/axle/internal/plain" // says which machines this cannot be built for
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/body"
)

// Options are what [New] needs. Only File has to be set.
type Options struct {
	File       string                      // of the servers
	Socket     string                      // a Unix socket behind which systemd starts them as another user; "": they are started here
	Hide       []string                    // files and folders that they must not open, File apart
	Version    string                      // axle's own, which servers are told
	LogPrompts bool                        // what servers say once they were called may be in the log
	Log        *zap.Logger                 // nil: none
	Getenv     func(string) (string, bool) // what ${NAME} in the file is; nil: os.LookupEnv
	Self       []string                    // the command that is [Child]; nil: this program with ChildArg
}

// Limits of all servers together.
const (
	atOnce      = 4  // calls of one server
	maxSessions = 24 // processes and connections
	idleTime    = 10 * time.Minute
	leastPause  = time.Second // after a crash, twice as long each time
	mostPause   = time.Minute
	moment      = 100 * time.Millisecond
	maxArgs     = 256 << 10
	maxResult   = 64 << 10 // bytes of text
)

// Tools are the servers of a file, and what they offer.
type Tools struct {
	o     Options
	place place
	http  *http.Transport
	// How long a server may take to begin.
	starts time.Duration

	mu      ranked.Mutex[ranked.Tools]
	servers map[string]*server
	closed  bool
	live    int            // sessions, and those that begin
	ending  sync.WaitGroup // what ends sessions
}

// server is one of the file.
type server struct {
	spec  *spec
	line  *fair.Line
	slots map[string]*slot // by owner
}

// slot is the place of an owner's session with a server.
type slot struct {
	turn     chan struct{} // held to open, list or end
	session  *session
	failures int
	notYet   time.Time // before this it is not started again
	err      error     // why
	over     bool      // nothing is started again

	running atomic.Pointer[session] // for who cannot wait for the turn
	idle    *time.Timer             // these are under Tools.mu
	calls   int                     // that run
	used    time.Time
}

// Progress is how far a call is, as its server says.
type Progress struct {
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"` // 0: it is not known
	Message string  `json:"message,omitempty"`
}

// Result is what a call came to.
type Result struct {
	Text  string `json:"text"`
	Error bool   `json:"error,omitempty"` // the tool says that it failed
	Cut   int    `json:"cut,omitempty"`   // bytes that were left out of Text
}

// Listed is what a server offers.
type Listed struct {
	Tools   []Tool   `json:"tools"`
	LeftOut []string `json:"left_out,omitempty"` // which, and why
	of      *session
}

// New reads the file. It starts nothing.
func New(o Options) (*Tools, error) {
	o.Log = cmp.Or(o.Log, zap.NewNop())
	if o.Getenv == nil {
		o.Getenv = os.LookupEnv
	}
	all, err := read(o.File, o.Getenv)
	if err != nil {
		return nil, err
	}
	t := &Tools{o: o, place: newPlace(o), http: transport(), starts: startTime, servers: map[string]*server{}}
	t.set(all)
	if slices.ContainsFunc(all, func(s *spec) bool { return !s.remote() }) {
		say := o.Log.Info
		if t.place.warns {
			say = o.Log.Warn
		}
		say("tool servers are run", zap.String("how", t.place.says))
	}
	return t, nil
}

// Reload reads the file again. Servers whose lines have not changed go on; others end, and begin
// anew with the next call. Where the file is wrong all stays as it was.
func (t *Tools) Reload() error {
	all, err := read(t.o.File, t.o.Getenv)
	if err != nil {
		return err
	}
	for _, old := range t.set(all) {
		t.ending.Go(func() { t.endAll(old) })
	}
	return nil
}

// set takes the servers of a file, and gives those that are no more.
func (t *Tools) set(all []*spec) (old []*server) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := map[string]*server{}
	for _, s := range all {
		if had := t.servers[s.name]; had != nil && had.spec.same(s) {
			next[s.name] = had
		} else {
			next[s.name] = &server{spec: s, line: fair.New(atOnce, 0), slots: map[string]*slot{}}
		}
	}
	for name, s := range t.servers {
		if next[name] != s {
			old = append(old, s)
		}
	}
	t.servers = next
	return old
}

// Servers are the names of those that there are.
func (t *Tools) Servers() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.servers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// List gives what a server offers an owner, and starts it where it does not run. Errors are
// [body.Failure]s.
func (t *Tools) List(ctx context.Context, owner, name string) (Listed, error) {
	s, err := t.server(name)
	if err != nil {
		return Listed{}, err
	}
	if err := take(ctx, s, owner); err != nil {
		return Listed{}, err
	}
	defer s.line.Done(owner, 1, 1)
	l, done, err := t.session(ctx, s, owner)
	if err != nil {
		return Listed{}, err
	}
	done()
	return l, nil
}

// Call calls a tool by the name that List has for it. progress, which may be nil, is told how far
// it is, from another goroutine, and not after Call has returned. A tool that failed is a Result;
// errors are [body.Failure]s, or ctx's.
func (t *Tools) Call(ctx context.Context, owner, name string, args json.RawMessage, progress func(Progress)) (*Result, error) {
	of := ServerOf(name)
	s, err := t.server(of)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if len(args) > maxArgs || json.Unmarshal(args, &object) != nil {
		return nil, body.Fail(400, "the arguments of a tool are a JSON object of %d KiB at most", maxArgs>>10)
	}
	if err := take(ctx, s, owner); err != nil {
		return nil, err
	}
	began := time.Now()
	defer func() { s.line.Done(owner, 1, 1+time.Since(began).Milliseconds()) }()
	return t.call(ctx, s, owner, name, object, progress)
}

func (t *Tools) call(ctx context.Context, s *server, owner, name string, args map[string]json.RawMessage,
	progress func(Progress)) (*Result, error) {
	limit := cmp.Or(s.spec.timeout, callTime)
	for again := false; ; again = true {
		listed, done, err := t.session(ctx, s, owner)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(listed.Tools, func(o Tool) bool { return o.Name == name })
		if i < 0 {
			done()
			return nil, body.Fail(404, "the server %q offers no tool %q", s.spec.name, name)
		}
		se := listed.of
		r, err := se.call(ctx, limit, listed.Tools[i].its, args, progress)
		done()
		switch {
		case err == nil:
			t.sound(s, owner, se)
			return result(r), nil
		case errors.Is(err, sdk.ErrSessionMissing) && !again: // it has forgotten us, and has done nothing
			t.drop(s, owner, se, nil)
			continue
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			return nil, body.Fail(504, "the tool %q did not answer within %v; what it does may go on", name, limit)
		case se.died(err):
			t.drop(s, owner, se, err)
			return nil, body.Fail(502, "the server %q ended while the tool %q ran: whether it did what was asked is not known",
				s.spec.name, name)
		}
		return nil, body.Fail(502, "the server %q answers: %s", s.spec.name, text(err.Error(), 500))
	}
}

// died says whether a call failed because the session is over. Its error comes a moment before its
// end.
func (se *session) died(err error) bool {
	if errors.As(err, new(*jsonrpc.Error)) {
		return false // it answers
	}
	select {
	case <-se.gone:
		return true
	case <-time.After(moment):
		return errors.Is(err, sdk.ErrConnectionClosed)
	}
}

// call asks a server.
func (se *session) call(ctx context.Context, limit time.Duration, its string, args any, progress func(Progress)) (
	*sdk.CallToolResult, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	token, over := se.watch(progress)
	defer over()
	se.told.Store(true)
	se.grant()
	p := &sdk.CallToolParams{Name: its, Arguments: args}
	p.SetProgressToken(token)
	type answer struct {
		r   *sdk.CallToolResult
		err error
	}
	got := make(chan answer, 1)
	go func() { // one that reads nothing of what is written to it would hold us up beyond the limit
		r, err := se.cs.CallTool(ctx, p)
		got <- answer{r, err}
	}()
	select {
	case a := <-got:
		return a.r, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-got:
		return a.r, a.err
	case <-time.After(patience): // it takes not even the word that nothing is wanted any more
		se.kill()
		a := <-got
		return a.r, errors.Join(ctx.Err(), a.err)
	}
}

// result makes text of what a tool gave.
func result(r *sdk.CallToolResult) *Result {
	out := &Result{Error: r.IsError}
	var all strings.Builder
	add := func(s string) {
		if all.Len() > 0 {
			all.WriteByte('\n')
		}
		all.WriteString(s)
	}
	whole := 0
	for _, c := range r.Content {
		var s string
		switch c := c.(type) {
		case *sdk.TextContent:
			s = c.Text
		case *sdk.ImageContent:
			s = fmt.Sprintf("[a picture, %s, %d bytes: left out]", text(c.MIMEType, 60), len(c.Data))
		case *sdk.AudioContent:
			s = fmt.Sprintf("[sound, %s, %d bytes: left out]", text(c.MIMEType, 60), len(c.Data))
		case *sdk.ResourceLink:
			s = fmt.Sprintf("[a link: %s]", c.URI)
		case *sdk.EmbeddedResource:
			if c.Resource == nil {
				continue
			}
			if s = c.Resource.Text; s == "" {
				s = fmt.Sprintf("[a file, %s, %d bytes: left out]", text(c.Resource.MIMEType, 60), len(c.Resource.Blob))
			}
		default:
			s = "[something of an unknown kind: left out]"
		}
		whole += len(s)
		if all.Len() <= maxResult {
			add(s)
		}
	}
	if whole == 0 && r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			whole = len(b)
			add(string(b))
		}
	}
	out.Text = text(all.String(), maxResult)
	if out.Cut = max(0, whole-maxResult); out.Cut > 0 {
		out.Text += fmt.Sprintf("\n[cut: %d bytes more]", out.Cut)
	}
	return out
}

// take waits for a turn with a server. Who wants nothing any more gets none.
func take(ctx context.Context, s *server, owner string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return s.line.Take(ctx, owner, 0, 1)
}

func (t *Tools) server(name string) (*server, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.servers[name]; s != nil && !t.closed {
		return s, nil
	}
	return nil, body.Fail(404, "there is no tool server %q here", clip(name))
}

// Close ends every server, and returns when all are gone.
func (t *Tools) Close() error {
	t.mu.Lock()
	all := t.servers
	t.servers, t.closed = map[string]*server{}, true
	t.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() { t.endAll(s) })
	}
	wg.Wait()
	t.ending.Wait()
	t.http.CloseIdleConnections()
	return nil
}

var _ io.Closer = (*Tools)(nil)
