package speech

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
)

// TestSenseVoiceMany: 64 transcriptions at once with a net of the real one's size hold what they
// need for their own sound, 15 seconds of it at a time, and not the net's 26 MB of logits each.
func TestSenseVoiceMany(t *testing.T) {
	//proves:T7 64 recognitions by a net of SenseVoice's size
	lane.NoRace(t)
	const clients, each = 64, 3 << 20
	s := NewSenseVoice(sense())
	net := &patient{free: make(chan struct{}, 1), most: clients}
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var g sync.WaitGroup
	for range clients {
		g.Go(func() {
			n := 0
			for seg, err := range s.Transcribe(t.Context(), net, ask.TranscribeRequest{Sound: &hum{left: 15 * SampleRate}}) {
				if n++; err != nil || seg.Text != "cat" {
					t.Errorf("%q, %v", seg.Text, err)
				}
			}
			if n == 0 {
				t.Error("nothing was heard")
			}
		})
	}
	g.Wait()
	held := int64(net.held) - int64(before.HeapAlloc)
	if t.Logf("%d transcriptions hold %d MiB", clients, held>>20); held > clients*each {
		t.Errorf("%d transcriptions hold %d MiB, at most %d are to be", clients, held>>20, clients*each>>20)
	}
}

// TestSenseVoiceHours: two hours of sound take the memory of one piece.
func TestSenseVoiceHours(t *testing.T) {
	//proves:T7 two hours of sound without a pause, in a recogniser
	lane.Slow(t)
	lane.NoRace(t)
	const hours = 2 * 3600 * SampleRate
	s, net := NewSenseVoice(sense()), &patient{free: make(chan struct{}, 1)}
	held := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	n, end, before, most := 0, time.Duration(0), held(), uint64(0)
	for seg, err := range s.Transcribe(t.Context(), net, ask.TranscribeRequest{Sound: &hum{left: hours}}) {
		if err != nil || seg.Text != "cat" {
			t.Fatalf("%q, %v", seg.Text, err)
		}
		if n++; n%50 == 0 {
			most = max(most, held())
		}
		end = seg.End
	}
	t.Logf("%d pieces to %v, with %d KiB", n, end, (int64(most)-int64(before))>>10)
	if n < 400 || end < 2*time.Hour-16*time.Second || most > before+8<<20 {
		t.Errorf("%d pieces to %v, with %d KiB", n, end, (int64(most)-int64(before))>>10)
	}
}

// sense is a package whose net has the real one's size.
func sense() *models.SenseVoice {
	const rows, vocabulary = 256, 25055
	tensor := func(name string, kind axcl.Type, shape ...int) axcl.Tensor {
		n := 4
		for _, d := range shape {
			n *= d
		}
		return axcl.Tensor{Name: name, Type: kind, Shape: shape, Size: n}
	}
	p := &models.SenseVoice{Rows: rows, Speech: tensor("speech", axcl.FP32, 1, rows, 560), Mask: tensor("mask", axcl.Int32, 1, 1, rows+4),
		Spoken: tensor("language", axcl.Int32, 1), Logits: tensor("ctc_logits", axcl.FP32, 1, rows+4, vocabulary),
		Tokens: make([]string, vocabulary)}
	p.Tokens[5] = "cat"
	return p
}

// patient is a net whose first turn lasts until as many wait as there are to be. It says cat.
type patient struct {
	free chan struct{}
	come atomic.Int64
	most int64
	held uint64 // bytes, when all were there
}

func (p *patient) Turn(ctx context.Context) (func(), error) {
	p.come.Add(1)
	select {
	case p.free <- struct{}{}:
		return func() { <-p.free }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *patient) Call(_ context.Context, _, out map[string][]byte) error {
	for p.come.Load() < p.most {
		runtime.Gosched()
	}
	if p.held == 0 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.held = m.HeapAlloc
	}
	binary.LittleEndian.PutUint32(out["ctc_logits"][4*(20*25055+5):], math.Float32bits(9)) // all else is as likely as the blank
	return nil
}

// hum is a sound without a quiet place.
type hum struct{ at, left int }

func (h *hum) Read(samples []float32) (int, error) {
	n := min(len(samples), h.left)
	for i := range n {
		samples[i] = float32(0.3 * math.Sin(float64(h.at+i)/9))
	}
	h.at, h.left = h.at+n, h.left-n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
