package realtime

// The client's events.
const (
	kindUpdate = "session.update"
	kindAppend = "input_audio_buffer.append"
	kindCommit = "input_audio_buffer.commit"
	kindClear  = "input_audio_buffer.clear"
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

// item is a turn in the conversation.
type item struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Role    string    `json:"role"`
	Content []content `json:"content"`
}

type content struct {
	Type       string  `json:"type"`
	Transcript *string `json:"transcript"`
}

// spoken is the item of a turn that is still to be written down.
func spoken(id string) item {
	return item{id, "realtime.item", "message", "completed", "user", []content{{Type: "input_audio"}}}
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
