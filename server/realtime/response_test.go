package realtime

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/server/prompt"
)

const (
	respond = `{"type":"response.create"}`
	inText  = `{"type":"session.update","session":{"output_modalities":["text"],"audio":{"input":{"turn_detection":null}}}}`
)

// TestResponse: each event of a response, as it is on the wire.
func TestResponse(t *testing.T) {
	item := func(n int, status, content string) string {
		return fmt.Sprintf(`"item":{"id":"item_%d","object":"realtime.item","type":"message","status":%q,"role":"assistant","content":[%s]}`, n,
			status, content)
	}
	response := func(status, why, output, usage, audio string) string {
		return fmt.Sprintf(`"response":{"id":"resp_1","object":"realtime.response","status":%q,"status_details":%s,"output":[%s],`+
			`"conversation_id":"conv_1","output_modalities":[%s,"usage":%s,"metadata":null}}`, status, why, output, audio, usage)
	}
	at := `"response_id":"resp_1","item_id":"item_2","output_index":0,"content_index":0`
	usage := func(in, out int) string {
		return fmt.Sprintf(`{"total_tokens":%d,"input_tokens":%d,"output_tokens":%d,"input_token_details":{"text_tokens":%d,"audio_tokens":0,`+
			`"image_tokens":0,"cached_tokens":1},"output_token_details":{"text_tokens":%d,"audio_tokens":0}}`, in+out, in, out, in, out)
	}
	ofText, ofAudio := `"text"],"max_output_tokens":"inf"`, `"audio"],"max_output_tokens":"inf","audio":{"output":{"format":`+
		`{"type":"audio/pcm","rate":24000},"voice":"ada","speed":1}}`
	for _, tt := range []struct{ name, in, want string }{
		{"text", tell("Oh, yes.") + respond, `{"type":"response.created",` + response("in_progress", "null", "", "null", ofText) +
			`{"type":"response.output_item.added","response_id":"resp_1","output_index":0,` + item(2, "in_progress", "") + `}` +
			`{"type":"conversation.item.added","previous_item_id":"item_1",` + item(2, "in_progress", "") + `}` +
			`{"type":"response.content_part.added",` + at + `,"part":{"type":"text","text":""}}` +
			`{"type":"response.output_text.delta",` + at + `,"delta":"Oh, "}` +
			`{"type":"response.output_text.delta",` + at + `,"delta":"yes."}` +
			`{"type":"response.output_text.done",` + at + `,"text":"Oh, yes."}` +
			`{"type":"response.content_part.done",` + at + `,"part":{"type":"text","text":"Oh, yes."}}` +
			`{"type":"conversation.item.done","previous_item_id":"item_1",` + item(2, "completed", `{"type":"output_text","text":"Oh, yes."}`) + `}` +
			`{"type":"response.output_item.done","response_id":"resp_1","output_index":0,` +
			item(2, "completed", `{"type":"output_text","text":"Oh, yes."}`) + `}` +
			`{"type":"response.done",` + response("completed", `{"type":"completed"}`,
			strings.TrimPrefix(item(2, "completed", `{"type":"output_text","text":"Oh, yes."}`), `"item":`), usage(1, 2), ofText)},
		{"sound", `{"type":"session.update","session":{"output_modalities":["audio"]}}` + tell("Certainly, yes.") + respond,
			`{"type":"response.created",` + response("in_progress", "null", "", "null", ofAudio) +
				`{"type":"response.output_item.added","response_id":"resp_1","output_index":0,` + item(2, "in_progress", "") + `}` +
				`{"type":"conversation.item.added","previous_item_id":"item_1",` + item(2, "in_progress", "") + `}` +
				`{"type":"response.content_part.added",` + at + `,"part":{"type":"audio","transcript":""}}` +
				`{"type":"response.output_audio_transcript.delta",` + at + `,"delta":"Certainly, "}` +
				`{"type":"response.output_audio_transcript.delta",` + at + `,"delta":"yes."}` +
				`{"type":"response.output_audio.delta",` + at + `,"delta":"75 ms"}` +
				`{"type":"response.output_audio.delta",` + at + `,"delta":"75 ms"}` +
				`{"type":"response.output_audio.done",` + at + `}` +
				`{"type":"response.output_audio_transcript.done",` + at + `,"transcript":"Certainly, yes."}` +
				`{"type":"response.content_part.done",` + at + `,"part":{"type":"audio","transcript":"Certainly, yes."}}` +
				`{"type":"conversation.item.done","previous_item_id":"item_1",` +
				item(2, "completed", `{"type":"output_audio","transcript":"Certainly, yes."}`) + `}` +
				`{"type":"response.output_item.done","response_id":"resp_1","output_index":0,` +
				item(2, "completed", `{"type":"output_audio","transcript":"Certainly, yes."}`) + `}` +
				`{"type":"response.done",` + response("completed", `{"type":"completed"}`,
				strings.TrimPrefix(item(2, "completed", `{"type":"output_audio","transcript":"Certainly, yes."}`), `"item":`), usage(1, 2), ofAudio)},
		{"a call", `{"type":"session.update","session":{"tools":[{"type":"function","name":"light","parameters":{"type":"object"}}]}}` +
			tell(`call light {"on":true}`) + respond, `{"type":"response.created",` + response("in_progress", "null", "", "null", ofText) +
			`{"type":"response.output_item.added","response_id":"resp_1","output_index":0,` + called("in_progress", "") + `}` +
			`{"type":"conversation.item.added","previous_item_id":"item_1",` + called("in_progress", "") + `}` +
			`{"type":"response.function_call_arguments.delta","response_id":"resp_1","item_id":"item_2","output_index":0,"call_id":"call_1",` +
			`"delta":"{\"on\":true}"}` +
			`{"type":"response.function_call_arguments.done","response_id":"resp_1","item_id":"item_2","output_index":0,"call_id":"call_1",` +
			`"name":"light","arguments":"{\"on\":true}"}` +
			`{"type":"conversation.item.done","previous_item_id":"item_1",` + called("completed", `{\"on\":true}`) + `}` +
			`{"type":"response.output_item.done","response_id":"resp_1","output_index":0,` + called("completed", `{\"on\":true}`) + `}` +
			`{"type":"response.done",` + response("completed", `{"type":"completed"}`,
			strings.TrimPrefix(called("completed", `{\"on\":true}`), `"item":`), usage(1, 0), ofText)},
		{"a failure", tell("fail") + respond, `{"type":"response.created",` + response("in_progress", "null", "", "null", ofText) +
			`{"type":"response.done",` + response("failed", `{"type":"failed","error":{"type":"invalid_request_error",`+
			`"code":"rate_limit_exceeded","message":"busy","param":null}}`, "", strings.Replace(usage(0, 0), `"cached_tokens":1`, `"cached_tokens":0`, 1),
			ofText)},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := converse(t)
			c.say(inText)
			c.say(tt.in)
			got := c.quiet()
			if _, got, _ = strings.Cut(got, `{"type":"response.created",`); `{"type":"response.created",`+got != tt.want {
				t.Errorf("%s:\n%s\nwant:\n%s", tt.name, got, tt.want)
			}
		})
	}
}

