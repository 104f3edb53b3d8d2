package models

import (
	"errors"
	"fmt"

	"github.com/axle-llm/axle/axmodel"
)

// read fills in the tensors' part of a layer. Its kind is the configuration's, by layer_types and
// then by full_attention_interval; where that says nothing, a layer whose states go out as they
// came in, and which is no layer of attention, has a state: found says that it is so. sharesKV says
// that the family has layers which use the K and V of others.
func (l *Layer) read(m *axmodel.Meta, sharesKV bool) (found bool, err error) {
	has, said := m.HasState(), l.Kind
	if said == "" {
		if l.Kind = FullAttention; has {
			l.Kind, found = LinearAttention, true
		}
	}
	if l.Kind == LinearAttention {
		l.State, err = m.State()
	} else if l.Shares && sharesKV {
		l.Shape, err = m.SharingLayer()
	} else {
		l.Shape, err = m.Layer()
	}
	//rule:T1 TestHostileStates != "" => == "?"
	if err != nil && said != "" && has != (said == LinearAttention) {
		return false, &Error{What: fmt.Sprintf("is %s by the configuration, and is not by its tensors: %s", said, what(err)),
			Fix: "correct layer_types or full_attention_interval, or take all files from one build", Err: errors.Join(ErrMismatch, err)}
	}
	return found, err
}

// StateBytes is what the states of all layers with a state take together: what a sequence has
// there, and so what a slot and a snapshot take. 0 for a package without such layers.
func (p *Package) StateBytes() int64 {
	n := int64(0)
	for i := range p.Facts {
		n += p.Facts[i].State.Bytes()
	}
	return n
}

// What a load takes for states unless it is told otherwise: as much as this, but never fewer slots
// than two sequences and a snapshot of each need, and no more than could ever be filled.
const (
	stateRoom = 512 << 20
	minSlots  = 4
	maxSlots  = 64
)

// Slots is how many slots for states a load of the package takes unless it is told otherwise; 0
// without layers that have one.
func (p *Package) Slots() int {
	return SlotsFor(p.StateBytes())
}

// SlotsFor is Slots of a model whose states take this many bytes.
func SlotsFor(state int64) int {
	if state == 0 {
		return 0
	}
	return int(min(max(stateRoom/state, minSlots), maxSlots))
}

func describeState(s axmodel.LinearShape) string {
	return fmt.Sprintf("hidden %d, %v %v and %v %v, groups of %d rows", s.Hidden, s.K.Type, s.K.Shape, s.V.Type, s.V.Shape, s.Rows)
}

// noteStates says what of layers with a state is not as it usually is.
func (pkg *Package) noteStates(s axmodel.LinearShape) {
	p := pkg.p
	if !s.Listed {
		p.note("layers with a state do not list positions or a mask among their inputs: they are given all the same")
	}
	wide := 0
	for _, n := range s.Rows {
		if n > 1 {
			wide++
		}
	}
	full := 0
	for _, g := range pkg.Shape.Groups {
		if g.Rows > 1 {
			full++
		}
	}
	switch {
	case wide == 0 && full > 0:
		p.note("layers with a state have no prefill group: they take a prompt's rows one by one")
	case wide < full:
		p.note("layers with a state have %d of %d prefill groups: the last serves for the others", wide, full)
	}
}
