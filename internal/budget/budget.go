// Package budget is the memory that clients' requests may take: one sum for the whole process, with
// a part for each kind of use. Each package keeps to its part, so no mix of requests takes more
// than the sum. The parts lend each other nothing, so no request that waits for one part holds what
// another request waits for.
//
// The weights of models, their caches, and what --cache-ram keeps are not counted. [Set] is called
// once, at the start, before anything asks; [Get] from any goroutine.
package budget

import (
	"fmt"
	"strings"
	"sync/atomic"
)

const mib = 1 << 20

// Budget is bytes by what they are for.
type Budget struct {
	Requests  int64 // bodies that are decoded, until they are answered, and what is made of them
	Templates int64 // prompts while they are rendered, beyond a mebibyte each
	Decoding  int64 // pictures while they are decoded, what they leave behind included
	Pictures  int64 // what is made of pictures for encoders, and of that, while their requests run
	Kept      int64 // what encoders made of pictures that were asked about before
	Schemas   int64 // automata of schemas while they are compiled, and of the last that were
	Masks     int64 // of tokens that grammars allow, kept for each grammar by itself
	Garbage   int64 // what is used no longer and not collected yet, stacks, buffers of connections, and the program itself
}

// Full is the budget of a machine with memory enough.
func Full() Budget {
	return Budget{Requests: 192 * mib, Templates: 64 * mib, Decoding: 352 * mib, Pictures: 96 * mib,
		Kept: 48 * mib, Schemas: 64 * mib, Masks: 32 * mib, Garbage: 144 * mib}
}

// Sum is what all parts come to.
func (b Budget) Sum() int64 {
	return b.Requests + b.Templates + b.Decoding + b.Pictures + b.Kept + b.Schemas + b.Masks + b.Garbage
}

// small is how much of a machine's memory may go to requests: the operating system, the card's
// driver and rows in memory have the rest.
const small = 4

// Of is the budget of a machine with so much memory: the full one, or all parts in proportion,
// where that would be more than a quarter of it, but never less than half of each: below that a
// single picture of a phone would not fit. Zero is an unknown machine, and gives the full one.
func Of(total int64) Budget {
	b := Full()
	if total <= 0 || total/small >= b.Sum() {
		return b
	}
	num, den := max(total/small, b.Sum()/2), b.Sum()
	for _, part := range b.parts() {
		*part.bytes = *part.bytes / mib * num / den * mib
	}
	return b
}

type part struct {
	name  string
	bytes *int64
}

func (b *Budget) parts() []part {
	return []part{{"requests", &b.Requests}, {"templates", &b.Templates}, {"pictures while they are decoded", &b.Decoding},
		{"pictures on their way", &b.Pictures}, {"pictures that are kept", &b.Kept}, {"schemas", &b.Schemas}, {"masks", &b.Masks},
		{"the rest", &b.Garbage}}
}

// String is the budget in words.
func (b Budget) String() string {
	var parts []string
	for _, p := range b.parts() {
		parts = append(parts, fmt.Sprintf("%s %d", p.name, *p.bytes/mib))
	}
	return fmt.Sprintf("%d MiB: %s", b.Sum()/mib, strings.Join(parts, ", "))
}

var current atomic.Pointer[Budget]

// Get is the process's budget: the full one until Set.
func Get() Budget {
	if b := current.Load(); b != nil {
		return *b
	}
	return Full()
}

// Set makes b the process's budget.
func Set(b Budget) { current.Store(&b) }