// TestConversation: what a conversation is told and what the model is asked, in short. A line is an
// event, with what matters of it.
func TestConversation(t *testing.T) {
	update := func(s string) string { return `{"type":"session.update","session":{` + s + `}}` }
	light := `"tools":[{"type":"function","name":"light","description":"Switches it.","parameters":{"type":"object"}}]`
	for _, tt := range []struct{ name, in, want, asked string }{
		{"instructions", update(`"instructions":"Be brief."`) + tell("One.") + respond, "One.", "system:Be brief. user:One."},
		{"instructions of a response", update(`"instructions":"Be brief."`) + tell("One.") +
			`{"type":"response.create","response":{"instructions":"Be long."}}`, "One.", "system:Be long. user:One."},
		{"instructions alone", `{"type":"response.create","response":{"instructions":"Greet."}}`, "Greet.", "system:Greet."},
		{"nothing", respond, "failed: there is nothing to answer: no item has text, and there are no instructions", ""},
		{"two turns", tell("One.") + respond + "~" + tell("Two.") + respond, "One. Two.", "user:One. assistant:One. user:Two."},
		{"a tool", update(light) + tell(`call light {"on":true}`) + respond + "~" +
			brings(`"type":"function_call_output","call_id":"call_x","output":"done"`) + tell("So.") + respond,
			`light({"on":true}) So.`, `user:call light {"on":true} assistant:light({"on":true}) tool light:done user:So.`},
		{"a client's call", brings(`"type":"function_call","name":"f","call_id":"c1","arguments":"{}"`) +
			brings(`"type":"function_call_output","call_id":"c1","output":"1"`) + tell("So.") + respond, "So.", "assistant:f({}) tool f:1 user:So."},
		{"a system's item", brings(`"type":"message","role":"system","content":[{"type":"input_text","text":"Now."}]`) + tell("So.") + respond,
			"So.", "system:Now. user:So."},
		{"a former answer", brings(`"type":"message","role":"assistant","content":[{"type":"output_text","text":"I am."}]`) + tell("So.") + respond,
			"So.", "assistant:I am. user:So."},
		{"what was spoken", brings(`"type":"message","role":"user","content":[{"type":"input_audio","transcript":"Hear."}]`) + respond, "Hear.",
			"user:Hear."},
		{"a limit", update(`"max_output_tokens":2`) + tell("One two three.") + respond, "One two  incomplete: max_output_tokens", "user:One two three."},
		{"apart", tell("One.") + respond + "~" + `{"type":"response.create","response":{"conversation":"none","metadata":{"topic":"x"},` +
			`"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Sum up."}]}]}}~` + tell("Two.") + respond,
			`One. of x: Sum up. Two.`, "user:One. assistant:One. user:Two."},
		{"a reference", brings(`"id":"mine","type":"message","role":"user","content":[{"type":"input_text","text":"Old."}]`) + tell("New.") +
			`{"type":"response.create","response":{"input":[{"type":"item_reference","id":"mine"}]}}`, "Old.", "user:Old."},
		{"a deleted item", brings(`"id":"mine","type":"message","role":"user","content":[{"type":"input_text","text":"Old."}]`) + tell("New.") +
			`{"type":"conversation.item.delete","item_id":"mine"}` + respond, "deleted mine New.", "user:New."},
		{"an item first", tell("New.") + `{"type":"conversation.item.create","previous_item_id":"root","item":{"id":"mine","type":"message",` +
			`"role":"user","content":[{"type":"input_text","text":"Old."}]}}` + respond, "New.", "user:Old. user:New."},
		{"an item between", brings(`"id":"a","type":"message","role":"user","content":[{"type":"input_text","text":"A."}]`) + tell("C.") +
			`{"type":"conversation.item.create","previous_item_id":"a","item":{"type":"message",` +
			`"role":"user","content":[{"type":"input_text","text":"B."}]}}` + respond, "C.", "user:A. user:B. user:C."},
		{"retrieved", brings(`"id":"mine","type":"message","role":"user","content":[{"type":"input_text","text":"Old."}]`) +
			`{"type":"conversation.item.retrieve","item_id":"mine"}`, "retrieved mine", ""},
		{"no voice", `{"type":"response.create","response":{"output_modalities":["audio"],"audio":{"output":{"voice":"nope"}},"instructions":"A."}}`,
			"failed: no voice 'nope'", ""},
		{"a hoarse voice", `{"type":"response.create","response":{"output_modalities":["audio"],"instructions":"I speak at first. I am hoarse now."}}`,
			"180 ms I speak at first. failed: hoarse", "system:I speak at first. I am hoarse now."},
		{"nothing to speak", `{"type":"response.create","response":{"output_modalities":["audio"],"instructions":"🌈"}}`, "🌈", "system:🌈"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &brain{}
			c := converse(t, func(o *Options) { o.Talker = b })
			c.say(inText)
			c.quiet()
			for part := range strings.SplitSeq(tt.in, "~") {
				if id := c.call; id != "" {
					part = strings.Replace(part, "call_x", id, 1)
				}
				c.say(part)
				c.say("~")
				c.brief()
			}
			if got := strings.Join(c.briefs, " "); got != tt.want {
				t.Errorf("%s: %s\nwant: %s", tt.name, got, tt.want)
			}
			if got := b.last(); got != tt.asked {
				t.Errorf("%s: the model was asked %s\nwant: %s", tt.name, got, tt.asked)
			}
		})
	}
}

