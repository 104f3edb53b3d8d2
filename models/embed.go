package models

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"sync"
	"sync/atomic"

	"github.com/x448/float16"
	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/internal/bf16"
)

// elem is how a table keeps its values.
type elem int

const (
	ofBF16 elem = iota
	ofF16
	ofF32
)

func (e elem) bytes() int64 {
	if e == ofF32 {
		return 4
	}
	return 2
}

func (e elem) String() string { return [...]string{"bf16", "f16", "f32"}[e] }

// Embeddings is the table of token embeddings, looked up on the host. On disk it is memory-mapped:
// the kernel keeps in memory the rows that are used, and gives them up under pressure. A file cut
// short while mapped makes [Embeddings.Row] crash the process with SIGBUS, as with any mapping;
// packages are replaced, never rewritten in place.
type Embeddings struct {
	Rows, Cols int
	Scale      float32 // 1 unless the package says otherwise; applied by Row

	kind   elem
	offset int64
	mapped []byte      // the whole file, or nil
	src    io.ReaderAt // where it is not mapped
	file   io.Closer
	buf    sync.Pool // *[]byte of one row, for src
	closed atomic.Bool
	use    sync.RWMutex    // held for reading by Row: Close must not unmap under it
	sound  []atomic.Uint64 // a bit a row: it was read and holds numbers only
}

// openEmbeddings opens the table name; hidden is known from the layers, vocab is 0 when the
// configuration does not say.
func openEmbeddings(t *tree, name string, vocab, hidden int) (*Embeddings, error) {
	bad := func(err error, cause error) error {
		return &Error{Path: t.where(name), What: err.Error(), Fix: "fetch it again, or correct tokens_embed_num and tokens_embed_size",
			Err: cause}
	}
	f, err := t.openAt(name)
	if err != nil {
		return nil, err
	}
	e := &Embeddings{file: f, src: f, Scale: 1}
	if err := e.open(f, path.Ext(name) == ".npy", int64(vocab), int64(hidden)); err != nil {
		_ = e.Close()
		var pe *fs.PathError
		if errors.As(err, &pe) {
			return nil, &Error{Path: t.where(name), What: cause(err), Err: err}
		}
		return nil, bad(err, ErrSize)
	}
	return e, nil
}

func (e *Embeddings) open(f fileAt, npy bool, vocab, hidden int64) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	size := st.Size()
	if npy {
		h, err := readNpy(f, size)
		if err != nil {
			return err
		}
		if h.cols != hidden || vocab != 0 && h.rows != vocab {
			return fmt.Errorf("a table of %d × %d, want %d × %d (tokens × hidden size of the layers)", h.rows, h.cols, max(vocab, h.rows),
				hidden)
		}
		e.kind, e.offset, vocab = h.kind, h.offset, h.rows
	} else {
		row := 2 * hidden // fits: hidden is capped
		if vocab == 0 {
			vocab = size / row
		}
		//rule:T1 TestMalformed false
		if vocab < 1 || vocab > maxVocab || size != vocab*row {
			return fmt.Errorf("%d bytes, want %d (%d tokens × hidden size %d × 2)", size, vocab*row, vocab, hidden)
		}
	}
	e.Rows, e.Cols = int(vocab), int(hidden)
	e.sound = make([]atomic.Uint64, (e.Rows+63)/64)
	if osf, ok := f.(*os.File); ok && size <= math.MaxInt {
		if e.mapped, err = unix.Mmap(int(osf.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED); err != nil {
			return fmt.Errorf("cannot be mapped: %w", err)
		}
		// Rows are met in no order: reading ahead would only push other pages out.
		_ = unix.Madvise(e.mapped, unix.MADV_RANDOM)
	}
	width := e.Cols * int(e.kind.bytes())
	e.buf.New = func() any { b := make([]byte, width); return &b }
	return nil
}

// Row writes the embedding of token id to dst, as bf16 and multiplied by Scale. dst must hold at
// least Cols values. It fails when id is not in the table, with [ErrMalformed] when its row holds a
// NaN or an infinity (one on the card would spoil every later answer), and with [ErrClosed] after
// Close. It may be called from any goroutine and, where it does not fail, allocates nothing.
func (e *Embeddings) Row(dst []uint16, id int32) error { return e.row(dst, id, e.Scale) }

// Unscaled is Row without Scale: the row as the checkpoint has it.
func (e *Embeddings) Unscaled(dst []uint16, id int32) error { return e.row(dst, id, 1) }

func (e *Embeddings) row(dst []uint16, id int32, scale float32) error {
	if id < 0 || int(id) >= e.Rows {
		return fmt.Errorf("models: token %d has no embedding: the table has %d rows", id, e.Rows)
	}
	if len(dst) < e.Cols {
		return fmt.Errorf("models: room for %d values, an embedding has %d", len(dst), e.Cols)
	}
	e.use.RLock()
	defer e.use.RUnlock()
	if e.closed.Load() {
		return ErrClosed
	}
	width := int64(e.Cols) * e.kind.bytes()
	at := e.offset + int64(id)*width
	if e.mapped != nil {
		e.convert(dst[:e.Cols], e.mapped[at:at+width], scale)
		return e.check(dst[:e.Cols], id)
	}
	b := e.buf.Get().(*[]byte)
	defer e.buf.Put(b)
	if n, err := e.src.ReadAt(*b, at); n < len(*b) {
		return fmt.Errorf("models: reading the embedding of token %d: %w", id, err)
	}
	e.convert(dst[:e.Cols], *b, scale)
	return e.check(dst[:e.Cols], id)
}

// check looks at a row when it is read for the first time. One that holds what is no number does
// not leave.
func (e *Embeddings) check(row []uint16, id int32) error {
	word, bit := &e.sound[id/64], uint64(1)<<(id%64)
	if word.Load()&bit != 0 {
		return nil
	}
	for _, v := range row {
		//rule:D6 TestEmbeddingsSound &0x7f80 == 0x7f80 => == 1
		if v&0x7f80 == 0x7f80 {
			clear(row)
			return fmt.Errorf("models: %w: the embedding of token %d holds a NaN or an infinity: the table is damaged, fetch it again, "+
				"e.g. with `axle pull`", ErrMalformed, id)
		}
	}
	word.Or(bit)
	return nil
}

func (e *Embeddings) convert(dst []uint16, src []byte, scale float32) {
	switch e.kind {
	case ofBF16:
		for i := range dst {
			dst[i] = binary.LittleEndian.Uint16(src[2*i:])
		}
		if scale != 1 {
			for i, v := range dst {
				dst[i] = bf16.Round(bf16.Float32(v) * scale)
			}
		}
	case ofF16:
		for i := range dst {
			dst[i] = bf16.Round(float16.Frombits(binary.LittleEndian.Uint16(src[2*i:])).Float32() * scale)
		}
	case ofF32:
		for i := range dst {
			dst[i] = bf16.Round(math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:])) * scale)
		}
	}
}

// Bytes is the size of the table on disk.
func (e *Embeddings) Bytes() int64 { return int64(e.Rows) * int64(e.Cols) * e.kind.bytes() }

// Close unmaps the table after the last Row has returned. A second Close returns ErrClosed. A nil
// table has nothing to close.
func (e *Embeddings) Close() error {
	if e == nil {
		return nil
	}
	e.use.Lock()
	defer e.use.Unlock()
	if e.closed.Swap(true) {
		return ErrClosed
	}
	if e.mapped != nil {
		_ = unix.Munmap(e.mapped)
		e.mapped = nil
	}
	return e.file.Close()
}
