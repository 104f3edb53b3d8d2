package engine

import "slices"

// Speculation guesses the next tokens (prompt lookup). If the last three tokens occurred before in
// the text so far, the tokens that followed then may follow now. The text of other conversations of
// the client key is looked up in the same way (keytext.go). While guesses from a place come true,
// the next ones come from there too, wherever else the last tokens occurred. Guesses are further
// rows of a wide pass. A guess counts only if the sampler draws the same token from the logits of
// the row before it. So the output is the same as without guesses, greedy or sampled.
//
// Measuring whether guesses pay costs nothing. A guess that was not sent to the card is still
// compared with the token that came. So a text that does not repeat anything never costs anything.

// speculator remembers where the three-token strings of a sequence occurred, and how often guesses
// came true.
type speculator struct {
	table   []int32 // by hash of a three-token string: the index after it, 0 for none
	indexed int     // the table has the strings before each of ids[:indexed]
	given   int     // ids[:given] were added to the key's text; 0: none were
	draft   []int32 // guesses for the tokens after ids, for this pass
	memory  []int32 // reused for the drafts that are not part of ids
	sources [sources]source
	source  int // where draft came from: an index of sources
	asked   int // tokens since the draft model was asked
	off     bool
}

// source is where guesses come from.
type source struct {
	guess int32 // the first guess, sent or not, or none
	at    int   // where it is in the source's text; 0: nowhere
	rate  float64
	// How many guesses were sent, and how many of them were right.
	drafted, accepted int
}

// The sources of guesses: the text so far, other conversations of the key, or a draft model. Their
// rate is how often the first guess was right. Recent guesses weigh more.
const (
	fromText = iota
	fromKey
	fromModel
	sources
)

const (
	gram      = 3
	maxDraft  = 16 // guesses of a sequence in a pass
	mostDraft = 32 // where the host may compute the head, and a further row of it costs little
	rateAlpha = 0.15
)

func gramHash(ids []int32, size int) int {
	h := uint64(14695981039346656037)
	for _, id := range ids {
		h = (h ^ uint64(uint32(id))) * 1099511628211
	}
	return int((h ^ h>>29) & uint64(size-1))
}

// start forgets all but whether there may be guesses.
func (sp *speculator) start(off bool) {
	*sp = speculator{off: off}
	sp.sources[fromModel].rate = 0.6
	sp.clear()
}

// clear forgets the guesses.
func (sp *speculator) clear() {
	for i := range sp.sources {
		sp.sources[i].guess = none
	}
}

// find returns the ids that followed the last occurrence of the last tokens, at most n, from the
// source whose guesses were right more often. other is the text of the key, or nil.
func (sp *speculator) find(ids []int32, other *keyText, n, context int) (found []int32) {
	sp.clear()
	sp.source = fromText
	own, key := &sp.sources[fromText], &sp.sources[fromKey]
	if sp.index(ids, context, own); own.at > 0 {
		found = spelled(ids[own.at:min(len(ids), own.at+n)])
	}
	if len(found) > 0 {
		own.guess = found[0]
	}
	if other == nil {
		return found
	}
	if key.at == 0 || !other.has(key.at, key.at+1) {
		key.at = other.find(ids)
	}
	if key.at > 0 {
		sp.memory = other.from(key.at, n, sp.memory[:0])
	}
	if key.at == 0 || len(sp.memory) == 0 {
		return found
	}
	if key.guess = sp.memory[0]; len(found) == 0 || key.rate > own.rate {
		sp.source, found = fromKey, sp.memory
	}
	return found
}

// index stores the places of new strings. If own has no place, it gets the one after the last
// occurrence of the last three tokens.
func (sp *speculator) index(ids []int32, context int, own *source) {
	if sp.table == nil {
		size := 1024
		for size < 2*context {
			size *= 2
		}
		sp.table = make([]int32, size)
	}
	// The string at the end is not stored before it is looked up: it would find itself.
	for ; sp.indexed < len(ids); sp.indexed++ {
		if sp.indexed >= gram {
			sp.table[gramHash(ids[sp.indexed-gram:sp.indexed], len(sp.table))] = int32(sp.indexed)
		}
	}
	if own.at > 0 || len(ids) < gram {
		return
	}
	tail := ids[len(ids)-gram:]
	at := int(sp.table[gramHash(tail, len(sp.table))])
	if at >= gram && at < len(ids) && slices.Equal(ids[at-gram:at], tail) {
		own.at = at
	}
}

// reset forgets the places in ids but not the rates, because the ids were cut.
func (sp *speculator) reset() {
	clear(sp.table)
	sp.indexed, sp.sources[fromText].at = 0, 0
}

// learn compares the first guesses with the token that came. A source whose guess was right goes on
// from there.
func (sp *speculator) learn(id int32) {
	for i := range sp.sources {
		s := &sp.sources[i]
		hit := 0.0
		if s.at++; s.guess == id {
			hit = 1
		} else {
			s.at = 0
		}
		if s.guess != none {
			s.rate += rateAlpha * (hit - s.rate)
		}
		s.guess = none
	}
}

