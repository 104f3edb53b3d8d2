// Package pictures turns a picture's bytes into rows of a model: it prepares what the encoder
// reads, calls the encoder, keeps what it gave, and puts the rows with their positions into a pass.
//
// [Encoder.Prepare], [Encoder.Blank], [Encoder.Name] and [Positions] touch no card and may be
// called from any goroutine. [Open], [Encoder.Step] and [Encoder.Close] belong to the goroutine
// that owns the card, between passes; a Step is one call of the encoder, so who decodes beside it
// waits for one call at most. A [Kept] is one goroutine's at a time. The caller closes an Encoder
// that it opened. [Rows] are not changed once they are made.
package pictures
