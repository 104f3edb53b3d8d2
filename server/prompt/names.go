package prompt

import (
	"strings"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/server/body"
)

// Ref is a model as a request names it.
type Ref struct {
	Name  models.Name // what it means
	Cloud bool        // it names a model in Ollama's cloud
}

// ParseRef reads a request's model name. required is what an empty name answers with, invalid what
// one that is no name does.
func ParseRef(s string, required, invalid error) (Ref, error) {
	var r Ref
	s = strings.TrimSpace(s)
	if s == "" {
		return r, required
	}
	base, cloud, explicit := cutSource(s)
	if explicit {
		if _, _, again := cutSource(base); again {
			return r, body.Fail(400, "use either :local or :cloud, not both: %q", s)
		}
	}
	name, err := models.ParseName(base)
	if err != nil {
		return r, invalid
	}
	r.Name, r.Cloud = name, cloud
	return r, nil
}

// cutSource takes :local, :cloud or the -cloud of a tag off a name.
func cutSource(s string) (base string, cloud, explicit bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return s, false, false
	}
	tag := strings.TrimSpace(s[i+1:])
	switch low := strings.ToLower(tag); {
	case low == "cloud":
		return s[:i], true, true
	case low == "local":
		return s[:i], false, true
	case strings.HasSuffix(low, "-cloud") && !strings.Contains(low, "/"):
		return s[:i+1] + tag[:len(tag)-len("-cloud")], true, true
	}
	return s, false, false
}

// What a request is told that names no model, one in Ollama's cloud, or one that is not here. For
// the last there are two texts: each route has one of them.
var (
	ErrUnnamed = body.Fail(400, "model is required")
	ErrCloud   = body.Fail(403, "ollama cloud is disabled: remote model is unavailable")
)

const (
	Missing     = "model '%s' not found"
	MissingPull = "model %q not found, try pulling it first"
)

// ErrMissing is what a route says of a model that is not there.
func ErrMissing(format, asked string) error { return body.Fail(404, format, asked) }
