// Package clients runs Go clients that we did not write against a server whose address is in AXLE_TEST_URL (the scripted build's).
package clients

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/ollama/ollama/api"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

func base(t *testing.T) *url.URL {
	t.Helper()
	s := os.Getenv("AXLE_TEST_URL")
	if s == "" {
		t.Skip("AXLE_TEST_URL names no server: make clients-ci starts one")
	}
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

const toolCall = "[[say:Let me see.|<tool_call>\n|{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}|\n</tool_call>]]"

func TestOllamaAPI(t *testing.T) {
	c := api.NewClient(base(t), http.DefaultClient)
	ctx := context.Background()
	if err := c.Heartbeat(ctx); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Version(ctx); err != nil || v != "0.34.4" {
		t.Errorf("version %q, %v", v, err)
	}
	text, chunks := "", 0
	var last api.ChatResponse
	err := c.Chat(ctx, &api.ChatRequest{Model: "scripted-chat", Messages: []api.Message{{Role: "user", Content: "[[say:Hello| from| Go]]"}}}, func(r api.ChatResponse) error {
		text += r.Message.Content
		chunks++
		last = r
		return nil
	})
	if err != nil || text != "Hello from Go" || chunks != 4 || !last.Done || last.EvalCount != 3 {
		t.Errorf("chat: %q in %d chunks, %v", text, chunks, err)
	}
	props := api.NewToolPropertiesMap()
	props.Set("city", api.ToolProperty{Type: api.PropertyType{"string"}})
	tools := api.Tools{{Type: "function", Function: api.ToolFunction{Name: "get_weather", Parameters: api.ToolFunctionParameters{Type: "object", Properties: props}}}}
	var calls []api.ToolCall
	err = c.Chat(ctx, &api.ChatRequest{Model: "scripted-chat", Tools: tools, Messages: []api.Message{{Role: "user", Content: toolCall}}}, func(r api.ChatResponse) error {
		calls = append(calls, r.Message.ToolCalls...)
		return nil
	})
	if err != nil || len(calls) != 1 || calls[0].Function.Name != "get_weather" {
		t.Errorf("tools: %v, %v", calls, err)
	}
	list, err := c.List(ctx)
	if err != nil || len(list.Models) < 4 {
		t.Errorf("list: %v, %v", list, err)
	}
	e, err := c.Embed(ctx, &api.EmbedRequest{Model: "scripted-embed", Input: []string{"a", "b"}})
	if err != nil || len(e.Embeddings) != 2 || len(e.Embeddings[0]) != 8 {
		t.Errorf("embed: %v, %v", e, err)
	}
	if err := c.Create(ctx, &api.CreateRequest{Model: "go-made", From: "scripted-chat", System: "be brief"}, func(api.ProgressResponse) error { return nil }); err != nil {
		t.Error(err)
	}
	if s, err := c.Show(ctx, &api.ShowRequest{Model: "go-made"}); err != nil || s.System != "be brief" {
		t.Errorf("show: %v, %v", s, err)
	}
	if err := c.Copy(ctx, &api.CopyRequest{Source: "go-made", Destination: "go-copied"}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"go-made", "go-copied"} {
		if err := c.Delete(ctx, &api.DeleteRequest{Model: name}); err != nil {
			t.Error(err)
		}
	}
	if ps, err := c.ListRunning(ctx); err != nil || len(ps.Models) == 0 {
		t.Errorf("ps: %v, %v", ps, err)
	}
	err = c.Chat(ctx, &api.ChatRequest{Model: "nope"}, func(api.ChatResponse) error { return nil })
	if se, ok := err.(api.StatusError); !ok || se.StatusCode != 404 {
		t.Errorf("unknown model: %v", err)
	}
}

func TestOpenAI(t *testing.T) {
	c := openai.NewClient(option.WithBaseURL(base(t).String()+"/v1/"), option.WithAPIKey("x"), option.WithMaxRetries(0))
	ctx := context.Background()
	ask := func(text string) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: "scripted-chat", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
	}
	r, err := c.Chat.Completions.New(ctx, ask("[[say:Hello| there]]"))
	if err != nil || r.Choices[0].Message.Content != "Hello there" || r.Choices[0].FinishReason != "stop" || r.Usage.CompletionTokens != 2 {
		t.Errorf("chat: %+v, %v", r, err)
	}
	p := ask("[[say:a|b|c|d]]")
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	p.MaxCompletionTokens = openai.Int(3)
	s := c.Chat.Completions.NewStreaming(ctx, p)
	acc := openai.ChatCompletionAccumulator{}
	for s.Next() {
		acc.AddChunk(s.Current())
	}
	if s.Err() != nil || acc.Choices[0].Message.Content != "abc" || acc.Choices[0].FinishReason != "length" || acc.Usage.CompletionTokens != 3 {
		t.Errorf("stream: %+v, %v", acc.ChatCompletion, s.Err())
	}
	p = ask(toolCall)
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "get_weather",
		Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}})}
	s = c.Chat.Completions.NewStreaming(ctx, p)
	acc = openai.ChatCompletionAccumulator{}
	for s.Next() {
		acc.AddChunk(s.Current())
	}
	if m := acc.Choices[0].Message; s.Err() != nil || len(m.ToolCalls) != 1 || m.ToolCalls[0].Function.Arguments != `{"city":"Paris"}` || acc.Choices[0].FinishReason != "tool_calls" {
		t.Errorf("tools: %+v, %v", acc.ChatCompletion, s.Err())
	}
	s = c.Chat.Completions.NewStreaming(ctx, ask("[[say:a|b|c]][[crash]]"))
	for s.Next() {
	}
	if s.Err() == nil {
		t.Error("a stream that broke has no error")
	}
	if e, err := c.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "scripted-embed", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}}}); err != nil || len(e.Data) != 2 || len(e.Data[1].Embedding) != 8 {
		t.Errorf("embeddings: %v, %v", e, err)
	}
	if m, err := c.Models.List(ctx); err != nil || len(m.Data) < 4 {
		t.Errorf("models: %v, %v", m, err)
	}
	if m, err := c.Models.Get(ctx, "scripted"); err != nil || m.ID != "scripted" {
		t.Errorf("model: %v, %v", m, err)
	}
	resp, err := c.Responses.New(ctx, responses.ResponseNewParams{Model: "scripted-chat", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("[[say:fine| thanks]]")}})
	if err != nil || resp.OutputText() != "fine thanks" {
		t.Errorf("responses: %v, %v", resp, err)
	}
	rs := c.Responses.NewStreaming(ctx, responses.ResponseNewParams{Model: "scripted-chat", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("[[say:fine| thanks]]")}})
	var kinds []string
	text := ""
	for rs.Next() {
		ev := rs.Current()
		kinds = append(kinds, ev.Type)
		if ev.Type == "response.output_text.delta" {
			text += ev.Delta
		}
	}
	if rs.Err() != nil || text != "fine thanks" || kinds[0] != "response.created" || kinds[len(kinds)-1] != "response.completed" {
		t.Errorf("responses stream: %q %v %v", text, kinds, rs.Err())
	}
	if _, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "nope", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("x")}}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("unknown model: %v", err)
	}
}

