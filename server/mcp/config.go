package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/axle-llm/axle/internal/regular"
)

// Bounds of a file of servers.
const (
	maxFile    = 1 << 20
	maxServers = 32
	maxTimeout = 10 * time.Minute
)

// spec is a server as the file has it.
type spec struct {
	name    string
	command string
	args    []string
	env     map[string]string
	url     string
	headers map[string]string
	timeout time.Duration // of a call; 0: the usual
}

// remote says that the server is reached by HTTP.
func (s *spec) remote() bool { return s.url != "" }

// same says whether two lines ask for the same server, so that a session of one serves the other.
func (s *spec) same(o *spec) bool {
	return s.command == o.command && s.url == o.url && s.timeout == o.timeout && slices.Equal(s.args, o.args) &&
		maps.Equal(s.env, o.env) && maps.Equal(s.headers, o.headers)
}

// entry is a server of the file, as JSON.
type entry struct {
	Type     string            `json:"type"`
	Command  *string           `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	URL      *string           `json:"url"`
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`
	Timeout  *float64          `json:"timeout"`
}

// read reads the file at path. Every error names the file, and where it can the server and the
// field.
func read(path string, getenv func(string) (string, bool)) ([]*spec, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("mcp: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("mcp: %w", err)
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("mcp: %s is no regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("mcp: %w", err)
	case len(b) > maxFile:
		return nil, fmt.Errorf("mcp: %s has more than %d KiB", path, maxFile>>10)
	}
	all, err := parse(b, getenv)
	if err != nil {
		return nil, fmt.Errorf("mcp: %s: %w", path, err)
	}
	if err := regular.Private(path, st); err != nil && secrets(all) {
		return nil, fmt.Errorf("mcp: env and headers hold secrets, and %w", err)
	}
	return all, nil
}

func secrets(all []*spec) bool {
	return slices.ContainsFunc(all, func(s *spec) bool { return len(s.env)+len(s.headers) > 0 })
}

// parse reads {"mcpServers": {NAME: …}}.
func parse(b []byte, getenv func(string) (string, bool)) ([]*spec, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(b, &top); err != nil {
		return nil, fmt.Errorf(`no JSON object such as {"mcpServers": {…}}: %w`, err)
	}
	for name := range top {
		if name != "mcpServers" {
			return nil, fmt.Errorf("%q is not known here: the file has mcpServers and nothing else", clip(name))
		}
	}
	var servers map[string]json.RawMessage
	if err := json.Unmarshal(top["mcpServers"], &servers); err != nil || servers == nil {
		return nil, errors.New(`mcpServers is no object of servers, such as {"mcpServers": {"home": {"url": "http://…"}}}`)
	}
	if len(servers) > maxServers {
		return nil, fmt.Errorf("%d servers, more than %d", len(servers), maxServers)
	}
	var all []*spec
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s, err := parseServer(name, servers[name], getenv)
		if err != nil {
			return nil, fmt.Errorf("server %q: %w", clip(name), err)
		}
		if s != nil {
			all = append(all, s)
		}
	}
	return all, nil
}

