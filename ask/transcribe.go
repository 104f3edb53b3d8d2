package ask

import "time"

// Sound gives samples: mono, 16,000 a second, from −1 to 1. Read is as io.Reader's, and its errors
// end a transcription.
type Sound interface {
	Read(samples []float32) (n int, err error)
}

// TranscribeRequest is speech to be written down.
type TranscribeRequest struct {
	Sound    Sound
	Language string // ISO 639-1; empty: the model finds it
	Key      string // keys take turns, one piece of speech each
}

// Segment is a part of speech, as text.
type Segment struct {
	Start, End time.Duration
	Text       string
	Language   string // ISO 639-1; empty: the model did not say
	Emotion    string // HAPPY, NEUTRAL …; empty: the model did not say
	Event      string // what is heard besides words: Speech, BGM, Laughter …
	Words      []Word
	Tokens     []int32
	Logprob    float64 // the mean of the tokens' log probabilities
}

// Word is a word of a segment, or a character of a language that is written without spaces.
type Word struct {
	Text       string
	Start, End time.Duration
}
