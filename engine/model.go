package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/sampler/grammar"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Options says what a [Model] adds to its backend. The zero Options makes a model that completes
// bare text.
type Options struct {
	Name       string             // the model's name in errors
	Template   chat.Template      // nil: messages are joined plainly and nothing is parsed
	Vocabulary grammar.Vocabulary // formats are compiled for it; nil: formats are checked, but not enforced
	Stop       []string           // stop strings of every request, in addition to its own
	Sees       *models.Vision     // how prompts contain pictures; nil: the backend gets them as they are
	Prompts    models.Prompts     // what stands before texts that become vectors
	Adapter    string             // the LoRA adapter that it computes with; empty: none. See [Adapted]
	Sizes      []int              // that vectors may be cut to; nil: any
}

// Model answers requests: it takes conversations and returns events. [Open], [OpenPackage] and
// [New] return one; the zero Model is not usable. It is safe for concurrent use. Close closes its
// backend.
type Model struct {
	b    Backend
	o    Options
	info Info
	trie func() *grammar.Trie
}

// New makes a model that owns the backend b from then on.
func New(b Backend, o Options) *Model {
	m := &Model{b: b, o: o, info: b.Info()}
	if o.Name != "" {
		m.info.Name = o.Name
	}
	if names := o.Prompts.Names(); names != nil {
		m.info.Prompts = names
	}
	if o.Template != nil {
		m.info.Capabilities = o.Template.Capabilities()
	}
	m.info.Capabilities.Vision = m.info.Capabilities.Vision || o.Sees != nil
	m.trie = sync.OnceValue(func() *grammar.Trie {
		if o.Vocabulary == nil {
			return nil
		}
		return grammar.NewTrie(o.Vocabulary)
	})
	return m
}

// Info describes the model.
func (m *Model) Info() Info { return m.info }

// Stats returns the backend's current figures.
func (m *Model) Stats() Stats { return m.b.Stats() }

// Sampling returns the sampling that requests start from: the model's defaults over Ollama's.
func (m *Model) Sampling() sampler.Params { return m.b.Sampling() }

// Template returns the model's own template, or nil.
func (m *Model) Template() chat.Template { return m.o.Template }

// Close ends running answers with ErrClosed and frees the card's memory. A second Close returns
// ErrClosed.
func (m *Model) Close() error { return m.b.Close() }

// Tokenize returns text's ids as part of a prompt. No part of it becomes a control token.
func (m *Model) Tokenize(text string) ([]int32, error) {
	return m.b.Encode(context.Background(), []chat.Piece{{Text: text}}, false)
}

// Detokenize is the reverse of Tokenize.
func (m *Model) Detokenize(ids []int32) string { return m.b.Text(ids) }

// Chat answers a conversation. An error is the sequence's last pair: *ContextError, ErrBusy,
// ErrDraining, ErrClosed, ErrRequest, ErrUnsupported, a device's (axcl), a template's, or ctx's.
// Leaving the loop cancels the answer.
func (m *Model) Chat(ctx context.Context, r Request) iter.Seq2[Event, error] {
	return m.answer(ctx, &r, true)
}

// Generate answers a bare prompt: see [Request]. Errors: as Chat.
func (m *Model) Generate(ctx context.Context, r Request) iter.Seq2[Event, error] {
	return m.answer(ctx, &r, false)
}

// Tokens returns the ids of the request's prompt, as Chat reads a request with Messages and
// Generate any other. With Truncate they are cut to NumCtx as an answer's would be, otherwise they
// are whole, however many. A picture has a placeholder for each of its rows. Errors: a template's,
// *ContextError, ErrRequest, ErrBusy, ctx's.
func (m *Model) Tokens(ctx context.Context, r Request) (ids []int32, err error) {
	isChat := len(r.Messages) > 0
	if r.NumCtx <= 0 || r.NumCtx > m.info.Context {
		r.NumCtx = m.info.Context
	}
	err = inTurn(ctx, &r, prompting(), func() error {
		if r.Truncate {
			ids, _, _, err = m.prompt(ctx, &r, isChat, &Cut{})
		} else {
			ids, _, err = m.encode(ctx, &r, m.pieces(ctx, &r, isChat))
		}
		return err
	})
	return ids, err
}

// Render returns the request's prompt as text.
func (m *Model) Render(ctx context.Context, r Request) (string, error) {
	pieces, err := m.pieces(ctx, &r, len(r.Messages) > 0)()
	if err != nil {
		return "", err
	}
	return join(pieces), nil
}

func join(pieces []chat.Piece) string {
	var sb strings.Builder
	for _, p := range pieces {
		sb.WriteString(p.Text)
	}
	return sb.String()
}

func (m *Model) template(r *Request) chat.Template {
	if r.Template.Text == "" {
		return m.o.Template
	}
	t, err := templates.compile(r.Template)
	if err != nil {
		return nil // the request was already refused for this
	}
	return t
}

