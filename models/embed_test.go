package models_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/models"
)

// Embedding tables in every form give the same rows.
func TestEmbeddings(t *testing.T) {
	values := make([]float32, 20*8)
	for i := range values {
		values[i] = float32(i%16) / 4 * float32(1-i%2*2)
	}
	var b16, h16, f32 bytes.Buffer
	for _, v := range values {
		_ = binary.Write(&b16, binary.LittleEndian, uint16(math.Float32bits(v)>>16))
		_ = binary.Write(&h16, binary.LittleEndian, float16.Fromfloat32(v).Bits())
		_ = binary.Write(&f32, binary.LittleEndian, v)
	}
	head := func(descr string) string {
		return "{'descr': " + descr + ", 'fortran_order': False, 'shape': (20, 8), }          \n"
	}
	for name, data := range map[string][]byte{
		"e.bin": b16.Bytes(), "f2.npy": npy(head("'<f2'"), h16.Bytes()), "f4.npy": npy(head("'<f4'"), f32.Bytes()),
		"v2.npy": npy(head("'|V2'"), b16.Bytes()),
		"bf.npy": npy(head("'bfloat16'"), b16.Bytes()), "u2.npy": npy(head("'<u2'"), b16.Bytes()),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.vendor("", "l%d.axmodel", 1, "post.axmodel")
			b.remove(table)
			b.write("embed_"+name, data)
			p := b.open()
			if p.Vocab != 20 || p.Hidden != 8 {
				t.Fatalf("%d × %d", p.Vocab, p.Hidden)
			}
			row := make([]uint16, 8)
			for id := range int32(20) {
				if err := p.Embed.Row(row, id); err != nil {
					t.Fatal(err)
				}
				for i, v := range row {
					if want := uint16(math.Float32bits(values[int(id)*8+i]) >> 16); v != want {
						t.Fatalf("row %d: %04x at %d, want %04x", id, v, i, want)
					}
				}
			}
			for _, id := range []int32{-1, 20, math.MaxInt32, math.MinInt32} {
				if err := p.Embed.Row(row, id); err == nil || !strings.Contains(err.Error(), "20 rows") {
					t.Errorf("row %d: %v", id, err)
				}
			}
			if err := p.Embed.Row(row[:7], 1); err == nil {
				t.Error("a row into too little room")
			}
			if n := testing.AllocsPerRun(100, func() { _ = p.Embed.Row(row, 3) }); n != 0 {
				t.Errorf("%v allocations a row", n)
			}
			// The same through a file system that cannot map.
			q, err := models.OpenFS(plainFS{os.DirFS(b.dir)}, ".")
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			other := make([]uint16, 8)
			_, _ = p.Embed.Row(row, 7), q.Embed.Row(other, 7)
			if !slices.Equal(row, other) || q.Digest() != p.Digest() {
				t.Errorf("%v through another file system, want %v", other, row)
			}
		})
	}
}

// A row that holds what is no number does not get out, mapped or not; the rows beside it do.
func TestEmbeddingsSound(t *testing.T) {
	for i, v := range []uint16{0x7fc0, 0xffff, 0x7f80, 0xff80} {
		b := newBench(t)
		b.vendor("", "l%d.axmodel", 1, "post.axmodel")
		rows := make([]byte, 20*8*2)
		binary.LittleEndian.PutUint16(rows[(5*8+2*i)*2:], v)
		b.write(table, rows)
		q, err := models.OpenFS(plainFS{os.DirFS(b.dir)}, ".")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*models.Package{b.open(), q} {
			for range 2 {
				got := []uint16{1, 1, 1, 1, 1, 1, 1, 1}
				if err := p.Embed.Row(got, 5); !errors.Is(err, models.ErrMalformed) || !strings.Contains(err.Error(), "token 5") ||
					!slices.Equal(got, make([]uint16, 8)) {
					t.Errorf("%04x: %v, %v", v, got, err)
				}
				if err := errors.Join(p.Embed.Row(got, 4), p.Embed.Row(got, 6)); err != nil {
					t.Error(err)
				}
			}
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
}

// plainFS hides that its files are the operating system's.
type plainFS struct{ fs.FS }

type plainFile struct {
	fs.File
	*bytes.Reader
}

func (f plainFile) Read(p []byte) (int, error) { return f.Reader.Read(p) }

func (p plainFS) Open(name string) (fs.File, error) {
	f, err := p.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || st.IsDir() {
		return f, err
	}
	data, err := fs.ReadFile(p.FS, name)
	return plainFile{f, bytes.NewReader(data)}, err
}

// Rows may be read from many goroutines while the package is closed under them: rows or ErrClosed,
// nothing else.
func TestEmbeddingsClose(t *testing.T) {
	b := newBench(t)
	b.vendor("", "l%d.axmodel", 1, "post.axmodel")
	p, err := models.Open(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			row := make([]uint16, 8)
			for id := int32(0); ; id = (id + 1) % 20 {
				if err := p.Embed.Row(row, id); err != nil {
					if err != models.ErrClosed {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
