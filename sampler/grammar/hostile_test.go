package grammar

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Schemas that are large, or small and mean: each compiles or is refused, and soon.
func TestHostileSchemas(t *testing.T) {
	list := func(n int, format string) string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(out, ",")
	}
	for name, c := range map[string]struct {
		schema string
		good   bool
	}{
		"subsets":            {`{"type":"string","pattern":"a.{14}$"}`, false},
		"more subsets":       {`{"type":"string","pattern":"(a|b)*a.{30}$"}`, false},
		"repeated repeats":   {`{"type":"string","pattern":"(a{0,900}b){0,900}"}`, false},
		"letters":            {`{"type":"string","pattern":"^[\\p{L}\\p{N}]{1,50}$"}`, true},
		"product":            {`{"type":"string","pattern":"^(?:[a-z]{1,100} ){1,9}$","maxLength":500}`, false},
		"200 properties":     {`{"type":"object","properties":{` + list(200, `"property_%d":{"type":"string","maxLength":100}`) + `}}`, true},
		"5000 names":         {`{"enum":[` + list(5000, `"value number %d"`) + `]}`, true},
		"a mebibyte":         {`{"enum":[` + list(40_000, `"value number %d"`) + `]}`, false},
		"many items":         {`{"type":"array","maxItems":1000000,"items":{"type":"integer"}}`, false},
		"many properties":    {`{"type":"object","maxProperties":1000000}`, false},
		"unions in a union":  {`{"anyOf":[{"type":"object","properties":{` + list(50, `"p%d":{"anyOf":[{"type":"string"},{"type":"null"},{"type":"integer"}]}`) + `}},{"type":"string"}]}`, true},
		"combinations":       {`{"allOf":[` + list(12, `{"anyOf":[{"required":["a%[1]d"]},{"required":["b%[1]d"]},{"required":["c%[1]d"]}]}`) + `]}`, false},
		"endless string":     {`{"type":"string","minLength":1000000,"maxLength":2000000000}`, true},
		"large bounds":       {`{"minimum":-1e300,"maximum":1e308}`, true},
		"fine step":          {`{"type":"number","multipleOf":0.0000000001}`, true},
		"self":               {`{"$ref":"#"}`, true},
		"selves":             {`{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, false},
		"cubes":              {`{"$defs":{` + list(40, `"d%d":{"type":"array","prefixItems":[{"$ref":"#/$defs/d0"},{"$ref":"#/$defs/d1"}],"minItems":0}`) + `},"$ref":"#/$defs/d0"}`, true},
		"oneOf of itself":    {`{"oneOf":[{"type":"null"},{"type":"array","items":{"$ref":"#"}}]}`, true},
		"mutual oneOf":       {`{"oneOf":[{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]},{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]}]}`, true},
		"deep enum":          {`{"const":` + strings.Repeat("[", 150) + strings.Repeat("]", 150) + `}`, true},
		"patterns of names":  {`{"type":"object","patternProperties":{"a.b":{},"b.{5}c":{"type":"null"},"^x.*y$":{"type":"string"},"d{3,9}":{}},"additionalProperties":false}`, false},
		"too many of them":   {`{"type":"object","patternProperties":{"a":{},"b":{},"c":{},"d":{},"e":{}}}`, false},
		"all formats at all": {`{"type":"object","properties":{"a":{"format":"uri"},"b":{"format":"email"},"c":{"format":"ipv6"},"d":{"format":"hostname"},"e":{"format":"uri-reference"}}}`, true},
	} {
		start := time.Now()
		_, err := Schema([]byte(c.schema))
		if d := time.Since(start); d > 5*time.Second { // a tenth of it alone on a machine, without the race detector
			t.Errorf("%s: took %v", name, d)
		}
		if testing.Verbose() {
			t.Logf("%s: %v", name, time.Since(start))
		}
		var own *Error
		if (err == nil) != c.good || err != nil && !errors.As(err, &own) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
