package clients

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	aoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/ollama/ollama/api"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// The same clients against a real engine: the model that ships inside, on the soft card (AXLE_TEST_SOFT_URL).
func TestSoftCard(t *testing.T) {
	base := os.Getenv("AXLE_TEST_SOFT_URL")
	if base == "" {
		t.Skip("AXLE_TEST_SOFT_URL names no server: make clients-ci starts one where bin/axle is built")
	}
	ctx := context.Background()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	greedy := map[string]any{"temperature": 0, "seed": 1, "num_predict": 40}
	ask := func() string {
		text := ""
		var last api.ChatResponse
		err := api.NewClient(u, http.DefaultClient).Chat(ctx, &api.ChatRequest{Model: "pocket", Options: greedy, Think: &api.ThinkValue{Value: false},
			Messages: []api.Message{{Role: "user", Content: "hello"}}}, func(r api.ChatResponse) error {
			text += r.Message.Content
			last = r
			return nil
		})
		if err != nil || text == "" || !last.Done || last.EvalCount == 0 || last.PromptEvalCount == 0 || last.EvalDuration == 0 {
			t.Errorf("ollama/api: %q %+v %v", text, last, err)
		}
		return text
	}
	if a, b := ask(), ask(); a != b {
		t.Errorf("greedy answers differ: %q and %q", a, b)
	}
	oc := openai.NewClient(option.WithBaseURL(base+"/v1/"), option.WithAPIKey("x"))
	s := oc.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "pocket", Temperature: openai.Float(0), MaxCompletionTokens: openai.Int(40),
		ReasoningEffort: "none", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}})
	acc := openai.ChatCompletionAccumulator{}
	for s.Next() {
		acc.AddChunk(s.Current())
	}
	if s.Err() != nil || len(acc.Choices) != 1 || acc.Choices[0].Message.Content == "" || acc.Choices[0].FinishReason == "" {
		t.Errorf("openai-go: %+v %v", acc.ChatCompletion, s.Err())
	}
	ac := anthropic.NewClient(aoption.WithBaseURL(base), aoption.WithAPIKey("x"))
	m, err := ac.Messages.New(ctx, anthropic.MessageNewParams{Model: "pocket", MaxTokens: 40, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))}})
	if err != nil || len(m.Content) == 0 || m.Usage.OutputTokens == 0 {
		t.Errorf("anthropic-sdk-go: %+v %v", m, err)
	}
	n, err := ac.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{Model: "pocket", Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))}})
	if err != nil || n.InputTokens != m.Usage.InputTokens+m.Usage.CacheReadInputTokens {
		t.Errorf("count_tokens says %d, the answer %d: %v", n.InputTokens, m.Usage.InputTokens+m.Usage.CacheReadInputTokens, err)
	}
}

// Each client sends a picture in its own way, and gets what is in it.
func TestPicture(t *testing.T) {
	base := os.Getenv("AXLE_TEST_SOFT_URL")
	if base == "" {
		t.Skip("AXLE_TEST_SOFT_URL names no server: make clients-ci starts one where bin/axle is built")
	}
	png, err := os.ReadFile("../../pocket/shapes.png")
	if err != nil {
		t.Fatal(err)
	}
	const question, want = "What is in this picture?", "A red circle, a blue square and a yellow star."
	ctx := context.Background()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	text, stream := "", false
	err = api.NewClient(u, http.DefaultClient).Chat(ctx, &api.ChatRequest{Model: "pocket", Stream: &stream, Options: map[string]any{"temperature": 0}, Think: &api.ThinkValue{Value: false},
		Messages: []api.Message{{Role: "user", Content: question, Images: []api.ImageData{png}}}}, func(r api.ChatResponse) error {
		text += r.Message.Content
		return nil
	})
	if err != nil || text != want {
		t.Errorf("ollama/api: %q %v", text, err)
	}
	data := base64.StdEncoding.EncodeToString(png)
	oc := openai.NewClient(option.WithBaseURL(base+"/v1/"), option.WithAPIKey("x"))
	r, err := oc.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "pocket", Temperature: openai.Float(0), ReasoningEffort: "none",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + data}),
			openai.TextContentPart(question)})}})
	if err != nil || len(r.Choices) != 1 || r.Choices[0].Message.Content != want {
		t.Errorf("openai-go: %+v %v", r, err)
	}
	ac := anthropic.NewClient(aoption.WithBaseURL(base), aoption.WithAPIKey("x"))
	m, err := ac.Messages.New(ctx, anthropic.MessageNewParams{Model: "pocket", MaxTokens: 40, Temperature: anthropic.Float(0), Messages: []anthropic.MessageParam{
		anthropic.NewUserMessage(anthropic.NewImageBlockBase64("image/png", data), anthropic.NewTextBlock(question))}})
	if err != nil || len(m.Content) == 0 || m.Content[len(m.Content)-1].Text != want { // a thought may come first
		t.Errorf("anthropic-sdk-go: %+v %v", m, err)
	}
}
