package wyoming

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/axle-llm/axle/server/body"
)

// The sizes of an event's parts, in bytes.
const (
	maxLine    = 64 << 10
	maxData    = 64 << 10 // info is longer, but no client sends one
	maxPayload = 1 << 20
)

// Event is what a connection carries. It is valid until its [Reader] waits for the next.
type Event struct {
	Type    string
	Payload *io.LimitedReader // what of it was not read is passed over

	line, data []byte // JSON objects, or nothing
}

// Into reads the event's data into a struct: what stands in its line, and over that what follows.
func (e Event) Into(v any) error {
	for _, b := range [][]byte{e.line, e.data} {
		if len(b) == 0 {
			continue
		}
		if err := json.Unmarshal(b, v); err != nil {
			return body.Fail(400, "the data of %q cannot be read: %s", clip(e.Type), err)
		}
	}
	return nil
}

// header is the line of an event.
type header struct {
	Type    string          `json:"type"`
	Data    json.RawMessage `json:"data,omitempty"`
	DataLen int64           `json:"data_length,omitempty"`
	Payload int64           `json:"payload_length,omitempty"`
}

// Reader reads events. An error of its own is a *body.Failure; after any error the place in the
// stream is not known, and nothing more can be read.
type Reader struct {
	from    *bufio.Reader
	data    bytes.Buffer
	payload io.LimitedReader
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader {
	b := bufio.NewReaderSize(r, maxLine)
	return &Reader{from: b, payload: io.LimitedReader{R: b}}
}

// Wait passes over the payload of the last event, and returns when the first byte of the next is
// there. It may be called again after an error that passes, a time-out for example.
func (r *Reader) Wait() error {
	if err := r.pass(); err != nil {
		return err
	}
	_, err := r.from.Peek(1)
	return err
}

// pass passes over what is left of a payload.
func (r *Reader) pass() error {
	_, err := io.Copy(io.Discard, &r.payload)
	if err == nil && r.payload.N > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Next reads an event, up to its payload. Memory grows with what comes, not with what a length
// claims.
func (r *Reader) Next() (e Event, err error) {
	if err := r.Wait(); err != nil {
		return e, err
	}
	line, err := r.from.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return e, body.Fail(413, "an event's line has more than %d KiB", maxLine>>10)
	case errors.Is(err, io.EOF) && len(line) > 0:
		return e, io.ErrUnexpectedEOF
	case err != nil:
		return e, err
	}
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return e, body.Fail(400, "an event's line is no JSON object: %s", err)
	}
	switch {
	case h.Type == "":
		return e, body.Fail(400, "an event's line has no type")
	case h.DataLen < 0 || h.Payload < 0:
		return e, body.Fail(400, "%q has a negative length", clip(h.Type))
	case h.DataLen > maxData:
		return e, body.Fail(413, "the data of %q has %d bytes: at most %d are read", clip(h.Type), h.DataLen, maxData)
	case h.Payload > maxPayload:
		return e, body.Fail(413, "the payload of %q has %d bytes: at most %d are read", clip(h.Type), h.Payload, maxPayload)
	}
	r.data.Reset()
	if _, err := io.CopyN(&r.data, r.from, h.DataLen); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return e, err
	}
	r.payload = io.LimitedReader{R: r.from, N: h.Payload}
	return Event{h.Type, &r.payload, h.Data, r.data.Bytes()}, nil
}

// Append appends an event with these data, which are a struct, to b. They follow the line: a client
// may read no long lines.
func Append(b []byte, kind string, data any, payload []byte) ([]byte, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return b, err
	}
	line, err := json.Marshal(header{Type: kind, DataLen: int64(len(text)), Payload: int64(len(payload))})
	if err != nil {
		return b, err
	}
	b = append(append(b, line...), '\n')
	return append(append(b, text...), payload...), nil
}

// clip is the beginning of a client's word, for an error.
func clip(s string) string { return s[:min(len(s), 100)] }
