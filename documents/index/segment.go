package index

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sort"
)

// Segment is the index of one document: its passages, and where each term stands. It does not
// change, and may be read from any goroutine. The zero Segment has no passages.
//
// Its file begins with a mark and a checksum. All numbers are 32 bits, little-endian: counts, then
// a row a passage, then where each heading, term and list of places begins, then these themselves.
type Segment struct {
	raw    []byte
	counts [segmentCounts]int
	at     [segmentParts]int // where each part begins
}

const (
	segmentMark   = "axleidx1"
	segmentHead   = len(segmentMark) + 4
	segmentCounts = 7
	rowNumbers    = 7

	countPassages = 0
	countTerms    = 1
	countHeadings = 2
	countLength   = 3 // terms of all passages
	countOfText   = 4 // bytes of headings, terms and places

	partRows  = 0
	partHead  = 1 // where headings begin
	partTerm  = 2
	partPlace = 3
	partHeads = 4 // the headings
	partTerms = 5
	partLists = 6

	segmentParts = 7
)

// ErrDamaged is an index whose bytes are not those that were written.
var ErrDamaged = errors.New("index: the index of a file is damaged")

// MostPassages is the most that a document may have.
const MostPassages = 1 << 20

// row is what is kept of a passage.
type row struct {
	Passage
	length int // in terms
	lang   Language
}

