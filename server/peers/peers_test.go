package peers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/prefix"
	"github.com/axle-llm/axle/server/kvevents"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret, other = bytes.Repeat([]byte("S"), 32), bytes.Repeat([]byte("O"), 32)

// TestFetch: what one server kept, another one fetches and takes in: the same bytes, found under
// the same names. Of a text it asks one server alone for the content.
func TestFetch(t *testing.T) {
	//proves:G28
	one, two := newBoard(t, secret), newBoard(t, secret)
	names := one.keep(t, 3)
	two.keep(t, 1)
	here := open(t, secret)
	p := one.peers(t, two)
	n, err := p.Has(t.Context(), names)
	if err != nil || n != 3 {
		t.Fatalf("%d blocks, %v", n, err)
	}
	for _, name := range names {
		data, err := p.Get(t.Context(), name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if err := here.Accept(name, data); err != nil {
			t.Fatal(err)
		}
	}
	if n := here.Space(owner).Find(here.Space(owner).Keys(ids(3))); n != 3 {
		t.Errorf("%d blocks are found here", n)
	}
	if one.got.Load() != 3 || two.got.Load() != 0 {
		t.Errorf("%d and %d files were sent", one.got.Load(), two.got.Load())
	}
	if _, err := p.Get(t.Context(), strings.Repeat("0", 32)+"/"+strings.Repeat("0", 64), 1<<20); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is nowhere: %v", err)
	}
	if _, err := p.Get(t.Context(), names[0], 100); err == nil || !strings.Contains(err.Error(), "100 may be") {
		t.Errorf("more than may be: %v", err)
	}
}

// TestSealed: who has not the secret learns nothing, not even whether a file is there; nor who
// repeats, bends or delays a request of one who has it.
func TestSealed(t *testing.T) {
	//proves:G28
	b := newBoard(t, secret)
	name := b.keep(t, 1)[0]
	now := time.Now()
	for _, tt := range []struct {
		name   string
		spoil  func(r *http.Request)
		status int
		says   string
	}{
		{"sealed", func(*http.Request) {}, 200, ""},
		{"no seal", func(r *http.Request) { r.Header.Del(sealHeader) }, 401, "--rows-secret"},
		{"the secret itself", func(r *http.Request) { r.Header.Set(sealHeader, string(secret)) }, 401, "--rows-secret"},
		{"another secret", func(r *http.Request) { newSealer(other).seal(r, now) }, 401, "--rows-secret"},
		{"another file", func(r *http.Request) { r.URL.Path = r.URL.Path[:len(r.URL.Path)-1] + "0" }, 401, "--rows-secret"},
		{"another method", func(r *http.Request) { r.Method = "DELETE" }, 401, "--rows-secret"},
		{"another host", func(r *http.Request) { r.Host = "board-9:11434" }, 401, "--rows-secret"},
		{"another length", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1 }, 401,
			"--rows-secret"},
		{"another time", func(r *http.Request) {
			w := strings.Split(r.Header.Get(sealHeader), " ")
			r.Header.Set(sealHeader, fmt.Sprint(now.Unix()+1, " ", w[1], " ", w[2]))
		}, 401, "--rows-secret"},
		{"long ago", func(r *http.Request) { newSealer(secret).seal(r, now.Add(-3*time.Minute)) }, 401, "clocks"},
		{"in the future", func(r *http.Request) { newSealer(secret).seal(r, now.Add(3*time.Minute)) }, 401, "clocks"},
		{"a time that is none", func(r *http.Request) { r.Header.Set(sealHeader, "x y z") }, 401, "--rows-secret"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), "GET", b.url+"/rows/"+name, nil)
			if err != nil {
				t.Fatal(err)
			}
			newSealer(secret).seal(r, now)
			tt.spoil(r)
			res, err := b.ts.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			said, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != tt.status || !strings.Contains(string(said), tt.says) || tt.status == 200 &&
				len(said) < 64 || bytes.Contains(said, secret) {
				t.Errorf("%d %q %v", res.StatusCode, clip(string(said)), err)
			}
		})
	}
}

