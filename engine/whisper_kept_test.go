package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestWhisperKept: what is kept on the card is what was heard and said. In each layout each call's
// logits, bit for bit, and with them the tokens and segments, are those of the same nets where all
// of it is sent with each call, and what was forgotten is zero.
func TestWhisperKept(t *testing.T) {
	lane.NoRace(t)
	for _, e := range []modelstest.Whisper{{Seed: 1, Layout: "A", Layers: 2}, {Seed: 4, Layout: "B", Layers: 2},
		{Seed: 3, Layout: "C"}} {
		t.Run(e.Layout, func(t *testing.T) {
			m, c, dir := onCard(t, e.Write, softCard, OpenOptions{})
			b := m.b.(*whisper)
			again := 0 // starts that leave behind what was said of a window
			for i, r := range []TranscribeRequest{{}, {Language: "de", Prompt: "cebi dabe"}, {Temperature: 0.9}} {
				r.Sound = hearing(babble(uint64(i), 33)) // two windows
				kept := &noted{WhisperNets: &whisperTurns{b, "key"}}
				got := segments(t, b.hears, kept, r)
				r.Sound = hearing(babble(uint64(i), 33))
				sent := &noted{WhisperNets: newSent(t, c, e, dir)}
				want := segments(t, b.hears, sent, r)
				if len(want) == 0 || !reflect.DeepEqual(got, want) {
					t.Errorf("%+v:\n got %+v\nwant %+v", r, got, want)
				}
				if len(kept.calls) != len(sent.calls) || len(kept.calls) < 40 {
					t.Fatalf("%d calls, and %d where all is sent", len(kept.calls), len(sent.calls))
				}
				for j, x := range kept.calls {
					y := sent.calls[j]
					if x.at != y.at || !slices.Equal(x.tokens, y.tokens) || !bytes.Equal(x.logits, y.logits) {
						t.Fatalf("call %d: %v at %d has other logits than %v at %d where all is sent", j, x.tokens, x.at, y.tokens, y.at)
					}
					if j > 0 && x.at <= kept.calls[j-1].at {
						again++
					}
				}
			}
			if again < 10 {
				t.Errorf("it began to say something %d times", again)
			}
		})
	}
}

// segments are what a recogniser makes of a request.
func segments(t *testing.T, w *speech.Whisper, nets speech.WhisperNets, r TranscribeRequest) (all []Segment) {
	t.Helper()
	for s, err := range w.Transcribe(t.Context(), nets, r) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// noted notes what decoders say.
type noted struct {
	speech.WhisperNets
	calls []saying
}

type saying struct {
	at     int
	tokens []int32
	logits []byte
}

func (o *noted) Say(ctx context.Context, at int, tokens []int32, logits []byte) error {
	err := o.WhisperNets.Say(ctx, at, tokens, logits)
	o.calls = append(o.calls, saying{at, slices.Clone(tokens), bytes.Clone(logits)})
	return err
}

// sent is the nets of a Whisper that keep nothing: what was heard and said goes with each call.
type sent struct {
	layout                  string
	encoder, decoder, first *Net
	in                      map[string][]byte // of the decoders: what was heard, and the caches
	places                  []byte            // of layout A
	said                    int               // tokens
}

func newSent(t *testing.T, c *Card, e modelstest.Whisper, dir string) *sent {
	t.Helper()
	load := func(name string) *Net {
		n, err := LoadNet(t.Context(), c, e.Path(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
	s := &sent{layout: e.Layout, encoder: load("encoder")}
	if e.Layout != "A" {
		s.decoder = load("decoder")
		return s
	}
	s.first, s.decoder = load("decoder-main"), load("decoder-loop")
	var err error
	if s.places, err = os.ReadFile(filepath.Join(dir, "tiny-positional_embedding.bin")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sent) Turn(context.Context) (func(error), error) { return func(error) {}, nil }

func (s *sent) Hear(ctx context.Context, mel []byte) error {
	input, _ := s.encoder.Tensors(0)
	out, _, err := s.encoder.Run(ctx, 0, map[string][]byte{input[0].Name: mel})
	s.in, s.said = map[string][]byte{}, 0
	for name, b := range out {
		s.in[strings.TrimPrefix(name, "out_")] = b
	}
	return err
}

// Say calls the decoder of a layout with all of its inputs, by the names that the layout gives
// them.
func (s *sent) Say(ctx context.Context, at int, tokens []int32, logits []byte) error {
	net := s.decoder
	in := map[string][]byte{}
	for _, id := range tokens {
		in["tokens"] = binary.LittleEndian.AppendUint32(in["tokens"], uint32(id))
	}
	mask := make([]byte, 4*448)
	switch {
	case at > s.said || s.layout == "A" && at != 0 && at != s.said:
		return fmt.Errorf("place %d after %d tokens", at, s.said)
	case s.layout == "A" && at == 0:
		net = s.first
	case s.layout == "A":
		in["positional_embedding"], in["mask"] = s.places[4*64*at:4*64*(at+1)], mask
		for i := range 448 - at - 1 {
			binary.LittleEndian.PutUint32(mask[4*i:], math.Float32bits(float32(math.Inf(-1))))
		}
	default:
		in["offset"], in["mask"] = binary.LittleEndian.AppendUint32(nil, uint32(at)), mask
		for i := at; i < 448; i++ {
			mask[4*i] = 1
		}
	}
	if s.layout == "C" {
		in["token"] = in["tokens"]
		delete(in, "tokens")
	}
	all, outs := net.Tensors(0)
	for _, x := range all {
		if in[x.Name] != nil {
			continue
		}
		if s.in[x.Name] == nil {
			s.in[x.Name] = make([]byte, x.Size) // a cache of nothing
		}
		in[x.Name] = s.in[x.Name]
		if strings.HasPrefix(x.Name, "self_") {
			for i := range x.Size / (4 * 64 * 448) {
				clear(in[x.Name][4*64*(448*i+at) : 4*64*448*(i+1)])
			}
		}
	}
	out, _, err := net.Run(ctx, 0, in)
	if err != nil {
		return err
	}
	s.said = at + len(tokens)
	for _, x := range outs {
		switch b := out[x.Name]; {
		case x.Name == "logits":
			copy(logits, b)
		case s.layout == "A":
			s.in[strings.Replace(x.Name, "out_", "in_", 1)] = b
		default: // the new row of one layer or of all
			cache := s.in[strings.TrimPrefix(x.Name, "this_")]
			for i := range len(b) / (4 * 64) {
				copy(cache[4*64*(448*i+at):], b[4*64*i:][:4*64])
			}
		}
	}
	return nil
}
