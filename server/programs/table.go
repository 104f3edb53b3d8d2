package programs

import "strconv"

func decimal(n int) string { return strconv.Itoa(n) }

// Table is every program, in the order in which people are shown them.
var Table = table()

// first is a number of tokens that was measured.
func first(n int, version, details string) Tokens {
	return Tokens{First: n, Room: n + work, By: Measured, Version: version, Details: details}
}

var (
	talk  = Tokens{By: Talk}
	grows = Tokens{By: Grows}
)

func table() []Program {
	list := []Program{
		{ID: "claude", Name: "Claude Code",
			Note: "An agent that writes programs, in a terminal.",
			Copy: []Copy{{"sh", "ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key} claude --model {model}"}},
			Needs: first(18600, "2.1.197",
				"`claude -p`: 24 tools"),
			Launch: &Start{Command: "claude", Install: "npm install -g @anthropic-ai/claude-code",
				Env: append(claudeEnv(), Var{Name: "ANTHROPIC_AUTH_TOKEN", Value: "{key}", Secret: true}),
				// A key of Anthropic's own would be sent to this server.
				Unset: []string{"ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"},
				File:  &File{Variable: "CLAUDE_CONFIG_DIR", Folder: ".claude", Names: []string{"settings.json"}},
				Entries: append(claudeEntries(), Entry{Path: []string{"apiKeyHelper"},
					Value: `printf %s "${AXLE_KEY:-` + NoKey + `}"`})}},
		{ID: "codex", Name: "Codex",
			Note: "An agent that writes programs, in a terminal.",
			Copy: []Copy{{"~/.codex/config.toml", `model = "{model}"
model_provider = "axle"

[model_providers.axle]
name = "axle"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "AXLE_KEY"`}, {"sh", "AXLE_KEY={key} codex"}},
			Needs: first(8300, "0.169.0", "`codex exec`, a provider with `wire_api = \"responses\"`: 12 tools"),
			Launch: &Start{Command: "codex", Install: "npm install -g @openai/codex", As: "-c",
				File: &File{Variable: "CODEX_HOME", Folder: ".codex", Names: []string{"config.toml"}, TOML: true},
				Entries: []Entry{
					{Path: []string{"model"}, Value: "{model}"},
					{Path: []string{"model_provider"}, Value: "axle"},
					{Path: []string{"model_context_window"}, Value: "{context}"},
					{Path: []string{"model_providers", "axle", "name"}, Value: "axle"},
					{Path: []string{"model_providers", "axle", "base_url"}, Value: "{url}/v1"},
					{Path: []string{"model_providers", "axle", "wire_api"}, Value: "responses"},
					{Path: []string{"model_providers", "axle", "env_key"}, Value: "AXLE_KEY", Keyed: true}}}},
		{ID: "copilot", Name: "Copilot CLI",
			Note:  "An agent that writes programs, in a terminal; no account of GitHub's is needed.",
			Copy:  []Copy{{"sh", "COPILOT_PROVIDER_BASE_URL={url}/v1 COPILOT_PROVIDER_API_KEY={key} COPILOT_MODEL={model} copilot"}},
			Needs: first(11000, "1.0.102", "`copilot -p`, `COPILOT_OFFLINE=true`: 17 tools"),
			Launch: &Start{Command: "copilot", Install: "npm install -g @github/copilot",
				Env: []Var{{Name: "COPILOT_PROVIDER_BASE_URL", Value: "{url}/v1"}, {Name: "COPILOT_PROVIDER_TYPE", Value: "openai"},
					{Name: "COPILOT_PROVIDER_API_KEY", Value: "{key}", Secret: true}, {Name: "COPILOT_MODEL", Value: "{model}"},
					{Name: "COPILOT_PROVIDER_MAX_PROMPT_TOKENS", Value: "{context}"}, {Name: "COPILOT_OFFLINE", Value: "true"}},
				Unset: []string{"COPILOT_PROVIDER_BEARER_TOKEN", "COPILOT_PROVIDER_API_KEY_COMMAND", "COPILOT_PROVIDER_MODEL_ID",
					"COPILOT_PROVIDER_WIRE_MODEL"}}},
		{ID: "opencode", Name: "opencode",
			Note: "An agent that writes programs, in a terminal.",
			Copy: []Copy{{"opencode.json", `{
  "provider": {
    "axle": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "axle",
      "options": { "baseURL": "{url}/v1", "apiKey": "{env:AXLE_KEY}" },
      "models": { "{model}": { "name": "{model}" } }
    }
  },
  "model": "axle/{model}"
}`}, {"sh", "AXLE_KEY={key} opencode"}},
			Needs: first(7100, "1.18.33",
				"`opencode run`, `@ai-sdk/openai-compatible`: 10 tools; another prompt of 560 for the title comes first"),
			Launch: &Start{Command: "opencode", Install: "npm install -g opencode-ai", As: "OPENCODE_CONFIG_CONTENT",
				File: &File{Variable: "XDG_CONFIG_HOME", Folder: ".config",
					Names: []string{"opencode/opencode.json", "opencode/opencode.jsonc"}},
				Entries: []Entry{
					{Path: []string{"provider", "axle", "npm"}, Value: "@ai-sdk/openai-compatible"},
					{Path: []string{"provider", "axle", "name"}, Value: "axle"},
					{Path: []string{"provider", "axle", "options", "baseURL"}, Value: "{url}/v1"},
					{Path: []string{"provider", "axle", "options", "apiKey"}, Value: "{env:AXLE_KEY}", Keyed: true},
					{Path: []string{"provider", "axle", "models", "{model}"}, Value: map[string]any{"name": "{model}",
						"limit": map[string]any{"context": "{context}", "output": "{output}"}}},
					{Path: []string{"model"}, Value: "axle/{model}"},
					{Path: []string{"small_model"}, Value: "axle/{model}"}}}},
		{ID: "qwen", Name: "Qwen Code",
			Note:  "An agent that writes programs, in a terminal.",
			Copy:  []Copy{{"sh", "OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY={key} OPENAI_MODEL={model} qwen --auth-type openai"}},
			Needs: first(14900, "0.15.10", "`qwen -p --auth-type openai`: 11 tools; another prompt of 6,800 for its memory follows"),
			Launch: &Start{Command: "qwen", Install: "npm install -g @qwen-code/qwen-code", Args: []string{"--auth-type", "openai"},
				Env: []Var{{Name: "OPENAI_BASE_URL", Value: "{url}/v1"}, {Name: "OPENAI_API_KEY", Value: "{key}", Secret: true},
					{Name: "OPENAI_MODEL", Value: "{model}"}}}},

		{ID: "open-webui", Name: "Open WebUI", Needs: talk,
			Note: "In Admin Settings, Connections, Ollama API: this address. In Docker, set it when the container starts.",
			Copy: []Copy{{"URL", "{url}"},
				{"sh", `docker run -d -p 3000:8080 --add-host=host.docker.internal:host-gateway \
  -e OLLAMA_BASE_URL={url} ghcr.io/open-webui/open-webui:main`}}},
		{ID: "home-assistant", Name: "Home Assistant", Needs: grows,
			Note: "Settings, Devices & services, Add integration, Ollama: this address. For Assist, choose a model with tools.",
			Copy: []Copy{{"URL", "{url}"}}},
		{ID: "stackchan", Name: "StackChan", Needs: talk,
			Note: "Its firmware speaks to a server of xiaozhi. Run xiaozhi-esp32-server at home, with this in its configuration.",
			Copy: []Copy{{"data/.config.yaml", `selected_module:
  LLM: axle
LLM:
  axle:
    type: openai
    base_url: {url}/v1
    model_name: {model}
    api_key: {key}`}}},
		{ID: "m5stack", Name: "M5Stack devices (Arduino, MicroPython)", Needs: talk,
			Note: "A device asks over plain HTTP, as here in MicroPython of UIFlow2.",
			Copy: []Copy{{"main.py", `import requests
r = requests.post("{url}/api/chat", headers={"Authorization": "Bearer {key}"},
                  json={"model": "{model}", "stream": False, "messages": [{"role": "user", "content": "Hello"}]})
print(r.json()["message"]["content"])`}}},
		{ID: "vscode", Name: "VS Code, Copilot's own models", Needs: grows,
			Note: "Put this into settings.json. Ollama is then among the providers of its chat.",
			Copy: []Copy{{"settings.json", `"github.copilot.chat.byok.ollamaEndpoint": "{url}"`}}},
		{ID: "continue", Name: "Continue", Needs: talk,
			Note: "Put this into config.yaml. Its agent sends more than its chat.",
			Copy: []Copy{{"~/.continue/config.yaml", `models:
  - name: axle
    provider: ollama
    model: {model}
    apiBase: {url}
    apiKey: {key}`}}},
		{ID: "zed", Name: "Zed", Needs: talk,
			Note: "Put this into settings.json. Its agent sends more than its chat.",
			Copy: []Copy{{"settings.json", `"language_models": { "ollama": { "api_url": "{url}" } }`}}},
		{ID: "curl", Name: "curl", Needs: talk, Note: "Ollama's API.",
			Copy: []Copy{{"sh", `curl {url}/api/chat -H "Authorization: Bearer {key}" \
  -d '{"model":"{model}","messages":[{"role":"user","content":"hello"}]}'`}}},
		{ID: "openai", Name: "OpenAI's SDKs", Needs: talk, Note: "Any client of OpenAI's API takes this base URL.",
			Copy: []Copy{{"Python", `from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="{key}")
answer = client.chat.completions.create(model="{model}", messages=[{"role": "user", "content": "hello"}])
print(answer.choices[0].message.content)`}}},
		{ID: "anthropic", Name: "Anthropic's SDKs", Needs: talk, Note: "Any client of Anthropic's API takes this base URL.",
			Copy: []Copy{{"Python", `from anthropic import Anthropic
client = Anthropic(base_url="{url}", api_key="{key}")
answer = client.messages.create(model="{model}", max_tokens=200, messages=[{"role": "user", "content": "hello"}])
print(answer.content[0].text)`}}},
		{ID: "ollama", Name: "Ollama's CLI and libraries", Needs: talk, Note: "On this machine nothing is to be set.",
			Copy: []Copy{{"sh", "OLLAMA_HOST={url} ollama run {model}"}, {"Python", `from ollama import Client
client = Client(host="{url}", headers={"Authorization": "Bearer {key}"})
print(client.chat(model="{model}", messages=[{"role": "user", "content": "hello"}]).message.content)`}}},
		{ID: "langchain", Name: "LangChain", Needs: grows, Note: "It grows with the tools that you give it.",
			Copy: []Copy{{"Python", `from langchain_ollama import ChatOllama
model = ChatOllama(model="{model}", base_url="{url}", client_kwargs={"headers": {"Authorization": "Bearer {key}"}})`}}},
	}
	for i := range list {
		list[i].Starts = list[i].Launch != nil
	}
	return list
}

// claudeModels are the variables with which Claude Code chooses a model for a kind of work: all of
// it is this one's.
var claudeModels = []string{"ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL",
	"ANTHROPIC_DEFAULT_HAIKU_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL"}

func claudeEnv() []Var {
	env := []Var{{Name: "ANTHROPIC_BASE_URL", Value: "{url}"}}
	for _, name := range claudeModels {
		env = append(env, Var{Name: name, Value: "{model}"})
	}
	return append(env, Var{Name: "CLAUDE_CODE_AUTO_COMPACT_WINDOW", Value: "{context}"},
		// It puts a line of its own into each system prompt, so that no prompt begins as the last.
		Var{Name: "CLAUDE_CODE_ATTRIBUTION_HEADER", Value: "0"}, Var{Name: "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", Value: "1"})
}

func claudeEntries() (list []Entry) {
	for _, v := range claudeEnv() {
		list = append(list, Entry{Path: []string{"env", v.Name}, Value: v.Value})
	}
	return list
}
