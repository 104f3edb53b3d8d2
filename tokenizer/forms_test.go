package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/lane"
)

func TestForms(t *testing.T) {
	lane.NoRace(t)
	testForms(t, func(t testing.TB, family string) *Tokenizer { return smallTokenizer(t, family) }, "SmolLM3")
}

// The other file forms, written from an opened tokenizer.json so that their ids can be compared
// with it.

func toAlphabet(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		s.WriteRune(alphabet[c])
	}
	return s.String()
}

func header(tok *Tokenizer, kind int, all bool) *bytes.Buffer {
	var special, stop []int32
	for id := range int32(tok.Vocab()) {
		if f := tok.flags[id]; f&flagSpecial != 0 || all && f&flagAdded != 0 {
			special = append(special, id)
		}
	}
	stop = tok.EOS()
	b := &bytes.Buffer{}
	fmt.Fprintf(b, "430 %d\n%d %d %d\n", kind, len(special), len(stop), len(tok.Prefix()))
	for _, id := range slices.Concat(special, stop, tok.Prefix()) {
		fmt.Fprintf(b, "%d ", id)
	}
	b.WriteByte('\n')
	return b
}

type rankedMerge struct{ a, b, rank, id int32 }

func mergesOf(tok *Tokenizer) (out []rankedMerge) {
	for _, s := range tok.model.(*bpe).merges.slots {
		if s.a >= 0 {
			out = append(out, rankedMerge(s))
		}
	}
	slices.SortFunc(out, func(x, y rankedMerge) int { return cmp.Compare(x.rank, y.rank) })
	return out
}

func vendorText(tok *Tokenizer, kind int, all bool) []byte {
	b := header(tok, kind, all)
	n := int32(tok.Vocab())
	switch kind {
	case vendorHuggingFace:
		merges := mergesOf(tok)
		fmt.Fprintf(b, "%d %d\n", n, len(merges)+1)
		for id := range n {
			if tok.flags[id]&flagAdded != 0 {
				fmt.Fprintf(b, "%s\n", tok.Bytes(id))
			} else {
				fmt.Fprintf(b, "%s\n", toAlphabet(tok.Bytes(id)))
			}
		}
		b.WriteString("#version: 0.2\n")
		for _, m := range merges {
			fmt.Fprintf(b, "%s %s\n", toAlphabet(tok.Bytes(m.a)), toAlphabet(tok.Bytes(m.b)))
		}
	case vendorTiktoken:
		fmt.Fprintf(b, "%d\n", n)
		for id := range n {
			fmt.Fprintf(b, "%s\n", base64.StdEncoding.EncodeToString(tok.vocab.bytes(id)))
		}
	case vendorSentencePiece:
		scores, kinds := scoresOf(tok)
		fmt.Fprintf(b, "%d\n", n)
		for id := range n {
			s := bytes.ReplaceAll(tok.vocab.bytes(id), []byte(spaceMark), []byte(" "))
			fmt.Fprintf(b, "%s %g %d\n", base64.StdEncoding.EncodeToString(s), scores[id], kinds[id])
		}
	}
	return b.Bytes()
}

// scoresOf gives each token of a SentencePiece-style BPE the score its first merge's rank stands
// for.
func scoresOf(tok *Tokenizer) (scores []float32, kinds []int) {
	scores, kinds = make([]float32, tok.Vocab()), make([]int, tok.Vocab())
	for id := range int32(tok.Vocab()) {
		kinds[id], scores[id] = pieceNormal, -1e6
		switch _, isByte := byteToken(tok.vocab.bytes(id)); {
		case string(tok.vocab.bytes(id)) == "<unk>":
			kinds[id] = pieceUnknown
		case isByte:
			kinds[id] = pieceByte
		case tok.special(id):
			kinds[id] = pieceControl
			if controlTurn[string(tok.vocab.bytes(id))] {
				kinds[id] = pieceUser
			}
		case tok.flags[id]&flagAdded != 0:
			kinds[id] = pieceUser
		}
	}
	rank := float32(0)
	for _, m := range mergesOf(tok) {
		if scores[m.id] == -1e6 {
			scores[m.id] = -rank
			rank++
		}
	}
	return scores, kinds
}

