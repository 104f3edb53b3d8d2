package grammar

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// ambiguous are grammars that read a text in several ways, and the same languages without that.
var ambiguous = []struct {
	name, src, plain string
	hard             bool // its text may end with an error
}{
	{"three ways a byte", "root ::= [^]? | y+ \"\\x41é\"?\nx ::= y{0,3}\ny ::= . x+ |", `root ::= .*`, true},
	{"repeated repetition", "root ::= a+\na ::= \"x\"*", `root ::= "x"*`, false},
	{"nullable chain", "root ::= a*\na ::= b? b?\nb ::= c? c?\nc ::= d? d?\nd ::= e? e?\ne ::= \"x\" a | [ab] b? |", `root ::= [abx]*`, true},
	{"sums of sums", "root ::= e\ne ::= t (\"+\" e)*\nt ::= [0-9]+ | \"(\" e \")\"",
		"root ::= t (\"+\" t)*\nt ::= [0-9]+ | \"(\" t (\"+\" t)* \")\"", false},
	{"sums and products", "root ::= e\ne ::= t (\"+\" e)* (\"*\" e)*\nt ::= [0-9]+ | \"(\" e \")\"",
		"root ::= t ([+*] t)*\nt ::= [0-9]+ | \"(\" t ([+*] t)* \")\"", false},
	{"pairs", "root ::= s\ns ::= \"a\" s s | \"a\" s | \"a\"", `root ::= "a"+`, false},
	{"brackets", "root ::= p\np ::= \"(\" p* \")\" p*", "root ::= p+\np ::= \"(\" p* \")\"", false},
	{"lines", "root ::= line+\nline ::= ws [^\\n]* ws \"\\n\"?\nws ::= [ \\n\\t]*", `root ::= .*`, false},
}

// TestAmbiguousGrammars (T16): an ambiguous grammar has the masks of one without ambiguity, and
// takes a bounded amount of work: a token more than that ends with an error that says what to do.
func TestAmbiguousGrammars(t *testing.T) {
	//proves:T16 places are counted, no time measured
	const tokens = 100
	for _, c := range ambiguous {
		g, err := compileGBNF(newMeter(context.Background()), c.src)
		plain, err2 := compileGBNF(newMeter(context.Background()), c.plain)
		if err := errors.Join(err, err2); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for seed := range uint64(3) {
			r := rand.New(rand.NewPCG(seed, 1))
			m, p := g.Matcher(testTrie()), plain.Matcher(testTrie())
			got, want := make([]uint64, (m.t.vocab+63)/64), make([]uint64, (m.t.vocab+63)/64)
			for n := range tokens {
				before := m.looks
				m.Fill(got)
				p.Fill(want)
				if len(m.cur) > 2*several || len(m.rets) > 1<<12 {
					t.Fatalf("%s: %d places and %d returns after %d tokens", c.name, len(m.cur), len(m.rets), n)
				}
				if m.lost == nil && !slices.Equal(got, want) {
					t.Fatalf("%s: another mask than the plain grammar's after %d tokens", c.name, n)
				}
				id := int32(-1)
				for try := range int32(m.t.vocab) {
					if i := (try + r.Int32N(int32(m.t.vocab))) % int32(m.t.vocab); want[i>>6]>>(i&63)&1 == 1 && p.t.words[i] != nil {
						id = i
						break
					}
				}
				if id < 0 {
					break // one that ends the text may be all there is
				}
				if m.lost == nil && !m.Allowed(id) {
					t.Fatalf("%s: token %d is in the mask, and not allowed, after %d tokens", c.name, id, n)
				}
				err := m.Accept(id)
				if spent := before - m.looks; spent > maxLooks+maxPlaces {
					t.Fatalf("%s: token %d took %d", c.name, n, spent)
				}
				if err != nil {
					checkLost(t, m, err)
					if !c.hard {
						t.Errorf("%s: after %d tokens: %v", c.name, n, err)
					}
					break
				}
				if err := p.Accept(id); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if _, err := GBNF("root ::= e\ne ::= e? e? \"x\" |"); err == nil || !strings.Contains(err.Error(), "rule e is left-recursive") {
		t.Error(err)
	}
}

// checkLost: a matcher that has told err allows what does not end the text, and tells it again.
func checkLost(t *testing.T, m *Matcher, err error) {
	t.Helper()
	var own *Error
	if !errors.As(err, &own) || !strings.HasPrefix(own.Where, "rule ") || !strings.Contains(err.Error(), "too ambiguous") {
		t.Fatal(err)
	}
	bits := make([]uint64, (m.t.vocab+63)/64)
	m = m.Clone()
	for range 2 {
		m.Fill(bits)
		for id, w := range m.t.words {
			if got := bits[id>>6]>>(id&63)&1 == 1; got != (w != nil) || m.Allowed(int32(id)) != got || m.Accept(int32(id)) != err {
				t.Fatalf("token %d of a text that was given up", id)
			}
		}
	}
}

// TestWayOut: each of the limits on an ambiguous grammar ends a text with the same error.
func TestWayOut(t *testing.T) {
	g, err := compileGBNF(newMeter(context.Background()), ambiguous[0].src)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(m *Matcher) error{
		"Accept": func(m *Matcher) error { return m.Accept('a') },
		"Allowed": func(m *Matcher) error {
			if !m.Allowed('a') {
				return errors.New("not allowed")
			}
			return m.Accept('a')
		},
		"Fill": func(m *Matcher) error {
			m.Fill(make([]uint64, (m.t.vocab+63)/64))
			return m.Accept('a')
		},
	} {
		m := g.Matcher(NewTrie(testWords)) // without masks
		m.looks = -moreLooks
		if err := f(m); err != m.lost || m.lost == nil {
			t.Errorf("%s: %v", name, err)
		} else {
			checkLost(t, m, err)
		}
	}
}

// TestPlaces: the set of places is one, whatever its size, and clearing it costs nothing.
func TestPlaces(t *testing.T) {
	var p places
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{3, 24, 25, 26, 1000, 10, 30, 5000, 25} {
		p.clear()
		have := map[kernel]bool{}
		for range n {
			k := kernel{nil, r.Int32N(int32(n)), r.Int32N(3)}
			if p.add(k) == have[k] {
				t.Fatalf("%v among %d", k, len(have))
			}
			have[k] = true
		}
		if len(p.list) != len(have) {
			t.Fatalf("%d places, not %d", len(p.list), len(have))
		}
	}
}
