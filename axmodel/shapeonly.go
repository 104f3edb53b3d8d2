package axmodel

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Shape describes a model that has the sizes of a real one and no weights. It is for timing a model
// without its files.
type Shape struct {
	Name                                    string // of the files, e.g. "qwen3"
	Layers, Hidden, Heads, KVHeads, HeadDim int
	Intermediate, Vocab                     int
	Context                                 int           // cache rows of the decode group
	Chunk                                   int           // rows of the prefill groups; 0: none
	History                                 []int         // cells of the prefill groups
	Steps                                   []int         // cells of further decode groups, for rows that see less than Context
	LayerBytes, HeadBytes                   int64         // what a layer and the head take on a card
	Period                                  int           // text repeats after this many tokens; 0: it counts up
	F32, Argmax, Suffix                     bool          // the head gives float32; gives the largest's index; names carry the group
	NoEmbeddings                            bool          // WriteShape leaves out the embedding table and the tokenizer
	Linear                                  *ShapeStates  // of layers with a state; nil: there are none
	Sight                                   *ShapeEncoder // of an encoder of pictures; nil: there is none
}

// ShapeEncoder describes the picture encoder of a Shape. It takes pixels as Qwen's encoders
// do. Rows of such a model have positions in three components.
type ShapeEncoder struct {
	Width, Blocks, Heads, Intermediate int // of the tower
	Patch, Merge, Down, Across         int // pixels a side of a patch, patches a side of what becomes a row, and of the picture
	Deep                               int // after this many layers there are rows to add
	Bytes                              int64
}

// Rows is how many rows a picture becomes.
func (v *ShapeEncoder) Rows() int { return v.Down * v.Across / max(v.Merge*v.Merge, 1) }

// EncoderFile is the name of the encoder's file.
func (s *Shape) EncoderFile() string { return s.Name + "_vision.axmodel" }

// sightWords are the tokens that stand for pictures in a Shape's prompts. They have the ids
// before the last.
var sightWords = []string{"<|vision_start|>", "<|vision_end|>", "<|image_pad|>"}

// Placeholder is the id that stands for a row of a picture.
func (s *Shape) Placeholder() int32 { return int32(s.Vocab - 2) }

// ShapeStates describes the layers of a Shape that have a state.
type ShapeStates struct {
	Interval                               int // each Interval-th layer has attention, the others a state
	KeyHeads, ValueHeads, KeyDim, ValueDim int
	Conv                                   int
	State                                  State
	Bytes                                  int64 // what such a layer takes on a card
	Warm                                   int   // prefill groups; 0: as many as the other layers have
}

// linear says whether layer i of the shape has a state.
func (s *Shape) linear(i int) bool { return s.Linear != nil && (i+1)%s.Linear.Interval != 0 }

// StateBytes is how much layer i of the shape keeps instead of rows; 0 where it keeps rows.
func (s *Shape) StateBytes(i int) int64 {
	if !s.linear(i) {
		return 0
	}
	l, each := s.Linear, int64(2)
	if l.State == StateFP32 {
		each = 4
	}
	channels := 2*l.KeyHeads*l.KeyDim + l.ValueHeads*l.ValueDim
	return each * int64(channels*(l.Conv-1)+l.ValueHeads*l.KeyDim*l.ValueDim)
}

// Qwen35Small is the shape of Qwen3.5-0.8B in 8-bit weights, with states in bf16, as the vendor
// ships it.
func Qwen35Small() Shape {
	return Shape{Name: "qwen3_5_text", Layers: 24, Hidden: 1024, Heads: 8, KVHeads: 2, HeadDim: 256, Intermediate: 3584,
		Vocab: 248320, Context: 2047, Chunk: 128, History: []int{0, 128, 256, 384, 512, 640, 768, 896, 1024}, LayerBytes: 22_000_000,
		HeadBytes: 265_000_000, Linear: &ShapeStates{Interval: 4, KeyHeads: 16, ValueHeads: 16, KeyDim: 128, ValueDim: 128, Conv: 4,
			Bytes: 29_000_000}}
}

// Qwen35SmallInt4 is the shape of Qwen3.5-0.8B in 4-bit weights, the head in 8.
func Qwen35SmallInt4() Shape {
	s := Qwen35Small()
	s.LayerBytes, s.Linear.Bytes, s.HeadBytes = 9_460_000, 11_100_000, 248320*1024
	return s
}

// Qwen3Small is the shape of Qwen3-0.6B in 8-bit weights, context 2047, chunk 128.
func Qwen3Small() Shape {
	return Shape{Name: "qwen3", Layers: 28, Hidden: 1024, Heads: 16, KVHeads: 8, HeadDim: 128, Intermediate: 3072, Vocab: 151936,
		Context: 2047, Chunk: 128,
		History: []int{0, 128, 256, 384, 512, 640, 768, 896, 1024}, LayerBytes: 15_728_640, HeadBytes: 155_582_464}
}

