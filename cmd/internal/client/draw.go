package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/ollama/ollama/api"
)

// Drawing is what is to be drawn. Zero values are the model's own.
type Drawing struct {
	Model    string  `json:"model,omitempty"`
	Prompt   string  `json:"prompt"`
	Negative string  `json:"negative_prompt,omitempty"`
	N        int     `json:"n,omitempty"`
	Size     string  `json:"size,omitempty"`
	Seed     *uint32 `json:"seed,omitempty"`
	Steps    int     `json:"steps,omitempty"`
	Guidance float64 `json:"guidance,omitempty"`
	Strength float64 `json:"strength,omitempty"`
	Format   string  `json:"output_format,omitempty"` // png or jpeg
	Picture  []byte  `json:"image,omitempty"`         // the file of a picture to start from
}

// Drawn is how far a drawing is. The last of a picture has its file.
type Drawn struct {
	Step, Steps int
	Index       int // of the picture, from 0
	Seed        uint32
	Size        string
	File        []byte `json:"b64_json"`
}

// maxPictureEvent is an event with a picture in it.
const maxPictureEvent = 64 << 20

// Draw lets the server draw, and tells each step and each picture as it comes. It fails with api's
// errors where the server refuses, with what each returns, and with ErrBrokeOff.
func (c *Client) Draw(ctx context.Context, d Drawing, each func(Drawn) error) error {
	b, err := json.Marshal(struct {
		Drawing
		Stream   bool `json:"stream"`
		Progress bool `json:"progress"`
	}{d, true, true})
	if err != nil {
		return err
	}
	path := "/v1/images/generations"
	if d.Picture != nil {
		path = "/v1/images/edits"
	}
	resp, err := c.ask(ctx, http.MethodPost, path, nil, bytes.NewReader(b))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxPictureEvent)
	left := max(d.N, 1)
	for left > 0 && lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct {
			Type string
			Drawn
			Error json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return fmt.Errorf("the answer is not as it should be: %w", err)
		}
		if event.Error != nil {
			return api.StatusError{StatusCode: http.StatusInternalServerError, ErrorMessage: said([]byte(data))}
		}
		if strings.HasSuffix(event.Type, ".completed") {
			if left--; len(event.File) == 0 {
				return errors.New("the answer is not as it should be: there is no picture in it")
			}
		}
		if err := each(event.Drawn); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("the answer is not as it should be: a picture of more than %d MiB", maxPictureEvent>>20)
	case err != nil || left > 0 && ctx.Err() != nil:
		return broken(ctx, err)
	case left > 0:
		return ErrBrokeOff
	}
	return nil
}
