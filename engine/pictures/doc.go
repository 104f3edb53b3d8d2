// Package pictures turns a picture's bytes into rows of a model. It prepares the encoder's input,
// calls the encoder, caches the rows it returns, and puts rows with their positions into a pass.
//
// [Encoder.Prepare], [Encoder.Blank], [Encoder.Name] and [Positions] do not touch a card and may be
// called from any goroutine. [Open], [Encoder.Step] and [Encoder.Close] belong to the goroutine
// that owns the card, between passes. A Step is one call of the encoder, so sequences that are
// decoding wait for one call at most. One goroutine at a time may use a [Cache]. The caller closes
// an Encoder that it opened. [Rows] do not change after they are made.
//
// A [Sound] does for sound what an Encoder does for pictures, and the same is true of it.
package pictures
