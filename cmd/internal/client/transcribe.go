package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/ollama/ollama/api"
)

// Speech is speech to be written down.
type Speech struct {
	Model    string
	Language string // ISO 639-1; empty: the model finds it
	Format   string // json, text, srt, vtt or verbose_json; empty: text as it comes
	Name     string // of the file
	Sound    io.Reader
}

// Transcribe sends a sound while it is read, and writes to w what the server makes of it. It fails
// with api's errors where the server refuses.
func (c *Client) Transcribe(ctx context.Context, s Speech, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, out := io.Pipe()
	defer in.Close()
	form := multipart.NewWriter(out)
	go func() { _ = out.CloseWithError(s.write(form)) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL.JoinPath("/v1/audio/transcriptions").String(), in)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Refused(resp)
	}
	if s.Format != "" {
		_, err := io.Copy(w, resp.Body)
		return err
	}
	return deltas(resp.Body, w)
}

// write writes the form.
func (s Speech) write(form *multipart.Writer) error {
	fields := [][2]string{{"model", s.Model}, {"language", s.Language}, {"response_format", s.Format}}
	if s.Format == "" {
		fields = append(fields, [2]string{"stream", "true"})
	}
	for _, f := range fields {
		if f[1] == "" {
			continue
		}
		if err := form.WriteField(f[0], f[1]); err != nil {
			return err
		}
	}
	part, err := form.CreateFormFile("file", s.Name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(part, s.Sound); err != nil {
		return err
	}
	return form.Close()
}

// Refused is the error of an answer of OpenAI's API.
func Refused(resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusUnauthorized {
		return api.AuthorizationError{StatusCode: resp.StatusCode, Status: resp.Status}
	}
	return api.StatusError{StatusCode: resp.StatusCode, Status: resp.Status, ErrorMessage: said(b)}
}

// said is the text of an error of OpenAI's API; what is no such error is told as it is.
func said(b []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(b, &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	return string(b)
}

// deltas writes the text of a streamed answer.
func deltas(r io.Reader, w io.Writer) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct {
			Type  string          `json:"type"`
			Delta string          `json:"delta"`
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return fmt.Errorf("the answer is not as it should be: %w", err)
		}
		if event.Error != nil {
			return api.StatusError{StatusCode: http.StatusInternalServerError, ErrorMessage: said([]byte(data))}
		}
		if event.Type == "transcript.text.done" {
			return nil
		}
		if _, err := io.WriteString(w, event.Delta); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return ErrBrokeOff
}