// TestAsked: what the session is set to reaches the model.
func TestAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{}
		c := converse(t, func(o *Options) { o.Talker = b })
		c.say(inText + `{"type":"session.update","session":{"model":"other","temperature":0.5,"max_output_tokens":7,"parallel_tool_calls":false,` +
			`"tools":[{"type":"function","name":"light","description":"Switches it.","parameters":{"type":"object"}}],` +
			`"tool_choice":{"type":"function","name":"light"}}}` + tell("x") + respond)
		c.quiet()
		q := b.asked[0]
		if f := q.Ask.Tools; len(f) != 1 || f[0].Name != "light" || f[0].Description != "Switches it." || string(f[0].Parameters) != `{"type":"object"}` ||
			q.Ask.ToolChoice != "light" || !q.Ask.SerialTools || q.Options["temperature"] != 0.5 || *q.MaxTokens != 7 ||
			q.Model != "other" || !q.Chat || !q.RelaxThink || q.Ask.Think != ask.ThinkOff || !q.Ask.Truncate || !q.Ask.Shift {
			t.Errorf("%+v", q)
		}
		c.say(`{"type":"session.update","session":{"max_output_tokens":"inf","tools":[],"tool_choice":"auto","temperature":null,"parallel_tool_calls":true}}` +
			tell("x") + respond)
		c.quiet()
		if q := b.asked[1]; q.MaxTokens != nil || len(q.Ask.Tools) != 0 || q.Ask.ToolChoice != "auto" || q.Ask.SerialTools {
			t.Errorf("%+v", q)
		}
		c.say(`{"type":"session.update","session":{"tools":[{"type":"function","name":"light"}],"tool_choice":"required"}}` +
			`{"type":"session.update","session":{"tool_choice":null}}` + tell("x") + `{"type":"response.create","response":{"model":"third"}}`)
		c.quiet()
		if q := b.asked[2]; len(q.Ask.Tools) != 1 || q.Ask.ToolChoice != "auto" || q.Model != "other" {
			t.Errorf("%+v", q)
		}
	})
	// An answer that is still being written is none yet, where a response names it.
	synctest.Test(t, func(t *testing.T) {
		b := &brain{word: make(chan struct{})}
		c := converse(t, func(o *Options) { o.Talker = b })
		c.say(inText + tell("One two.") + respond)
		b.word <- struct{}{}
		c.brief()
		c.say(fmt.Sprintf(`{"type":"response.create","response":{"conversation":"none","input":[{"type":"item_reference","id":%q},`, c.item) +
			`{"type":"message","role":"user","content":[{"type":"input_text","text":"Sum up."}]}]}}`)
		synctest.Wait()
		close(b.word)
		synctest.Wait()
		if got := b.last(); got != "user:Sum up." {
			t.Errorf("the model was asked %s", got)
		}
	})
}

