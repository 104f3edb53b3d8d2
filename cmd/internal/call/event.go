package call

// event has the fields of the server's events that are looked at.
type event struct {
	Type     string   `json:"type"`
	Response string   `json:"response_id"`
	Item     string   `json:"item_id"`
	Content  int      `json:"content_index"`
	Delta    string   `json:"delta"` // text, or base64 of sound
	Text     string   `json:"transcript"`
	Error    problem  `json:"error"`
	Whole    response `json:"-"` // of response.created and response.done
}

type response struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Details struct {
		Reason string  `json:"reason"`
		Error  problem `json:"error"`
	} `json:"status_details"`
}

type problem struct {
	Message string `json:"message"`
	About   string `json:"event_id"` // the event of ours that it is about, if that had a name
}

// The server's events that are looked at. The others say what these say, too.
const (
	kindUpdated   = "session.updated"
	kindError     = "error"
	kindStarted   = "input_audio_buffer.speech_started"
	kindStopped   = "input_audio_buffer.speech_stopped"
	kindCleared   = "input_audio_buffer.cleared"
	kindHeard     = "conversation.item.input_audio_transcription.delta"
	kindCompleted = "conversation.item.input_audio_transcription.completed"
	kindUnheard   = "conversation.item.input_audio_transcription.failed"
	kindResponse  = "response.created"
	kindSound     = "response.output_audio.delta"
	kindSaid      = "response.output_audio_transcript.delta"
	kindDone      = "response.done"
)

// update is what a session is set to.
type update struct {
	Type    string  `json:"type"`
	Session session `json:"session"`
}

type session struct {
	Type         string   `json:"type"`
	Model        string   `json:"model"`
	Modalities   []string `json:"output_modalities"`
	Instructions string   `json:"instructions,omitempty"`
	Audio        struct {
		Input struct {
			Format        format        `json:"format"`
			Transcription transcription `json:"transcription"`
			TurnDetection turnDetection `json:"turn_detection"`
		} `json:"input"`
		Output struct {
			Format format `json:"format"`
			Voice  string `json:"voice,omitempty"`
		} `json:"output"`
	} `json:"audio"`
}

type format struct {
	Type string `json:"type"`
	Rate int    `json:"rate"`
}

type transcription struct {
	Model    string `json:"model,omitempty"`
	Language string `json:"language,omitempty"`
}

type turnDetection struct {
	Type      string `json:"type"`
	Answer    bool   `json:"create_response"`
	Interrupt bool   `json:"interrupt_response"`
}

// appended is a piece of sound.
type appended struct {
	Type  string `json:"type"`
	Audio []byte `json:"audio"`
}

// truncated says how much of an answer was heard.
type truncated struct {
	Type    string `json:"type"`
	Name    string `json:"event_id"`
	Item    string `json:"item_id"`
	Content int    `json:"content_index"`
	End     int64  `json:"audio_end_ms"`
}

// command is an event without anything of its own.
type command struct {
	Type string `json:"type"`
	Name string `json:"event_id,omitempty"`
}

// late is the name of our events that may come when their answer is over already. An error about
// one of these says nothing that matters.
const late = "late"
