package openai

import (
	"errors"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/prompt"
)

// API is OpenAI's API with the items of its last answers, which requests may name. It is safe for
// concurrent use. The zero API is ready.
type API struct{ items items }

// Dialect is the API's.
func (a *API) Dialect() prompt.Dialect {
	return prompt.Dialect{Under: "/v1/", ErrorType: whole, Error: errorBody, Routes: append([]prompt.Route{
		{Path: "/v1/chat/completions", Role: access.Ask, Read: readChat},
		{Path: "/v1/completions", Role: access.Ask, Small: true, Read: readCompletion},
		{Path: "/v1/responses", Role: access.Ask, Read: a.readResponses},
		{Path: "/v1/responses/compact", Role: access.Ask, Read: a.readCompaction},
	}, Renders()...)}
}

// errorBody is the body of an error, with what OpenAI's clients are told of it beside the text.
func errorBody(err error, status int, text string) []byte {
	var pe *ParamError
	switch {
	case errors.As(err, &pe):
		return pe.Body(status, text)
	case errors.As(err, new(ControlError)):
		return coded(status, text, "invalid_request_error")
	}
	return ErrorBody(status, text)
}