// TestWrong: an event that is wrong is answered with one error, and changes nothing.
func TestWrong(t *testing.T) {
	update := func(s string) string { return `{"type":"session.update","session":{` + s + `}}` }
	of := func(role, content string) string {
		return brings(`"type":"message","role":"` + role + `","content":[` + content + `]`)
	}
	tool := func(s string) string { return update(`"tools":[` + s + `]`) }
	long := strings.Repeat("x", 600)
	for in, want := range map[string]string{
		update(`"type":"transcription"`):                                 `session.type is \"transcription\", and something was said already: open another session`,
		update(`"model":"nope"`):                                         `model 'nope' not found`,
		update(`"model":"` + long + `"`):                                 `model has more than 512 bytes`,
		update(`"output_modalities":["audio","text"]`):                   `output_modalities must be [\"audio\"] or [\"text\"]: audio has its text beside it`,
		update(`"output_modalities":[]`):                                 `output_modalities must be`,
		update(`"instructions":"` + strings.Repeat("x", 64<<10+1) + `"`): `instructions have more than 64 KiB`,
		update(`"max_output_tokens":0`):                                  `max_output_tokens must be a number from 1 to 2147483647, or \"inf\"`,
		update(`"max_output_tokens":"many"`):                             `max_output_tokens must be`,
		update(`"temperature":-1`):                                       `temperature is -1: it must be from 0 to 2`,
		update(`"parallel_tool_calls":7`):                                `\"7\" is neither true nor false`,
		tool(`{"type":"mcp","server_label":"x"}`):                        `a tool of the type \"mcp\": function is possible`,
		tool(`{"type":"function"}`):                                      `a tool's name must have 1 to 512 bytes`,
		tool(`7`):                                                        `a tool cannot be read`,
		tool(strings.TrimSuffix(strings.Repeat(`{"type":"function","name":"f"},`, 129), ",")):       `the tools are more than 128, or than 256 KiB`,
		tool(`{"type":"function","name":"f","description":"` + strings.Repeat("x", 256<<10) + `"}`): `the tools are more than 128, or than 256 KiB`,
		update(`"tool_choice":"maybe"`):                                                             `tool_choice must be \"none\", \"auto\", \"required\", or a function`,
		update(`"tool_choice":"required"`):                                                          `tool_choice is \"required\", but there are no tools`,
		update(`"tool_choice":{"type":"mcp"}`):                                                      `tool_choice must be`,
		update(`"tool_choice":{"type":"function","name":"f"}`):                                      `tool_choice names \"f\", which is not among the tools`,
		update(`"audio":{"output":{"format":{"type":"audio/mp3"}}}`):                                `a format of the type \"audio/mp3\": audio/pcm, audio/pcmu and audio/pcma are possible`,
		update(`"audio":{"output":{"voice":7}}`):                                                    `voice must be a name, or an object with an id`,
		update(`"audio":{"output":{"voice":{}}}`):                                                   `voice must be a name, or an object with an id`,
		update(`"audio":{"output":{"voice":"` + long + `"}}`):                                       `voice has more than 512 bytes`,
		update(`"output_modalities":["audio"],"audio":{"output":{"voice":"nope"}}`):                 `no voice 'nope'`,
		update(`"audio":{"output":{"speed":0.2}}`):                                                  `speed is 0.2: it must be from 0.25 to 4`,
		update(`"audio":{"output":{"speed":4.5}}`):                                                  `speed is 4.5: it must be from 0.25 to 4`,
		update(`"audio":{"output":7}`):                                                              `audio.output cannot be read`,
		`{"type":"conversation.item.create"}`:                                                       `an item cannot be read: unexpected end of JSON input`,
		brings(`"type":"item"`):                                                                     `an item of the type \"item\": message, function_call and function_call_output are possible`,
		brings(`"id":"known","type":"function_call_output","call_id":"c","output":"x"`):             `an item with the id \"known\" is there already`,
		brings(`"id":"` + long + `"`):                                                               `an item's id, call_id or name has more than 512 bytes`,
		of("robot", ""):                                                                             `an item's role is \"robot\": system, user and assistant are possible`,
		of("user", ""):                                                                              `an item has no text`,
		of("user", `{"type":"input_text"}`):                                                         `an item has no text`,
		of("user", strings.Repeat(`{"type":"input_text"},`, 32)+`{"type":"input_text","text":"x"}`): `an item has more than 32 contents`,
		of("user", `{"type":"input_image","image_url":"x"}`):                                        `content of the type \"input_image\" in an item of the role user: it may have input_text and input_audio`,
		of("system", `{"type":"input_audio"}`):                                                      `content of the type \"input_audio\" in an item of the role system: it may have input_text`,
		of("user", `{"type":"input_audio","audio":"AAAA"}`):                                         `an item with sound and no transcript: send sound with input_audio_buffer.append`,
		of("user", `{"type":"input_text","text":"`+strings.Repeat("x", 1<<20)+`"}`):                 `an item has more than 1024 KiB`,
		brings(`"type":"function_call","arguments":"{}"`):                                           `a function_call has no name`,
		brings(`"type":"function_call","name":"f","arguments":"null"`):                              `the arguments of a function_call are no JSON object`,
		brings(`"type":"function_call_output","output":"x"`):                                        `a function_call_output needs a call_id and an output`,
		brings(`"type":"function_call_output","call_id":"x"`):                                       `a function_call_output needs a call_id and an output`,
		`{"type":"conversation.item.create","previous_item_id":"far","item":{"type":"function_call_output","call_id":"c","output":"x"}}`: `there is no item \"far\" in the conversation`,
		`{"type":"conversation.item.delete","item_id":"far"}`:                                                                            `there is no item \"far\" in the conversation`,
		`{"type":"conversation.item.retrieve","item_id":"far"}`:                                                                          `there is no item \"far\" in the conversation`,
		`{"type":"conversation.item.truncate","item_id":"far"}`:                                                                          `there is no item \"far\" in the conversation`,
		`{"type":"conversation.item.truncate","item_id":"theirs"}`:                                                                       `the item \"theirs\" is no answer that was spoken: only those are truncated`,
		`{"type":"conversation.item.truncate","item_id":"known"}`:                                                                        `the item \"known\" is no answer that was spoken: only those are truncated`,
		`{"type":"response.cancel"}`:                                                                                                     `"code":"response_cancel_not_active","message":"no response is being written that could be cancelled"`,
		`{"type":"response.create","response":7}`:                                                                                        `response cannot be read`,
		`{"type":"response.create","response":{"conversation":"new"}}`:                                                                   `response.conversation is \"new\": auto and none are possible`,
		`{"type":"response.create","response":{"metadata":"` + strings.Repeat("x", 16<<10) + `"}}`:                                       `metadata has more than 16 KiB`,
		`{"type":"response.create","response":{"input":[{"type":"item_reference","id":"far"}]}}`:                                         `there is no item \"far\" in the conversation`,
		`{"type":"response.create","response":{"input":[7]}}`:                                                                            `an item cannot be read`,
		`{"type":"response.create","response":{"input":[` + strings.TrimSuffix(strings.Repeat("7,", 1025), ",") + `]}}`:                  `response.input has more than 1024 items`,
		`{"type":"response.create","x":"` + strings.Repeat("x", 2<<20) + `"}`:                                                            `an event of the type \"response.create\" has more than 2048 KiB`,
		`{"type":"output_audio_buffer.clear"}`:                                                                                           `an event of the type \"output_audio_buffer.clear\": a conversation takes session.update; input_audio_buffer.append`,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := converse(t)
			c.say(inText + brings(`"id":"theirs","type":"message","role":"assistant","content":[{"type":"output_audio","transcript":"Hi."}]`) +
				brings(`"id":"known","type":"message","role":"user","content":[{"type":"input_text","text":"Hi."}]`))
			c.quiet()
			c.say(in)
			if got := c.quiet(); strings.Count(got, `"type":`) != 2 || !strings.HasPrefix(got, `{"type":"error"`) || !strings.Contains(got, want) {
				t.Errorf("%.200s: %.400s, want %s", in, got, want)
			}
			c.say(update(""))
			was := converse(t)
			was.say(inText)
			was.quiet()
			was.say(update(""))
			if got, want := c.quiet(), was.quiet(); got != want {
				t.Errorf("%.200s: the session is\n%s\nand was\n%s", in, got, want)
			}
		})
	}
}

