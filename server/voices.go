package server

import (
	"net/http"

	"github.com/axle-llm/axle/server/request"
)

// OpenAI has no list of voices. These are what Open WebUI asks of a server that is not OpenAI's,
// and what others that speak its API answer.

// voices are those of all models that speak, or of the one that the query names.
func (s *Server) voices(x *request.Exchange) error {
	type voice struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Language string `json:"language"`
		Model    string `json:"model"`
	}
	out := struct {
		Voices []voice `json:"voices"`
	}{[]voice{}}
	all, err := s.answers.Voices(x.Ctx(), x.Query("model"), "")
	for _, v := range all {
		out.Voices = append(out.Voices, voice{v.Name, v.Name, v.Language, v.Model.Name.String()})
	}
	if err == nil {
		x.Reply().JSON(http.StatusOK, out)
	}
	return err
}

// speakers are the models that speak.
func (s *Server) speakers(x *request.Exchange) error {
	type model struct {
		ID string `json:"id"`
	}
	out := struct {
		Models []model `json:"models"`
	}{[]model{}}
	all, err := s.answers.Speakers(x.Ctx(), "")
	for _, e := range all {
		out.Models = append(out.Models, model{e.Name.String()})
	}
	if err == nil {
		x.Reply().JSON(http.StatusOK, out)
	}
	return err
}
