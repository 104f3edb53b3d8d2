// Package hosthead computes a model's LM head on the host's processor, beside the card.
//
// A card takes rows through the head one by one and reads all of its weights for each. The host
// reads them once for several rows. Models whose embedding table is also the head's matrix have it
// on the host already. What is missing is the final norm, which is inside the head's file for the
// card.
//
// [Fit] recovers the norm from the card's answers to probe rows ([Probes]). [Write] makes a file of
// the matrix in 8-bit integers, in the order in which it is read. [Open] maps the file, and
// [Head.Accept] compares it with the card's own logits of real rows. Only an accepted head may be
// used: a table that is not the head's matrix, a head that computes something else, and a file of
// another model are refused with a [*Refusal].
//
// [Head.Run] multiplies integers, and then computes the largest logits once more from the table. It
// is about as exact as a card in the tail, and nearer to the model at the top.
//
// A Head belongs to one goroutine. Fit, Write and Open may run on any.
package hosthead

import "fmt"

// Table is the embedding table as the checkpoint has it: not multiplied by anything.
type Table interface {
	// Unscaled writes row id to dst, as bf16.
	Unscaled(dst []uint16, id int32) error
}

// Source describes a head, as far as it is known.
type Source struct {
	Hidden int     // length of a hidden row
	Out    int     // logits of a row
	Tokens int     // the tokenizer's ids are below this; rows of the table from here on may hold anything
	Eps    float32 // of the final norm
	Cap    float32 // a logit x becomes Cap · tanh(x / Cap); 0: it stays x
	Table  Table
}

// Refusal says why a head is not computed on the host.
type Refusal struct{ Why string }

func (r *Refusal) Error() string { return "the host cannot compute this head: " + r.Why }

func refuse(format string, a ...any) error { return &Refusal{fmt.Sprintf(format, a...)} }
