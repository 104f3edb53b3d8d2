package ollama

import (
	"strings"

	"github.com/axle-llm/axle/tokenizer/chat"
)

// Listed is a message's content as a dialect's body lists it: texts and pictures in turn.
type Listed struct {
	Role  string // of the message that it became
	Parts []chat.Part
}

// Ordered notes the order of contents that came as lists with pictures in them: the native form
// keeps the texts of a message and its pictures apart. lists are in the messages' order; one that
// the conversion joined to another message, or left out, is passed over. Texts that the conversion
// joined have join between them.
func (r *ChatRequest) Ordered(lists []Listed, join string) {
	at := 0
	for _, l := range lists {
		var texts []string
		pictures := 0
		for _, p := range l.Parts {
			switch {
			case p.Image:
				pictures++
			case p.Text != "":
				texts = append(texts, p.Text)
			}
		}
		if pictures == 0 {
			continue
		}
		whole := strings.Join(texts, join)
		for i := at; i < len(r.Messages); i++ {
			if m := r.Messages[i]; strings.EqualFold(m.Role, l.Role) && len(m.Images) == pictures && m.Content == whole {
				if r.parts == nil {
					r.parts = make([][]chat.Part, len(r.Messages))
				}
				r.parts[i], at = l.Parts, i+1
				break
			}
		}
	}
}

// partsOf is the order of a message's content; nil where the body told none.
func (r *ChatRequest) partsOf(i int) []chat.Part {
	if i < len(r.parts) {
		return r.parts[i]
	}
	return nil
}
