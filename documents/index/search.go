package index

import (
	"math"
	"slices"
	"strings"
	"sync"
)

// Hit is a passage that was found.
type Hit struct {
	Segment int // index in what was searched
	Passage int // index in the segment
	Score   float64
}

// BM25's constants: how soon more of the same word counts no more, and how much a long passage
// loses.
const (
	bm25K = 1.2
	bm25B = 0.6
)

// How many passages BM25 gives to what looks at them closely.
const Candidates = 60

// word is a word of a question: its term in each language, which count as one.
type word struct {
	terms  []string
	weight float64 // its inverse document frequency; 0: no passage has it
}

// Question is a text that passages are searched for.
type Question struct{ words []word }

// maxWords is how many words of a question count.
const maxWords = 64

// Ask makes a question of a text. Words that stand in every question (what, how, wie) do not count,
// unless there are no others.
func Ask(text string) *Question {
	q, all := ask(text, false), (*Question)(nil)
	if len(q.words) == 0 {
		all = ask(text, true)
		return all
	}
	return q
}

func ask(text string, all bool) *Question {
	var by [2][]string
	for lang := range by {
		Terms(text, Language(lang), func(term string, _ int) { by[lang] = append(by[lang], term) })
	}
	q := &Question{}
	for i, term := range by[English] {
		w := word{terms: []string{term}}
		if g := by[German][i]; g != term {
			w.terms = append(w.terms, g)
		}
		if !all && slices.ContainsFunc(w.terms, func(t string) bool { return small()[t] }) || q.has(term) || len(q.words) == maxWords {
			continue
		}
		q.words = append(q.words, w)
	}
	return q
}

func (q *Question) has(term string) bool {
	return slices.ContainsFunc(q.words, func(w word) bool { return w.terms[0] == term })
}

// small are the terms of words that say nothing about what a question is for.
var small = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	for i, list := range []string{
		"a about after all also am an and any are as at be been before being but by can could did do does doing for from get gets " +
			"had has have having " +
			"he her him his how i if in into is it its itself just may me might mine more most much must my no not of off on once " +
			"only or other our " +
			"out over own same she should so some such than that the their them then there these they this those through to too " +
			"under until up us " +
			"very was we were what whats when where which while who whom whose why will with would you your dont doesnt cant isnt " +
			"happens happen tell " +
			"please",
		"aber alle als also am an auch auf aus bei beim bin bis bist da damit dann das dass dein dem den denn der des die dies " +
			"diese diesem diesen " +
			"dieser dieses doch dort du durch ein eine einem einen einer eines er es euch für gibt hab habe haben hat hatte ich ihm " +
			"ihn ihr im in ins " +
			"ist ja jede jeder kann kein keine man mein mich mir mit muss müssen nach nicht noch nun nur ob oder ohne sehr sein " +
			"seine sich sie sind so " +
			"soll über um und uns unter vom von vor wann warum was welche welcher welches wenn wer werden wie wieder will wir wird " +
			"wo woher wohin " +
			"wurde zu zum zur",
		"什么 怎么 如何 为什 哪里 哪个 多少 是什 么是 怎样 吗 的 何 どう です ます です か には とは 何で か? 무엇 어떻 떻게 인가 니까",
	} {
		lang := English
		if i == 1 {
			lang = German
		}
		Terms(list, lang, func(t string, _ int) { set[t] = true })
	}
	return set
})

// Search ranks the passages of segments by a question with BM25, the best first, at most n of them.
// It notes in the question how rare its words are there.
func Search(segments []*Segment, q *Question, n int) []Hit {
	passages, length := 0, 0
	for _, s := range segments {
		passages += s.Len()
		length += s.counts[countLength]
	}
	if passages == 0 || n <= 0 {
		return nil
	}
	mean := max(float64(length)/float64(passages), 1)
	lists := make([][][]byte, len(q.words)) // by word, and term and segment
	for i, w := range q.words {
		have := 0
		for _, s := range segments {
			most := 0
			for _, term := range w.terms {
				list := s.places(term)
				lists[i] = append(lists[i], list)
				df := 0
				s.each(list, func(int, int) { df++ })
				most = max(most, df)
			}
			have += most
		}
		q.words[i].weight = 0
		if have > 0 {
			q.words[i].weight = math.Log(1 + (float64(passages-have)+0.5)/(float64(have)+0.5))
		}
	}
	var best top
	for at, s := range segments {
		scores := make([]float64, s.Len())
		found := false
		for i, w := range q.words {
			for k := range w.terms {
				s.each(lists[i][at*len(w.terms)+k], func(p, often int) {
					f := float64(often)
					size := float64(s.number(s.at[partRows]+4*rowNumbers*p+16)) / mean
					scores[p] += w.weight * f * (bm25K + 1) / (f + bm25K*(1-bm25B+bm25B*size))
					found = true
				})
			}
		}
		if !found {
			continue
		}
		for p, score := range scores {
			if score > 0 {
				best.add(Hit{at, p, score}, n)
			}
		}
	}
	return best.sorted(n)
}