// Qwen3Medium is the shape of Qwen3-1.7B in 8-bit weights, with the context and chunk of
// Qwen3Small.
func Qwen3Medium() Shape {
	s := Qwen3Small()
	s.Hidden, s.Intermediate, s.LayerBytes, s.HeadBytes = 2048, 6144, 50_331_648, 311_164_928
	return s
}

// Qwen3Large is the shape of Qwen3-4B in 8-bit weights, context 2559, with the ladder it is shipped
// with.
func Qwen3Large() Shape {
	return Shape{Name: "qwen3", Layers: 36, Hidden: 2560, Heads: 32, KVHeads: 8, HeadDim: 128, Intermediate: 9728, Vocab: 151936,
		Context: 2559, Chunk: 128,
		History: []int{0, 256, 512, 1024, 1536, 2048}, LayerBytes: 100_925_440, HeadBytes: 388_956_160}
}

// Qwen3Long is Qwen3Small as it is built for long texts, C256-P14336-CTX17408: prompts of 14336 in
// calls of 256 rows, and decode groups of 2k, 4k and 8k beside that of all cells.
func Qwen3Long() Shape {
	s := Qwen3Small()
	s.Context, s.Chunk, s.Steps, s.History = 17407, 256, []int{2047, 4095, 8191}, nil
	for h := 0; h < 14336; h += s.Chunk {
		s.History = append(s.History, h)
	}
	return s
}

// Groups lists the shape groups of the shape's layers: those of its ladder, and the further decode
// groups.
func (s *Shape) Groups() []SoftGroup {
	groups := Ladder(s.Context, s.Chunk, s.History)
	for _, cells := range s.Steps {
		groups = append(groups, SoftGroup{Rows: 1, Cells: cells, Cache: cells})
	}
	return groups
}

// Qwen3VLSmall is the shape of Qwen3-VL-2B in 8-bit weights with its encoder for pictures of 384 ×
// 384 pixels, as the vendor ships it. The encoder's bytes are its parameters at 8 bits: the file's
// size is not published.
func Qwen3VLSmall() Shape {
	return Shape{Name: "qwen3_vl", Layers: 28, Hidden: 2048, Heads: 16, KVHeads: 8, HeadDim: 128, Intermediate: 6144, Vocab: 151936,
		Context: 2047, Chunk: 128, History: []int{0, 128, 256, 384, 512, 640, 768, 896, 1024}, LayerBytes: 50_331_648,
		HeadBytes: 311_164_928, Sight: &ShapeEncoder{Width: 1024, Blocks: 24, Heads: 16, Intermediate: 4096, Patch: 16, Merge: 2, Down: 24,
			Across: 24, Deep: 3, Bytes: 406_000_000}}
}

// Files names a package's files as the vendor does: layers in order, and the head.
func Files(dir, name string, chunk, layers int) (paths []string, head string) {
	for i := range layers {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf(LayerTemplate(name, chunk), i)))
	}
	return paths, filepath.Join(dir, name+"_post.axmodel")
}

// LayerTemplate is the vendor's name of a layer's file, with %d for its number.
func LayerTemplate(name string, chunk int) string {
	return fmt.Sprintf("%s_p%d_l%%d_together.axmodel", name, chunk)
}

// Ladder lists the shape groups of a layer: decode first, then a prefill group for each history.
func Ladder(context, chunk int, history []int) []SoftGroup {
	gs := []SoftGroup{{Rows: 1, Cells: context, Cache: context}}
	if chunk > 1 {
		for _, h := range history {
			gs = append(gs, SoftGroup{Rows: chunk, Cells: h, Cache: max(h, 1)})
		}
	}
	return gs
}

