package exchange

// Form is how the errors of an answer are written: before its first part, and after it. Body and
// End may be nil: then as the path's dialect has them.
type Form interface {
	// ErrorBody is the body of an error before the first part, and WholeType its content type;
	// ErrorEnd is what a stream that fails later ends with.
	ErrorBody(status int, text string) []byte
	ErrorEnd(status int, text string) []byte
	WholeType() string
}
