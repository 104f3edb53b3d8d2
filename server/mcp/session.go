package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"
)

// Limits of a session.
const (
	startTime  = 60 * time.Second // that a server may take to begin: it may fetch itself first
	listTime   = 20 * time.Second
	callTime   = 60 * time.Second // where the file says nothing else
	listedFor  = time.Minute      // and then what it offers is asked for again
	maxMessage = 8 << 20          // bytes
	maxAnswer  = 32 << 20         // bytes that a server may send from one request to the next
)

// version is the protocol's that is offered first. Servers know it, or name one that both know;
// later ones begin with a request that older servers were seen to hang on.
const version = "2025-11-25"

// session is a server that runs for an owner.
type session struct {
	spec *spec
	cs   *sdk.ClientSession
	out  *metered // nil: it is remote
	kill func()
	gone chan struct{} // closed when nothing can be asked any more

	told   atomic.Bool            // a tool was called
	hushed atomic.Int64           // lines that were not logged for that
	why    atomic.Pointer[string] // what Child said
	stale  atomic.Bool            // it says that it offers other tools now
	calls  sync.Map               // token of a call to its func(Progress)
	last   atomic.Int64           // token

	// Of who has the slot.
	tools   []Tool
	without []string // what was left out of them, and why
	listed  time.Time
}

// open begins a session.
func (t *Tools) open(ctx context.Context, s *spec) (*session, error) {
	ctx, stop := context.WithTimeout(ctx, t.starts)
	defer stop()
	se := &session{spec: s, gone: make(chan struct{}), kill: func() {}}
	c := sdk.NewClient(&sdk.Implementation{Name: "axle", Version: t.o.Version}, &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{}, // neither our files nor our models are offered to it
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
		ProgressNotificationHandler: se.progress,
	})
	c.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "notifications/tools/list_changed" {
				se.stale.Store(true)
			}
			return next(ctx, method, req)
		}
	})
	way, err := t.way(ctx, s, se)
	if err != nil {
		return nil, err
	}
	// A server that hangs must not hold up who asks: Connect waits for it to take what is written.
	type result struct {
		cs  *sdk.ClientSession
		err error
	}
	connected := make(chan result, 1)
	go func() {
		cs, err := c.Connect(ctx, way, &sdk.ClientSessionOptions{ProtocolVersion: version})
		connected <- result{cs, err}
	}()
	var r result
	select {
	case r = <-connected:
	case <-ctx.Done():
		se.kill()
		if r = <-connected; r.cs != nil {
			_ = r.cs.Close()
		}
		r.err = context.Cause(ctx)
	}
	if r.err != nil {
		se.kill()
		if why := se.why.Load(); why != nil {
			return nil, errors.New(*why)
		}
		return nil, r.err
	}
	se.cs = r.cs
	go func() {
		_ = se.cs.Wait()
		close(se.gone)
		se.kill()
	}()
	return se, nil
}

// way is how a server is reached.
func (t *Tools) way(ctx context.Context, s *spec, se *session) (sdk.Transport, error) {
	if s.remote() {
		at, err := url.Parse(s.url)
		if err != nil {
			return nil, errors.New("its url is no address")
		}
		rt := &remote{at: at, headers: s.headers, base: t.http}
		hc := &http.Client{Transport: rt, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			return fmt.Errorf("it leads on to %s: give url that address if you trust it", text(r.URL.Host, 100))
		}}
		return &sdk.StreamableClientTransport{Endpoint: at.Scheme + "://" + at.Host, HTTPClient: hc, MaxRetries: -1,
			DisableStandaloneSSE: true, MaxEventSize: maxMessage}, nil
	}
	l, err := t.place.start(ctx, s, t.logged(se))
	if err != nil {
		return nil, err
	}
	se.kill, se.out = l.kill, &metered{ReadCloser: l.out}
	se.out.left.Store(maxAnswer)
	return &sdk.IOTransport{Reader: se.out, Writer: l.in, MaxLineLength: maxMessage}, nil
}

// over says whether nothing can be asked any more.
func (se *session) over() bool {
	select {
	case <-se.gone:
		return true
	default:
		return false
	}
}

// end ends a session, and returns when nothing of it is left.
func (se *session) end() {
	se.kill()
	_ = se.cs.Close()
	<-se.gone
}

// list asks what there is.
func (se *session) list(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, listTime)
	defer stop()
	se.stale.Store(false)
	var all []*sdk.Tool
	more := ""
	p := &sdk.ListToolsParams{}
	for page := 0; ; page++ {
		se.grant()
		r, err := se.cs.ListTools(ctx, p)
		if err != nil {
			se.stale.Store(true)
			return err
		}
		all = append(all, r.Tools...)
		if r.NextCursor == "" {
			break
		}
		if page == maxPages-1 || len(all) > maxTools {
			more = "it offers more, which is left out"
			break
		}
		p.Cursor = r.NextCursor
	}
	se.tools, se.without = offered(se.spec.name, all)
	if more != "" {
		se.without = append(se.without, more)
	}
	se.listed = time.Now()
	return nil
}

// grant lets the server send an answer.
func (se *session) grant() {
	if se.out != nil {
		se.out.left.Store(maxAnswer)
	}
}

// progress leads a notification to the call that it is about.
func (se *session) progress(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
	token, ok := r.Params.ProgressToken.(float64)
	if !ok {
		return
	}
	if f, ok := se.calls.Load(int64(token)); ok {
		f.(func(Progress))(Progress{Done: r.Params.Progress, Total: r.Params.Total, Message: text(r.Params.Message, maxTitle)})
	}
}

// watch leads the progress of a call to f, until over is called.
func (se *session) watch(f func(Progress)) (token int64, over func()) {
	token = se.last.Add(1)
	if f != nil {
		se.calls.Store(token, f)
	}
	return token, func() { se.calls.Delete(token) }
}

// errFlood ends a server that sends without being asked.
var errFlood = fmt.Errorf("it sent more than %d MiB from one request to the next", maxAnswer>>20)

// metered is what comes from a server, as much as it may send.
type metered struct {
	io.ReadCloser
	left atomic.Int64
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.ReadCloser.Read(b)
	if m.left.Add(-int64(n)) < 0 {
		return 0, errFlood
	}
	return n, err
}

// remote sends requests to a server's address, adds its headers, and bounds what comes back. Who
// asks knows only the address's host: errors quote it, and paths and queries may hold secrets.
type remote struct {
	at      *url.URL
	headers map[string]string
	base    http.RoundTripper
}

func (r *remote) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.URL = r.at
	for k, v := range r.headers {
		q.Header.Set(k, v)
	}
	a, err := r.base.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	most := int64(maxAnswer)
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/event-stream") {
		most = maxMessage // which is read whole
	}
	m := &metered{ReadCloser: a.Body}
	m.left.Store(most)
	a.Body = m
	return a, nil
}

// transport is how servers are reached by HTTP. It keeps few connections, and follows nothing.
func transport() *http.Transport {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 2,
		MaxConnsPerHost: 16, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second}
}

// ends says in the log why a session is over, where no one asked for it.
func (t *Tools) ends(se *session, err error) {
	fields := []zap.Field{zap.String("server", se.spec.name)}
	if err != nil {
		fields = append(fields, zap.String("error", text(err.Error(), 500)))
	}
	if n := se.hushed.Load(); n > 0 {
		fields = append(fields, zap.Int64("lines_not_logged", n))
	}
	t.o.Log.Warn("a tool server ended", fields...)
}
