package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestTextEncoder: vectors are those of the net, computed in float64, whichever form the net's
// output has, alone and together, and a text that is too long loses its end, with [SEP] behind the
// rest.
func TestTextEncoder(t *testing.T) {
	lane.NoRace(t)
	testTextEncoder(t, softCard)
}

func testTextEncoder(t *testing.T, open func() (axcl.Device, string, error)) {
	for _, e := range []modelstest.TextEncoder{{Seed: 1, Length: 128, Dims: 32, Layers: 2},
		{Seed: 2, Length: 128, Dims: 16, Layers: 1, PerToken: true}} {
		t.Run(fmt.Sprintf("%+v", e), func(t *testing.T) { encodes(t, e, open) })
	}
}

func encodes(t *testing.T, e modelstest.TextEncoder, open func() (axcl.Device, string, error)) {
	m, _, dir := encoder(t, e, open, OpenOptions{})
	if i := m.Info(); !i.Embedding || i.Hidden != e.Dims || i.Context != e.Length || i.CardBytes <= 0 || i.Capabilities.Tools {
		t.Errorf("%+v", i)
	}
	long := ""
	for range 200 {
		long += "cat "
	}
	texts := []string{"The cat sat on the mat.", "cats", "", long}
	got, err := m.Embed(context.Background(), EmbedRequest{Input: texts, Truncate: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Cuts) != 1 || got.Cuts[0].Kept != e.Length || got.Cuts[0].Prompt != 202 {
		t.Errorf("cut: %+v", got.Cuts)
	}
	for i, ids := range [][]int32{{2, 4, 5, 7, 8, 4, 9, 18, 3}, {2, 5, 16, 3}, {2, 3},
		slices.Concat([]int32{2}, slices.Repeat([]int32{5}, e.Length-2), []int32{3})} {
		want := truth(t, e, dir, ids)
		if c := cosine(got.Vectors[i], want); c < 0.9999 {
			t.Errorf("%+v, %.20q: cosine %.6f", e, texts[i], c)
		}
		alone, err := m.Embed(context.Background(), EmbedRequest{Input: texts[i : i+1], Truncate: true})
		if err != nil || cosine(alone.Vectors[0], want) < 0.9999 {
			t.Errorf("alone, %.20q: %v", texts[i], err)
		}
	}
	if a, b := cosine(got.Vectors[0], truth(t, e, dir, []int32{2, 5, 16, 3})), 0.9999; a >= b {
		t.Error("vectors of different texts are alike")
	}
	var ce *ContextError
	if _, err := m.Embed(context.Background(), EmbedRequest{Input: []string{long}}); !errors.As(err, &ce) || ce.Max != e.Length {
		t.Errorf("too long, and not to be cut: %v", err)
	}
	if _, _, err := collect(m.Generate(context.Background(), Request{Prompt: "x"})); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an encoder of texts writes: %v", err)
	}
	r, err := m.Rerank(context.Background(), RerankRequest{Query: "cat", Documents: []string{"dog", "cat"}, Instruction: "x"})
	if err != nil ||
		r.Scoring != ScoringCosine || len(r.Scores) != 2 {
		t.Errorf("rerank: %+v %v", r, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := m.Embed(context.Background(), EmbedRequest{Input: []string{"x"}}); !errors.Is(err, ErrClosed) ||
		m.Stats().State != "closed" {
		t.Errorf("closed: %v, %s", err, m.Stats().State)
	}
}

// TestTextEncoderNonsense: a vector with a NaN or an infinity ends its request with an error. It is
// no strike against the card, and others go on.
func TestTextEncoderNonsense(t *testing.T) {
	var d *nonsense
	m, c, _ := encoder(t, modelstest.TextEncoder{Seed: 5, Length: 128, Dims: 16, Layers: 1}, func() (axcl.Device, string, error) {
		soft, why, err := softCard()
		d = &nonsense{Device: soft}
		return d, why, err
	}, OpenOptions{})
	one := EmbedRequest{Input: []string{"cat"}}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for range 3 {
			d.put.Store(math.Float32bits(float32(x)))
			if got, err := m.Embed(context.Background(), one); !errors.Is(err, ErrNonsense) {
				t.Errorf("%v: %v, %v", x, got.Vectors, err)
			}
		}
	}
	d.put.Store(0)
	if _, err := m.Embed(context.Background(), one); err != nil {
		t.Errorf("the next request: %v", err)
	}
	if err := c.Do(context.Background(), func(axcl.Device) error {
		if n := c.Strikes(); n != 0 {
			t.Errorf("%d strikes", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// nonsense is a card whose nets put a value into their outputs, unless it is 0. Its nets, and what
// is written to its buffers or read, fail as a function says, if there is one.
type nonsense struct {
	axcl.Device
	put  atomic.Uint32
	fail atomic.Pointer[func() error]
}

func (d *nonsense) LoadNet(path string) (axcl.Net, error) {
	n, err := d.Device.LoadNet(path)
	return nonsenseNet{n, d}, err
}

func (d *nonsense) NewBuffer(size int) (axcl.Buffer, error) {
	b, err := d.Device.NewBuffer(size)
	return nonsenseBuffer{b, d}, err
}

func (d *nonsense) fails() error {
	if f := d.fail.Load(); f != nil {
		return (*f)()
	}
	return nil
}

type nonsenseBuffer struct {
	axcl.Buffer
	d *nonsense
}

func (b nonsenseBuffer) Read(at int, to []byte) error {
	if err := b.d.fails(); err != nil {
		return err
	}
	return b.Buffer.Read(at, to)
}

func (b nonsenseBuffer) Write(at int, from []byte) error {
	if err := b.d.fails(); err != nil {
		return err
	}
	return b.Buffer.Write(at, from)
}

type nonsenseNet struct {
	axcl.Net
	d *nonsense
}

func (n nonsenseNet) Bind(group int, tensor string, b axcl.Buffer) error {
	if own, ok := b.(nonsenseBuffer); ok {
		b = own.Buffer
	}
	return n.Net.Bind(group, tensor, b)
}

func (n nonsenseNet) Run(group int, in, out map[string][]byte) error {
	if err := n.d.fails(); err != nil {
		return err
	}
	err := n.Net.Run(group, in, out)
	if x := n.d.put.Load(); x != 0 {
		for _, b := range out {
			binary.LittleEndian.PutUint32(b[4:], x)
		}
	}
	return err
}

// TestTextEncoderDraft: an encoder of texts with a draft model is refused before a card is asked.
func TestTextEncoderDraft(t *testing.T) {
	dir := t.TempDir()
	if err := (modelstest.TextEncoder{Length: 128, Dims: 16}).Write(dir); err != nil {
		t.Fatal(err)
	}
	p, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o := OpenOptions{Device: "none", Draft: func() (*models.Package, error) { return nil, errors.New("it is opened") }}
	if _, err := OpenAny(context.Background(), p, o); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

// truth is a text's vector in float64, of length one.
func truth(t *testing.T, e modelstest.TextEncoder, dir string, ids []int32) []float32 {
	t.Helper()
	file, err := os.ReadFile(e.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	meta, err := axmodel.ReadFile(e.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	in := make([]byte, 4*e.Length)
	for i, id := range ids {
		binary.LittleEndian.PutUint32(in[4*i:], uint32(id))
	}
	out, err := axmodeltest.Oracle(meta.Soft.Graphs[0], file, map[string][]byte{"input_ids": in})
	if err != nil {
		t.Fatal(err)
	}
	name := "dense_vecs"
	if e.PerToken {
		name = "last_hidden_state"
	}
	v, sum := make([]float32, e.Dims), 0.0
	for i := range v {
		sum += out[name][i] * out[name][i]
	}
	for i := range v {
		v[i] = float32(out[name][i] / math.Sqrt(sum))
	}
	return v
}

func cosine(a, b []float32) (c float64) {
	for i := range a {
		c += float64(a[i]) * float64(b[i])
	}
	return c
}

// TestTextEncoderTurns: keys take turns, what waits is bounded, who leaves is dropped, and a lost
// card ends who waits.
func TestTextEncoderTurns(t *testing.T) {
	//proves:T16
	m, c, _ := encoder(t, modelstest.TextEncoder{Seed: 3, Length: 128, Dims: 16, Layers: 1}, softCard, OpenOptions{MaxQueue: 3})
	hold, held := make(chan struct{}), make(chan struct{})
	go func() { // nothing has a turn while this runs
		_ = c.Do(context.Background(), func(axcl.Device) error { close(held); <-hold; return nil })
	}()
	<-held
	e := m.Backend().(*textEncoder)
	var order []string
	var mu sync.Mutex
	var all sync.WaitGroup
	ask := func(ctx context.Context, key string, n int) {
		want := int(e.waiting.Load()) + 1
		all.Go(func() {
			_, err := m.Embed(ctx, EmbedRequest{Input: make([]string, n), Key: key})
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, context.Canceled) {
				key += " left"
			} else if err != nil {
				key += " " + err.Error()
			}
			order = append(order, key)
		})
		for int(e.waiting.Load()) < want || e.turns.Waiting() < want-1 {
			c.Wake()
		}
	}
	ctx, leave := context.WithCancel(context.Background())
	ask(context.Background(), "ann", 40)
	ask(ctx, "ann", 2)
	ask(context.Background(), "bob", 2)
	if _, err := m.Embed(context.Background(), EmbedRequest{Input: []string{"x"}, Key: "eve"}); !errors.Is(err, ErrBusy) {
		t.Errorf("a fourth request: %v", err)
	}
	if st := m.Stats(); st.Queued != 3 || st.State != "ready" {
		t.Errorf("%+v", st)
	}
	leave()
	for gone := 0; gone == 0; {
		mu.Lock()
		gone = len(order)
		mu.Unlock()
		runtime.Gosched()
	}
	close(hold)
	all.Wait()
	for e.waiting.Load() > 0 { // who left is dropped when the turn comes
		runtime.Gosched()
	}
	if len(order) != 3 || order[0] != "ann left" || order[1] != "bob" || order[2] != "ann" {
		t.Errorf("they came in the order %v", order)
	}
	if st := m.Stats(); st.Passes["encode"] != 42 || st.Queued != 0 {
		t.Errorf("%d calls, %d wait", st.Passes["encode"], st.Queued)
	}
	hold, held = make(chan struct{}), make(chan struct{})
	go func() {
		_ = c.Do(context.Background(), func(axcl.Device) error { close(held); <-hold; return nil })
	}()
	<-held
	order = nil
	ask(context.Background(), "ann", 1)
	c.Lose(&axcl.Error{Op: "test", Layer: axcl.NoLayer, Kind: axcl.ErrLost})
	all.Wait()
	close(hold)
	if _, err := m.Embed(context.Background(), EmbedRequest{Input: []string{"x"}}); !errors.Is(err, axcl.ErrLost) ||
		m.Stats().State != "lost" {
		t.Errorf("after the card's loss: %v, %s", err, m.Stats().State)
	}
}

// TestTextEncoderCopies: two cards hold a copy each; one that is lost leaves the other at work.
func TestTextEncoderCopies(t *testing.T) {
	dir := t.TempDir()
	if err := (modelstest.TextEncoder{Seed: 6, Length: 128, Dims: 16, Layers: 1}).Write(dir); err != nil {
		t.Fatal(err)
	}
	p, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	var o OpenOptions
	for range 2 {
		c, err := OpenCard(softCard, CardOptions{Check: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		o.Copies = append(o.Copies, c)
	}
	m, err := OpenAny(context.Background(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	ask := EmbedRequest{Input: []string{"cat", "dog", "The cat sat on the mat."}}
	want, err := m.Embed(context.Background(), ask)
	if err != nil || m.Stats().Passes["encode"] != 3 {
		t.Fatal(err, m.Stats().Passes)
	}
	for i, c := range o.Copies {
		got, err := m.Embed(context.Background(), ask)
		if err != nil || !slices.EqualFunc(got.Vectors, want.Vectors, slices.Equal[[]float32]) {
			t.Errorf("%d cards lost: %v", i, err)
		}
		c.Lose(&axcl.Error{Op: "test", Layer: axcl.NoLayer, Kind: axcl.ErrLost})
	}
	if _, err := m.Embed(context.Background(), ask); !errors.Is(err, axcl.ErrLost) || m.Stats().State != "lost" {
		t.Errorf("all cards lost: %v, %s", err, m.Stats().State)
	}
	_ = m.Close() // the loss
}

// TestLoadNetClosed: a call that waits for its turn ends with ErrClosed when the net is closed.
func TestLoadNetClosed(t *testing.T) {
	_, c, dir := encoder(t, modelstest.TextEncoder{Seed: 4, Length: 128, Dims: 16, Layers: 1}, softCard, OpenOptions{})
	n, err := LoadNet(context.Background(), c, modelstest.TextEncoder{}.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	hold, held := make(chan struct{}), make(chan struct{})
	go func() {
		_ = c.Do(context.Background(), func(axcl.Device) error { close(held); <-hold; return nil })
	}()
	<-held
	waits := make(chan error)
	go func() {
		_, _, err := n.Run(context.Background(), 0, map[string][]byte{"input_ids": make([]byte, 512)})
		waits <- err
	}()
	closed := make(chan error)
	go func() { closed <- n.Close() }()
	if err := <-waits; !errors.Is(err, ErrClosed) {
		t.Errorf("a call that waited: %v", err)
	}
	close(hold)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, _, err := n.Run(context.Background(), 0, map[string][]byte{"input_ids": make([]byte, 512)}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func softCard() (axcl.Device, string, error) {
	d, err := soft.Open(soft.Options{Threads: 1})
	return d, "a test", err
}

// encoder makes a text encoder's package, and puts it on a card.
func encoder(t *testing.T, e modelstest.TextEncoder, open func() (axcl.Device, string, error), o OpenOptions) (*Model, *Card, string) {
	t.Helper()
	return onCard(t, e.Write, open, o)
}

// onCard makes a package, and puts it on a card.
func onCard(t *testing.T, write func(dir string) error, open func() (axcl.Device, string, error), o OpenOptions) (
	m *Model, c *Card, dir string,
) {
	t.Helper()
	dir = t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	p, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err = OpenCard(open, CardOptions{Check: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	o.Card = c
	m, err = OpenAny(context.Background(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, c, dir
}

// TestLoadNet: a single net is called by name beside what else is on the card; what does not fit is
// the caller's fault and leaves the card as it is.
func TestLoadNet(t *testing.T) {
	ctx := context.Background()
	m, c, dir := encoder(t, modelstest.TextEncoder{Seed: 4, Length: 128, Dims: 16, Layers: 1}, softCard, OpenOptions{})
	n, err := LoadNet(ctx, c, modelstest.TextEncoder{}.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	in, out := n.Tensors(0)
	if n.Groups() != 1 || len(in) != 1 || len(out) != 3 {
		t.Fatalf("%d groups, %v, %v", n.Groups(), in, out)
	}
	if in, out := n.Tensors(1); in != nil || out != nil {
		t.Error("a group that is not there has tensors")
	}
	ids := make([]byte, 512)
	ids[0], ids[4] = 2, 3
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			got, took, err := n.Run(ctx, 0, map[string][]byte{"input_ids": ids})
			if err != nil || len(got["dense_vecs"]) != 64 || took <= 0 {
				t.Errorf("%v, %d bytes, %v", err, len(got["dense_vecs"]), took)
			}
			if _, err := m.Embed(ctx, EmbedRequest{Input: []string{"cat"}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, tt := range []struct {
		group int
		in    map[string][]byte
	}{{1, nil}, {-1, nil}, {0, nil}, {0, map[string][]byte{"input_ids": ids[:4]}}, {0, map[string][]byte{"x": ids, "input_ids": ids}}} {
		if _, _, err := n.Run(ctx, tt.group, tt.in); !errors.Is(err, ErrRequest) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if err := c.Do(ctx, func(axcl.Device) error {
		if n := c.Strikes(); n != 0 {
			t.Errorf("a caller's mistakes are %d strikes", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	gone, leave := context.WithCancel(ctx)
	leave()
	if _, _, err := n.Run(gone, 0, map[string][]byte{"input_ids": ids}); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left: %v", err)
	}
	if _, err := LoadNet(ctx, c, dir); err == nil {
		t.Error("a folder is loaded as a net")
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := n.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed again: %v", err)
	}
	if _, err := m.Embed(ctx, EmbedRequest{Input: []string{"cat"}}); err != nil {
		t.Errorf("after the net was closed: %v", err)
	}
}
