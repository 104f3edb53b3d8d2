package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	wire "github.com/ollama/ollama/anthropic"
)

// picture is a picture's bytes.
func picture(s *wire.ImageSource) ([]byte, error) {
	if s == nil {
		return nil, errors.New("invalid image source")
	}
	if s.Type != "base64" {
		//nolint:staticcheck // Ollama's text
		return nil, fmt.Errorf("invalid image source type: %s. Only base64 images are supported.", s.Type)
	}
	b, err := base64.StdEncoding.DecodeString(s.Data)
	if err != nil {
		return nil, fmt.Errorf("invalid base64 image data: %w", err)
	}
	return b, nil
}

// pictureOf is the bytes of a picture in a tool's result.
func pictureOf(source any) ([]byte, error) {
	in, ok := source.(map[string]any)
	if !ok {
		return nil, errors.New("invalid tool_result image source")
	}
	text := func(key string) string { s, _ := in[key].(string); return s }
	return picture(&wire.ImageSource{Type: text("type"), Data: text("data")})
}

// found is what a search gave that Anthropic's server ran, a line a page.
func found(content any) string {
	const failed = "web_search_tool_result_error"
	why := func(of map[string]any) string {
		if code, _ := of["error_code"].(string); code != "" {
			return failed + ": " + code
		}
		return failed
	}
	switch c := content.(type) {
	case string:
		return c
	case []any:
		var lines strings.Builder
		for _, item := range c {
			page, _ := item.(map[string]any)
			switch page["type"] {
			case "web_search_result":
				title, _ := page["title"].(string)
				url, _ := page["url"].(string)
				fmt.Fprintf(&lines, "- %s: %s\n", title, url)
			case failed:
				return why(page)
			}
		}
		return lines.String()
	case map[string]any:
		if c["type"] == failed {
			return why(c)
		}
	}
	b, err := json.Marshal(content)
	if err != nil {
		return ""
	}
	return string(b)
}