func parseServer(name string, raw []byte, getenv func(string) (string, bool)) (*spec, error) {
	if !soundName(name) {
		return nil, errors.New("a name is 1 to 24 letters, digits, - and _, without two _ in a row and none at an end")
	}
	var e entry
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return nil, fmt.Errorf("%s; known are type, command, args, env, url, headers, timeout and disabled",
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if e.Disabled {
		return nil, nil
	}
	s := &spec{name: name}
	x := expander{getenv: getenv}
	switch {
	case e.Command != nil && e.URL != nil:
		return nil, errors.New("command and url: a server has one of them")
	case e.Command == nil && e.URL == nil:
		return nil, errors.New("neither command (a program that is run here) nor url (a server that is reached by HTTP)")
	case e.Timeout != nil && !(*e.Timeout >= 1 && *e.Timeout <= maxTimeout.Seconds()):
		return nil, fmt.Errorf("timeout: %v is not from 1 to %v seconds", *e.Timeout, maxTimeout.Seconds())
	}
	if e.Timeout != nil {
		s.timeout = time.Duration(*e.Timeout * float64(time.Second))
	}
	var err error
	if e.URL != nil {
		err = s.setURL(&e, x)
	} else {
		err = s.setCommand(&e, x)
	}
	return s, err
}

func (s *spec) setCommand(e *entry, x expander) error {
	switch {
	case len(e.Headers) > 0:
		return errors.New("headers are for servers with a url")
	case e.Type != "" && e.Type != "stdio":
		return fmt.Errorf("type: %q is not stdio, which is what a server with a command speaks", clip(e.Type))
	}
	var err error
	if s.command, err = x.expand("command", *e.Command); err != nil {
		return err
	}
	if s.command == "" || strings.ContainsRune(s.command, 0) {
		return errors.New("command: is empty or has a zero byte")
	}
	if strings.Contains(s.command, "/") && !filepath.IsAbs(s.command) {
		return errors.New("command: is a name to look for in PATH, or an absolute path")
	}
	for i, a := range e.Args {
		if a, err = x.expand(fmt.Sprintf("args[%d]", i), a); err != nil {
			return err
		}
		s.args = append(s.args, a)
	}
	s.env = map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(e.Env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return fmt.Errorf("env: %q is no name of a variable", clip(k))
		}
		if s.env[k], err = x.expand("env."+k, e.Env[k]); err != nil {
			return err
		}
	}
	return nil
}

func (s *spec) setURL(e *entry, x expander) error {
	switch {
	case len(e.Args)+len(e.Env) > 0:
		return errors.New("args and env are for servers with a command")
	case e.Type == "sse":
		return errors.New("type: sse is the protocol's former transport, which is not spoken: use the server's address for streamable HTTP")
	case e.Type != "" && e.Type != "http" && e.Type != "streamable-http":
		return fmt.Errorf("type: %q is not http, which is what a server with a url speaks", clip(e.Type))
	}
	var err error
	if s.url, err = x.expand("url", *e.URL); err != nil {
		return err
	}
	u, err := url.Parse(s.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("url: is no address that begins with http:// or https://")
	}
	if u.User != nil {
		return errors.New("url: has a user or password, which would be in errors: put it into headers")
	}
	s.headers = map[string]string{}
	for _, k := range slices.Sorted(maps.Keys(e.Headers)) {
		v, err := x.expand("headers."+k, e.Headers[k])
		if err != nil {
			return err
		}
		if !httpguts.ValidHeaderFieldName(k) || !httpguts.ValidHeaderFieldValue(v) {
			return fmt.Errorf("headers: %q has a name or value that HTTP does not allow", clip(k))
		}
		s.headers[http.CanonicalHeaderKey(k)] = v
	}
	return nil
}

// expander puts variables of this server's environment into a value: ${NAME}, or
// ${NAME:-otherwise}. The file belongs to who runs the server, and to no one else: what it reads of
// the environment it could be told in clear.
type expander struct{ getenv func(string) (string, bool) }

func (x expander) expand(field, v string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(v, "${")
		out.WriteString(before)
		if !found {
			break
		}
		what, after, closed := strings.Cut(rest, "}")
		name, otherwise, has := strings.Cut(what, ":-")
		if !closed || name == "" || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return "", fmt.Errorf("%s: after ${ comes the name of a variable and }", field)
		}
		got, set := x.getenv(name)
		switch {
		case set && (got != "" || !has):
			out.WriteString(got)
		case has:
			out.WriteString(otherwise)
		default:
			return "", fmt.Errorf("%s: the variable %s is not set where axle runs; ${%s:-VALUE} says what stands for it", field, clip(name),
				clip(name))
		}
		v = after
	}
	if strings.ContainsRune(out.String(), 0) {
		return "", fmt.Errorf("%s: has a zero byte", field)
	}
	return out.String(), nil
}

// soundName: so that NAME__TOOL is one name, and tells which part is which.
func soundName(s string) bool {
	return s != "" && len(s) <= 24 && strings.Trim(s, letters) == "" && !strings.Contains(s, "__") && s[0] != '_' && s[len(s)-1] != '_'
}

func clip(v string) string { return v[:min(len(v), 100)] }
