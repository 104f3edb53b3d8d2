package gotmpl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Property is a property of a tool's parameters, as Ollama's templates see it.
type Property struct {
	AnyOf       []Property  `json:"anyOf,omitempty"`
	Type        Type        `json:"type,omitempty"`
	Items       any         `json:"items,omitempty"`
	Description string      `json:"description,omitempty"`
	Enum        []any       `json:"enum,omitempty"`
	Properties  *Properties `json:"properties,omitempty"`
	Required    []string    `json:"required,omitempty"`
}

// typeScript is the property's type in TypeScript.
func (p Property) typeScript() string {
	var types []string
	for _, other := range p.AnyOf {
		types = append(types, other.typeScript())
	}
	if len(types) == 0 {
		for _, t := range p.Type {
			types = append(types, typeScript[t])
		}
	}
	for i, t := range types {
		if t == "" {
			types[i] = "any"
		}
	}
	if len(types) == 0 {
		return "any"
	}
	return strings.Join(types, " | ")
}

var typeScript = map[string]string{"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "array": "any[]",
	"object": "Record<string, any>", "null": "null"}

// Type is the type of a property: one or several.
type Type []string

// UnmarshalJSON reads a name, or a list of names.
func (t *Type) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = Type{one}
		return nil
	}
	var several []string
	err := json.Unmarshal(b, &several)
	*t = several
	return err
}

// MarshalJSON writes one as a name, several as a list.
func (t Type) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// String is what a template prints.
func (t Type) String() string {
	switch len(t) {
	case 0:
		return ""
	case 1:
		return t[0]
	}
	return fmt.Sprint([]string(t))
}

// Properties are those of an object, in their order. The zero Properties has none.
type Properties struct {
	names []string
	by    map[string]Property
}

// UnmarshalJSON reads an object. Of a name that comes twice the last counts, at the first one's
// place.
func (p *Properties) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	t, err := dec.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return errors.New("properties must be an object")
	}
	*p = Properties{by: map[string]Property{}}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var v Property
		if err := dec.Decode(&v); err != nil {
			return err
		}
		name, _ := key.(string)
		if _, again := p.by[name]; !again {
			p.names = append(p.names, name)
		}
		p.by[name] = v
	}
	return nil
}

// MarshalJSON writes them in their order.
func (p Properties) MarshalJSON() ([]byte, error) {
	if p.by == nil {
		return []byte("null"), nil
	}
	out := []byte{'{'}
	for i, name := range p.names {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		v, err := json.Marshal(p.by[name])
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), v...)
	}
	return append(out, '}'), nil
}
