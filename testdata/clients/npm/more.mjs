// The rest of the npm clients, against a running scripted server (AXLE_TEST_URL).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOllama, OllamaEmbeddings } from '@langchain/ollama';
import { tool } from '@langchain/core/tools';
import { generateText, streamText, tool as aiTool, stepCountIs } from 'ai';
import { createOllama } from 'ollama-ai-provider-v2';
import { z } from 'zod';

const url = process.env.AXLE_TEST_URL;
if (!url) throw new Error('AXLE_TEST_URL names no server: run make clients');
const say = (s) => `[[say:${s}]]`;
const call = 'Let me see.|<tool_call>\n|{"name": "get_weather", "arguments": {"city": "Paris"}}|\n</tool_call>';

test('@anthropic-ai/sdk', async () => {
  const c = new Anthropic({ baseURL: url, apiKey: 'x', maxRetries: 0 });
  const ask = (content, more = {}) => ({ model: 'scripted-chat', max_tokens: 100, messages: [{ role: 'user', content }], ...more });
  const m = await c.messages.create(ask(say('Hello| there')));
  assert.equal(m.content[0].text, 'Hello there');
  assert.equal(m.stop_reason, 'end_turn');
  const tools = [{ name: 'get_weather', input_schema: { type: 'object', properties: { city: { type: 'string' } } } }];
  const final = await c.messages.stream(ask(say(call), { tools })).finalMessage();
  assert.equal(final.stop_reason, 'tool_use');
  assert.deepEqual(final.content[1].input, { city: 'Paris' });
  const think = await c.messages.stream(ask(say('<think>|why|</think>|so'), { thinking: { type: 'enabled', budget_tokens: 1024 } })).finalMessage();
  assert.deepEqual(think.content.map((b) => b.type), ['thinking', 'text']);
  assert.ok((await c.messages.countTokens({ model: 'scripted-chat', messages: [{ role: 'user', content: 'one two three' }] })).input_tokens >= 3);
  await assert.rejects(c.messages.stream(ask(say('a|b|c') + '[[crash]]')).finalMessage(), /unexpected EOF/);
  await assert.rejects(c.messages.create({ ...ask('x'), model: 'nope' }), (e) => e.status === 404);
});

test('@langchain/ollama', async () => {
  const llm = new ChatOllama({ baseUrl: url, model: 'scripted-chat', numa: false, lowVram: false, topK: -1, keepAlive: '5m' });
  assert.equal((await llm.invoke(say('Hello| there'))).content, 'Hello there');
  let text = '';
  for await (const part of await llm.stream(say('a|b|c'))) text += part.content;
  assert.equal(text, 'abc');
  const weather = tool(async () => 'sunny', { name: 'get_weather', description: 'weather', schema: z.object({ city: z.string() }) });
  const r = await llm.bindTools([weather]).invoke(say(call));
  assert.deepEqual(r.tool_calls[0].args, { city: 'Paris' });
  const vectors = await new OllamaEmbeddings({ baseUrl: url, model: 'scripted-embed' }).embedDocuments(['a', 'b']);
  assert.equal(vectors[1].length, 8);
});

test('ai with ollama-ai-provider-v2', async () => {
  const model = createOllama({ baseURL: url + '/api' })('scripted-chat');
  assert.equal((await generateText({ model, prompt: say('Hello| there') })).text, 'Hello there');
  let text = '';
  for await (const part of streamText({ model, prompt: say('a|b|c') }).textStream) text += part;
  assert.equal(text, 'abc');
  let city;
  await generateText({
    model, prompt: say(call), stopWhen: stepCountIs(1),
    tools: { get_weather: aiTool({ description: 'weather', inputSchema: z.object({ city: z.string() }), execute: async (a) => { city = a.city; return 'sunny'; } }) },
  });
  assert.equal(city, 'Paris');
});

const soft = process.env.AXLE_TEST_SOFT_URL; // the model inside, which sees
const seen = 'A red circle, a blue square and a yellow star.';

test('a picture', { skip: !soft && 'bin/axle is not built' }, async () => {
  const data = readFileSync('../../pocket/shapes.png').toString('base64');
  const text = 'What is in this picture?';
  const m = await new Anthropic({ baseURL: soft, apiKey: 'x', maxRetries: 0 }).messages.create({ model: 'pocket', max_tokens: 40, temperature: 0,
    messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }, { type: 'text', text }] }] });
  assert.equal(m.content.at(-1).text, seen); // a thought may come first
  const llm = new ChatOllama({ baseUrl: soft, model: 'pocket', temperature: 0, think: false });
  const said = await llm.invoke([{ role: 'user', content: [{ type: 'text', text }, { type: 'image_url', image_url: `data:image/png;base64,${data}` }] }]);
  assert.equal(said.content, seen);
});
