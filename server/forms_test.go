package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestFormRefused: a client that sends all of a form before it reads gets the error of the form's
// beginning, not a connection that ends. A pipe holds nothing back: what the server does not
// read, the client cannot send.
func TestFormRefused(t *testing.T) {
	for path, first := range map[string]string{
		edits:                      field("mask", "x"),
		detection:                  strings.Repeat(field("min_confidence", "0.5"), 17), // fields: too many
		"/v1/audio/transcriptions": field("response_format", "cuneiform"),
	} {
		inBubble(t, 0, func(t *testing.T, b *bubble) {
			form := first + pictureField("image", strings.Repeat("x", 2<<20)) + "--x--\r\n"
			c, err := b.pipes.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
				path, formKind, len(form))
			if n, err := io.WriteString(c, head+form); err != nil {
				t.Fatalf("%s: the client sent %d bytes: %v", path, n, err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || resp.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %v, %v", path, resp, err)
			}
		})
	}
}