// TestReplayed: a request that was seen on the network is of no use a second time, as long as its
// time counts; and the memory for that is bounded.
func TestReplayed(t *testing.T) {
	//proves:G28
	now := time.Unix(1_700_000_000, 0)
	g := newGate(secret, func() time.Time { return now })
	request := func() *http.Request {
		r := httptest.NewRequest("GET", "http://board-1:11434/rows/x", nil)
		g.seal(r, now)
		return r
	}
	first := request()
	if err := g.admit(first); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if err := g.admit(first); err == nil {
			t.Errorf("the request counts again %v later", now)
		}
		now = now.Add(mostSkew / 3)
		if err := g.admit(request()); err != nil {
			t.Fatal(err)
		}
	}
	ahead := request()
	g.seal(ahead, now.Add(mostSkew)) // by a clock that is fast
	if err := g.admit(ahead); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * mostSkew)
	if err := g.admit(ahead); !errors.Is(err, errReplayed) {
		t.Errorf("four minutes later: %v", err)
	}
	now = now.Add(5 * mostSkew)
	for range mostNonces {
		if err := g.once(now, [nonceSize]byte([]byte(fmt.Sprintf("%016d", len(g.nonces))))); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.admit(request()); !errors.Is(err, errMany) {
		t.Errorf("one more: %v", err)
	}
}

// TestForged: what a peer sends that was changed, or sealed with another secret, is not taken in.
func TestForged(t *testing.T) {
	//proves:G28
	b := newBoard(t, secret)
	names := b.keep(t, 2)
	p := b.peers(t)
	here := open(t, secret)
	for name, spoil := range map[string]func([]byte) []byte{
		"a bit":         func(d []byte) []byte { d[len(d)/2] ^= 1; return d },
		"a name":        func(d []byte) []byte { d[20] ^= 1; return d },
		"cut":           func(d []byte) []byte { return d[:len(d)-1] },
		"another block": func([]byte) []byte { d, _ := b.disk.Sealed(names[1]); return d },
	} {
		b.spoil.Store(&spoil)
		data, err := p.Get(t.Context(), names[0], 1<<20)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := here.Accept(names[0], data); !errors.Is(err, rows.ErrForged) || here.Has(names[:1]) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A peer with another secret neither asks nor answers.
	stranger := newBoard(t, other)
	theirs := stranger.keep(t, 2)
	q := stranger.peers(t)
	if slices.Equal(theirs, names) {
		t.Fatal("two secrets give the same names")
	}
	q.sealer = newSealer(secret)
	if n, err := q.Has(t.Context(), theirs); n != 0 || err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("%d, %v", n, err)
	}
}

