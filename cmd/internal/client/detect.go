package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"

	"github.com/ollama/ollama/api"
)

// Picture is a picture in which things are to be found.
type Picture struct {
	Model string // empty: the server chooses
	Least float64
	Name  string // of the file
	File  []byte
}

// Found is a thing in a picture, with its corners in pixels of the picture.
type Found struct {
	Label      string  `json:"label"`
	Confidence float64 `json:"confidence"`
	XMin       int     `json:"x_min"`
	YMin       int     `json:"y_min"`
	XMax       int     `json:"x_max"`
	YMax       int     `json:"y_max"`
}

// Detect asks the server what is in a picture; the surest comes first. It fails with api's errors
// where the server refuses.
func (c *Client) Detect(ctx context.Context, p Picture) ([]Found, error) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	fields := [][2]string{{"min_confidence", strconv.FormatFloat(p.Least, 'g', -1, 64)}}
	if p.Model != "" {
		fields = append(fields, [2]string{"model", p.Model})
	}
	for _, f := range fields {
		_ = form.WriteField(f[0], f[1]) // a Buffer takes all
	}
	part, _ := form.CreateFormFile("image", p.Name)
	_, _ = part.Write(p.File)
	_ = form.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL.JoinPath("/v1/vision/detection").String(), &b)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return nil, err
	}
	var said struct {
		Error       string
		Predictions []Found
	}
	err = json.Unmarshal(answer, &said)
	switch {
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, api.AuthorizationError{StatusCode: resp.StatusCode, Status: resp.Status}
	case resp.StatusCode != http.StatusOK && err == nil && said.Error != "":
		return nil, api.StatusError{StatusCode: resp.StatusCode, Status: resp.Status, ErrorMessage: said.Error}
	case resp.StatusCode != http.StatusOK:
		return nil, api.StatusError{StatusCode: resp.StatusCode, Status: resp.Status, ErrorMessage: string(answer)}
	case err != nil:
		return nil, fmt.Errorf("the answer is not as it should be: %w", err)
	}
	return said.Predictions, nil
}
