package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer/chat"
	"github.com/axle-llm/axle/vision"
)

// picturesWhole limits the pixels of all pictures in one prompt, by their headers: sixteen of the
// largest pictures that are read. Without it, one request could make this machine decode many large
// pictures that take few rows each.
const picturesWhole = 16 * 40_000_000

// This file puts places for pictures into prompts, one place for each of a picture's rows. A
// template that knows pictures prints one token for each picture. If it does not, or leaves some
// out, the pictures are written as the model's family does. Only tokens that a template or a family
// wrote count: a token that a user spelled is text.

// pictured returns a request's pictures in the order of its messages.
func pictured(r *Request, isChat bool) (all [][]byte) {
	if !isChat {
		return r.Images
	}
	for _, msg := range r.Messages {
		all = append(all, msg.Images...)
	}
	return all
}

// rows returns how many rows of a prompt a picture takes.
func (o *Options) rows() int {
	if o.Sees == nil {
		return 0
	}
	return o.Sees.Rows
}

// reached reports whether the model can read pictures at their places in the prompt.
func (m *Model) reached(ids []int32) bool {
	b, ok := m.b.(interface{ reached(end int) bool })
	if !ok || m.o.Sees == nil {
		return true
	}
	for i := len(ids); i > 0; i-- {
		if ids[i-1] == m.o.Sees.Placeholder {
			return b.reached(i)
		}
	}
	return true
}

// unseeable returns how many of a request's oldest messages must be dropped because of their
// pictures: they have more rows than fit, more pixels than one prompt may have, or more bytes than
// may be in memory at once. rows is the number of rows of all pictures. It reads only headers, so a
// conversation of very many pictures costs little more than its bytes. It returns an error if the
// request may not be cut, or its last message brings too much.
func (m *Model) unseeable(r *Request, isChat bool, most int) (n, rows int, err error) {
	if m.o.Sees == nil {
		return 0, 0, nil
	}
	msgs := r.Messages
	if !isChat {
		msgs = []chat.Message{{Images: r.Images}}
	}
	pictures, fit, pixels, bytes, held := 0, 0, int64(0), onItsWay(m.o.Sees), budget.Get().Pictures
	add := func(msg *chat.Message) bool {
		for _, d := range msg.Images {
			if h, err := vision.Look(d, vision.Limits{}); err == nil { // reading the picture returns the error
				pixels += int64(h.Width) * int64(h.Height)
			}
		}
		fit += len(msg.Images)
		if m.o.Sees.Most > 0 && fit > m.o.Sees.Most {
			return false
		}
		//rule:T7 TestManyPictures fit*m.o.rows() < most && =>
		return len(msg.Images) == 0 || fit*m.o.rows() < most && pixels <= picturesWhole && (fit == 1 || int64(fit)*bytes <= held)
	}
	for i := range msgs {
		if pictures += len(msgs[i].Images); isChat && msgs[i].Role == "system" {
			add(&msgs[i])
		}
	}
	rows = pictures * m.o.rows()
	for i := len(msgs) - 1; i >= 0; i-- {
		if isChat && msgs[i].Role == "system" || add(&msgs[i]) {
			continue
		}
		switch last := i == len(msgs)-1; {
		case r.Truncate && !last:
			return i + 1, rows, nil
		case m.o.Sees.Most > 0 && fit > m.o.Sees.Most:
			return 0, rows, fmt.Errorf("%w: %s takes %d picture a request: ask about each in a request of its own", ErrRequest, m.info.Name,
				m.o.Sees.Most)
		case fit*m.o.rows() >= most || !r.Truncate && rows >= most:
			return 0, rows, &ContextError{Have: max(rows, most+1), Max: most} // text needs rows too: pictures that just fit are too many
		default:
			return 0, rows, fmt.Errorf("%w: a prompt's pictures may have %d megapixels together, and take %d MiB at %d KiB each: bring "+
				"fewer, or smaller ones", ErrRequest, picturesWhole/1_000_000, held>>20, bytes>>10)
		}
	}
	return 0, rows, nil
}