// pieces returns the function that renders the request, so that truncation can render it again with
// fewer messages.
func (m *Model) pieces(ctx context.Context, r *Request, isChat bool) func() ([]chat.Piece, error) {
	return func() (ps []chat.Piece, err error) {
		if _, err := templates.compile(r.Template); err != nil {
			return nil, err
		}
		defer func() {
			switch {
			case errors.Is(err, chat.ErrBudget):
				err = fmt.Errorf("%w: %w", ErrRequest, err)
			case errors.Is(err, chat.ErrRoom):
				err = fmt.Errorf("%w: %w", ErrBusy, err)
			}
		}()
		if n := len(pictured(r, isChat)); n > 0 && m.o.Sees != nil {
			return m.signed(ctx, r, isChat, n)
		}
		return m.rendered(ctx, r, isChat)
	}
}

// rendered renders the request with the template.
func (m *Model) rendered(ctx context.Context, r *Request, isChat bool) (ps []chat.Piece, err error) {
	t := m.template(r)
	switch {
	case !isChat && r.Raw:
		return []chat.Piece{{Text: r.Prompt, Control: true}}, nil
	case t == nil && isChat:
		for _, msg := range r.Messages {
			ps = append(ps, chat.Piece{Text: msg.Content + "\n"})
		}
		return ps, nil
	case t == nil:
		return []chat.Piece{{Text: r.System}, {Text: r.Prompt}}, nil
	case !isChat:
		return t.Generate(ctx, r.System, r.Prompt, r.Suffix, m.think(r))
	}
	tools := r.Tools
	if r.ToolChoice == "none" {
		tools = nil
	}
	return t.Render(ctx, chat.Conversation{Messages: r.Messages, Tools: tools, Think: m.think(r), Continue: r.Continue,
		Kwargs: r.Kwargs})
}

// think returns the request's setting, with the model's default for the zero value: what its
// package or its makers say, else on if the model can think.
func (m *Model) think(r *Request) chat.Think {
	t := m.template(r)
	if r.Think == chat.ThinkDefault && t != nil && t.Capabilities().Thinking {
		return cmp.Or(m.info.Think, chat.ThinkOn)
	}
	return r.Think
}

func (m *Model) encode(ctx context.Context, r *Request, render func() ([]chat.Piece, error)) ([]int32, []chat.Piece, error) {
	pieces, err := render()
	if err != nil {
		return nil, nil, err
	}
	ids, err := m.b.Encode(ctx, pieces, len(r.Context) == 0)
	return slices.Concat(r.Context, ids), pieces, err
}

// prompt renders and encodes the request, and makes it fit as Ollama does. The oldest messages are
// dropped first; system messages and the last message stay. If the rest is still too long, it loses
// its middle, unless it has pictures, which cannot be cut. Conversations about pictures lose whole
// turns. Turns whose pictures cannot fit are dropped before anything is rendered. cut says what was
// cut, if anything. images are the remaining pictures.
func (m *Model) prompt(ctx context.Context, r *Request, isChat bool, cut *Cut) (
	ids []int32, pieces []chat.Piece, images [][]byte, err error,
) {
	images = pictured(r, isChat)
	most, had := r.NumCtx, 0
	defer func() {
		//rule:T3 ./server TestCutIsTold false
		if err == nil && len(ids) < had {
			*cut = Cut{Limit: most, Prompt: had, Kept: len(ids)}
		}
	}()
	least, rows, err := m.unseeable(r, isChat, most)
	if err != nil {
		return nil, nil, nil, err
	}
	if least == 0 {
		if ids, pieces, err = m.encode(ctx, r, m.pieces(ctx, r, isChat)); err != nil || len(ids) < most && m.reached(ids) {
			return ids, pieces, images, err
		}
		had = len(ids)
		switch {
		case had < most && !r.Truncate: // reading the pictures returns the error
			return ids, pieces, images, nil
		case !r.Truncate:
			return nil, nil, nil, &ContextError{Have: had, Max: most}
		}
	}
	if isChat && len(r.Messages) > 1 {
		all := r.Messages
		short := *r
		var rest []int32
		var cutPieces []chat.Piece
		var cutImages [][]byte
		starts := m.o.starts(all, least)
		// The first start that fits. The length is monotone enough for a binary search.
		sort.Search(len(starts), func(i int) bool {
			short.Messages = dropOldest(all, starts[i])
			tryIDs, tryPieces, e := m.encode(ctx, &short, m.pieces(ctx, &short, true))
			if e != nil {
				err = e
				return false
			}
			ids, pieces = tryIDs, tryPieces
			if images = pictured(&short, true); len(tryIDs) < most && m.reached(tryIDs) {
				rest, cutPieces, cutImages = tryIDs, tryPieces, images
				return true
			}
			return false
		})
		if rest != nil {
			had = max(had, len(rest)+rows-len(cutImages)*m.o.rows())
			return rest, cutPieces, cutImages, nil
		}
		short.Messages = dropOldest(all, len(all)-1)
		if ids, pieces, err = m.encode(ctx, &short, m.pieces(ctx, &short, true)); err != nil {
			return nil, nil, nil, err
		}
		images = pictured(&short, true)
	}
	if len(ids) < most {
		return ids, pieces, images, nil
	}
	if !r.Shift || len(images) > 0 && m.o.Sees != nil {
		return nil, nil, nil, &ContextError{Have: len(ids), Max: most}
	}
	if rest := cutMiddle(ids, most, r.NumKeep); len(rest) > 0 {
		return rest, pieces, images, nil
	}
	return nil, nil, nil, &ContextError{Have: len(ids), Max: most}
}