// Build makes the index of a document's passages, which Cut gave. The words of its headings count
// with each passage, as if it began with them.
func Build(d *Document, passages []Passage) ([]byte, error) {
	if len(passages) > MostPassages {
		return nil, fmt.Errorf("index: the document has %d passages, %d may be", len(passages), MostPassages)
	}
	langs := make([]Language, len(d.Pages))
	for i, p := range d.Pages {
		langs[i] = Guess(p.Text)
	}
	var headings []string
	heading := map[string]int{}
	lists := map[string][]byte{} // places by term
	last := map[string]uint32{}
	rows, total := make([]row, len(passages)), 0
	for i, p := range passages {
		rows[i] = row{p, 0, langs[p.Page]}
		if _, ok := heading[p.Heading]; !ok {
			heading[p.Heading] = len(headings)
			headings = append(headings, p.Heading)
		}
		often := map[string]uint32{}
		count := func(term string, _ int) {
			often[term]++
			rows[i].length++
		}
		Terms(p.Heading, rows[i].lang, count)
		Terms(d.Pages[p.Page].Text[p.Start:p.End], rows[i].lang, count)
		for term, n := range often {
			b := lists[term]
			b = binary.AppendUvarint(b, uint64(uint32(i)-last[term]))
			lists[term] = binary.AppendUvarint(b, uint64(n))
			last[term] = uint32(i)
		}
		total += rows[i].length
	}
	terms := slices.Sorted(maps.Keys(lists))
	var parts [3][]byte // headings, terms, places
	var begins [3][]uint32
	for _, h := range headings {
		begins[0] = append(begins[0], uint32(len(parts[0])))
		parts[0] = append(parts[0], h...)
	}
	for _, term := range terms {
		begins[1], begins[2] = append(begins[1], uint32(len(parts[1]))), append(begins[2], uint32(len(parts[2])))
		parts[1], parts[2] = append(parts[1], term...), append(parts[2], lists[term]...)
	}
	b := append([]byte(segmentMark), 0, 0, 0, 0)
	for _, n := range []int{len(rows), len(terms), len(headings), total, len(parts[0]), len(parts[1]), len(parts[2])} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for _, r := range rows {
		for _, n := range [rowNumbers]int{r.Page, r.Start, r.End, r.Tokens, r.length, heading[r.Heading], int(r.lang)} {
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
		}
	}
	for i, list := range begins {
		for _, n := range append(list, uint32(len(parts[i]))) {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
	}
	b = slices.Concat(b, parts[0], parts[1], parts[2])
	binary.LittleEndian.PutUint32(b[len(segmentMark):], crc32.ChecksumIEEE(b[segmentHead:]))
	return b, nil
}

// Open reads the index that Build made, and keeps b. Error: ErrDamaged.
func Open(b []byte) (*Segment, error) {
	s := &Segment{raw: b}
	at := segmentHead + 4*segmentCounts
	if len(b) < at || string(b[:len(segmentMark)]) != segmentMark ||
		binary.LittleEndian.Uint32(b[len(segmentMark):]) != crc32.ChecksumIEEE(b[segmentHead:]) {
		return nil, ErrDamaged
	}
	for i := range s.counts {
		s.counts[i] = s.number(segmentHead + 4*i)
		if s.counts[i] > len(b) && i != countLength {
			return nil, ErrDamaged
		}
	}
	c := s.counts
	for i, size := range []int{4 * rowNumbers * c[countPassages], 4 * (c[countHeadings] + 1), 4 * (c[countTerms] + 1),
		4 * (c[countTerms] + 1),
		c[countOfText], c[countOfText+1], c[countOfText+2]} {
		s.at[i] = at
		at += size
	}
	if at != len(b) || !s.begins(partHead, c[countHeadings], c[countOfText]) || !s.begins(partTerm, c[countTerms], c[countOfText+1]) ||
		!s.begins(partPlace, c[countTerms], c[countOfText+2]) {
		return nil, ErrDamaged
	}
	for i := range c[countPassages] {
		if at := s.at[partRows] + 4*rowNumbers*i; s.number(at+20) >= c[countHeadings] || s.number(at+4) > s.number(at+8) {
			return nil, ErrDamaged
		}
	}
	return s, nil
}

// begins checks where the pieces of a part begin: in order, and within it.
func (s *Segment) begins(part, n, size int) bool {
	last := 0
	for i := range n + 1 {
		at := s.number(s.at[part] + 4*i)
		if at < last || at > size {
			return false
		}
		last = at
	}
	return last == size
}

func (s *Segment) number(at int) int { return int(binary.LittleEndian.Uint32(s.raw[at:])) }

// Len is how many passages there are.
func (s *Segment) Len() int { return s.counts[countPassages] }

// Bytes is how much memory the segment takes.
func (s *Segment) Bytes() int64 { return int64(len(s.raw)) }

// Passage is the i-th.
func (s *Segment) Passage(i int) Passage { return s.row(i).Passage }

func (s *Segment) row(i int) row {
	at := s.at[partRows] + 4*rowNumbers*i
	n := func(k int) int { return s.number(at + 4*k) }
	return row{Passage{n(0), n(1), n(2), string(s.piece(partHead, partHeads, n(5))), n(3)}, n(4), Language(n(6))}
}

// piece is the i-th of a part whose beginnings another part has.
func (s *Segment) piece(begins, part, i int) []byte {
	at := s.at[begins] + 4*i
	return s.raw[s.at[part]+s.number(at) : s.at[part]+s.number(at+4)]
}

// places gives the passages that have a term, and how often; nil: none has it.
func (s *Segment) places(term string) []byte {
	n := s.counts[countTerms]
	i := sort.Search(n, func(i int) bool { return string(s.piece(partTerm, partTerms, i)) >= term })
	if i == n || string(s.piece(partTerm, partTerms, i)) != term {
		return nil
	}
	return s.piece(partPlace, partLists, i)
}

// each reads a list of places. It stops at what cannot be.
func (s *Segment) each(list []byte, f func(passage, often int)) {
	passage := 0
	for first := true; len(list) > 0; first = false {
		d, n := binary.Uvarint(list)
		if n <= 0 || !first && d == 0 || d > MostPassages {
			return
		}
		often, m := binary.Uvarint(list[n:])
		if passage += int(d); m <= 0 || passage >= s.Len() {
			return
		}
		f(passage, int(min(often, 1<<20)))
		list = list[n+m:]
	}
}

// byScore orders hits, the best first; where scores are the same, as they stand in the texts.
func byScore(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Passage, b.Passage))
}