// starts returns the messages at which a shortened conversation may begin, not below least. As in
// Ollama, it may be any but the first. If the conversation has pictures, only a user's message may
// be, so that no answer remains without its picture.
func (o *Options) starts(all []chat.Message, least int) (at []int) {
	about := o.Sees != nil && slices.ContainsFunc(all, func(msg chat.Message) bool { return len(msg.Images) > 0 })
	for i := max(1, least); i < len(all); i++ {
		if !about || all[i].Role == "user" || i == len(all)-1 {
			at = append(at, i)
		}
	}
	return at
}

// signed renders a request with pictures, and marks their places.
func (m *Model) signed(ctx context.Context, r *Request, isChat bool, pictures int) ([]chat.Piece, error) {
	v := m.o.Sees
	ps, err := m.rendered(ctx, r, isChat)
	if err != nil {
		return nil, err
	}
	if found, ps := places(ps, v); found == pictures {
		return ps, nil
	}
	// Placeholders for the marks. The random nonce keeps anything else from writing one.
	nonce, marks := rand.Text(), []string(nil)
	sign := func(i, n int) string {
		marks = append(marks, v.Mark(i, n))
		return fmt.Sprintf("\uf8f0%s %d\uf8f1", nonce, len(marks)-1)
	}
	own := *r
	own.Images, own.Messages = nil, slices.Clone(r.Messages)
	if !isChat {
		var front strings.Builder
		for i := range r.Images {
			front.WriteString(sign(i, len(r.Images)))
		}
		own.Prompt = front.String() + r.Prompt
	}
	for i := range own.Messages {
		if msg := &own.Messages[i]; isChat && len(msg.Images) > 0 {
			msg.Content, msg.Null, msg.Images, msg.Parts = content(msg, v.Most > 0, sign), false, nil, nil
		}
	}
	if ps, err = m.rendered(ctx, &own, isChat); err != nil {
		return nil, err
	}
	var out []chat.Piece
	put := 0
	for _, p := range ps {
		for rest := p.Text; ; {
			at := strings.Index(rest, "\uf8f0"+nonce+" ")
			if at < 0 {
				if rest != "" {
					out = append(out, chat.Piece{Text: rest, Control: p.Control})
				}
				break
			}
			before, after := rest[:at], rest[at+len("\uf8f0"+nonce+" "):]
			number, after, _ := strings.Cut(after, "\uf8f1")
			var i int
			if _, err := fmt.Sscanf(number, "%d", &i); err != nil || i != put || i >= len(marks) {
				return nil, fmt.Errorf("%w: the chat template tells the pictures' places in another order", ErrRequest)
			}
			if before != "" {
				out = append(out, chat.Piece{Text: before, Control: p.Control})
			}
			out = append(out, chat.Piece{Text: marks[i], Control: true})
			put, rest = put+1, after
		}
	}
	if put != pictures {
		return nil, fmt.Errorf("%w: the chat template leaves out %d of %d pictures: put them into messages of the user", ErrRequest,
			pictures-put, pictures)
	}
	return out, nil
}

// content returns a message's content with a sign in the place of each picture: before the text
// where first is set, wherever the message has it.
func content(msg *chat.Message, first bool, sign func(i, n int) string) string {
	parts := msg.Parts
	if parts == nil || first {
		parts = append(slices.Repeat([]chat.Part{{Image: true}}, len(msg.Images)), chat.Part{Text: msg.Content})
	}
	var sb strings.Builder
	n := 0
	for _, p := range parts {
		if p.Image {
			sb.WriteString(sign(n, len(msg.Images)))
			n++
		} else {
			sb.WriteString(p.Text)
		}
	}
	return sb.String()
}

// places finds the tokens that a template printed for pictures, and replaces each with the places
// of all the picture's rows.
func places(ps []chat.Piece, v *models.Vision) (n int, out []chat.Piece) {
	for _, p := range ps {
		if p.Control {
			n += strings.Count(p.Text, v.Word)
			p.Text = strings.ReplaceAll(p.Text, v.Word, v.Inner)
		}
		out = append(out, p)
	}
	return n, out
}

// unseen returns the ids without the places of pictures: a request that continues from ids brings
// no pictures.
func (o *Options) unseen(ids []int32) []int32 {
	if o.Sees == nil {
		return ids
	}
	return slices.DeleteFunc(ids, func(id int32) bool { return id == o.Sees.Placeholder })
}
