package answer

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ollama"
)

// OpenAITranscriptions checks the form as Ollama does; no model here hears. It reads no more of it
// than any request may cost, and keeps nothing: what it has to know stands before the sound, or
// after a short one.
func (a *Answers) OpenAITranscriptions(x *exchange.Exchange) {
	end := time.Now().Add(a.o.Shared.ReadTimeout)
	_ = http.NewResponseController(x.Writer).SetReadDeadline(end)
	err := a.transcription(x.Request, &io.LimitedReader{R: x.Request.Body, N: exchange.MaxSmallBody})
	x.Drain(end)
	x.Fail(err)
}

func (a *Answers) transcription(r *http.Request, body *io.LimitedReader) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return ollama.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", ollama.Ours(http.ErrNotMultipart.Error()))
	}
	form := multipart.NewReader(body, params["boundary"])
	var name string
	var file bool
	for name == "" || !file {
		p, err := form.NextPart()
		if err == io.EOF { //nolint:errorlint // as NextPart has it
			break
		}
		switch {
		case err != nil && body.N <= 0 && name == "":
			return ollama.Fail(http.StatusBadRequest, "no model here supports audio")
		case err != nil && body.N <= 0:
			return exchange.TooLarge(exchange.MaxSmallBody)
		case err != nil:
			return ollama.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", err)
		case p.FormName() == "file" && p.FileName() != "":
			file = true
		case p.FormName() == "model" && p.FileName() == "" && name == "":
			b, err := io.ReadAll(io.LimitReader(p, 1024)) // longer than any name
			if err != nil {
				return ollama.Fail(http.StatusBadRequest, "failed to parse multipart form: %s", err)
			}
			name = string(b)
		}
	}
	if name == "" {
		return ollama.ErrUnnamed
	}
	if !file {
		return ollama.Fail(http.StatusBadRequest, "file is required: %s", ollama.Ours(http.ErrMissingFile.Error()))
	}
	e, err := catalog.Find(a.o.Store, name, ollama.ErrUnnamed, ollama.Missing)
	if err == nil {
		err = e.Runs(name)
	}
	if err == nil {
		err = ollama.Fail(http.StatusBadRequest, "%s does not support audio", e.Name.Full())
	}
	return err
}
