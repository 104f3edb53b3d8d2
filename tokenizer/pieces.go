package tokenizer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kinds of SentencePiece pieces.
const (
	pieceNormal = 1 + iota
	pieceUnknown
	pieceControl
	pieceUser
	pieceUnused
	pieceByte
)

// pieceInfo is what a SentencePiece vocabulary says beside its texts, and how it wants text
// prepared.
type pieceInfo struct {
	scores []float64
	kinds  []uint8

	known    bool // the fields below were in the file
	unigram  bool
	dummy    bool // put a space in front
	collapse bool // runs of spaces count as one, and none at the ends
	charsmap []byte
	added    []added // from tokenizer_config.json: overrides kinds
}

// piece reads one piece of a SentencePiece model.
func (info *pieceInfo) piece(b []byte, build *vocabBuilder) error {
	text, score, kind := []byte(nil), float32(0), uint64(pieceNormal)
	if err := protoFields(b, func(num int, v uint64, sub []byte) error {
		switch num {
		case 1:
			text = sub
		case 2:
			score = math.Float32frombits(uint32(v))
		case 3:
			kind = v
		}
		return nil
	}); err != nil {
		return err
	}
	if kind < pieceNormal || kind > pieceByte || score != score {
		return badf("piece %d has kind %d and score %v", len(info.kinds), kind, score)
	}
	if err := build.add(text, int64(len(info.kinds)), false); err != nil {
		return err
	}
	info.kinds, info.scores = append(info.kinds, uint8(kind)), append(info.scores, float64(score))
	return nil
}

