package realtime

import "encoding/json"

// The client's events.
const (
	kindUpdate = "session.update"
	kindAppend = "input_audio_buffer.append"
	kindCommit = "input_audio_buffer.commit"
	kindClear  = "input_audio_buffer.clear"

	// Of a conversation.
	kindCreate   = "conversation.item.create"
	kindDelete   = "conversation.item.delete"
	kindRetrieve = "conversation.item.retrieve"
	kindTruncate = "conversation.item.truncate"
	kindRespond  = "response.create"
	kindCancel   = "response.cancel"
)

// The server's events.
const (
	kindError     = "error"
	kindCreated   = "session.created"
	kindUpdated   = "session.updated"
	kindStarted   = "input_audio_buffer.speech_started"
	kindStopped   = "input_audio_buffer.speech_stopped"
	kindCommitted = "input_audio_buffer.committed"
	kindCleared   = "input_audio_buffer.cleared"
	kindAdded     = "conversation.item.added"
	kindDone      = "conversation.item.done"
	kindDelta     = "conversation.item.input_audio_transcription.delta"
	kindCompleted = "conversation.item.input_audio_transcription.completed"
	kindFailed    = "conversation.item.input_audio_transcription.failed"

	// Of a conversation.
	kindDeleted   = "conversation.item.deleted"
	kindRetrieved = "conversation.item.retrieved"
	kindTruncated = "conversation.item.truncated"

	kindBegun       = "response.created"
	kindOver        = "response.done"
	kindOutput      = "response.output_item.added"
	kindOutputDone  = "response.output_item.done"
	kindPart        = "response.content_part.added"
	kindPartDone    = "response.content_part.done"
	kindText        = "response.output_text.delta"
	kindTextDone    = "response.output_text.done"
	kindWords       = "response.output_audio_transcript.delta"
	kindWordsDone   = "response.output_audio_transcript.done"
	kindSound       = "response.output_audio.delta"
	kindSoundDone   = "response.output_audio.done"
	kindCalling     = "response.function_call_arguments.delta"
	kindCallingDone = "response.function_call_arguments.done"
)

// What items are.
const (
	itemObject = "realtime.item"
	message    = "message"
	call       = "function_call"
	given      = "function_call_output"

	system    = "system"
	user      = "user"
	assistant = "assistant"

	inputText   = "input_text"
	inputAudio  = "input_audio"
	outputText  = "output_text"
	outputAudio = "output_audio"

	going      = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
	cancelled  = "cancelled"
	failed     = "failed"
)

// asked is what all the client's events have.
type asked struct {
	Type string `json:"type"`
	ID   string `json:"event_id"`
}

// event is what all the server's events have.
type event struct {
	Type string `json:"type"`
	ID   string `json:"event_id"`
}

// problem is an error in an event.
type problem struct {
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

// errorEvent names the client's event that it is about, if that had a name.
type errorEvent struct {
	event
	Error struct {
		problem
		About *string `json:"event_id"`
	} `json:"error"`
}

type sessionEvent struct {
	event
	Session config `json:"session"`
}

type startedEvent struct {
	event
	Start int64  `json:"audio_start_ms"`
	Item  string `json:"item_id"`
}

type stoppedEvent struct {
	event
	End  int64  `json:"audio_end_ms"`
	Item string `json:"item_id"`
}

type committedEvent struct {
	event
	Previous *string `json:"previous_item_id"`
	Item     string  `json:"item_id"`
}

type itemEvent struct {
	event
	Previous *string `json:"previous_item_id"`
	Item     item    `json:"item"`
}

// item is a turn in the conversation, a call of a tool, or what the tool gave.
type item struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Role    string    `json:"role,omitempty"`
	Content []content `json:"content,omitzero"` // of a message

	Name      string  `json:"name,omitempty"` // of a call
	Call      string  `json:"call_id,omitempty"`
	Arguments *string `json:"arguments,omitempty"`
	Output    *string `json:"output,omitempty"` // of what a tool gave
}

// content is text, or what was said.
type content struct {
	Type string
	Text *string // nil: it is still to be written down
}

