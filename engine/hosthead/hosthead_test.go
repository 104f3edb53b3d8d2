package hosthead

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

// TestAccepted: a head that is the embedding table's is accepted however it was rounded, and then
// it is as near to the checkpoint as the card's own in all logits, and nearer in the largest.
func TestAccepted(t *testing.T) {
	//proves:G27
	for name, h := range map[string]how{
		"bf16":              {hidden: 64, out: 2000},
		"int8 a row":        {hidden: 64, out: 2000, kind: int8Row},
		"int8, heavy":       {hidden: 192, out: 3000, kind: int8Row, heavy: true},
		"int8 in groups":    {hidden: 256, out: 1000, kind: roundings[2]},
		"int8 in groups 32": {hidden: 96, out: 1000, kind: roundings[3]},
		"int4 a row":        {hidden: 64, out: 2000, kind: roundings[4]},
		"int4 in groups":    {hidden: 256, out: 1000, kind: roundings[5]},
		"folded":            {hidden: 64, out: 2000, kind: int8Row, folded: true},
		"scaled":            {hidden: 64, out: 2000, kind: int8Row, scale: 0.11},
		"bias":              {hidden: 64, out: 1000, bias: 1},
		"weak bias":         {hidden: 64, out: 1000, bias: 0.01, kind: int8Row},
		"cap 30":            {hidden: 64, out: 1000, limit: 30},
		"cap 50, int8":      {hidden: 64, out: 1000, limit: 50, kind: int8Row},
		"few tokens":        {hidden: 128, out: 300, kind: int8Row},
	} {
		t.Run(name, func(t *testing.T) {
			if h.out > 1000 {
				lane.NoRace(t)
			}
			t.Parallel()
			m := newTied(1, h)
			head, err := made(t, m)
			if err != nil {
				t.Fatal(err)
			}
			rows := m.real(2, LeastRows)
			rep, err := head.Accept(rows, m.card(rows))
			if t.Logf("%+v", rep); err != nil {
				t.Fatal(err)
			}
			rows = m.real(3, 20)
			logits, argmax := make([]uint16, len(rows)*m.out), make([]int32, len(rows))
			if err := head.Run(rows, logits, argmax); err != nil {
				t.Fatal(err)
			}
			card := m.card(rows)
			var ours, theirs, worst float64
			for i, row := range rows {
				exact := m.exact(row)
				if h.scale > 0 {
					for o := range exact {
						exact[o] *= h.scale
					}
				}
				a, top := near(exact, logits[i*m.out:][:m.out])
				b, _ := near(exact, card[i*m.out:][:m.out])
				ours, theirs, worst = ours+a*a, theirs+b*b, max(worst, top)
				best := 0
				for o, v := range exact {
					if v > exact[best] {
						best = o
					}
				}
				if int(argmax[i]) != best && exact[best]-exact[argmax[i]] > 0.002*math.Abs(exact[best]) {
					t.Errorf("row %d: token %d, want %d", i, argmax[i], best)
				}
			}
			t.Logf("error %.4f, the card's %.4f; of the largest %.4f", math.Sqrt(ours), math.Sqrt(theirs), worst)
			if h.kind != (rounding{}) && ours > 2.1*2.1*theirs {
				t.Errorf("an error of %.4f, the card's is %.4f", math.Sqrt(ours), math.Sqrt(theirs))
			}
			if worst > 0.006 { // bf16 alone is 0.004
				t.Errorf("one of the largest logits is off by %.4f of the largest", worst)
			}
		})
	}
}

