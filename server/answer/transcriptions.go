package answer

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// OpenAITranscriptions checks the form as Ollama does; no model here hears. It reads no more of it
// than any request may cost, and keeps nothing: what it has to know stands before the sound, or
// after a short one.
func (a *Answers) OpenAITranscriptions(x *request.Exchange) error {
	end := time.Now().Add(a.o.Shared.ReadTimeout)
	_ = http.NewResponseController(x.Writer).SetReadDeadline(end)
	err := a.transcription(x.Request, &io.LimitedReader{R: x.Request.Body, N: request.MaxSmallBody})
	x.Drain(end)
	return err
}

func (a *Answers) transcription(r *http.Request, in *io.LimitedReader) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return body.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", body.Ours(http.ErrNotMultipart.Error()))
	}
	form := multipart.NewReader(in, params["boundary"])
	var name string
	var file bool
	for name == "" || !file {
		p, err := form.NextPart()
		if err == io.EOF { //nolint:errorlint // as NextPart has it
			break
		}
		switch {
		case err != nil && in.N <= 0 && name == "":
			return body.Fail(http.StatusBadRequest, "no model here supports audio")
		case err != nil && in.N <= 0:
			return request.TooLarge(request.MaxSmallBody)
		case err != nil:
			return body.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", err)
		case p.FormName() == "file" && p.FileName() != "":
			file = true
		case p.FormName() == "model" && p.FileName() == "" && name == "":
			b, err := io.ReadAll(io.LimitReader(p, 1024)) // longer than any name
			if err != nil {
				return body.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", err)
			}
			name = string(b)
		}
	}
	if name == "" {
		return prompt.ErrUnnamed
	}
	if !file {
		return body.Fail(http.StatusBadRequest, "file is required: %s", body.Ours(http.ErrMissingFile.Error()))
	}
	e, err := catalog.Find(a.o.Store, name, prompt.ErrUnnamed, prompt.Missing)
	if err == nil {
		err = e.Runs(name)
	}
	if err == nil {
		err = body.Fail(http.StatusBadRequest, "%s does not support audio", e.Name.Full())
	}
	return err
}
