package index

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
)

// Vectors of a file's passages lie in a file of their own: a line of JSON, and then for each
// passage a scale and a byte for each value. A byte is enough: the order of neighbours hardly
// changes, and a passage takes a quarter of the room.

type vectorHead struct {
	Model  string `json:"model"`
	Values int    `json:"values"`
	Rows   int    `json:"rows"`
}

const maxValues = 1 << 14

// SetVectors keeps what a model made of a file's passages, one vector each. Errors: ErrNotFound
// (the file was deleted or indexed anew meanwhile), ErrFull, the file system's.
func (s *Shelf) SetVectors(id, file string, created int64, model string, vectors [][]float32) error {
	if len(vectors) == 0 {
		return nil
	}
	values := len(vectors[0])
	head, err := json.Marshal(vectorHead{model, values, len(vectors)})
	if err != nil {
		return err
	}
	b := append(head, '\n')
	for _, v := range vectors {
		if len(v) != values || values == 0 || values > maxValues {
			return errors.New("index: vectors of different lengths")
		}
		b = appendVector(b, v)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.find(id)
	if err != nil {
		return err
	}
	e := c.entries[file]
	if e == nil || e.Created != created || e.Passages != len(vectors) {
		return ErrNotFound
	}
	if err := s.write([]string{id, file + vectorExt}, b); err != nil {
		return err
	}
	next := e.copy()
	next.Bytes += int64(len(b))
	next.Model = model
	if err := s.record(next, id, file+fileSuffix); err != nil {
		return err
	}
	*e = next
	return nil
}

// appendVector appends a vector of length one: its scale, and its values in bytes.
func appendVector(b []byte, v []float32) []byte {
	length, most := 0.0, 0.0
	for _, x := range v {
		length += float64(x) * float64(x)
		most = max(most, math.Abs(float64(x)))
	}
	length = math.Sqrt(length)
	if length == 0 || math.IsNaN(length) || math.IsInf(length, 0) {
		return append(b, make([]byte, 4+len(v))...)
	}
	b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(most/127/length)))
	for _, x := range v {
		b = append(b, byte(int8(math.Round(float64(x)/most*127))))
	}
	return b
}

// nearest ranks the passages of sets by the cosine of their vectors and a question's, the best
// first. Files without vectors of the model are left out.
func (s *Shelf) nearest(ctx context.Context, sets []set, model string, question []float32, n int) ([]Hit, error) {
	length := 0.0
	for _, x := range question {
		length += float64(x) * float64(x)
	}
	length = math.Sqrt(length)
	var best top
	for i, at := range sets {
		if at.entry.Model != model {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b, err := s.whole(s.at(at.collection, at.entry.File+vectorExt))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		rows, values, err := openVectors(b, model)
		if err != nil {
			return nil, fmt.Errorf("%w: delete %s from the vector store, and add it again", err, at.entry.File)
		}
		if values != len(question) || len(rows)/(4+values) != at.segment.Len() {
			continue // another build of the model made them
		}
		for p := range at.segment.Len() {
			row := rows[p*(4+values) : (p+1)*(4+values)]
			sum := float32(0)
			for k, x := range question {
				sum += x * float32(int8(row[4+k]))
			}
			scale := math.Float32frombits(binary.LittleEndian.Uint32(row))
			if score := float64(sum) * float64(scale) / length; score > 0 {
				best.add(Hit{i, p, score}, n)
			}
		}
	}
	return best.sorted(n), nil
}

// openVectors gives the rows of a file of vectors, and how many values each has.
func openVectors(b []byte, model string) (rows []byte, values int, err error) {
	line, rest, ok := bytes.Cut(b, []byte("\n"))
	var h vectorHead
	if !ok || json.Unmarshal(line, &h) != nil || h.Model != model || h.Values <= 0 || h.Values > maxValues || h.Rows < 0 ||
		h.Rows > MostPassages || len(rest) != h.Rows*(4+h.Values) {
		return nil, 0, ErrDamaged
	}
	return rest, h.Values, nil
}