// TestSentences: a sentence sounds before the next is begun, and the model does not wait for the
// voice.
func TestSentences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &brain{word: make(chan struct{})}
		c := converse(t, func(o *Options) { o.Talker = b })
		c.say(tell("The first is here. The second too.") + respond)
		for range 4 {
			b.word <- struct{}{}
		}
		c.brief()
		if got := strings.Join(c.briefs, " "); got != "190 ms" {
			t.Errorf("%s", got)
		}
		for range 3 {
			b.word <- struct{}{}
		}
		c.brief()
		if got := strings.Join(c.briefs, " "); got != "190 ms 150 ms The first is here. The second too." {
			t.Errorf("%s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := &brain{spoke: make(chan struct{})}
		c := converse(t, func(o *Options) { o.Talker = b })
		c.say(tell(strings.Repeat("This is a sentence. ", 100)) + respond)
		if got := c.quiet(); strings.Count(got, kindWords) != 400 || strings.Contains(got, kindSound) {
			t.Errorf("%d words", strings.Count(got, kindWords))
		}
		close(b.spoke)
		if got := c.quiet(); strings.Count(got, kindSound) != 200 || !strings.Contains(got, `"status":"completed"`) {
			t.Errorf("%.500s", got)
		}
	})
}

// TestFormats: an answer sounds in each format as long as it is, and as quick as the session says.
func TestFormats(t *testing.T) {
	for format, rate := range map[string]int{"pcm": 48000, "pcmu": 8000, "pcma": 8000} {
		for _, speed := range []float64{0.5, 1, 2} {
			synctest.Test(t, func(t *testing.T) {
				c := converse(t)
				c.say(fmt.Sprintf(`{"type":"session.update","session":{"audio":{"output":{"speed":%v,"format":{"type":"audio/%s"}}}}}`, speed, format) +
					tell(strings.Repeat("0123456789", 10)) + respond)
				bytes := 0
				for _, e := range c.events() {
					if e["type"] == kindSound {
						b, err := base64.StdEncoding.DecodeString(e["delta"].(string))
						if bytes += len(b); err != nil || len(b) > rate/soundsFor {
							t.Errorf("%d bytes, %v", len(b), err)
						}
						if x := audio.MuLaw(b[0]); format == "pcmu" && x != 0 {
							t.Errorf("silence is %v", x)
						}
					}
				}
				if want := int(float64(rate) / speed); bytes < want-2 || bytes > want+2 {
					t.Errorf("%s: %d bytes at a speed of %v, not %d", format, bytes, speed, want)
				}
			})
		}
	}
}