// TestHandOver: a server that ends hands files over to a peer with room, and never takes room that
// the peer uses. What the peer has already is not sent.
func TestHandOver(t *testing.T) {
	here := open(t, secret)
	names := keep(t, here, 4)
	small, large := newBoard(t, secret), newBoard(t, secret)
	small.disk = openSized(t, secret, 3*fileSize+100)
	own := keepFrom(t, small.disk, 100, 2)
	p := small.peers(t, large)
	for i, name := range append(names, names[3]) {
		data, err := here.Sealed(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Put(t.Context(), name, data); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if small.disk.Has(own) != 2 || small.disk.Has(names) != 1 || large.disk.Has(names[1:]) != 3 {
		t.Errorf("%d of its own and %d at the small server, %d at the other", small.disk.Has(own), small.disk.Has(names),
			large.disk.Has(names[1:]))
	}
	data, _ := here.Sealed(names[0])
	data = slices.Clone(data)
	data[len(data)/2] ^= 1
	if err := p.Put(t.Context(), names[1][:33]+strings.Repeat("a", 64), data); !errors.Is(err, ErrNoRoom) ||
		!strings.Contains(err.Error(), "422") {
		t.Errorf("a forged file: %v", err)
	}
	large.ts.CloseClientConnections()
	large.ts.Close()
	small.ts.CloseClientConnections()
	small.ts.Close()
	if err := p.Put(t.Context(), names[0], data); !errors.Is(err, ErrNoRoom) {
		t.Errorf("no one is there: %v", err)
	}
}

// TestAway: a peer that does not answer is told of once, left alone for a while, and asked again.
func TestAway(t *testing.T) {
	b := newBoard(t, secret)
	names := b.keep(t, 1)
	now := time.Now()
	var told []string
	p, err := New([]string{b.url}, Options{Secret: secret, Now: func() time.Time { return now },
		Told: func(peer string, err error) { told = append(told, fmt.Sprint(peer == b.url, " ", err == nil)) }})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	b.down.Store(true)
	for range 3 {
		if n, _ := p.Has(t.Context(), names); n != 0 {
			t.Error("who is away has something")
		}
	}
	if b.asked.Load() != 1 || fmt.Sprint(told) != "[true false]" {
		t.Errorf("asked %d times, told %v", b.asked.Load(), told)
	}
	for _, after := range []time.Duration{6 * time.Second, 11 * time.Second} {
		now = now.Add(after)
		_, _ = p.Has(t.Context(), names)
	}
	if b.asked.Load() != 3 || len(told) != 1 {
		t.Errorf("asked %d times, told %v", b.asked.Load(), told)
	}
	b.down.Store(false)
	now = now.Add(time.Minute)
	if n, err := p.Has(t.Context(), names); n != 1 || err != nil || fmt.Sprint(told) != "[true false true true]" {
		t.Errorf("%d, %v; told %v", n, err, told)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Get(ctx, names[0], 1<<20); err == nil || !p.peers[0].up() {
		t.Errorf("who gives up does not blame the peer: %v", err)
	}
}

// TestSlow: a peer that accepts and never answers costs no more than the time that is given.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New([]string{"board-1"}, Options{Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var ends []net.Conn
		p.client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			ends = append(ends, b)
			go func() { _, _ = io.Copy(io.Discard, b) }()
			return a, nil
		}
		begun := time.Now()
		if n, err := p.Has(t.Context(), []string{strings.Repeat("0", 32) + "/" + strings.Repeat("0", 64)}); n != 0 || err == nil {
			t.Errorf("%d, %v", n, err)
		}
		if took := time.Since(begun); took != askTime || p.peers[0].up() {
			t.Errorf("it took %v", took)
		}
		for _, e := range ends {
			_ = e.Close()
		}
	})
}

// TestPace: what peers fetch goes out at a bounded rate, however fast they are.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{rate: 1 << 20}
		begun := time.Now()
		for range 17 {
			if err := p.wait(t.Context(), 256<<10); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun).Round(time.Millisecond); took != 4*time.Second {
			t.Errorf("4 MiB took %v at 1 MiB a second", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.wait(ctx, 1); err == nil {
			t.Error("it waits for who has gone")
		}
	})
}

// TestBusy: the third file at a time waits, and is refused after a second.
func TestBusy(t *testing.T) {
	b := newBoard(t, secret)
	names := b.keep(t, 1)
	for range sending {
		b.server.sends <- struct{}{}
	}
	p := b.peers(t)
	if _, err := p.Get(t.Context(), names[0], 1<<20); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
	if !p.peers[0].up() {
		t.Error("a peer that is busy counts as away")
	}
	<-b.server.sends
	if _, err := p.Get(t.Context(), names[0], 1<<20); err != nil {
		t.Error(err)
	}
}

// TestTLS: peers speak TLS with an authority that they are told of, and with no other.
func TestTLS(t *testing.T) {
	b := newBoard(t, secret)
	names := b.keep(t, 1)
	ts := httptest.NewUnstartedServer(b.ts.Config.Handler)
	ts.Config.ErrorLog = nil
	ts.StartTLS()
	defer ts.Close()
	pool := x509.NewCertPool()
	pool.AddCert(ts.Certificate())
	for _, tt := range []struct {
		name string
		ca   *x509.CertPool
		n    int
	}{{"known", pool, 1}, {"the system's", nil, 0}} {
		p, err := New([]string{ts.URL}, Options{Secret: secret, CA: tt.ca})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := p.Has(t.Context(), names); n != tt.n || (err == nil) != (n == 1) {
			t.Errorf("%s: %d, %v", tt.name, n, err)
		}
		_ = p.Close()
	}
}

