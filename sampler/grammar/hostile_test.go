package grammar

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
)

// Schemas that are large, or small and mean: each compiles or is refused, and soon.
func TestHostileSchemas(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	for name, c := range hostile {
		var err error
		d := fuzzguard.Busy(func() { _, err = Schema([]byte(c.schema)) })
		if d > 20*time.Second {
			// most take a millisecond, none alone on a machine half a second; what this guards
			// against took minutes
			t.Errorf("%s: took %v", name, d)
		}
		if testing.Verbose() {
			t.Logf("%s: %v", name, d)
		}
		var own *Error
		if (err == nil) != c.good || err != nil && !errors.As(err, &own) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type hostileSchema struct {
	schema string
	good   bool
}

// hostile are schemas that are large, or small and mean.
var hostile = func() map[string]hostileSchema {
	list := func(n int, format string) string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(out, ",")
	}
	return map[string]hostileSchema{
		"subsets":          {`{"type":"string","pattern":"a.{14}$"}`, false},
		"more subsets":     {`{"type":"string","pattern":"(a|b)*a.{30}$"}`, false},
		"repeated repeats": {`{"type":"string","pattern":"(a{0,900}b){0,900}"}`, false},
		"letters":          {`{"type":"string","pattern":"^[\\p{L}\\p{N}]{1,50}$"}`, true},
		"product":          {`{"type":"string","pattern":"^(?:[a-z]{1,100} ){1,9}$","maxLength":500}`, false},
		"200 properties": {`{"type":"object","properties":{` + list(200, `"property_%d":{"type":"string","maxLength":100}`) + `}}`,
			true},
		"5000 names":      {`{"enum":[` + list(5000, `"value number %d"`) + `]}`, true},
		"a mebibyte":      {`{"enum":[` + list(40_000, `"value number %d"`) + `]}`, false},
		"many items":      {`{"type":"array","maxItems":1000000,"items":{"type":"integer"}}`, false},
		"many properties": {`{"type":"object","maxProperties":1000000}`, false},
		"unions in a union": {`{"anyOf":[{"type":"object","properties":{` +
			list(50, `"p%d":{"anyOf":[{"type":"string"},{"type":"null"},{"type":"integer"}]}`) + `}},{"type":"string"}]}`, true},
		"combinations": {`{"allOf":[` +
			list(12, `{"anyOf":[{"required":["a%[1]d"]},{"required":["b%[1]d"]},{"required":["c%[1]d"]}]}`) + `]}`, false},
		"endless string": {`{"type":"string","minLength":1000000,"maxLength":2000000000}`, true},
		"large bounds":   {`{"minimum":-1e300,"maximum":1e308}`, true},
		"fine step":      {`{"type":"number","multipleOf":0.0000000001}`, true},
		"self":           {`{"$ref":"#"}`, true},
		"selves": {`{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`,
			false},
		"cubes": {`{"$defs":{` +
			list(40, `"d%d":{"type":"array","prefixItems":[{"$ref":"#/$defs/d0"},{"$ref":"#/$defs/d1"}],"minItems":0}`) +
			`},"$ref":"#/$defs/d0"}`, true},
		"oneOf of itself": {`{"oneOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"}}]}`, true},
		"mutual oneOf": {`{"oneOf":[{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]},{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]}]}`,
			true},
		"deep enum": {`{"const":` + strings.Repeat("[", 150) + strings.Repeat("]", 150) + `}`, true},
		"patterns of names": {`{"type":"object","patternProperties":{"a.b":{},"b.{5}c":{"type":"null"},"^x.*y$":{"type":"string"},"d{3,9}":{}},"additionalProperties":false}`,
			false},
		"too many of them": {`{"type":"object","patternProperties":{"a":{},"b":{},"c":{},"d":{},"e":{}}}`, false},
		"all formats at all": {`{"type":"object","properties":{"a":{"format":"uri"},"b":{"format":"email"},"c":{"format":"ipv6"},"d":{"format":"hostname"},"e":{"format":"uri-reference"}}}`,
			true},
	}
}()

// A mebibyte of schema or grammar, or what is just allowed, takes at most 64 MiB (promise G5): each
// compiles or is refused. The pattern of a test that fails here is in its name.
func TestHostilePeak(t *testing.T) {
	//proves:G5 a mebibyte of hostile bytes each
	lane.Slow(t)
	lane.NoRace(t)
	const most = 1<<20 - 400
	list := func(pre, format, post string, n int) string {
		var b strings.Builder
		b.WriteString(pre)
		for i := 0; b.Len() < most-len(post)-100 && (n == 0 || i < n); i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			if strings.Contains(format, "%") {
				fmt.Fprintf(&b, format, i)
			} else {
				b.WriteString(format)
			}
		}
		return b.String() + post
	}
	fill := func(pre, unit, post string) string {
		return pre + strings.Repeat(unit, (most-len(pre)-len(post))/len(unit)) + post
	}
	schema := func(s string) error {
		_, err := Schema([]byte(s))
		_, loose := SchemaWith([]byte(s), Options{})
		return errors.Join(err, loose)
	}
	gbnf := func(s string) error { _, err := GBNF(s); return err }
	type text struct {
		name    string
		compile func(string) error
		text    string
	}
	all := []text{
		{"const long", schema, fill(`{"const":"`, `a`, `"}`)}, {"pattern long", schema, fill(`{"pattern":"`, `[a-z]`, `"}`)},
		{"digits", schema, fill(`{"minimum":1`, "0", `}`)}, {"same keys", schema, fill(`{"p":0`, `,"p":0`, `}`)},
		{"gbnf literal", gbnf, fill(`root ::= "`, `b`, "\"\n")}, {"gbnf alternatives", gbnf, fill(`root ::= "a"`, ` | "a"`, "\n")},
		{"gbnf sequence", gbnf, fill(`root ::= "a"`, ` "b"`, "\n")},
		{"gbnf repeats", gbnf, fill(`root ::= "a"{1,1999}`, ` "b"{1,1999}`, "\n")},
		{"gbnf rules", gbnf, "root ::= \"a\"\n" + strings.ReplaceAll(list("", "r%d ::= root\n", "", 0), "\n,", "\n")},
		{"just: lists in lists", schema, list(`{"uniqueItems":true,"enum":[[`, `%d`, `]]}`, maxEntries)},
		{"just: enum in enum", schema, `{"allOf":[` + list(`{"enum":[`, `%d.5`, `]}`, maxEntries) + list(`],"enum":[`, `%d.5`, `]}`,
			maxEntries)},
		{"just: names in names", schema, list(`{"required":[`, `"p%d"`, `],`, maxEntries) + list(`"enum":[{`, `"p%d":1`, `}]}`,
			maxEntries)},
		{"just: chain", schema, list(`{"$ref":"#/$defs/p0","$defs":{`, `"p%[1]d":{"allOf":[{"$ref":"#/$defs/p0"},{"maxLength":%[1]d}]}`,
			`}}`, maxEntries)},
	}
	for _, n := range []int{0, maxEntries} { // as many as a mebibyte holds, and as many as are allowed
		for _, f := range []string{`{"enum":[|%d|]}`, `{"enum":[|"v%d"|]}`, `{"enum":[|{"a":%d}|]}`,
			`{"enum":[|"` + strings.Repeat("x", 110) + `%d"|]}`, `{"const":[|0|]}`,
			`{"type":"object","properties":{|"p%d":{"type":"string"}|}}`, `{"required":[|"p%d"|]}`, `{"anyOf":[|{"const":%d}|]}`,
			`{"oneOf":[|{"const":%d}|]}`,
			`{"allOf":[|{"maxLength":%d}|]}`, `{"prefixItems":[|{"const":%d}|]}`, `{"patternProperties":{|"p%d":{}|}}`,
			`{"type":"object","dependentRequired":{|"p%d":["a"]|}}`,
			`{"not":{"enum":[|%d|]}}`, `{"$defs":{|"p%d":{"$id":"http://a/%[1]d"}|}}`, `{"x":[|0|]}`, `{"type":[|"string"|]}`} {
			p := strings.Split(f, "|")
			all = append(all, text{fmt.Sprintf("%d of %.40s", n, f), schema, list(p[0], p[1], p[2], n)})
		}
	}
	old := debug.SetGCPercent(25) // so that what is held is looked at each time it has grown by a quarter
	defer debug.SetGCPercent(old)
	for _, h := range all {
		if len(h.text) > 1<<20 {
			t.Fatalf("%s: %d bytes", h.name, len(h.text))
		}
		// What is allocated while the collector works counts as held: on a busy machine that is
		// more. The least of three is looked at.
		const limit = 64 << 20 / 5 * 4
		var took time.Duration
		least, err := uint64(math.MaxUint64), error(nil)
		for try := 0; try < 3 && least > limit; try++ {
			var n uint64
			n, err = peak(func() (err error) {
				took = fuzzguard.Busy(func() { err = h.compile(h.text + strings.Repeat("\n", try)) }) // none that is kept already
				return err
			})
			least = min(least, n)
		}
		var own *Error
		if least > limit || took > 20*time.Second || err != nil && !errors.As(err, &own) {
			// most take a tenth of a second, all less than one; above what is held a quarter of it
			// is garbage
			t.Errorf("%s: %d MiB, %v: %.200v", h.name, least>>20, took, err)
		}
	}
}

// peak is how much more was held at most while f ran, when the heap was collected. What is garbage
// is left out: how much of that there is depends on when the collector gets a processor.
func peak(f func() error) (most uint64, err error) {
	look := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	runtime.GC()
	base := look()
	done := make(chan error)
	go func() { done <- f() }()
	for {
		select {
		case err = <-done:
			return most, err
		case <-time.After(200 * time.Microsecond):
			if now := look(); now > base {
				most = max(most, now-base)
			}
		}
	}
}
