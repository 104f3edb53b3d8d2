// Package deepstack speaks the part of DeepStack's protocol that finds things in pictures. Frigate,
// Blue Iris and others ask it: a form with a picture, and an answer with labels and boxes.
//
// The functions are pure and safe for concurrent use.
package deepstack

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// Path is where things are found. Its key may be the field api_key of the form.
const Path = "/v1/vision/detection"

// Type is the content type of answers and errors.
const Type = "application/json"

// usual is the confidence that a thing must have where a request does not say.
const usual = 0.4

// Dialect is the protocol's.
func Dialect() prompt.Dialect {
	return prompt.Dialect{Under: "/v1/vision/", ErrorType: Type, Error: func(_ error, _ int, text string) []byte {
		b, _ := json.Marshal(struct {
			Success bool   `json:"success"`
			Error   string `json:"error"`
		}{false, text})
		return b
	}}
}

// Least reads the field min_confidence, which may be missing.
func Least(value string) (float64, error) {
	if value == "" {
		return usual, nil
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, body.Fail(400, "min_confidence must be between 0 and 1, got %q", value)
	}
	return v, nil
}

// prediction is a thing in a picture.
type prediction struct {
	Label      string  `json:"label"`
	Confidence float64 `json:"confidence"`
	YMin       int     `json:"y_min"`
	XMin       int     `json:"x_min"`
	YMax       int     `json:"y_max"`
	XMax       int     `json:"x_max"`
}

// Answer is the body that tells what was found, in that order.
func Answer(found []ask.Detection) ([]byte, error) {
	whole := func(v float64) int { return int(math.Round(v)) }
	all := []prediction{}
	for _, d := range found {
		all = append(all, prediction{d.Label, math.Round(d.Confidence*1e4) / 1e4, whole(d.Y0), whole(d.X0), whole(d.Y1), whole(d.X1)})
	}
	return json.Marshal(struct {
		Success     bool         `json:"success"`
		Predictions []prediction `json:"predictions"`
	}{true, all})
}
