package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// play is a server of the test's own, by the part that it plays.
func play(part string, args []string) {
	switch part {
	case "good":
		_ = good().Run(context.Background(), &sdk.StdioTransport{})
		return
	case "dies":
		fmt.Fprintln(os.Stderr, "no such token: secret-of-the-server")
		os.Exit(3)
	case "hangs":
		select {}
	case "stubborn": // ends for nothing but SIGKILL, and neither does its child
		c := exec.Command("/proc/self/exe", "play", "hangs")
		c.Stdout = os.Stdout
		_ = c.Start()
		_ = os.WriteFile(args[0], fmt.Appendf(nil, "%d %d", os.Getpid(), c.Process.Pid), 0o666)
		signal.Ignore(syscall.SIGTERM)
	case "stray": // writes what is no message
		fmt.Println("Server is listening!")
	case "line": // without end
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	}
	raw(part, args)
}

// good is a server as it should be, by the SDK.
func good() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "good", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: "Says it again", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(ctx context.Context, r *sdk.CallToolRequest, in struct {
			Words string `json:"words"`
		}) (*sdk.CallToolResult, any, error) {
			if token := r.Params.GetProgressToken(); token != nil {
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: 1, Total: 2,
					Message: "half"})
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: in.Words}}}, nil, nil
		})
	sdk.AddTool(s, &sdk.Tool{Name: "fail"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("it is broken")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "wait"}, func(ctx context.Context, _ *sdk.CallToolRequest, in struct {
		File string `json:"file"`
	}) (*sdk.CallToolResult, any, error) {
		_ = os.WriteFile(in.File, []byte("waits"), 0o666)
		<-ctx.Done()
		_ = os.WriteFile(in.File, []byte("was told"), 0o666)
		return nil, nil, ctx.Err()
	})
	sdk.AddTool(s, &sdk.Tool{Name: "pid"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(os.Getpid())}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "look"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
		Files []string `json:"files"`
	}) (*sdk.CallToolResult, any, error) {
		b, _ := json.Marshal(look(in.Files))
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(b)}}}, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "die"}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		os.Exit(1)
		return nil, nil, nil
	})
	return s
}

// seen is what a process can see of the machine.
type seen struct {
	FDs     []string          // what its descriptors lead to
	Env     []string          // names
	UID     int               //
	NoNew   string            // of /proc/self/status
	Opened  map[string]string // of the files asked for: "" or the error
	Signals string            // what becomes of a signal to the process that began it
}

func look(files []string) seen {
	s := seen{UID: os.Getuid(), Opened: map[string]string{}}
	all, _ := os.ReadDir("/proc/self/fd")
	for _, e := range all {
		to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err == nil {
			s.FDs = append(s.FDs, e.Name()+" "+to)
		}
	}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		s.Env = append(s.Env, name)
	}
	slices.Sort(s.Env)
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "NoNewPrivs:"); ok {
			s.NoNew = strings.TrimSpace(v)
		}
	}
	for _, f := range files {
		s.Opened[f] = ""
		h, err := os.Open(f)
		if err != nil {
			s.Opened[f] = err.Error()
			continue
		}
		if _, err := h.Read(make([]byte, 1)); err != nil && err != io.EOF {
			s.Opened[f] = err.Error()
		}
		_ = h.Close()
	}
	s.Signals = fmt.Sprint(syscall.Kill(os.Getppid(), 0))
	return s
}

// raw speaks the protocol by hand, and badly.
func raw(part string, args []string) {
	in := bufio.NewReader(os.Stdin)
	say := func(format string, a ...any) { fmt.Printf(format+"\n", a...) }
	listed := 0
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(line, &q)
		tools := `{"name":"t","description":"d","inputSchema":{"type":"object"}}`
		switch q.Method {
		case "initialize":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},`+
				`"serverInfo":{"name":"x","version":"1"}}}`, q.ID)
		case "tools/list":
			next := ""
			switch listed++; part {
			case "list": // without end
				next = fmt.Sprintf(`,"nextCursor":"c%d"`, listed)
				tools = fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, listed)
			case "schema":
				tools = `{"name":"a","inputSchema":{"type":"string"}},{"name":"b","inputSchema":[]},{"name":"c"},{"name":"","inputSchema":` +
					`{"type":"object"}},{"name":"ok","inputSchema":{"type":"object"}}`
			case "names":
				var all []string
				for _, n := range []string{"t", "t", `../../etc\u202e`, "\xff\xfe", strings.Repeat("n", 200)} {
					all = append(all, `{"name":"`+n+`","description":"`+"\xff"+`<b>\u0007","inputSchema":{"type":"object"}}`)
				}
				tools = strings.Join(all, ",")
			case "changes":
				tools = fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, listed)
			}
			say(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]%s}}`, q.ID, tools, next)
		case "tools/call":
			switch part {
			case "callhangs":
				select {}
			case "ids":
				say(`{"jsonrpc":"2.0","id":777,"result":{"content":[{"type":"text","text":"another's"}]}}`)
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"mine"}]}}`, q.ID)
			case "shape":
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":"a string"}}`, q.ID)
			case "utf8":
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"a`+"\xff\xfe"+`\u0000\u202eb"}]}}`, q.ID)
			case "big":
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, q.ID)
				for range 1 << 14 { // a GiB
					if _, err := os.Stdout.WriteString(strings.Repeat("x", 1<<16)); err != nil {
						return
					}
				}
				say(`"}]}}`)
			case "long":
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, q.ID, strings.Repeat("é", maxResult))
			case "notices": // without end
				for {
					if _, err := fmt.Println(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` +
						strings.Repeat("x", 1<<12) + `"}}`); err != nil {
						return
					}
				}
			case "asks": // for our files and our model
				say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
				say(`{"jsonrpc":"2.0","id":2,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
				a, _ := in.ReadString('\n')
				b, _ := in.ReadString('\n')
				c, _ := json.Marshal(fmt.Sprint(strings.Count(a+b, `"error"`), " refused, roots ", strings.Contains(a+b, `"roots":[]`)))
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, q.ID, c)
			case "changes":
				say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				fallthrough
			default:
				say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"ok"}]}}`, q.ID)
			}
		}
	}
}

// remoteGood serves the good server by HTTP, to who has the token.
func remoteGood(token string) http.Handler {
	h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return good() }, nil)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "401: Unauthorized", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}