func TestAnthropic(t *testing.T) {
	c := anthropic.NewClient(aoption.WithBaseURL(base(t).String()), aoption.WithAPIKey("x"), aoption.WithMaxRetries(0))
	ctx := context.Background()
	ask := func(text string) anthropic.MessageNewParams {
		return anthropic.MessageNewParams{Model: "scripted-chat", MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(text))}}
	}
	m, err := c.Messages.New(ctx, ask("[[say:Hello| there]]"))
	if err != nil || m.Content[0].Text != "Hello there" || m.StopReason != "end_turn" || m.Usage.OutputTokens != 2 {
		t.Errorf("message: %+v, %v", m, err)
	}
	p := ask(toolCall)
	p.Tools = []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{Properties: map[string]any{"city": map[string]any{"type": "string"}}}, "get_weather")}
	s := c.Messages.NewStreaming(ctx, p)
	acc := anthropic.Message{}
	for s.Next() {
		if err := acc.Accumulate(s.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if s.Err() != nil || acc.StopReason != "tool_use" || len(acc.Content) != 2 || acc.Content[1].Name != "get_weather" || string(acc.Content[1].Input) != `{"city":"Paris"}` {
		t.Errorf("stream: %+v, %v", acc, s.Err())
	}
	n, err := c.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: "scripted-chat", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("one two three"))}})
	if err != nil || n.InputTokens < 3 {
		t.Errorf("count: %v, %v", n, err)
	}
	s = c.Messages.NewStreaming(ctx, ask("[[say:a|b|c]][[crash]]"))
	for s.Next() {
	}
	if s.Err() == nil {
		t.Error("a stream that broke has no error")
	}
}