// MarshalJSON gives the text the name that its type has for it.
func (c content) MarshalJSON() ([]byte, error) {
	if c.Type == inputAudio || c.Type == outputAudio {
		return json.Marshal(struct {
			Type       string  `json:"type"`
			Transcript *string `json:"transcript"`
		}{c.Type, c.Text})
	}
	return json.Marshal(struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}{c.Type, c.Text})
}

// spoken is the item of a turn that is still to be written down.
func spoken(id string) item {
	return item{ID: id, Object: itemObject, Type: message, Status: completed, Role: user, Content: []content{{Type: inputAudio}}}
}

type deltaEvent struct {
	event
	Item    string `json:"item_id"`
	Content int    `json:"content_index"`
	Delta   string `json:"delta"`
}

type completedEvent struct {
	event
	Item       string     `json:"item_id"`
	Content    int        `json:"content_index"`
	Transcript string     `json:"transcript"`
	Languages  []language `json:"languages,omitempty"`
	Usage      usage      `json:"usage"`
}

type language struct {
	Code string `json:"code"`
}

// usage is how much was heard.
type usage struct {
	Type    string  `json:"type"`
	Seconds float64 `json:"seconds"`
}

type failedEvent struct {
	event
	Item    string  `json:"item_id"`
	Content int     `json:"content_index"`
	Error   problem `json:"error"`
}

type idEvent struct {
	event
	Item string `json:"item_id"`
}

type retrievedEvent struct {
	event
	Item item `json:"item"`
}

type truncatedEvent struct {
	event
	Item    string `json:"item_id"`
	Content int    `json:"content_index"`
	End     int64  `json:"audio_end_ms"`
}

type responseEvent struct {
	event
	Response told `json:"response"`
}

// told is a response as it is told.
type told struct {
	ID           string   `json:"id"`
	Object       string   `json:"object"`
	Status       string   `json:"status"`
	Why          *why     `json:"status_details"`
	Output       []item   `json:"output"`
	Conversation *string  `json:"conversation_id"` // nil: it is in none
	Modalities   []string `json:"output_modalities"`
	MaxTokens    tokens   `json:"max_output_tokens"`
	Audio        *struct {
		Output output `json:"output"`
	} `json:"audio,omitempty"`
	Usage    *used           `json:"usage"`
	Metadata json.RawMessage `json:"metadata"`
}

// why is how a response ended.
type why struct {
	Type   string   `json:"type"`
	Reason string   `json:"reason,omitempty"`
	Error  *problem `json:"error,omitempty"`
}

// used are a response's tokens. All are of text: sound is heard and made by other models.
type used struct {
	Total  int `json:"total_tokens"`
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
	In     struct {
		Text   int `json:"text_tokens"`
		Audio  int `json:"audio_tokens"`
		Image  int `json:"image_tokens"`
		Cached int `json:"cached_tokens"`
	} `json:"input_token_details"`
	Out struct {
		Text  int `json:"text_tokens"`
		Audio int `json:"audio_tokens"`
	} `json:"output_token_details"`
}

type outputEvent struct {
	event
	Response string `json:"response_id"`
	Index    int    `json:"output_index"`
	Item     item   `json:"item"`
}

// place is where in a response something is.
type place struct {
	Response string `json:"response_id"`
	Item     string `json:"item_id"`
	Index    int    `json:"output_index"`
	Content  int    `json:"content_index"`
}

type partEvent struct {
	event
	place
	Part part `json:"part"`
}

// part is the content of an answer.
type part struct {
	Type       string  `json:"type"`
	Text       *string `json:"text,omitempty"`
	Transcript *string `json:"transcript,omitempty"`
}

type textEvent struct {
	event
	place
	Delta string `json:"delta"`
}

type textDoneEvent struct {
	event
	place
	Text string `json:"text"`
}

type wordsDoneEvent struct {
	event
	place
	Transcript string `json:"transcript"`
}

type soundEvent struct {
	event
	place
	Delta []byte `json:"delta"`
}

type soundDoneEvent struct {
	event
	place
}

type callingEvent struct {
	event
	Response string `json:"response_id"`
	Item     string `json:"item_id"`
	Index    int    `json:"output_index"`
	Call     string `json:"call_id"`
	Delta    string `json:"delta"`
}

type callingDoneEvent struct {
	event
	Response  string `json:"response_id"`
	Item      string `json:"item_id"`
	Index     int    `json:"output_index"`
	Call      string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}