// TestRefused: what is not the table's head is refused, with the reason.
func TestRefused(t *testing.T) {
	//proves:G27
	lane.NoRace(t)
	for name, h := range map[string]how{
		"untied":                   {hidden: 64, out: 2000, untied: 1},
		"mostly tied":              {hidden: 64, out: 2000, untied: 0.01, kind: int8Row},
		"half tied":                {hidden: 192, out: 2000, untied: 0.1, kind: roundings[4]},
		"swapped rows":             {hidden: 576, out: 1000, swapped: 5, kind: int8Row},
		"one pair":                 {hidden: 256, out: 2000, swapped: 1},
		"not looked at by the fit": {hidden: 96, out: 9002, swapped: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTied(4, h)
			head, err := made(t, m)
			if err == nil {
				rows := m.real(5, LeastRows)
				var rep Report
				rep, err = head.Accept(rows, m.card(rows))
				t.Logf("%+v", rep)
			}
			if r := (*Refusal)(nil); !errors.As(err, &r) {
				t.Errorf("%v", err)
			}
		})
	}
	t.Run("an unnamed cap", func(t *testing.T) {
		for _, limit := range []float64{2, 5, 8} {
			m := newTied(6, how{hidden: 64, out: 2000, limit: limit})
			rows := m.real(7, LeastRows)
			s := m.source()
			s.Cap = 0
			head, err := madeOf(t, m, s)
			if err != nil {
				t.Fatal(err)
			}
			rep, err := head.Accept(rows, m.card(rows))
			if r := (*Refusal)(nil); !errors.As(err, &r) {
				t.Errorf("cap %v: %+v, %v", limit, rep, err)
			}
		}
	})
}

// TestOtherRows: rows of the table that are no tokens say nothing against the head, and their
// logits are never the largest.
func TestOtherRows(t *testing.T) {
	m := newTied(8, how{hidden: 64, out: 1000, kind: int8Row})
	for i := 900 * m.hidden; i < len(m.table); i++ {
		m.table[i] = axcl.BFloat16(100)
	}
	s := m.source()
	s.Tokens, s.Table = 900, noRow{m, 990}
	head, err := madeOf(t, m, s)
	if err != nil {
		t.Fatal(err)
	}
	rows := m.real(9, 20)
	if rep, err := head.Accept(rows, m.card(rows)); err != nil {
		t.Errorf("%+v, %v", rep, err)
	}
	logits, argmax := make([]uint16, len(rows)*m.out), make([]int32, len(rows))
	if err := head.Run(rows, logits, argmax); err != nil {
		t.Fatal(err)
	}
	for i, id := range argmax {
		if v := axcl.Float32(logits[i*m.out+950]); id >= 900 || v > -1e29 || math.IsInf(float64(v), 0) {
			t.Errorf("row %d: token %d, logit 950 is %v", i, id, v)
		}
	}
}

// TestAlone: a row's logits are the same bits alone and with others, with logits and without.
func TestAlone(t *testing.T) {
	m := newTied(10, how{hidden: 96, out: 3001, kind: int8Row, heavy: true})
	head, err := made(t, m)
	if err != nil {
		t.Fatal(err)
	}
	rows := m.real(11, 2*MostRows+3)
	all, best := make([]uint16, len(rows)*m.out), make([]int32, len(rows))
	if err := head.Run(rows, all, best); err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		one, id := make([]uint16, m.out), make([]int32, 1)
		if err := head.Run(rows[i:i+1], one, nil); err != nil {
			t.Fatal(err)
		}
		if err := head.Run(rows[i:i+1], nil, id); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(one, all[i*m.out:][:m.out]) || id[0] != best[i] {
			t.Errorf("row %d is another alone", i)
		}
	}
}

// TestNoNumbers: a row that holds a NaN or an infinity gives no number, and the others are as they
// are without it.
func TestNoNumbers(t *testing.T) {
	//proves:D6
	m := newTied(12, how{hidden: 64, out: 500})
	head, err := made(t, m)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []uint16{0x7fc0, 0x7f80, 0xff80} {
		rows := m.real(13, 3)
		want := make([]uint16, 3*m.out)
		if err := head.Run(rows, want, nil); err != nil {
			t.Fatal(err)
		}
		rows[1][7] = bad
		got, ids := make([]uint16, 3*m.out), []int32{9, 9, 9}
		if err := head.Run(rows, got, ids); err != nil {
			t.Fatal(err)
		}
		for _, v := range got[m.out : 2*m.out] {
			if !math.IsNaN(float64(axcl.Float32(v))) {
				t.Fatalf("row of %04x: a logit of %v", bad, axcl.Float32(v))
			}
		}
		if ids[1] != 0 || !slices.Equal(got[:m.out], want[:m.out]) || !slices.Equal(got[2*m.out:], want[2*m.out:]) {
			t.Errorf("row of %04x: token %d, and the others changed", bad, ids[1])
		}
	}
}

