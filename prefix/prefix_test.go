package prefix

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestNames: names as they were first given, which files on disk have.
func TestNames(t *testing.T) {
	c := New([]byte("secret"), 4, []string{"axlerow1", "sha256-0123", "axcl", "ann"}, 24)
	ids := []int32{1, 2, 3, 70_000, -1, 6, 7, 8, 9}
	names := c.Blocks(ids, nil)
	state := c.End("axlesta1", 10, names[1], ids)
	if got, want := fmt.Sprintln(names[0], names[1], state), `6031d05a71eb452b1265af4c4a7511d5a08687a2703644607cf895a6dc90b2d7 44c1a2ecde26f9b549808c8c83c08847d7b2295c16fbd7fa5f44071c3cfc48c2 b69970c8ae29e3b5fafddde19faee70e4e5f264a635810328cdef443a5f485e7
`; len(names) != 2 || got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestByHand: names are what the package comment and the folder's format say, written once more.
func TestByHand(t *testing.T) {
	sum := func(parts ...any) (n Name) {
		var b bytes.Buffer
		for _, p := range parts {
			switch p := p.(type) {
			case string:
				b.WriteString(p)
			case Name:
				b.Write(p[:])
			default:
				_ = binary.Write(&b, binary.LittleEndian, p)
			}
		}
		h := hmac.New(sha256.New, []byte("s"))
		_, _ = h.Write(b.Bytes())
		h.Sum(n[:0])
		return n
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		block, ids := 1+rng.IntN(80), make([]int32, rng.IntN(300))
		for i := range ids {
			ids[i] = int32(rng.Uint32())
		}
		c := New([]byte("s"), block, []string{"a", "", "bcd"}, 7)
		before := sum(uint64(1), "a", uint64(0), uint64(3), "bcd", uint64(block), uint64(7))
		names := c.Blocks(ids, nil)
		if len(names) != len(ids)/block || c.block != block {
			t.Fatalf("%d names of %d tokens in blocks of %d", len(names), len(ids), block)
		}
		var last *Name
		for k, n := range names {
			if next := c.Next(last, ids[k*block:(k+1)*block]); next != n {
				t.Fatalf("block %d of %d tokens each, by itself: %v, want %v", k, block, next, n)
			}
			last = &n
			if before = sum(before, ids[k*block:(k+1)*block]); n != before {
				t.Fatalf("block %d of %d tokens each: %v, want %v", k, block, n, before)
			}
		}
		rest := ids[len(names)*block:]
		if got, want := c.End("kind", 5, before, ids), sum("kind", uint64(5), uint64(len(rest)), before, rest); got != want {
			t.Fatalf("behind %d tokens: %v, want %v", len(ids), got, want)
		}
	}
}

// TestApart: texts have names in common exactly as far as they begin alike, and only those of one
// owner.
func TestApart(t *testing.T) {
	ids := make([]int32, 5*Local)
	for i := range ids {
		ids[i] = int32(i)
	}
	chain := func(words ...string) *Chain { return New([]byte("s"), Local, words, 1, 2) }
	names := chain("a", "b").Blocks(ids, nil)
	common := func(other []Name) (n int) {
		for n < min(len(names), len(other)) && names[n] == other[n] {
			n++
		}
		for _, o := range other[n:] {
			if slices.Contains(names, o) {
				t.Error("a name after the first that differs is known")
			}
		}
		return n
	}
	for i := range ids {
		fork := slices.Clone(ids)
		fork[i]++
		if n := common(chain("a", "b").Blocks(fork, nil)); n != i/Local {
			t.Errorf("texts that differ in token %d have %d blocks in common", i, n)
		}
	}
	for _, n := range []int{0, 1, Local - 1, Local, Local + 1, 5 * Local} {
		if got := common(chain("a", "b").Blocks(ids[:n], nil)); got != n/Local {
			t.Errorf("of %d tokens %d blocks are known", n, got)
		}
	}
	if n := common(chain("a", "b").Blocks(ids[1:], nil)); n != 0 {
		t.Errorf("a text that begins later has %d names in common", n)
	}
	for name, c := range map[string]*Chain{
		"a border that moved":    chain("ab", ""),
		"another order":          chain("b", "a"),
		"one word more":          chain("a", "b", ""),
		"another size":           New([]byte("s"), Local, []string{"a", "b"}, 1, 3),
		"one size less":          New([]byte("s"), Local, []string{"a", "b"}, 1),
		"another secret":         New([]byte("t"), Local, []string{"a", "b"}, 1, 2),
		"no secret":              New(nil, Local, []string{"a", "b"}, 1, 2),
		"another number of them": New([]byte("s"), Local+1, []string{"a", "b"}, 1, 2),
	} {
		if n := common(c.Blocks(ids, nil)); n != 0 {
			t.Errorf("%s: %d names in common", name, n)
		}
	}
	c := chain("a", "b")
	ends := []Name{c.End("k", 1, names[4], ids), c.End("l", 1, names[4], ids), c.End("k", 2, names[4], ids),
		c.End("k", 1, names[3], ids[:79]), c.End("k", 1, names[3], ids[:64]), c.End("k", 1, Name{}, nil), c.End("k", 1, Name{}, ids[:1]),
		names[4], names[3]}
	for i, n := range ends {
		if slices.Contains(ends[:i], n) {
			t.Errorf("name %d is another's too", i)
		}
	}
}

// TestBeside: what tokens stand for counts from its place on, whatever the tokens are; nothing and
// no bytes are two things.
func TestBeside(t *testing.T) {
	ids := make([]int32, 4*Local)
	c := New(nil, Local, nil)
	things := func(at map[int]string) func(int) []byte {
		return func(i int) []byte {
			if s, ok := at[i]; ok {
				return []byte(s)
			}
			return nil
		}
	}
	seen := map[string]string{}
	for name, f := range map[string]func(int) []byte{
		"none": nil, "one": things(map[int]string{20: "cat"}), "another": things(map[int]string{20: "dog"}),
		"later": things(map[int]string{21: "cat"}), "two": things(map[int]string{20: "cat", 21: "dog"}),
		"together": things(map[int]string{20: "catdog"}), "empty": things(map[int]string{20: ""}),
	} {
		names := c.Blocks(ids, f)
		if names[0] != c.Blocks(ids, nil)[0] {
			t.Errorf("%s: the block before it has another name", name)
		}
		if other, ok := seen[names[1].String()]; ok {
			t.Errorf("%s and %s have one name", name, other)
		}
		seen[names[1].String()] = name
	}
	if !slices.Equal(c.Blocks(ids, nil), c.Blocks(ids, things(nil))) {
		t.Error("nothing beside gives other names than no function")
	}
}

func BenchmarkBlocks(b *testing.B) {
	ids := make([]int32, 8192)
	for _, block := range []int{Local, Shared} {
		b.Run(fmt.Sprint(block), func(b *testing.B) {
			c := New([]byte("secret"), block, nil)
			for b.Loop() {
				c.Blocks(ids, nil)
			}
		})
	}
}