// draft decides how many guesses each running answer sends with the next pass. It reports whether a
// wide pass pays with the guesses, also where it would not pay without them (limit < 0). gain is
// how many times faster the wide pass without guesses is than rows alone. prompts is how many
// prompt rows wait for the same pass. Guesses take the room that those leave.
func (m *planner) draft(ready []*seq, limit int, gain float64, prompts int) bool {
	pays := limit >= 0 && gain > 1
	if limit < 0 {
		limit = m.wideReach
	}
	answers, reach, one := m.answers(ready, limit)
	g := m.shape.GroupFor(m.minWide, reach)
	if answers == 0 || g < 0 || !m.proven.Chunk {
		return false
	}
	wide := m.costs.group[g]
	single, _ := m.costs.heads(1)
	// head returns what one more row of the head takes.
	head := func(rows int) float64 {
		with, _ := m.costs.heads(rows + 1)
		without, _ := m.costs.heads(rows)
		return with - without
	}
	// A guess costs a row of the head, and for a draft model also its own pass. If it is right, it
	// saves a share of a pass.
	worth := wide/float64(answers) + single
	guesses := maxDraft
	if m.costs.host[0] > 0 {
		guesses = mostDraft
	}
	tokens, rows, spent := 0.0, 0, 0.0
	m.asking, m.askFor = m.asking[:0], m.askFor[:0]
	peek := false
	for _, s := range ready {
		if s.pending() != 1 || s.Reach() > limit || s.embed != nil {
			continue
		}
		rows++
		tokens++
		if s.spec.clear(); s.spec.off {
			continue
		}
		most := min(guesses, s.room()-1, max(m.wide-prompts, answers)/answers-1)
		found := s.spec.find(s.ids, m.texts.of(s.job.Key), max(most, 1), m.shape.Cells)
		more := func(source, most int, price float64) (n int) {
			rate := s.spec.sources[source].rate
			for p := rate; n < most && p*worth > (head(rows+n)+price)*1.1; n++ {
				tokens += p
				p *= rate
			}
			rows += n
			return n
		}
		if len(found) > 0 {
			s.spec.draft = found[:more(s.spec.source, min(most, len(found)), 0)]
		}
		if m.drafter == nil || len(s.pictures) > 0 || len(s.spec.draft) > 0 || most < 1 {
			continue
		}
		s.spec.asked++
		extra := m.drafter.cost(answers, reach) / float64(answers)
		n := more(fromModel, most, extra)
		if n == 0 && s.spec.asked < peekEvery {
			continue
		}
		peek = peek || n == 0
		spent += float64(n) * extra
		m.asking, m.askFor = append(m.asking, s), append(m.askFor, max(n, 1))
	}
	// Without guesses, each answer would take one row alone.
	heads, _ := m.costs.heads(rows)
	send := pays || rows > answers && tokens/(wide+heads+spent) > 1.05/(one+single)
	if len(m.asking) > 0 && (send || peek) {
		m.ask(send)
	}
	if !send {
		for _, s := range ready {
			s.spec.draft = nil
		}
	}
	return send
}

// answers returns how many answering sequences reach no farther than limit, how far they reach, and
// the average time of one of their rows alone. It clears their guesses.
func (m *planner) answers(ready []*seq, limit int) (n, reach int, one float64) {
	for _, s := range ready {
		s.spec.draft = nil
		if s.pending() == 1 && s.Reach() <= limit && s.embed == nil {
			n++
			reach = max(reach, s.Reach())
			one += m.lone(s.Reach())
		}
	}
	return n, reach, one / float64(max(n, 1))
}

// ask lets the draft model guess for m.asking. If send is false, only the first guesses are kept,
// for comparison.
func (m *planner) ask(send bool) {
	for i, s := range m.asking {
		s.spec.draft = s.spec.memory[:0]
		if !send {
			m.askFor[i] = 1
		}
	}
	m.trace.lap(planTime)
	ok := m.drafter.guess(m.asking, m.askFor)
	m.trace.lap(draftTime)
	for _, s := range m.asking {
		s.spec.memory = s.spec.draft
		// The draft model's head may have more ids than this vocabulary.
		for i, id := range s.spec.draft {
			if int(id) >= m.shape.Out {
				s.spec.draft = s.spec.draft[:i]
				break
			}
		}
		if len(s.spec.draft) > 0 {
			s.spec.sources[fromModel].guess, s.spec.source, s.spec.asked = s.spec.draft[0], fromModel, 0
		}
		if !send || !ok {
			s.spec.draft = nil
		}
	}
	if !ok {
		for _, s := range m.running {
			m.drafter.leave(s)
		}
		m.drafter = nil
	}
}

// room returns how many more tokens the sequence may produce.
func (s *seq) room() int {
	if s.job.Limit < 0 {
		return s.job.NumCtx - len(s.ids)
	}
	return min(s.job.Limit-s.usage.Output, s.job.NumCtx-len(s.ids))
}
