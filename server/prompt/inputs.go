package prompt

import "github.com/axle-llm/axle/server/body"

// Inputs reads the input of an embedding request: a text or a list of texts.
func Inputs(v any) ([]string, error) {
	switch t := v.(type) {
	case nil:
		return nil, nil
	case string:
		if t == "" {
			return nil, nil
		}
		return []string{t}, nil
	case []any:
		out := make([]string, len(t))
		for i, x := range t {
			text, ok := x.(string)
			if !ok {
				return nil, body.Fail(400, "invalid input type")
			}
			out[i] = text
		}
		return out, nil
	}
	return nil, body.Fail(400, "invalid input type")
}