// parseModelProto reads SentencePiece's tokenizer.model, a protocol buffer. Only the few fields
// that matter are looked at.
func parseModelProto(b []byte, c Config, side sideFiles) (*Tokenizer, error) {
	info := &pieceInfo{known: true, unigram: true, dummy: true, collapse: true, added: side.added}
	build := &vocabBuilder{}
	bosID, eosID := int64(1), int64(2)
	err := protoFields(b, func(num int, v uint64, sub []byte) error {
		switch num {
		case 1:
			return info.piece(sub, build)
		case 2:
			return protoFields(sub, func(num int, v uint64, _ []byte) error {
				switch num {
				case 3:
					if v != 1 && v != 2 {
						return unsupportedf("SentencePiece model type %d (only unigram and BPE are)", v)
					}
					info.unigram = v == 1
				case 24:
					if v != 0 {
						return unsupportedf("SentencePiece with whitespace as a suffix")
					}
				case 41:
					bosID = int64(int32(v))
				case 42:
					eosID = int64(int32(v))
				}
				return nil
			})
		case 3:
			return protoFields(sub, func(num int, v uint64, sub []byte) error {
				switch num {
				case 2:
					info.charsmap = sub
				case 3:
					info.dummy = v != 0
				case 4:
					info.collapse = v != 0
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(info.kinds) == 0 {
		return nil, badf("there is no piece in it, so it is no SentencePiece model")
	}
	t, err := buildPieces(build, info, nil, c)
	if err != nil {
		return nil, err
	}
	in := func(id int64) bool { return id >= 0 && id < int64(t.Vocab()) }
	if in(bosID) && (side.addBOS == nil || *side.addBOS) {
		t.prefix = []int32{int32(bosID)}
	}
	if in(eosID) {
		t.eos = []int32{int32(eosID)}
		if side.addEOS != nil && *side.addEOS {
			t.suffix = []int32{int32(eosID)}
		}
	}
	return t, nil
}

// protoFields calls f for each field of a protocol buffer message: v for numbers, sub for what has
// a length.
func protoFields(b []byte, f func(num int, v uint64, sub []byte) error) error {
	for at := 0; at < len(b); {
		var v uint64
		var sub []byte
		tag, head := binary.Uvarint(b[at:])
		rest, n := b[at+max(head, 0):], 0 // n: bytes of the value; 0: it is damaged
		switch tag & 7 {
		case 0:
			v, n = binary.Uvarint(rest)
		case 1:
			if len(rest) >= 8 {
				v, n = binary.LittleEndian.Uint64(rest), 8
			}
		case 2:
			if size, k := binary.Uvarint(rest); k > 0 && size <= uint64(len(rest)-k) {
				n = k + int(size)
				sub = rest[k:n]
			}
		case 5:
			if len(rest) >= 4 {
				v, n = uint64(binary.LittleEndian.Uint32(rest)), 4
			}
		}
		if head <= 0 || n <= 0 || tag>>3 == 0 || tag>>3 > 1<<28 {
			return badf("damaged protocol buffer at byte %d", at)
		}
		at += head + n
		if err := f(int(tag>>3), v, sub); err != nil {
			return err
		}
	}
	return nil
}

// collapseSpaces makes one of several spaces and removes those at the ends.
type collapseSpaces struct{}

func (collapseSpaces) apply(s string, _ *room) string {
	s = strings.Trim(s, " ")
	for strings.Contains(s, "  ") {
		s = strings.ReplaceAll(s, "  ", " ")
	}
	return s
}

// tokens lists what is to be looked for in the text, and finds the piece for what is unknown, or
// -1.
func (p *pieceInfo) tokens(plain *vocab, listed map[int]bool) (tokens []added, unk int32) {
	unk = -1
	override := make(map[int32]added)
	for _, a := range p.added {
		override[a.id] = a
	}
	for id, kind := range p.kinds {
		s := string(plain.bytes(int32(id)))
		a := added{id: int32(id), content: s}
		o, told := override[int32(id)]
		switch {
		case s == "" || plain.find(s) != int32(id):
			continue
		case told:
			a = o
		case kind == pieceUnknown, kind == pieceControl:
			a.special = true
		case kind == pieceUser, listed[id] && kind != pieceByte:
			a.special = listed[id] && controlName(a.content) && !htmlTag(a.content) || controlTurn[a.content]
		default:
			continue
		}
		if kind == pieceUnknown && unk < 0 {
			unk = int32(id)
		}
		tokens = append(tokens, a)
	}
	for _, a := range p.added {
		if int(a.id) >= len(p.kinds) {
			tokens = append(tokens, a)
		}
	}
	return tokens, unk
}

// piecesDecoder is a SentencePiece vocabulary's decoder as tokenizer.json has it.
const piecesDecoder = `{"type": "Sequence", "decoders": [
	{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
	{"type": "Strip", "content": " ", "start": %d}]}`

// buildPieces makes a tokenizer of a SentencePiece vocabulary, as Hugging Face's converters do.
func buildPieces(b *vocabBuilder, p *pieceInfo, listed map[int]bool, c Config) (*Tokenizer, error) {
	t := newTokenizer()
	plain, err := b.build()
	if err != nil {
		return nil, err
	}
	if !p.known {
		p.guess(plain, c)
	}
	if len(p.charsmap) > 0 {
		n, err := newPrecompiled(p.charsmap)
		if err != nil {
			return nil, err
		}
		t.norm = append(t.norm, n)
	}
	if p.collapse && p.unigram {
		t.norm = append(t.norm, collapseSpaces{})
	}
	strip := 0
	if p.dummy {
		t.norm = append(t.norm, prepend{spaceMark})
		strip = 1
	}
	if err := parseDecoder(fmt.Appendf(nil, piecesDecoder, strip), &t.dec, 0); err != nil {
		return nil, err
	}
	t.norm = append(t.norm, replaceAll{" ", spaceMark})

	tokens, unk := p.tokens(plain, listed)
	if err := t.setAdded(b, tokens, false); err != nil {
		return nil, err
	}
	fb := fallbackIDs(t.vocab)
	t.dec.fallback = fb != nil
	if unk >= 0 && fb == nil {
		t.flags[unk] |= flagUnknown
	}
	if p.unigram {
		normal := func(id int32) bool {
			return int(id) < len(p.kinds) && p.kinds[id] == pieceNormal && !t.kept(id)
		}
		t.model = newUnigram(t.vocab, p.scores, unk, normal, fb)
	} else {
		m := &bpe{v: t.vocab, fallback: fb != nil, unk: unk, fuseUnk: true, special: t.kept}
		m.merges = scoreMerges(t, p)
		m.symbolTables()
		t.model = m
	}
	t.setRaw(spaceMark, "")
	return t, nil
}

// controlTurn are user-defined pieces that are control tokens all the same.
var controlTurn = map[string]bool{
	"<start_of_turn>": true, "<end_of_turn>": true, "<start_of_image>": true, "<end_of_image>": true, "<image_soft_token>": true,
	"<|im_start|>": true, "<|im_end|>": true, "<|endoftext|>": true, "<|turn>": true, "<turn|>": true,
	"<|think|>": true, "<|channel>": true, "<channel|>": true, "<|tool>": true, "<tool|>": true, "<|tool_call>": true, "<tool_call|>": true,
	"<|tool_response>": true, "<tool_response|>": true, `<|"|>`: true, "<|image>": true, "<image|>": true, "<|image|>": true,
	"<|audio>": true, "<audio|>": true, "<|audio|>": true,
}

// guess fills in what the vendor's text form leaves out. The scores of a BPE vocabulary are 0, -1,
// -2 …; Gemma alone puts no space in front.
func (p *pieceInfo) guess(v *vocab, c Config) {
	for i, s := range p.scores {
		if p.kinds[i] == pieceNormal && s != math.Trunc(s) {
			p.unigram, p.collapse = true, true
			break
		}
	}
	gemma := strings.HasPrefix(typeName(c.Type), "gemma") || v.find("<start_of_turn>") >= 0 || v.find("<|turn>") >= 0
	p.dummy = !gemma
}

// scoreMerges turns the scores of a BPE vocabulary into merges: every way to split a token in two
// is one, the best score first, then, as Hugging Face's converter has it, the longer left part,
// then the longer right one.
func scoreMerges(t *Tokenizer, p *pieceInfo) *pairs {
	type merge struct {
		a, b, id int32
		la, lb   int32
		score    float64
	}
	var list []merge
	for id := range int32(len(p.kinds)) {
		s := t.vocab.bytes(id)
		if k := p.kinds[id]; k != pieceNormal && k != pieceUser || t.kept(id) || len(s) > 512 {
			continue
		}
		from := len(list)
		chars := int32(utf8.RuneCount(s))
		la := int32(0)
		for i := 0; i < len(s); {
			_, n := utf8.DecodeRune(s[i:])
			i += n
			la++
			if i >= len(s) {
				break
			}
			a, b := t.vocab.findBytes(s[:i]), t.vocab.findBytes(s[i:])
			if a >= 0 && b >= 0 {
				list = append(list, merge{a, b, id, la, chars - la, p.scores[id]})
			}
		}
		slices.SortStableFunc(list[from:], func(x, y merge) int {
			return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
		})
	}
	slices.SortStableFunc(list, func(x, y merge) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(y.la, x.la), cmp.Compare(y.lb, x.lb))
	})
	out := newPairs(len(list))
	for rank, m := range list {
		out.put(m.a, m.b, int32(rank), m.id)
	}
	return out
}
