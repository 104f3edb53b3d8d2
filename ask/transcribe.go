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

	Translate   bool    // into English
	Prompt      string  // what was said before, or words that may come; models that take none ignore it
	Temperature float64 // 0: the most likely tokens, and others only where these make no sense

	// Partial asks for segments while they are being spoken, too. Models that hear a whole piece of
	// speech at a time have none.
	Partial bool
}

// Segment is a part of speech, as text.
type Segment struct {
	// Partial says that the segment goes on: it is what was understood so far. The next segment
	// replaces it, and its text begins with this one's.
	Partial bool

	Start, End time.Duration
	Text       string
	Language   string // ISO 639-1; empty: the model did not say
	Emotion    string // HAPPY, NEUTRAL …; empty: the model did not say
	Event      string // what is heard: Speech, BGM, Laughter …
	Words      []Word
	Tokens     []int32
	Logprob    float64 // the mean of the tokens' log probabilities

	// What Whisper says of the piece of speech that the segment is from.
	Seek        time.Duration // where the piece begins
	NoSpeech    float64       // the probability that nothing is said
	Compression float64       // how many times smaller zlib makes the text; 0: not computed
	Temperature float64       // at which the tokens were drawn
}

// Word is a word of a segment, or a character of a language that is written without spaces.
type Word struct {
	Text       string
	Start, End time.Duration
}