// TestEvents: a peer whose events may be followed is not asked what it has, and one that has not
// what is wanted is not asked at all.
func TestEvents(t *testing.T) {
	events, replay := pair(t)
	pub := kvevents.New(events, replay, kvevents.Options{Node: "n"})
	defer pub.Close()
	b := newBoard(t, secret)
	b.server.o.Events = func(from netip.Addr) int {
		if !pub.Allows(from) {
			return 0
		}
		return events.Addr().(*net.TCPAddr).Port
	}
	names := b.keep(t, 3)
	p := b.peers(t)
	if n, err := p.Has(t.Context(), names); n != 3 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for !p.peers[0].events.Live() {
		runtime.Gosched()
	}
	asked := b.asked.Load()
	if n, err := p.Has(t.Context(), names); n != 0 || err != nil || b.asked.Load() != asked {
		t.Errorf("nothing was told: %d, %v", n, err)
	}
	feed := pub.Open("m")
	chain := b.disk.Space(owner).Names()
	all := chain.Blocks(ids(3), nil)
	for i, name := range all[:2] {
		var before *prefix.Name
		if i > 0 {
			before = &all[i-1]
		}
		feed.Stored("disk", "", name, before, ids(3)[i*prefix.Shared:(i+1)*prefix.Shared])
	}
	for !p.peers[0].events.On(all[1]) {
		runtime.Gosched()
	}
	if n, err := p.Has(t.Context(), names); n != 2 || err != nil || b.asked.Load() != asked {
		t.Errorf("two were told: %d, %v", n, err)
	}
}

// TestHostileRequests: bad names, lengths and methods of who has the secret.
func TestHostileRequests(t *testing.T) {
	b := newBoard(t, secret)
	b.keep(t, 1)
	hex32, hex64 := strings.Repeat("0", 32), strings.Repeat("0", 64)
	for _, tt := range []struct {
		method, path string
		size         int64
		status       int
	}{
		{"GET", hex32 + "/" + hex64, 0, 404},
		{"HEAD", hex32 + "/" + hex64, 0, 404},
		{"GET", "../secret", 0, 400},
		{"GET", hex32 + "/name", 0, 400},
		{"GET", hex32 + "/" + hex64 + ".state.state", 0, 400},
		{"POST", hex32 + "/" + hex64, 0, 405},
		{"PUT", hex32 + "/" + hex64, 0, 411},
		{"PUT", hex32 + "/" + hex64, 1 << 40, 413},
		{"PUT", hex32 + "/" + hex64, 200 << 20, 507},
		{"PUT", hex32 + "/../../../etc/passwd", 5, 400},
	} {
		r := httptest.NewRequest(tt.method, "http://board-1/rows/x", nil)
		r.Body, r.ContentLength = http.NoBody, tt.size
		newSealer(secret).seal(r, time.Now())
		r.Host = r.URL.Host
		w := httptest.NewRecorder()
		_ = b.server.Answer(w, r, tt.path)
		if w.Code != tt.status {
			t.Errorf("%s %s with %d bytes: %d, want %d", tt.method, tt.path, tt.size, w.Code, tt.status)
		}
	}
	if _, refused := b.server.Sent(); refused == 0 {
		t.Error("refusals are not counted")
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"10.0.0.7": "http://10.0.0.7:11434", "board-2": "http://board-2:11434", "board-2:80": "http://board-2:80",
		"https://b.example/": "https://b.example:11434", "[::1]:5": "http://[::1]:5", "::1": "", "ftp://x": "", "http://": "", "": "",
		"http://u:p@x": "", "http://x/path": "", "http://x?q": "", "x y": "",
	} {
		u, err := Parse(in)
		if (err == nil) != (want != "") || err == nil && u.String() != want {
			t.Errorf("%q: %v %v, want %q", in, u, err, want)
		}
	}
	for _, tt := range []struct {
		addrs  []string
		secret []byte
		says   string
	}{
		{[]string{"a", "b", "http://a:11434"}, secret, "there twice"}, {[]string{"a"}, secret[:31], "at least 32"},
		{make([]string, 17), secret, "16 may be"}, {[]string{"a/b"}, secret, "no address"},
	} {
		if _, err := New(tt.addrs, Options{Secret: tt.secret}); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v: %v", tt.addrs, err)
		}
	}
}

