package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/mcp"
	"github.com/axle-llm/axle/server/request"
)

// maxToolCall is the most bytes of a call of a tool.
const maxToolCall = 512 << 10

// mayRun says why a request may not have tools of a server run; nil: it may.
func (s *Server) mayRun(x *request.Exchange, server string) error {
	switch {
	case s.o.Tools == nil:
		return body.Fail(http.StatusNotFound, "this server runs no tools: start it with --mcp FILE")
	//rule:T22 ./server TestToolsOpen false
	case s.o.Keys == nil && !s.o.Loopback && !s.o.AllowMCP:
		return body.Fail(http.StatusForbidden, "this server runs no tools, since anyone can reach it without a key: start it with "+
			"--keys-file, or with --allow-mcp")
	//rule:T22 ./server TestToolsRoles false
	case s.o.Keys != nil && (x.Who() == nil || !x.Who().Runs(server)):
		return body.Fail(http.StatusForbidden, "this key may not have tools of %q run: mcp= in its line of the file of "+
			"keys says which, or a key of the role admin", server)
	}
	return nil
}

// toolServers tells which servers the request's key may have tools run of. It starts none.
func (s *Server) toolServers(x *request.Exchange) error {
	all := []string{}
	if s.o.Tools != nil {
		for _, name := range s.o.Tools.Servers() {
			if s.mayRun(x, name) == nil {
				all = append(all, name)
			}
		}
	}
	x.Reply().JSON(http.StatusOK, map[string]any{"servers": all})
	return nil
}

// listTools tells what a server offers, and starts it where it does not run.
func (s *Server) listTools(x *request.Exchange) error {
	name := x.Param("server")
	if err := s.mayRun(x, name); err != nil {
		return err
	}
	l, err := s.o.Tools.List(x.Ctx(), x.Owner(), name)
	if err != nil {
		return err
	}
	if l.Tools == nil {
		l.Tools = []mcp.Tool{}
	}
	x.Reply().JSON(http.StatusOK, l)
	return nil
}

// toolCall is the body of a call.
type toolCall struct {
	Name      string          `json:"name"` // as the list has it
	Arguments json.RawMessage `json:"arguments"`
}

func decodeToolCall(b []byte) (c toolCall, err error) {
	if err := json.Unmarshal(b, &c); err != nil {
		return c, body.Fail(http.StatusBadRequest, "the body of a call is JSON: %s", err)
	}
	if c.Name == "" {
		return c, body.Fail(http.StatusBadRequest, "name is required: the list of tools has it")
	}
	return c, nil
}

// toolForm is how errors of a call are written.
type toolForm struct{}

func (toolForm) WholeType() string                   { return request.JSON }
func (toolForm) ErrorBody(_ int, text string) []byte { return body.ErrorJSON(text) }
func (toolForm) ErrorEnd(_ int, text string) []byte  { return append(body.ErrorJSON(text), '\n') }

// callTool calls a tool: lines of JSON with its progress, and one with its result.
func (s *Server) callTool(x *request.Exchange) error {
	server := x.Param("server")
	if err := s.mayRun(x, server); err != nil {
		return err
	}
	c, err := request.Read(x, maxToolCall, decodeToolCall)
	if err != nil {
		return err
	}
	if of := mcp.ServerOf(c.Name); of != server {
		return body.Fail(http.StatusBadRequest, "%q is no tool of the server %q: the names of its tools begin with %s__", c.Name,
			server, server)
	}
	x.Answer(toolForm{}, func(w *request.Reply) error { return s.runTool(x, w, c) })
	return nil
}

func (s *Server) runTool(x *request.Exchange, w *request.Reply, c toolCall) error {
	ctx, stop := context.WithCancel(x.Ctx())
	defer stop()
	type outcome struct {
		r   *mcp.Result
		err error
	}
	far, done := make(chan mcp.Progress, 1), make(chan outcome, 1)
	go func() {
		r, err := s.o.Tools.Call(ctx, x.Owner(), c.Name, c.Arguments, func(p mcp.Progress) {
			select {
			case far <- p:
			default: // the client is slow, and the next one tells more
			}
		})
		done <- outcome{r, err}
	}()
	line := func(what string, v any) error {
		b, err := json.Marshal(map[string]any{what: v})
		if err != nil {
			return fmt.Errorf("server: a tool's result: %w", err)
		}
		return w.Part(request.Lines, append(b, '\n'))
	}
	var broken error
	for {
		select {
		case p := <-far:
			if broken == nil {
				if broken = line("progress", p); broken != nil {
					stop()
				}
			}
		case o := <-done:
			if broken == nil && o.err == nil {
				return line("result", o.r)
			}
			if broken != nil {
				return fmt.Errorf("writing to the client: %w", context.Canceled)
			}
			return o.err
		}
	}
}