// dropOldest leaves out those of the first n messages that are not system messages.
func dropOldest(all []chat.Message, n int) []chat.Message {
	out := make([]chat.Message, 0, len(all))
	for i, msg := range all {
		if i >= n || msg.Role == "system" {
			out = append(out, msg)
		}
	}
	return out
}

// cutMiddle keeps the first keep ids and the end, together ctx − max((ctx−keep)/2, 1) ids.
func cutMiddle(ids []int32, ctx, keep int) []int32 {
	keep = max(0, min(keep, ctx-1))
	total := ctx - max((ctx-keep)/2, 1)
	if len(ids) <= total {
		return ids
	}
	return append(append(make([]int32, 0, total), ids[:keep]...), ids[len(ids)-(total-keep):]...)
}

// fillIn sets the request's defaults, and refuses what the model cannot answer.
func fillIn(r *Request, isChat bool, info Info, usual sampler.Params) error {
	if info.Embedding {
		return fmt.Errorf("%w: %s gives embeddings, no text", ErrUnsupported, info.Name)
	}
	if reflect.ValueOf(&r.Sampling).Elem().IsZero() {
		r.Sampling = usual
	}
	if err := r.Sampling.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if r.NumCtx <= 0 || r.NumCtx > info.Context {
		r.NumCtx = info.Context
	}
	if isChat && len(r.Messages) == 0 {
		return fmt.Errorf("%w: there is no message; a bare prompt is for Generate", ErrRequest)
	}
	return nil
}

// asked is a request in the backend's form. It can be answered more than once.
type asked struct {
	start time.Time
	job   Job            // without a mask
	mask  func() Matcher // a new one for each answer; nil: the answer is free
	notes []grammar.Note
	cut   Cut // of the prompt; zero: the prompt fits
	think thoughts
}

// ask prepares every request for the backend: it sets defaults, encodes the prompt, and compiles
// the answer's constraints.
func (m *Model) ask(ctx context.Context, r *Request, isChat bool) (*asked, error) {
	a := &asked{start: time.Now()}
	if err := fillIn(r, isChat, m.info, m.Sampling()); err != nil {
		return nil, err
	}
	ids, pieces, images, err := m.promptInTurn(ctx, r, isChat, prompting(), &a.cut)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: the prompt is empty", ErrRequest)
	}
	a.think = m.thoughts(r, pieces)
	a.job = Job{IDs: ids, Images: images, Sampling: r.Sampling, NumCtx: r.NumCtx, NumKeep: r.NumKeep, Shift: r.Shift,
		Speculate: r.Speculate, Repeatable: r.Repeatable, Key: m.o.key(r.Key)}
	a.job.Limit, a.mask, a.notes, err = m.bound(ctx, r, isChat, a.think, len(ids))
	return a, err
}

// tell sends the events before an answer. False: the consumer left.
func (a *asked) tell(yield func(Event, error) bool) bool {
	return (len(a.notes) == 0 || yield(Event{Notes: a.notes}, nil)) &&
		(a.cut == Cut{} || yield(Event{Cut: &a.cut}, nil)) && yield(Event{Begun: len(a.job.IDs)}, nil)
}

// begin returns the job of one answer.
func (a *asked) begin() Job {
	job := a.job
	if a.mask != nil {
		job.Mask = a.mask()
	}
	return job
}

// result makes the Result of an answer whose last token is tok.
func (a *asked) result(m *Model, r *Request, isChat bool, out *assembler, tok Token) *Result {
	res := &Result{Reason: ReasonStop, Stop: out.stop, Usage: tok.Usage, Logprob: out.logprob}
	if out.ended == "" {
		res.Reason = tok.Final
	}
	if !isChat && !r.Raw {
		res.Context = m.o.unseen(out.ids)
	}
	res.Usage.Prompt = len(a.job.IDs)
	res.Usage.Total = time.Since(a.start)
	return res
}

