package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/mcp"
	"github.com/axle-llm/axle/server/scripted"
)

// The routes of tools that run: which servers there are, what one offers, and a call.
func TestTools(t *testing.T) {
	tools := toolsOf(t)
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Loopback, o.Tools = true, tools })
	if a := r.do("GET", "/api/axle/tools", ""); a.code != 200 || a.body != `{"servers":["home","time"]}` {
		t.Errorf("%d %s", a.code, a.body)
	}
	a := r.do("GET", "/api/axle/tools/home", "")
	var l mcp.Listed
	if err := json.Unmarshal([]byte(a.body), &l); err != nil || a.code != 200 || len(l.Tools) != 1 || l.Tools[0].Name != "home__lamp" ||
		l.Tools[0].Digest == "" {
		t.Errorf("%d %s", a.code, a.body)
	}
	for _, tt := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "home", `{"name":"home__lamp","arguments":{"name":"kitchen"}}`, 200, `{"result":{"text":"kitchen is \u003con\u003e"}}` + "\n"},
		{"POST", "home", `{"name":"home__lamp","arguments":{"name":"none"}}`, 200, `{"result":{"text":"there is no such lamp","error":true}}` + "\n"},
		{"POST", "home", `{"name":"home__door"}`, 404, `offers no tool`},
		{"POST", "home", `{"name":"time__now"}`, 400, `is no tool of the server`},
		{"POST", "home", `{}`, 400, `name is required`},
		{"POST", "home", `{`, 400, `is JSON`},
		{"POST", "home", `{"name":"home__lamp","arguments":[1]}`, 400, `JSON object`},
		{"POST", "time", `{"name":"time__now"}`, 502, `"error":"the server \"time\" does not start`},
		{"GET", "none", ``, 404, `no tool server`},
		{"GET", "time", ``, 50, `time`},
	} {
		a := r.do(tt.method, "/api/axle/tools/"+tt.path, tt.body)
		if a.code != tt.code && a.code/10 != tt.code || !strings.Contains(a.body, tt.want) {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, a.code, a.body)
		}
	}
	if a := newRig(t).do("GET", "/api/axle/tools", ""); a.body != `{"servers":[]}` {
		t.Error(a.body)
	}
	if a := newRig(t).do("GET", "/api/axle/tools/home", ""); a.code != 404 || !strings.Contains(a.body, "--mcp FILE") {
		t.Error(a.body)
	}
}

// A key has tools run of the servers that its line names, and of no other.
func TestToolsRoles(t *testing.T) {
	//proves:T22
	tools := toolsOf(t)
	lines := []access.Line{{Name: "ask", Role: access.Ask}, {Name: "admin", Role: access.Admin},
		{Name: "home", Role: access.Ask, MCP: "time,home"},
		{Name: "time", Role: access.Admin, MCP: "time"},
		{Name: "all", Role: access.Ask, MCP: "*"}, {Name: "none", Role: access.Admin, MCP: "none"}}
	for i := range lines {
		lines[i].Key = access.Secret("secret-of-" + lines[i].Name)
	}
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Keys, o.Tools = access.New(lines...), tools })
	for name, want := range map[string]int{"ask": 403, "admin": 200, "home": 200, "time": 403, "all": 200, "none": 403} {
		header := []string{"Authorization", "Bearer secret-of-" + name}
		for _, a := range []answer{r.do("GET", "/api/axle/tools/home", "", header...),
			r.do("POST", "/api/axle/tools/home", `{"name":"home__lamp","arguments":{"name":"x"}}`, header...)} {
			if a.code != want {
				t.Errorf("%s: %d %s", name, a.code, a.body)
			}
		}
		if a := r.do("GET", "/api/axle/tools", "", header...); strings.Contains(a.body, `"home"`) != (want == 200) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}

// A server without keys that other machines reach runs no tools, unless it was told to.
func TestToolsOpen(t *testing.T) {
	//proves:T22
	tools := toolsOf(t)
	for _, tt := range []struct {
		loopback, allow bool
		want            int
	}{{true, false, 200}, {false, false, 403}, {false, true, 200}} {
		r := newRig(t, func(o *server.Options, _ *scripted.Config) {
			o.Loopback, o.AllowMCP, o.Tools = tt.loopback, tt.allow, tools
		})
		a := r.do("POST", "/api/axle/tools/home", `{"name":"home__lamp","arguments":{"name":"x"}}`)
		if a.code != tt.want {
			t.Errorf("%+v: %d %s", tt, a.code, a.body)
		}
	}
}

// A request to a model names no tool server by its address, and the refusal says what to do.
func TestResponsesMCP(t *testing.T) {
	r := newRig(t)
	a := r.post("/v1/responses", `{"model":"scripted-chat","input":"x","tools":[{"type":"mcp","server_label":"x","server_url":"http://127.0.0.1:1/"}]}`)
	if a.code != 400 || !strings.Contains(a.body, "/api/axle/tools") {
		t.Errorf("%d %s", a.code, a.body)
	}
}

// toolsOf gives a server two tool servers, home and time.
func toolsOf(t *testing.T) *mcp.Tools {
	t.Helper()
	home := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
		s := sdk.NewServer(&sdk.Implementation{Name: "home", Version: "1"}, nil)
		type lamp struct {
			Name string `json:"name"`
		}
		sdk.AddTool(s, &sdk.Tool{Name: "lamp", Description: "Switches a lamp"}, func(_ context.Context, _ *sdk.CallToolRequest, in lamp) (
			*sdk.CallToolResult, any, error) {
			if in.Name == "none" {
				return nil, nil, fmt.Errorf("there is no such lamp")
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Name + " is <on>"}}}, nil, nil
		})
		return s
	}, nil))
	t.Cleanup(home.Close)
	file := filepath.Join(t.TempDir(), "mcp.json")
	text := fmt.Sprintf(`{"mcpServers": {"home": {"url": %q}, "time": {"url": "http://127.0.0.1:1/"}}}`, home.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tools, err := mcp.New(mcp.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tools.Close() })
	return tools
}
