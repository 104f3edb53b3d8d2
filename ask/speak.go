package ask

// SpeakRequest is text to be spoken.
type SpeakRequest struct {
	Text  string
	Voice string  // of Info.Voices; empty: the first
	Speed float64 // 0.25 to 4; 0: 1
	Key   string  // keys take turns, a piece of the text each
}

// Speech is what a piece of a text sounds like.
type Speech struct {
	Text    string
	Samples []float32 // mono, Info.SampleRate a second, from −1 to 1; not changed afterwards
}

// Voice is one of those that a model speaks with.
type Voice struct {
	Name     string
	Language string // BCP 47: en-US
}