// answer completes the request's ids on the backend, and turns the tokens into events.
func (m *Model) answer(ctx context.Context, r *Request, isChat bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		a, err := m.ask(ctx, r, isChat)
		if err != nil {
			yield(Event{}, err)
			return
		}
		if !a.tell(yield) {
			return
		}
		out := m.assembler(r, isChat, a.job.IDs, a.think, yield)
		for tok, err := range m.b.Complete(ctx, a.begin()) {
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !out.token(tok, tok.Usage) {
				return
			}
			if tok.Final == "" && out.ended == "" {
				continue
			}
			if out.close() {
				yield(Event{Done: a.result(m, r, isChat, out, tok), Usage: tok.Usage}, nil)
			}
			return
		}
		if err := ctx.Err(); err != nil {
			yield(Event{}, err)
		}
	}
}

// assembler turns tokens into events: stop strings first, then the parser.
type assembler struct {
	ids    []int32 // prompt and answer
	stops  stopper
	parser *chat.Parser
	yield  func(Event, error) bool
	serial bool
	each   bool // a token whose text the parser holds back makes an event without text, as in Ollama's generate

	ended   string // why the answer ended here and not in the backend: a stop string or a tool call
	stop    string
	pending []Logprob
	logprob float64 // sum over all tokens
	more    bool    // another token, or the end, is already there
	owed    bool    // the last event had More set
	usage   Usage   // up to the last token
	sent    bool    // that token made an event
}

// assembler returns an assembler for the answer to the prompt ids.
func (m *Model) assembler(r *Request, isChat bool, ids []int32, think thoughts, yield func(Event, error) bool) *assembler {
	stops := slices.DeleteFunc(slices.Concat(r.Stop, m.o.Stop), func(s string) bool { return s == "" })
	out := &assembler{ids: slices.Clip(ids), stops: stopper{stops: stops}, yield: yield, serial: r.SerialTools, each: think.may && !isChat}
	if tmpl := m.template(r); tmpl != nil && !r.Raw {
		po := chat.ParserOptions{Think: m.think(r), ThinkOpen: think.open != "", ThinkTag: think.open}
		if isChat && r.ToolChoice != "none" {
			po.Tools = r.Tools
		}
		out.parser = chat.NewParser(tmpl.Family(), po)
	}
	return out
}

// token takes one token, with the usage so far. False: the consumer left.
func (a *assembler) token(t Token, u Usage) bool {
	a.more, a.usage, a.sent = t.More, u, false
	if t.Final == "" {
		a.ids = append(a.ids, t.ID)
	}
	if t.Logprob != nil {
		a.pending = append(a.pending, *t.Logprob)
		a.logprob += float64(t.Logprob.Logprob)
	}
	text, stop := a.stops.write(t.Text)
	if stop != "" {
		a.stop, a.ended = stop, ReasonStop
	}
	if !a.text(text) {
		return false
	}
	if t.Final != "" || a.ended != "" {
		return true
	}
	switch owed := a.owed && !t.More; { // the text is held back: the consumer must not wait for it
	case owed:
		return a.give(Event{Flush: true, Held: !a.sent})
	case !a.sent:
		return a.give(Event{Held: true})
	}
	return true
}

// give sends an event.
func (a *assembler) give(e Event) bool {
	e.More, a.owed, a.sent, e.Usage = a.more, a.more, true, a.usage
	return a.yield(e, nil)
}

func (a *assembler) text(text string) bool {
	if a.parser == nil {
		return a.send(chat.Delta{Text: text})
	}
	deltas := a.parser.Write(text)
	if a.each && len(deltas) == 0 && text != "" {
		e := Event{Logprobs: a.pending}
		a.pending = nil
		return a.give(e)
	}
	if len(deltas) == 0 && text != "" && a.parser.Tagging() {
		a.pending = nil // a hidden tag has no logprobs, as in Ollama's chat
	}
	for _, d := range deltas {
		if !a.send(d) {
			return false
		}
		if a.serial && d.ToolCall != nil {
			a.ended = ReasonStop
			return true
		}
	}
	return true
}

func (a *assembler) send(d chat.Delta) bool {
	if d.Text == "" && d.Thinking == "" && d.ToolCall == nil && len(a.pending) == 0 {
		return true
	}
	e := Event{Text: d.Text, Thinking: d.Thinking, ToolCall: d.ToolCall, Logprobs: a.pending}
	a.pending = nil
	return a.give(e)
}

// close sends the text held back. The end follows.
func (a *assembler) close() bool {
	a.more = true
	if a.stop == "" && !a.text(a.stops.flush()) {
		return false
	}
	if a.parser != nil && !(a.serial && a.ended != "" && a.stop == "") {
		for _, d := range a.parser.Close() {
			if !a.send(d) {
				return false
			}
		}
	}
	return len(a.pending) == 0 || a.send(chat.Delta{})
}