// TestFile: a file that is damaged, cut, of another model, or half written is not used, and a new
// one takes the place of the old.
func TestFile(t *testing.T) {
	//proves:G27
	m := newTied(14, how{hidden: 64, out: 500})
	s := m.source()
	f, err := Fit(t.Context(), s, m.card(chunks(Probes(m.hidden), m.hidden)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := Open(dir, "k", s); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	path, err := Write(t.Context(), dir, "k", s, f)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil || int64(len(whole)) != s.Bytes() {
		t.Fatalf("%d bytes, want %d: %v", len(whole), s.Bytes(), err)
	}
	opens := func(s Source) error {
		h, err := Open(dir, "k", s)
		if err == nil {
			_ = h.Close()
		}
		return err
	}
	if err := opens(s); err != nil {
		t.Error(err)
	}
	other := s
	other.Out--
	if opens(other) == nil {
		t.Error("the head of another model was opened")
	}
	for _, at := range []int{len(whole) / 2, len(whole) - 70, 300} {
		b := slices.Clone(whole)
		b[at] ^= 4
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if opens(s) == nil {
			t.Errorf("damaged at %d, it was opened", at)
		}
	}
	if err := os.WriteFile(path, whole[:len(whole)-64], 0o644); err != nil {
		t.Fatal(err)
	}
	if opens(s) == nil {
		t.Error("cut, it was opened")
	}
	if f.Norm[0] *= 1.5; true {
		if _, err = Write(t.Context(), dir, "k", s, f); err != nil || opens(s) != nil {
			t.Error(err, opens(s))
		}
	}
	// A head of another kind in its place.
	h, groups, tensors := s.file(f)
	tensors[1].Type = axmodel.F32
	sum := crc32.New(castagnoli)
	if err := axmodel.Write(sum, h, groups, tensors); err != nil {
		t.Fatal(err)
	}
	strange := filepath.Join(dir, fmt.Sprintf("head-strange-%08x.axmodel", sum.Sum32()))
	if err := axmodel.WriteFile(strange, h, groups, tensors); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "strange", s); err == nil || !strings.Contains(err.Error(), `tensor "weight"`) {
		t.Errorf("weights in float32: %v", err)
	}
	Remove(dir, "strange")
	// A write that is cancelled leaves nothing.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, dir, "other", s, f); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if all, _ := filepath.Glob(filepath.Join(dir, "*")); len(all) != 1 {
		t.Errorf("left: %v", all)
	}
	if hidden, _ := filepath.Glob(filepath.Join(dir, ".*")); len(hidden) != 0 {
		t.Errorf("left: %v", hidden)
	}
	Remove(dir, "k")
	if err := opens(s); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

// TestFitFails: what cannot be fitted is refused.
func TestFitFails(t *testing.T) {
	m := newTied(15, how{hidden: 64, out: 200})
	card := m.card(chunks(Probes(m.hidden), m.hidden))
	refused := func(what string, s Source, logits []uint16) {
		t.Helper()
		if _, err := Fit(t.Context(), s, logits); !errors.As(err, new(*Refusal)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("too few logits", m.source(), card[1:])
	bad := slices.Clone(card)
	bad[5] = 0x7fc0
	refused("a NaN", m.source(), bad)
	zeros := newTied(15, how{hidden: 64, out: 200})
	clear(zeros.table)
	refused("a table of zeros", zeros.source(), card)
	untied := newTied(16, how{hidden: 64, out: 2000, untied: 1})
	refused("another matrix", untied.source(), untied.card(chunks(Probes(64), 64)))
	few := m.source()
	few.Tokens = 5
	refused("five tokens", few, card)
	broken := m.source()
	broken.Table = failing{}
	if _, err := Fit(t.Context(), broken, card); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// tied is a model's head: what the checkpoint has, and what a card does with it. It is the oracle
// of this package's tests, in float64.
type tied struct {
	hidden, out int
	table       []uint16  // out × hidden, as on the host
	head        []float64 // the card's matrix, rounded as its compiler did
	norm        []float64
	bias        []float64
	limit       float64 // cap of the logits
}

// how says what is special about a head.
type how struct {
	hidden, out int
	kind        rounding
	heavy       bool // rows and columns of very different sizes, and outliers
	folded      bool // the norm is multiplied into the matrix before it is rounded
	bias        float64
	limit       float64
	scale       float64 // of the logits; 0: 1
	untied      float64 // of another matrix that is added, and as much less of the table
	swapped     int     // rows that are another's
}

func newTied(seed uint64, h how) *tied {
	r := rand.New(rand.NewPCG(seed, 7))
	m := &tied{hidden: h.hidden, out: h.out, limit: h.limit}
	columns := make([]float64, h.hidden)
	for i := range columns {
		columns[i] = 1
		m.norm = append(m.norm, math.Exp(0.3*r.NormFloat64()))
		if h.heavy {
			columns[i] = math.Exp(0.5 * r.NormFloat64())
			m.norm[i] = math.Exp(r.NormFloat64())
			if r.IntN(100) == 0 {
				m.norm[i] *= 20
			}
		}
	}
	row := make([]float32, h.hidden)
	for range h.out {
		size := 0.05
		if h.heavy {
			size *= math.Exp(0.4 * r.NormFloat64())
		}
		for i := range row {
			v := size * columns[i] * r.NormFloat64()
			m.table = append(m.table, axcl.BFloat16(float32(v)))
			row[i] = axcl.Float32(m.table[len(m.table)-1])
			if h.untied > 0 {
				row[i] = float32((1-h.untied)*float64(row[i]) + math.Sqrt(1-(1-h.untied)*(1-h.untied))*size*columns[i]*r.NormFloat64())
			}
			if h.folded {
				row[i] *= float32(m.norm[i])
			}
		}
		h.kind.round(row)
		for i, v := range row {
			m.head = append(m.head, float64(v)*cmp.Or(h.scale, 1))
			if h.folded {
				m.head[len(m.head)-1] /= m.norm[i]
			}
		}
		if h.bias > 0 {
			m.bias = append(m.bias, h.bias*r.NormFloat64())
		}
	}
	for k := range h.swapped {
		a, b := (k*7+3)%h.out, (k*13+h.out/2)%h.out
		for i := range h.hidden {
			m.head[a*h.hidden+i], m.head[b*h.hidden+i] = m.head[b*h.hidden+i], m.head[a*h.hidden+i]
		}
	}
	return m
}

func (m *tied) Unscaled(dst []uint16, id int32) error {
	copy(dst, m.table[int(id)*m.hidden:][:m.hidden])
	return nil
}

// logits are those of a matrix for a row.
func (m *tied) logits(matrix func(int) float64, row []uint16) []float64 {
	sum := 0.0
	for _, v := range row {
		sum += float64(axcl.Float32(v)) * float64(axcl.Float32(v))
	}
	f := 1 / math.Sqrt(sum/float64(m.hidden)+1e-6)
	y := make([]float64, m.out)
	for o := range y {
		for i, v := range row {
			y[o] += float64(axcl.Float32(v)) * f * m.norm[i] * matrix(o*m.hidden+i)
		}
		if m.bias != nil {
			y[o] += m.bias[o]
		}
		if m.limit > 0 {
			y[o] = m.limit * math.Tanh(y[o]/m.limit)
		}
	}
	return y
}

// card is what the card gives for rows, bf16.
func (m *tied) card(rows [][]uint16) (out []uint16) {
	for _, row := range rows {
		for _, v := range m.logits(func(i int) float64 { return m.head[i] }, row) {
			out = append(out, axcl.BFloat16(float32(v)))
		}
	}
	return out
}

// exact are the logits of the checkpoint.
func (m *tied) exact(row []uint16) []float64 {
	return m.logits(func(i int) float64 { return float64(axcl.Float32(m.table[i])) }, row)
}

func (m *tied) source() Source {
	return Source{Hidden: m.hidden, Out: m.out, Tokens: m.out, Eps: 1e-6, Cap: float32(m.limit), Table: m}
}

// real are hidden rows such as a last layer gives: near some token's direction, with a few large
// values.
func (m *tied) real(seed uint64, n int) (rows [][]uint16) {
	r := rand.New(rand.NewPCG(seed, 9))
	for range n {
		id, row := r.IntN(m.out), make([]uint16, m.hidden)
		for i := range row {
			v := 4*float64(axcl.Float32(m.table[id*m.hidden+i]))/0.05 + 3*r.NormFloat64()
			if i%97 == 5 {
				v *= 20
			}
			row[i] = axcl.BFloat16(float32(v))
		}
		rows = append(rows, row)
	}
	return rows
}

func chunks(all []uint16, n int) [][]uint16 { return slices.Collect(slices.Chunk(all, n)) }

// made fits, writes and opens a head.
func made(t *testing.T, m *tied) (*Head, error) { return madeOf(t, m, m.source()) }

// madeOf is made with what is known of the head.
func madeOf(t *testing.T, m *tied, s Source) (*Head, error) {
	t.Helper()
	f, err := Fit(t.Context(), s, m.card(chunks(Probes(m.hidden), m.hidden)))
	if err != nil {
		return nil, err
	}
	dir := t.TempDir()
	if _, err := Write(t.Context(), dir, "key", s, f); err != nil {
		t.Fatal(err)
	}
	h, err := Open(dir, "key", s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h, nil
}

// near compares logits with the checkpoint's: the root mean square of the differences, and the
// largest difference of the twenty largest relative to the largest.
func near(exact []float64, logits []uint16) (rms, top float64) {
	order := make([]int, len(exact))
	for i := range order {
		order[i] = i
		d := float64(axcl.Float32(logits[i])) - exact[i]
		rms += d * d / float64(len(exact))
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(exact[b], exact[a]) })
	for _, i := range order[:min(20, len(order))] {
		top = max(top, math.Abs(float64(axcl.Float32(logits[i]))-exact[i])/math.Abs(exact[order[0]]))
	}
	return math.Sqrt(rms), top
}

// noRow is a table in which one row holds no numbers.
type noRow struct {
	*tied
	row int32
}

func (n noRow) Unscaled(dst []uint16, id int32) error {
	if id == n.row {
		return os.ErrInvalid
	}
	return n.tied.Unscaled(dst, id)
}

type failing struct{}

func (failing) Unscaled([]uint16, int32) error { return fmt.Errorf("reading: %w", os.ErrClosed) }

// BenchmarkHead computes the head of Qwen3-0.6B for 1 to 16 rows, and tells how fast its weights
// are read.
func BenchmarkHead(b *testing.B) {
	m := &tied{hidden: 1024, out: 151936}
	r := rand.New(rand.NewPCG(1, 2))
	for range m.hidden * m.out {
		m.table = append(m.table, axcl.BFloat16(float32(r.Float64()-0.5)))
	}
	f := &Fitted{Norm: make([]float32, m.hidden)}
	for i := range f.Norm {
		f.Norm[i] = 1
	}
	dir := b.TempDir()
	if _, err := Write(b.Context(), dir, "k", m.source(), f); err != nil {
		b.Fatal(err)
	}
	h, err := Open(dir, "k", m.source())
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	for _, n := range []int{1, 2, 4, 8, 16} {
		rows := m.real(3, n)
		ids := make([]int32, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			bytes, _ := h.Work(n)
			b.SetBytes(bytes)
			for b.Loop() {
				if err := h.Run(rows, nil, ids); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
