package realtime

import (
	"context"
	"encoding/json"

	"github.com/axle-llm/axle/server/body"
)

// conversation is what the session is set to, as a conversation with a model.
func (s *session) conversation(ctx context.Context, set config, model string) config {
	voice, _ := s.o.Talker.Voice(ctx, "") // a response tells of the error
	return set.conversation(model, voice)
}

// typed is what the session is set to, of the type that an update says. A session may change it
// until something was said.
func (s *session) typed(ctx context.Context, b json.RawMessage) (config, error) {
	var update struct {
		Type  string `json:"type"`
		Model string `json:"model"`
	}
	if err := into("session", b, &update); err != nil {
		return s.set, err
	}
	switch {
	case update.Type == s.set.Type, update.Type == "" && s.set.talk != nil:
		return s.set, nil
	case update.Type != converses && update.Type != transcribes:
		return s.set, body.Fail(400, "session.type is %q: realtime and transcription are possible", clip(update.Type))
	case s.said.begun():
		return s.set, body.Fail(400, "session.type is %q, and something was said already: open another session", clip(update.Type))
	case update.Type == transcribes:
		set := s.set
		set.talk, set.Audio.Output = nil, nil
		set.Type, set.Object = transcribes, transcriptionObject
		return set, nil
	}
	model, err := s.o.Talker.Chats(ctx, update.Model)
	if err != nil {
		return s.set, err
	}
	return s.conversation(ctx, s.set, model), nil
}

// talks looks for the models that a conversation is to be answered with.
func (s *session) talks(ctx context.Context, next config) (err error) {
	was := s.set.talk
	if was == nil || was.Model != next.talk.Model {
		if next.talk.Model, err = s.o.Talker.Chats(ctx, next.talk.Model); err != nil {
			return err
		}
	}
	if next.talk.speaks() && (was == nil || !was.speaks() || s.set.Audio.Output.Voice != next.Audio.Output.Voice) {
		_, err = s.o.Talker.Voice(ctx, string(next.Audio.Output.Voice))
	}
	return err
}

// converse handles an event of a conversation.
func (s *session) converse(kind string, b []byte) error {
	var e struct {
		Item     json.RawMessage `json:"item"`
		After    string          `json:"previous_item_id"`
		ID       string          `json:"item_id"`
		Content  int             `json:"content_index"`
		End      int64           `json:"audio_end_ms"`
		Asked    string          `json:"response_id"`
		Response json.RawMessage `json:"response"`
	}
	if err := into("an event", b, &e); err != nil {
		return err
	}
	switch kind {
	case kindCreate:
		return s.create(e.Item, e.After)
	case kindDelete:
		if err := s.said.remove(e.ID); err != nil {
			return err
		}
		s.send(&idEvent{event{Type: kindDeleted}, e.ID})
		return nil
	case kindRetrieve:
		it, err := s.said.look(e.ID)
		if err == nil {
			s.send(&retrievedEvent{event{Type: kindRetrieved}, it})
		}
		return err
	case kindTruncate:
		if err := s.said.truncate(e.ID, e.Content, e.End); err != nil {
			return err
		}
		s.send(&truncatedEvent{event{Type: kindTruncated}, e.ID, e.Content, e.End})
		return nil
	case kindRespond:
		r, err := s.response(e.Response)
		if err == nil {
			err = s.room(r.size())
		}
		if err == nil {
			err = s.queue(r)
		}
		return err
	case kindCancel:
		if !s.said.cancel(func(r *response) bool { return r.id == e.Asked || e.Asked == "" && !r.apart }, errAsked) {
			return coded{body.Fail(400, "no response is being written that could be cancelled"), "response_cancel_not_active"}
		}
		return nil
	}
	return body.Fail(400, "an event of the type %q: a conversation takes session.update; input_audio_buffer.append, commit and clear; "+
		"conversation.item.create, delete, retrieve and truncate; response.create and cancel", clip(kind))
}

// create puts a client's item into the conversation.
func (s *session) create(b json.RawMessage, after string) error {
	it, err := read(b)
	if err != nil {
		return err
	}
	if err := s.room(int64(len(b))); err != nil {
		return err
	}
	shown := it.copy()
	before, gone, err := s.said.add(it, after)
	if err != nil {
		return err
	}
	s.dropped(gone)
	s.send(&itemEvent{event{Type: kindAdded}, before, shown})
	s.send(&itemEvent{event{Type: kindDone}, before, shown})
	return nil
}

// dropped tells which items are no longer kept.
func (s *session) dropped(gone []string) {
	for _, id := range gone {
		s.send(&idEvent{event{Type: kindDeleted}, id})
	}
}

// queue has a response made when what came before it is done.
func (s *session) queue(r *response) error {
	if err := s.said.wait(r); err != nil {
		return err
	}
	s.forgetEarly() // it would wait for that
	select {
	case s.turns <- job{response: r}:
		return nil
	default:
		s.said.end(r)
		return body.Fail(429, "%d turns and responses wait, and this is left out", maxWaiting)
	}
}
