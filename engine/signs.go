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

// picturesWhole is how many pixels the pictures of one prompt have together at the most, by their
// headers: sixteen of the largest that are read. It is what one request may make this machine
// decode, where the context has room for many pictures of few rows.
const picturesWhole = 16 * 40_000_000

// This file is how pictures stand in a prompt: a place for each of a picture's rows. A template
// that knows of pictures prints one token for each; where it does not, or leaves some out, they are
// written as the model's family does. Only what a template or a family wrote counts: a token that a
// user spelled is text.

// pictured are a request's pictures in the order of its messages.
func pictured(r *Request, isChat bool) (all [][]byte) {
	if !isChat {
		return r.Images
	}
	for _, msg := range r.Messages {
		all = append(all, msg.Images...)
	}
	return all
}

// rows is how many rows of a prompt a picture takes.
func (o *Options) rows() int {
	if o.Sees == nil {
		return 0
	}
	return o.Sees.Rows
}

// reached reports whether the model can read pictures where a prompt has them.
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

// unseeable is how many of a request's oldest messages must go because of their pictures alone,
// which have more rows than fit, or more pixels than are read for one prompt, or more bytes than
// may be on their way; rows is how many rows all its pictures have. It looks at nothing but
// headers, so that a conversation of very many pictures costs little more than its bytes. The error
// is that of a request which may not be cut, or of a last message that brings too much.
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
			if h, err := vision.Look(d, vision.Limits{}); err == nil { // what is none is told when it is read
				pixels += int64(h.Width) * int64(h.Height)
			}
		}
		fit += len(msg.Images)
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
		case fit*m.o.rows() >= most || !r.Truncate && rows >= most:
			return 0, rows, &ContextError{Have: max(rows, most+1), Max: most} // there is text, too: pictures that just fit are too many
		default:
			return 0, rows, fmt.Errorf("%w: a prompt's pictures may have %d megapixels together, and take %d MiB at %d KiB each: bring "+
				"fewer, or smaller ones", ErrRequest, picturesWhole/1_000_000, held>>20, bytes>>10)
		}
	}
	return 0, rows, nil
}

// starts are the messages before which a conversation may begin anew, from least on: any but the
// first, as in Ollama, and where it is about pictures those of a user, so that no answer stays
// whose picture went.
func (o *Options) starts(all []chat.Message, least int) (at []int) {
	about := o.Sees != nil && slices.ContainsFunc(all, func(msg chat.Message) bool { return len(msg.Images) > 0 })
	for i := max(1, least); i < len(all); i++ {
		if !about || all[i].Role == "user" || i == len(all)-1 {
			at = append(at, i)
		}
	}
	return at
}

// signed renders a request with pictures.
func (m *Model) signed(ctx context.Context, r *Request, isChat bool, pictures int) ([]chat.Piece, error) {
	v := m.o.Sees
	ps, err := m.rendered(ctx, r, isChat)
	if err != nil {
		return nil, err
	}
	if found, ps := places(ps, v); found == pictures {
		return ps, nil
	}
	// Pieces that stand where the marks are to be: nothing else can have written them.
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
		if own.Prompt = front.String() + r.Prompt; v.Last {
			own.Prompt = r.Prompt + front.String()
		}
	}
	for i := range own.Messages {
		if msg := &own.Messages[i]; isChat && len(msg.Images) > 0 {
			msg.Content, msg.Null, msg.Images, msg.Parts = content(msg, v.Last, sign), false, nil, nil
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

// content is a message's content with a sign in the place of each picture.
func content(msg *chat.Message, last bool, sign func(i, n int) string) string {
	parts := msg.Parts
	if parts == nil {
		parts = append(slices.Repeat([]chat.Part{{Image: true}}, len(msg.Images)), chat.Part{Text: msg.Content})
		if last {
			slices.Reverse(parts)
		}
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

// places finds the tokens that a template printed for pictures and puts what stands for all of a
// picture's rows there.
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

// unseen is a text without the places of pictures: a request that goes on from ids alone brings no
// pictures.
func (o *Options) unseen(ids []int32) []int32 {
	if o.Sees == nil {
		return ids
	}
	return slices.DeleteFunc(ids, func(id int32) bool { return id == o.Sees.Placeholder })
}