// top keeps the best hits.
type top struct{ hits []Hit }

func (t *top) add(h Hit, n int) {
	if t.hits = append(t.hits, h); len(t.hits) >= 4*n {
		t.hits = t.sorted(n)
	}
}

func (t *top) sorted(n int) []Hit {
	slices.SortFunc(t.hits, byScore)
	return t.hits[:min(n, len(t.hits))]
}

// How much each thing that a close look finds counts beside BM25's score, which is between 0 and 1
// as they are. They were set with sentences of the texts as questions, each taken out of its
// passage.
const (
	weightCover   = 0.3 // the share of the question's words that the passage has
	weightHeading = 0.1 // and of those that its headings have
	weightNear    = 0.1 // neighbours in the question that are near each other
	weightAll     = 1 + weightCover + weightHeading + weightNear
)

// Rerank orders hits by a close look at their texts, which text gives: how much of the question a
// passage and its headings have, and whether the words stand together and in order. Scores are
// between 0 and 1 then. Errors are those of text. Search must have been called with the question.
func Rerank(segments []*Segment, q *Question, hits []Hit, text func(Hit) (string, error)) ([]Hit, error) {
	words := map[string]int{}
	all := 0.0
	for i, w := range q.words {
		all += w.weight
		for _, term := range w.terms {
			words[term] = i
		}
	}
	if all == 0 {
		return hits, nil
	}
	out := slices.Clone(hits)
	for i, h := range out {
		s, err := text(h)
		if err != nil {
			return nil, err
		}
		r := segments[h.Segment].row(h.Passage)
		l := look{q: q, words: words}
		l.read(r.Heading, r.lang)
		heading := l.share() / all
		l.read(s, r.lang)
		out[i].Score = (h.Score/(all*(bm25K+1)) + weightCover*l.share()/all + weightHeading*heading + weightNear*l.near()) / weightAll
	}
	slices.SortFunc(out, byScore)
	return out, nil
}

// look is a close look at a text.
type look struct {
	q     *Question
	words map[string]int
	at    [maxWords][]int // where each word of the question stands
	count int
}

func (l *look) read(text string, lang Language) {
	from := l.count
	Terms(text, lang, func(term string, place int) {
		if i, ok := l.words[term]; ok && len(l.at[i]) < 64 {
			l.at[i] = append(l.at[i], from+place)
		}
		l.count = max(l.count, from+place+1)
	})
	l.count += 10 // what follows a heading does not stand beside it
}

// share is the weight of the words that stand in what was read.
func (l *look) share() (sum float64) {
	for i, w := range l.q.words {
		if len(l.at[i]) > 0 {
			sum += w.weight
		}
	}
	return sum
}

// near is between 0 and 1: how near neighbours in the question are to each other in the text. In
// order counts more.
func (l *look) near() float64 {
	sum, all := 0.0, 0.0
	for i := range len(l.q.words) - 1 {
		a, b := l.q.words[i], l.q.words[i+1]
		weight := min(a.weight, b.weight)
		all += weight
		best := 0.0
		for _, x := range l.at[i] {
			for _, y := range l.at[i+1] {
				switch d := y - x; {
				case d > 0:
					best = max(best, 1/math.Sqrt(float64(d)))
				case d < 0:
					best = max(best, 0.7/math.Sqrt(float64(-d)))
				}
			}
		}
		sum += weight * best
	}
	if all == 0 {
		return 0
	}
	return sum / all
}

// share is how much a vector counts beside what the words say.
const share = 0.5

// Blend makes one order of the passages that words found and those whose vectors are near, the best
// first. Cosines of different models lie in different places, so what counts is how far one is
// from the last of its list, on the way to 1. Scores are between 0 and 1.
func Blend(n int, words, near []Hit) []Hit {
	type id struct{ segment, passage int }
	scores := map[id]float64{}
	for _, h := range words {
		scores[id{h.Segment, h.Passage}] = h.Score / (1 + share)
	}
	if len(near) > 0 {
		least := min(near[len(near)-1].Score, 0.999)
		for _, h := range near {
			scores[id{h.Segment, h.Passage}] += share / (1 + share) * (h.Score - least) / (1 - least)
		}
	}
	out := make([]Hit, 0, len(scores))
	for k, score := range scores {
		out = append(out, Hit{k.segment, k.passage, min(max(score, 0), 1)})
	}
	slices.SortFunc(out, byScore)
	return out[:min(n, len(out))]
}

// Lines makes one line of a text for people: its spaces become single ones.
func Lines(text string) string { return strings.Join(strings.Fields(text), " ") }

// Scale makes BM25's scores numbers between 0 and 1.
func Scale(q *Question, hits []Hit) {
	all := 0.0
	for _, w := range q.words {
		all += w.weight
	}
	for i := range hits {
		hits[i].Score /= max(all*(bm25K+1), 1e-9)
	}
}
