package request

// Form is how the errors of an answer are written.
type Form interface {
	// ErrorBody is the body of an error before the first part, and WholeType its content type;
	// ErrorEnd is what a stream that fails later ends with. If that is nothing, as within a sound,
	// the connection is broken off: what came must not look whole.
	ErrorBody(status int, text string) []byte
	ErrorEnd(status int, text string) []byte
	WholeType() string
}