// TestForgets: a conversation keeps a number of items and an amount of text, and tells which it
// forgets.
func TestForgets(t *testing.T) {
	//proves:T7
	synctest.Test(t, func(t *testing.T) {
		b := &brain{}
		c := converse(t, func(o *Options) { o.Talker = b })
		c.say(inText)
		for i := range maxItems + 2 {
			c.say(brings(fmt.Sprintf(`"id":"i%d","type":"message","role":"user","content":[{"type":"input_text","text":"%d"}]`, i, i)))
		}
		if got := c.quiet(); strings.Count(got, kindDeleted) != 2 || !strings.Contains(got, `"item_id":"i1"}`) {
			t.Errorf("%d are forgotten", strings.Count(got, kindDeleted))
		}
		c.say(`{"type":"conversation.item.create","previous_item_id":"root","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}` + respond)
		c.quiet()
		if m := b.asked[0].Ask.Messages; len(m) != maxItems || m[0].Content != "x" || m[1].Content != "3" {
			t.Errorf("%d messages, %v", len(m), m[:2])
		}
	})
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("full")
		room := int64(1 << 40)
		c := converse(t, func(o *Options) {
			o.Room = func(n int64) error {
				if n > room {
					return full
				}
				return nil
			}
		})
		large := brings(`"type":"message","role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("x", 700<<10) + `"}]`)
		c.say(inText + large + large)
		if got := c.quiet(); strings.Count(got, kindDeleted) != 1 {
			t.Errorf("%d are forgotten", strings.Count(got, kindDeleted))
		}
		room = 1 << 20
		c.say(large)
		if got := c.quiet(); strings.Count(got, `"message":"full"`) != 1 || strings.Contains(got, kindAdded) {
			t.Errorf("%.300s", got)
		}
		room = 760 << 10
		c.say(fmt.Sprintf(`{"type":"session.update","session":{"instructions":%q}}`, strings.Repeat("x", 1<<15)) +
			fmt.Sprintf(`{"type":"response.create","response":{"instructions":%q}}`, strings.Repeat("x", 60<<10)) +
			fmt.Sprintf(`{"type":"session.update","session":{"instructions":%q}}`, strings.Repeat("x", 60<<10)))
		if got := c.quiet(); strings.Count(got, `"message":"full"`) != 2 || strings.Count(got, kindUpdated) != 1 || strings.Contains(got, kindBegun) {
			t.Errorf("%.300s", got)
		}
	})
	// What a response that waits holds is counted, also where the conversation has it no more.
	synctest.Test(t, func(t *testing.T) {
		var room int64
		b := &brain{word: make(chan struct{})}
		c := converse(t, func(o *Options) { o.Talker, o.Room = b, func(n int64) error { room = n; return nil } })
		item := brings(`"id":"mine","type":"message","role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("x", 100<<10) + `"}]`)
		c.say(inText + tell("One.") + respond + fmt.Sprintf(`{"type":"session.update","session":{"instructions":%q}}`, strings.Repeat("x", 50<<10)) +
			item + `{"type":"response.create","response":{"conversation":"none","input":[{"type":"item_reference","id":"mine"}]}}` +
			`{"type":"response.create","response":{"conversation":"none"}}` + `{"type":"conversation.item.delete","item_id":"mine"}` +
			`{"type":"session.update","session":{"instructions":""}}`)
		if synctest.Wait(); room < 200<<10 || room > 220<<10 {
			t.Errorf("%d bytes are counted", room)
		}
		close(b.word)
		synctest.Wait()
		c.say(`{"type":"conversation.item.delete","item_id":"mine"}`)
		if synctest.Wait(); room > 20<<10 {
			t.Errorf("%d bytes are counted after the end", room)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := &brain{word: make(chan struct{})}
		c := converse(t, func(o *Options) { o.Talker = b })
		c.say(inText + tell("One."))
		for range 1 + maxWaiting + 1 { // one runs
			c.say(`{"type":"response.create","response":{"conversation":"none"}}`)
		}
		c.say(respond)
		if got := c.quiet(); strings.Count(got, "64 turns and responses wait, and this is left out") != 2 {
			t.Errorf("%s", got)
		}
		close(b.word)
		c.quiet()
		c.say(respond) // what was left out keeps none from being asked for
		if got := c.quiet(); !strings.Contains(got, `"status":"completed"`) {
			t.Errorf("%s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := converse(t)
		c.say(inText + tell(strings.Repeat("many words ", 7000)) + respond)
		c.brief()
		if got := strings.Join(c.briefs, " "); !strings.HasSuffix(got, "many  incomplete: max_output_tokens") || len(got) > maxAnswer+50 {
			t.Errorf("%d bytes end with %s", len(got), got[max(0, len(got)-100):])
		}
	})
}

// TestKinds: a session may become a conversation, and one that writes down, until something is
// said.
func TestKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, t.Context(), &ears{})
		c.say(respond + `{"type":"session.update","session":{"type":"realtime","model":"other","output_modalities":["text"]}}`)
		if got := c.quiet(); !strings.Contains(got, "a session that writes speech down takes") || !strings.Contains(got, `"model":"other"`) ||
			!strings.Contains(got, `"create_response":true,"interrupt_response":true`) {
			t.Errorf("%s", got)
		}
		c.say(`{"type":"session.update","session":{"type":"transcription"}}`)
		if got := c.quiet(); got != strings.Replace(created, "created", "updated", 1) {
			t.Errorf("%s", got)
		}
		c.say(`{"type":"session.update","session":{"type":"realtime","model":"nope"}}`)
		if got := c.quiet(); !strings.Contains(got, "model 'nope' not found") {
			t.Errorf("%s", got)
		}
		c.say(pcm24(200, 0) + commit + `{"type":"session.update","session":{"type":"realtime"}}`)
		if got := c.quiet(); !strings.Contains(got, "something was said already: open another session") {
			t.Errorf("%s", got)
		}
	})
}