// WriteShape writes a whole package into dir, which must exist, in the vendor's layout A.
func WriteShape(dir string, s Shape) error {
	layers, head := Files(dir, s.Name, s.Chunk, s.Layers)
	h := Header{Kind: Layer, Weights: uint64(s.LayerBytes), Flags: FlagShapeOnly, Hidden: s.Hidden, Heads: s.Heads, KVHeads: s.KVHeads,
		HeadDim: s.HeadDim, Intermediate: s.Intermediate,
		Scale: 1, Magnitude: 1, Pos: 1, Tool: "axle shape"}
	if s.Suffix {
		h.Flags |= FlagSuffix
	}
	if s.Sight != nil {
		h.Pos = 3
		if err := s.writeEncoder(dir); err != nil {
			return err
		}
	}
	for i, path := range layers {
		h.Index = i
		h, groups := h, s.Groups()
		if s.linear(i) {
			l := s.Linear
			h.Kind, h.Weights, h.Heads, h.KVHeads, h.HeadDim, h.Scale, h.Magnitude = Linear, uint64(l.Bytes), l.ValueHeads, l.KeyHeads,
				l.KeyDim, 0, 0
			h.ValueDim, h.Conv, h.State = l.ValueDim, l.Conv, l.State
			groups = LinearLadder(s.Chunk, cmp.Or(l.Warm, len(s.History)))
		}
		if err := WriteFile(path, h, groups, nil); err != nil {
			return err
		}
	}
	h = Header{Kind: Head, Weights: uint64(s.HeadBytes), Flags: FlagShapeOnly, Hidden: s.Hidden, Out: s.Vocab, Period: s.Period, Pos: 1,
		Tool: "axle shape"}
	if s.F32 {
		h.Flags |= FlagF32
	}
	if s.Argmax {
		h.Flags |= FlagArgmax
	}
	if err := WriteFile(head, h, []SoftGroup{{Rows: 1}}, nil); err != nil {
		return err
	}
	about := map[string]any{
		"model_name": s.Name, "tokenizer_type": "Qwen3", "url_tokenizer_model": "./shape_tokenizer.txt",
		"template_filename_axmodel": LayerTemplate(s.Name, s.Chunk),
		"axmodel_num":               s.Layers, "filename_post_axmodel": filepath.Base(head), "filename_tokens_embed": EmbedFile,
		"tokens_embed_num": s.Vocab, "tokens_embed_size": s.Hidden,
		"use_mmap_load_embed": true,
	}
	if s.Linear != nil {
		about["full_attention_interval"] = s.Linear.Interval
	}
	if s.Sight != nil {
		about["vlm_type"], about["filename_image_encoder_axmodel"] = "Qwen3VL", s.EncoderFile()
	}
	config, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o644); err != nil || s.NoEmbeddings {
		return err
	}
	if err := writeWith(filepath.Join(dir, EmbedFile), func(w *bufio.Writer) {
		row, b := make([]uint16, s.Hidden), make([]byte, 0, s.Hidden*2)
		for id := range s.Vocab {
			ShapeRow(row, int32(id))
			b = b[:0]
			for _, v := range row {
				b = binary.LittleEndian.AppendUint16(b, v)
			}
			w.Write(b)
		}
	}); err != nil {
		return err
	}
	// A tokenizer of bytes, then words that say their number; the last id ends a text.
	return writeWith(filepath.Join(dir, "shape_tokenizer.txt"), func(w *bufio.Writer) {
		first, special := s.Vocab, "" // of the words for pictures
		if s.Sight != nil {
			first = s.Vocab - 1 - len(sightWords)
			for i := range sightWords {
				special += fmt.Sprintf("%d ", first+i)
			}
		}
		fmt.Fprintf(w, "430 1\n%d 1 0\n%s%d %d\n%d\n", s.Vocab-min(first, s.Vocab-1), special, s.Vocab-1, s.Vocab-1, s.Vocab)
		for id := range s.Vocab {
			text := []byte{byte(id)}
			switch {
			case id == s.Vocab-1:
				text = []byte("<|endoftext|>")
			case id >= first:
				text = []byte(sightWords[id-first])
			case id > 255:
				text = fmt.Appendf(nil, " w%d", id)
			}
			fmt.Fprintln(w, base64.StdEncoding.EncodeToString(text))
		}
	})
}

// writeEncoder writes the encoder of pictures.
func (s *Shape) writeEncoder(dir string) error {
	v := s.Sight
	h := Header{Kind: Encoder, Flags: FlagShapeOnly | FlagMerger, Weights: uint64(v.Bytes), Activation: GELU, Hidden: v.Width,
		Heads: v.Heads, HeadDim: v.Width / max(v.Heads, 1), Intermediate: v.Intermediate, Out: s.Hidden, Patch: v.Patch, Merge: v.Merge,
		Order: InBlocks, Blocks: v.Blocks, Deep: v.Deep, Down: v.Down, Across: v.Across, Scale: 1, Pos: 1,
		Tool: "axle shape"}
	return WriteFile(filepath.Join(dir, s.EncoderFile()), h, []SoftGroup{h.EncoderGroup()}, nil)
}

// EmbedFile is the vendor's name of the embedding table.
const EmbedFile = "model.embed_tokens.weight.bfloat16.bin"

// HeadTable is the matrix of a head that is not the embedding table, in the same form, from which
// the host can compute the head.
const HeadTable = "lm_head.weight.bfloat16.bin"

func writeWith(path string, f func(w *bufio.Writer)) error {
	return create(path, func(to io.Writer) error {
		w := bufio.NewWriterSize(to, 1<<16)
		f(w)
		return w.Flush()
	})
}

const idBits = 24

// ShapeRow spells id in the signs of a hidden row's first values: bit i is 1 where value i is
// negative. It needs at least 24 values.
func ShapeRow(dst []uint16, id int32) {
	clear(dst)
	for i := range min(idBits, len(dst)) {
		dst[i] = 0x3f80 | uint16(id>>i&1)<<15
	}
}

// ShapeNext is the token that a head without weights finds most likely after the row, of out
// tokens; 0 where there are none.
func ShapeNext(row []uint16, out, period int) int {
	if out <= 0 {
		return 0
	}
	id := 0
	for i := range min(idBits, len(row)) {
		id |= int(row[i]>>15) << i
	}
	if period > 0 && (id+1)%period == 0 {
		return max(id+1-period, 0) % out
	}
	return (id + 1) % out
}