func modelProto(tok *Tokenizer, dummy bool) []byte {
	scores, kinds := scoresOf(tok)
	var out []byte
	msg := func(num int, b []byte) {
		out = binary.AppendUvarint(out, uint64(num<<3|2))
		out = binary.AppendUvarint(out, uint64(len(b)))
		out = append(out, b...)
	}
	for id := range int32(tok.Vocab()) {
		s := tok.vocab.bytes(id)
		p := append(binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(s))), s...)
		p = binary.LittleEndian.AppendUint32(append(p, 2<<3|5), math.Float32bits(scores[id]))
		msg(1, append(p, 3<<3, byte(kinds[id])))
	}
	msg(2, []byte{3 << 3, 2})
	d := byte(0)
	if dummy {
		d = 1
	}
	msg(3, []byte{3 << 3, d, 4 << 3, 0})
	return out
}

func tiktokenFile(tok *Tokenizer) []byte {
	b := &bytes.Buffer{}
	for id := range int32(tok.Vocab()) {
		if tok.flags[id]&flagAdded == 0 {
			fmt.Fprintf(b, "%s %d\n", base64.StdEncoding.EncodeToString(tok.Bytes(id)), id)
		}
	}
	return b.Bytes()
}

// sameIDs compares two tokenizers, with control tokens recognized and without.
func sameIDs(t *testing.T, got, want *Tokenizer, list []string, controls bool) {
	t.Helper()
	bad := 0
	for _, s := range list {
		for _, specials := range []bool{true, false} {
			if specials && !controls {
				continue
			}
			g, w := got.Encode(nil, s, specials), want.Encode(nil, s, specials)
			if !slices.Equal(g, w) {
				t.Errorf("%q (specials %v): %v, want %v\n%q\n%q", s, specials, g, w, pieces(got, g), pieces(want, w))
				if bad++; bad > 4 {
					t.FailNow()
				}
			}
		}
	}
	for id := range int32(want.Vocab()) {
		if !bytes.Equal(got.Bytes(id), want.Bytes(id)) || got.Control(id) != want.Control(id) {
			t.Errorf("token %d is %q (control %v), want %q (%v)", id, got.Bytes(id), got.Control(id), want.Bytes(id), want.Control(id))
			if bad++; bad > 8 {
				t.FailNow()
			}
		}
	}
}

func testForms(t *testing.T, open func(t testing.TB, family string) *Tokenizer, llama3Type string) {
	list := fewer(hardStrings(t))
	for _, x := range []struct {
		family string
		kind   int
		all    bool
		typ    string
	}{
		{"qwen3", vendorHuggingFace, true, "Qwen3"},
		{"qwen3", vendorHuggingFace, false, ""},
		{"qwen3", vendorTiktoken, true, "qwen2_5"},
		{"qwen3", vendorTiktoken, false, ""},
		{"llama3", vendorHuggingFace, true, llama3Type},
		{"llama3", vendorTiktoken, true, llama3Type},
		{"gemma", vendorSentencePiece, true, "Gemma3"},
		{"gemma", vendorSentencePiece, false, ""},
		{"llama2", vendorSentencePiece, true, ""},
	} {
		t.Run(fmt.Sprintf("%s/%d/%v", x.family, x.kind, x.all), func(t *testing.T) {
			want := open(t, x.family)
			got := openBytes(t, "x_tokenizer.txt", vendorText(want, x.kind, x.all), Config{Type: x.typ})
			sameIDs(t, got, want, list, true)
			if !slices.Equal(got.Prefix(), want.Prefix()) || !slices.Equal(got.EOS(), want.EOS()) {
				t.Errorf("prefix %v, stops %v, want %v and %v", got.Prefix(), got.EOS(), want.Prefix(), want.EOS())
			}
		})
	}
	t.Run("model/gemma", func(t *testing.T) {
		want := open(t, "gemma")
		sameIDs(t, openBytes(t, "tokenizer.model", modelProto(want, false), Config{}), want, list, true)
	})
	t.Run("model/llama2", func(t *testing.T) {
		want := open(t, "llama2")
		sameIDs(t, openBytes(t, "tokenizer.model", modelProto(want, true), Config{}), want, list, true)
	})
}

func TestTruthForms(t *testing.T) {
	testForms(t, func(t testing.TB, family string) *Tokenizer {
		switch family {
		case "llama3":
			family = "llama3_2"
		case "gemma":
			family = "gemma3"
		}
		tok, err := Open(realFile(t, family))
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}, "")
}

func TestTiktokenFile(t *testing.T) {
	want := smallTokenizer(t, "llama3")
	got := openBytes(t, "x.tiktoken", tiktokenFile(want), Config{Type: "SmolLM3"})
	for _, s := range fewer(hardStrings(t)) {
		w := want.Encode(nil, s, false)
		if g := got.Encode(nil, s, false); !slices.Equal(g, w) {
			t.Fatalf("%q: %v, want %v", s, g, w)
		}
	}
}
