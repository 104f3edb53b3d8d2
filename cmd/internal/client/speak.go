package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Text is text to be spoken.
type Text struct {
	Model string  `json:"model"`
	Text  string  `json:"input"`
	Voice string  `json:"voice,omitempty"` // empty: the model's first
	Speed float64 `json:"speed,omitempty"` // 0: 1
}

// Say lets the server speak a text, and gives the samples to play as they come, as raw PCM of 16
// bits, and how many a second has. It fails with api's errors where the server refuses, with what
// play returns, and with ErrBrokeOff.
func (c *Client) Say(ctx context.Context, t Text, play func(pcm []byte, rate int) error) error {
	b, err := json.Marshal(t)
	if err != nil {
		return err
	}
	resp, err := c.ask(ctx, http.MethodPost, "/v1/audio/speech", nil, bytes.NewReader(b))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var head [44]byte // as audio.AppendWAVHeader makes it
	if _, err := io.ReadFull(resp.Body, head[:]); err != nil {
		return broken(ctx, err)
	}
	rate := int(binary.LittleEndian.Uint32(head[24:]))
	if string(head[:4]) != "RIFF" || string(head[36:40]) != "data" || head[22] != 1 || head[34] != 16 || rate < 1 || rate > 1<<20 {
		return errors.New("the answer is not as it should be: it is no wav of one channel and 16 bits")
	}
	piece, half := make([]byte, 8<<10), 0 // half a sample waits for the other
	for {
		n, err := resp.Body.Read(piece[half:])
		n += half
		half = n % 2
		if n > 1 {
			if err := play(piece[:n-half], rate); err != nil {
				return err
			}
			piece[0] = piece[n-1]
		}
		switch {
		case err == io.EOF && half == 0: //nolint:errorlint // as io.Reader has it
			return nil
		case err != nil:
			return broken(ctx, err)
		}
	}
}

// broken is why an answer did not come whole.
func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ErrBrokeOff, err)
}

// Voice is one that a model here speaks with.
type Voice struct {
	Name     string `json:"id"`
	Language string `json:"language"`
	Model    string `json:"model"`
}

// Voices are those of a model, or without a name of all that speak.
func (c *Client) Voices(ctx context.Context, model string) ([]Voice, error) {
	resp, err := c.ask(ctx, http.MethodGet, "/v1/audio/voices", url.Values{"model": {model}}, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var all struct{ Voices []Voice }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&all); err != nil {
		return nil, fmt.Errorf("the answer is not as it should be: %w", err)
	}
	return all.Voices, nil
}

// ask sends a request to OpenAI's API.
func (c *Client) ask(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Response, error) {
	to := c.URL.JoinPath(path)
	to.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, to.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, Refused(resp)
	}
	return resp, nil
}
