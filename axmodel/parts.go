package axmodel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// This file is the software card's whole decoder: a file that holds complete models, a layer after
// the other and then the head, and is called as one, with K and V of all layers in one tensor each.

// Files of a whole decoder: one for tokens beside one for prompts, or one for both, and the
// embeddings.
const (
	DecodeFile  = "model_decode.axmodel"
	PrefillFile = "model_prefill.axmodel"
	WholeFile   = "model.axmodel"
	WholeEmbed  = "model.embed_tokens.weight.npy"
)

// MaxParts is how many models a whole decoder's file has room for, the head among them.
const MaxParts = maxTable

// readParts reads the models within a file of this many bytes, after its first ones; table is its
// directory. None of them has parts itself.
func (s *Soft) readParts(r io.ReaderAt, size, after int64, table []byte) error {
	le := binary.LittleEndian
	for i := range len(table) / entryBytes {
		t := table[i*entryBytes:]
		off, n := le.Uint64(t[40:]), le.Uint64(t[48:])
		if off%align != 0 || off < uint64(after) || off > uint64(size) || n > uint64(size)-off {
			return errorf("part %d, %d bytes at %d, does not lie within the file's %d bytes on a multiple of %d", i, n, off, size, align)
		}
		part := io.NewSectionReader(r, int64(off), int64(n))
		magic := make([]byte, len(Magic)+8)
		if _, err := part.ReadAt(magic, 0); err != nil || string(magic[:len(Magic)]) != Magic || Kind(le.Uint32(magic[12:])) == Decoder {
			return errorf("part %d is no model of the software card's, or a whole decoder again", i)
		}
		m, err := readSoft(part, int64(n))
		if err != nil {
			var e *Error
			if errors.As(err, &e) {
				return &Error{What: fmt.Sprintf("part %d %s", i, e.What), Err: e.Err}
			}
			return err
		}
		m.FileBytes = int64(n)
		s.Parts = append(s.Parts, Part{m, int64(off)})
	}
	return nil
}

// checkParts holds a whole decoder's header against its parts.
func (s *Soft) checkParts() error {
	if len(s.Parts) < 2 {
		return errorf("is a whole decoder of %d parts: a layer and a head are the least", len(s.Parts))
	}
	const own = FlagF32 | FlagSuffix | FlagLast
	if s.Flags&^own != 0 || s.Pos != 1 {
		return errorf("is a whole decoder with flags 0x%x and %d position rows, which none has", s.Flags, s.Pos)
	}
	layers, head := s.Parts[:len(s.Parts)-1], s.Parts[len(s.Parts)-1].Soft
	for i, p := range layers {
		l := p.Soft
		if l.Kind != Layer || l.Hidden != s.Hidden || l.KVHeads != s.KVHeads || l.HeadDim != s.HeadDim || l.Pos != s.Pos ||
			l.Flags&(FlagShapeOnly|FlagGemma4|FlagShares) != 0 || !slices.Equal(l.Groups, s.Groups) {
			return errorf("part %d is a %v of hidden %d, %d kv heads of %d and %d groups, which does not belong in a whole decoder "+
				"of %d, %d of %d and %d", i, l.Kind, l.Hidden, l.KVHeads, l.HeadDim, len(l.Groups), s.Hidden, s.KVHeads,
				s.HeadDim, len(s.Groups))
		}
	}
	if head.Kind != Head || head.Hidden != s.Hidden || head.Out != s.Out || head.Flags&FlagF32 != s.Flags&FlagF32 ||
		head.Flags&FlagShapeOnly != 0 {
		return errorf("the last part is a %v of hidden %d for %d tokens, not the head of a whole decoder of %d for %d", head.Kind,
			head.Hidden, head.Out, s.Hidden, s.Out)
	}
	return nil
}

// SoftPart is a model to write within another.
type SoftPart struct {
	Header
	Groups  []SoftGroup
	Tensors []Tensor
}

// DecoderSize is how long a whole decoder's file will be.
func DecoderSize(groups []SoftGroup, parts []SoftPart) int64 {
	at := up(headerBytes + int64(len(groups))*groupBytes + int64(len(parts))*entryBytes)
	for _, p := range parts {
		at = up(at + Size(p.Groups, p.Tensors))
	}
	return at
}

// WriteDecoder writes a whole decoder: h says what its calls are like, the parts what is in it.
// Errors as Write's.
func WriteDecoder(w io.Writer, h Header, groups []SoftGroup, parts []SoftPart) error {
	if len(groups) < 1 || len(groups) > maxGroups || len(parts) > maxTable || len(h.Tool) > 64 {
		return errorf("%d groups and %d parts: 1 to %d and at most %d are possible", len(groups), len(parts), maxGroups, maxTable)
	}
	s := Soft{Header: h, Groups: groups}
	at := up(headerBytes + int64(len(groups))*groupBytes + int64(len(parts))*entryBytes)
	for _, p := range parts {
		n := Size(p.Groups, p.Tensors)
		s.Parts = append(s.Parts, Part{&Meta{FileBytes: n, Soft: &Soft{Header: p.Header, Groups: p.Groups}}, at})
		at = up(at + n)
	}
	if err := s.check(); err != nil {
		return err
	}
	b := encode(h, groups, len(parts), at)
	le := binary.LittleEndian
	for i, p := range s.Parts {
		e := b[headerBytes+len(groups)*groupBytes+i*entryBytes:]
		copy(e[:24], "part")
		le.PutUint64(e[40:], uint64(p.Offset))
		le.PutUint64(e[48:], uint64(p.FileBytes))
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	for _, p := range parts {
		if err := Write(w, p.Header, p.Groups, p.Tensors); err != nil {
			return err
		}
		n := Size(p.Groups, p.Tensors)
		if _, err := w.Write(make([]byte, up(n)-n)); err != nil {
			return err
		}
	}
	return nil
}