// rough is a model that keeps to no rules, and a voice that takes a second to end.
type rough struct {
	brain
	chat   func(ctx context.Context, each func(string)) error
	voiced atomic.Bool
	quiet  bool // the voice was at its end with the answer
}

func (r *rough) Answer(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
		r.quiet = r.voiced.Load()
	}()
	return f(ctx)
}

func (r *rough) Chat(ctx context.Context, _ *prompt.Request, each func(ask.Event)) error {
	return r.chat(ctx, func(text string) { each(ask.Event{Text: text}) })
}

func (r *rough) Say(ctx context.Context, _ string, _ float64, texts iter.Seq[string], _ func([]float32, int) error) error {
	for range texts {
		<-ctx.Done()
		<-time.After(time.Second)
	}
	r.voiced.Store(true)
	return ctx.Err()
}

// converse begins a conversation.
func converse(t *testing.T, change ...func(*Options)) *client {
	t.Helper()
	return dial(t, t.Context(), &ears{}, append([]func(*Options){func(o *Options) { o.Chat = "brain:latest" }}, change...)...)
}

// brings is an event that brings an item.
func brings(fields string) string {
	return `{"type":"conversation.item.create","item":{` + fields + `}}`
}

// tell is an event that brings a user's text.
func tell(text string) string {
	b, _ := json.Marshal(text)
	return brings(`"type":"message","role":"user","content":[{"type":"input_text","text":` + string(b) + `}]`)
}

// called is the item of a call.
func called(status, arguments string) string {
	return `"item":{"id":"item_2","object":"realtime.item","type":"function_call","status":"` + status + `","name":"light","call_id":"call_1",` +
		`"arguments":"` + arguments + `"}`
}