// owner is the same at all servers.
var owner = rows.Owner{Package: "sha256-1", Model: "m", Card: "soft", Row: 8}

const fileSize = 8 + 32 + 8 + 32 + prefix.Shared*8

// ids is a text of a number of blocks.
func ids(blocks int) []int32 { return text(0, blocks) }

func text(seed int32, blocks int) []int32 {
	out := make([]int32, blocks*prefix.Shared)
	for i := range out {
		out[i] = seed + int32(i)
	}
	return out
}

func open(t *testing.T, secret []byte) *rows.Disk { return openSized(t, secret, 1<<20) }

func openSized(t *testing.T, secret []byte, size int64) *rows.Disk {
	t.Helper()
	d, err := rows.Open(rows.Options{Dir: filepath.Join(t.TempDir(), "rows"), Size: size, Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func keep(t *testing.T, d *rows.Disk, blocks int) []string { return keepFrom(t, d, 0, blocks) }

// keepFrom keeps the blocks of a text, and returns the names of their files.
func keepFrom(t *testing.T, d *rows.Disk, seed int32, blocks int) (names []string) {
	t.Helper()
	s := d.Space(owner)
	for i, k := range s.Keys(text(seed, blocks)) {
		if err := s.Save(k, bytes.Repeat([]byte{byte(i + 1)}, prefix.Shared*owner.Row)); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256([]byte(owner.Package))
	for _, n := range s.Names().Blocks(text(seed, blocks), nil) {
		names = append(names, hex.EncodeToString(sum[:16])+"/"+n.String())
	}
	return names
}

// board is a server with a folder.
type board struct {
	disk       *rows.Disk
	server     *Server
	ts         *httptest.Server
	url        string
	asked, got atomic.Int64
	down       atomic.Bool
	spoil      atomic.Pointer[func([]byte) []byte]
}

func newBoard(t *testing.T, secret []byte) *board {
	t.Helper()
	b := &board{disk: open(t, secret)}
	b.server = NewServer(b, ServerOptions{Secret: secret})
	b.ts = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		if b.down.Load() {
			panic(http.ErrAbortHandler)
		}
		if r.Method == http.MethodGet {
			b.got.Add(1)
		}
		_ = b.server.Answer(w, r, strings.TrimPrefix(r.URL.Path, "/rows/"))
	}))
	t.Cleanup(b.ts.Close)
	b.url = b.ts.URL
	return b
}

func (b *board) Has(names []string) int                { return b.disk.Has(names) }
func (b *board) Accept(name string, data []byte) error { return b.disk.Accept(name, data) }
func (b *board) Room() (int64, error)                  { return b.disk.Room() }
func (b *board) Sealed(name string) ([]byte, error) {
	d, err := b.disk.Sealed(name)
	if spoil := b.spoil.Load(); spoil != nil && err == nil {
		d = (*spoil)(d)
	}
	return d, err
}

func (b *board) keep(t *testing.T, blocks int) []string { return keep(t, b.disk, blocks) }

// peers are this board and others, as another server sees them.
func (b *board) peers(t *testing.T, others ...*board) *Peers {
	t.Helper()
	var addrs []string
	for _, o := range append([]*board{b}, others...) {
		addrs = append(addrs, o.url)
	}
	p, err := New(addrs, Options{Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// pair are listeners on a port and the next.
func pair(t *testing.T) (net.Listener, net.Listener) {
	t.Helper()
	for range 100 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		b, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", a.Addr().(*net.TCPAddr).Port+1))
		if err == nil {
			return a, b
		}
		_ = a.Close()
	}
	t.Fatal("there are no two ports beside each other")
	return nil, nil
}
