package axcltest

import (
	"fmt"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// NewBuffer implements axcl.Device.
func (r *Recorder) NewBuffer(size int) (axcl.Buffer, error) {
	b, err := r.d.NewBuffer(size)
	e := Event{Op: OpNewBuffer, Ask: fmt.Sprintf("%d bytes", size), Err: keepError(err)}
	if err != nil {
		r.add(e)
		return nil, err
	}
	r.loaded++
	e.ID = r.loaded
	r.add(e)
	return &recordedBuffer{b, r, r.loaded}, nil
}

type recordedBuffer struct {
	axcl.Buffer
	r  *Recorder
	id int
}

func (b *recordedBuffer) Write(at int, from []byte) error {
	err := b.Buffer.Write(at, from)
	b.r.add(Event{Op: OpWrite, ID: b.id, Ask: askBytes(at, from), Sum: sumRows(from), Err: keepError(err)})
	return err
}

func (b *recordedBuffer) Read(at int, to []byte) error {
	err := b.Buffer.Read(at, to)
	b.r.add(Event{Op: OpRead, ID: b.id, Ask: askBytes(at, to), Rows: slices.Clone(to), Err: keepError(err)})
	return err
}

func (b *recordedBuffer) Close() error {
	err := b.Buffer.Close()
	b.r.add(Event{Op: OpCloseBuf, ID: b.id, Err: keepError(err)})
	return err
}

func askBytes(at int, b []byte) string { return fmt.Sprintf("%d bytes from %d", len(b), at) }

// bufferID is the number of a buffer that a tape knows; 0 for none.
func bufferID(b axcl.Buffer) int {
	switch x := b.(type) {
	case *recordedBuffer:
		return x.id
	case *playedBuffer:
		return x.id
	}
	return 0
}

func askBind(group int, tensor string, b axcl.Buffer) string {
	return fmt.Sprintf("group %d, %s to buffer %d", group, tensor, bufferID(b))
}

func (n *recordedNet) Bind(group int, tensor string, b axcl.Buffer) error {
	of := b
	if x, ok := b.(*recordedBuffer); ok {
		of = x.Buffer
	}
	err := n.Net.Bind(group, tensor, of)
	n.r.add(Event{Op: OpBind, ID: n.id, Ask: askBind(group, tensor, b), Err: keepError(err)})
	return err
}

// NewBuffer implements axcl.Device.
func (p *Player) NewBuffer(size int) (axcl.Buffer, error) {
	e := p.next(OpNewBuffer, 0, fmt.Sprintf("%d bytes", size), 0)
	if e.Err != nil {
		return nil, e.Err
	}
	return &playedBuffer{p, e.ID, size}, nil
}

type playedBuffer struct {
	p    *Player
	id   int
	size int
}

func (b *playedBuffer) Size() int { return b.size }

func (b *playedBuffer) Write(at int, from []byte) error {
	return b.p.next(OpWrite, b.id, askBytes(at, from), sumRows(from)).Err.err()
}

func (b *playedBuffer) Read(at int, to []byte) error {
	e := b.p.next(OpRead, b.id, askBytes(at, to), 0)
	copy(to, e.Rows)
	return e.Err.err()
}

func (b *playedBuffer) Close() error { return b.p.next(OpCloseBuf, b.id, "", 0).Err.err() }

func (n *playedNet) Bind(group int, tensor string, b axcl.Buffer) error {
	return n.p.next(OpBind, n.id, askBind(group, tensor, b), 0).Err.err()
}
