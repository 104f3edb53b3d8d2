// Package immich speaks the protocol of Immich's machine-learning service, which Immich calls for
// the vectors of texts and pictures (CLIP) and for faces.
//
// A request to [Path] is a form. Its field entries is JSON that says which tasks are asked for, by
// task, part of a task and model; text or image is what they are asked of. The answer has a field
// for each task. A vector is a string that holds a JSON array: Immich hands it to its database as
// it is.
//
// The functions are pure and safe for concurrent use.
package immich

import (
	"encoding/json"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// Path is where everything is asked.
const Path = "/predict"

// Type is the content type of answers and errors.
const Type = "application/json"

// Pong is the body of an answer to GET /ping, and Root to GET /.
const (
	Pong = "pong"
	Root = `{"message":"Immich ML"}`
)

// Dialect is the protocol's.
func Dialect() prompt.Dialect {
	return prompt.Dialect{Under: "/", ErrorType: Type, Error: func(_ error, _ int, text string) []byte {
		b, _ := json.Marshal(struct {
			Detail string `json:"detail"`
		}{text})
		return b
	}}
}

// Unprovided is the error of a form with neither a text nor a picture, in the service's own words.
func Unprovided() error { return body.Fail(400, "Either image or text must be provided") }
