// npm ollama and openai against a running scripted server (AXLE_TEST_URL).
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Ollama } from 'ollama';
import OpenAI, { toFile } from 'openai';

const url = process.env.AXLE_TEST_URL;
if (!url) throw new Error('AXLE_TEST_URL names no server: run make clients-ci');
const say = (s) => [{ role: 'user', content: `[[say:${s}]]` }];
const call = 'Let me see.|<tool_call>\n|{"name": "get_weather", "arguments": {"city": "Paris"}}|\n</tool_call>';
const tool = { type: 'function', function: { name: 'get_weather', description: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } };
const schema = { type: 'object', properties: { color: { type: 'string', enum: ['blue'] } }, required: ['color'], additionalProperties: false };

test('ollama', async () => {
  const c = new Ollama({ host: url });
  assert.equal((await c.version()).version, '0.34.4');
  assert.equal((await c.chat({ model: 'scripted-chat', messages: say('Hello| there') })).message.content, 'Hello there');
  let text = '', last;
  for await (const part of await c.chat({ model: 'scripted-chat', messages: say('a|b|c'), stream: true })) { text += part.message.content; last = part; }
  assert.equal(text, 'abc');
  assert.ok(last.done && last.eval_count === 3 && last.done_reason === 'stop');
  const tools = await c.chat({ model: 'scripted-chat', messages: say(call), tools: [tool] });
  assert.deepEqual(tools.message.tool_calls[0].function.arguments, { city: 'Paris' });
  const think = await c.chat({ model: 'scripted-chat', messages: say('<think>|why|</think>|so'), think: true });
  assert.deepEqual([think.message.thinking, think.message.content], ['why', 'so']);
  assert.equal((await c.generate({ model: 'scripted', prompt: '[[say:x| y]]' })).response, 'x y');
  assert.equal((await c.embed({ model: 'scripted-embed', input: ['a', 'b'] })).embeddings[1].length, 8);
  assert.equal((await c.embeddings({ model: 'scripted-embed', prompt: 'a' })).embedding.length, 8);
  assert.deepEqual(JSON.parse((await c.chat({ model: 'scripted-chat', messages: say('prose'), format: schema, think: false })).message.content), { color: 'blue' });
  assert.ok((await c.list()).models.some((m) => m.name === 'scripted-chat:latest'));
  assert.equal((await c.create({ model: 'npm-made', from: 'scripted-chat', system: 'brief' })).status, 'success');
  assert.equal((await c.show({ model: 'npm-made' })).system, 'brief');
  await c.copy({ source: 'npm-made', destination: 'npm-copied' });
  await c.delete({ model: 'npm-made' });
  await c.delete({ model: 'npm-copied' });
  assert.ok((await c.ps()).models.length > 0);
  await assert.rejects(c.chat({ model: 'nope', messages: say('x') }), (e) => e.status_code === 404 && /model 'nope' not found/.test(e.message));
  const gone = await c.chat({ model: 'scripted-chat', messages: [{ role: 'user', content: '[[delay:50]]' }], stream: true });
  await assert.rejects(async () => { for await (const _ of gone) gone.abort(); }, { name: 'AbortError' });
  await assert.rejects(async () => { for await (const _ of await c.chat({ model: 'scripted-chat', messages: say('a|b|c]][[crash'), stream: true })); }, /unexpected EOF/);
});

test('openai', async () => {
  const c = new OpenAI({ baseURL: url + '/v1', apiKey: 'x', maxRetries: 0 });
  const r = await c.chat.completions.create({ model: 'scripted-chat', messages: say('Hello| there') });
  assert.equal(r.choices[0].message.content, 'Hello there');
  assert.equal(r.usage.completion_tokens, 2);
  let text = '', reason, usage;
  for await (const ch of await c.chat.completions.create({ model: 'scripted-chat', messages: say('a|b|c|d'), stream: true, max_completion_tokens: 3, stream_options: { include_usage: true } })) {
    text += ch.choices[0]?.delta?.content ?? '';
    reason ??= ch.choices[0]?.finish_reason;
    usage = ch.usage;
  }
  assert.deepEqual([text, reason, usage.completion_tokens], ['abc', 'length', 3]);
  const run = c.chat.completions.stream({ model: 'scripted-chat', messages: say(call), tools: [tool] });
  const final = await run.finalChatCompletion();
  assert.equal(final.choices[0].finish_reason, 'tool_calls');
  assert.deepEqual(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments), { city: 'Paris' });
  const forced = await c.chat.completions.create({ model: 'scripted-chat', messages: say('prose'), tools: [tool], tool_choice: 'required', reasoning_effort: 'none' });
  assert.equal(forced.choices[0].message.tool_calls?.[0].function.name, 'get_weather');
  const json = await c.chat.completions.create({ model: 'scripted-chat', messages: say('prose'), reasoning_effort: 'none', response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } });
  assert.deepEqual(JSON.parse(json.choices[0].message.content), { color: 'blue' });
  const free = { ...tool, function: { ...tool.function, parameters: { ...tool.function.parameters, required: ['city'] } } };
  const ended = await c.chat.completions.create({ model: 'scripted-chat', messages: say('prose'), tools: [free], tool_choice: 'required' });
  assert.deepEqual(JSON.parse(ended.choices[0].message.tool_calls?.[0].function.arguments), { city: '' });
  const object = await c.chat.completions.create({ model: 'scripted-chat', messages: say('prose'), reasoning_effort: 'none', response_format: { type: 'json_object', schema } });
  assert.deepEqual(JSON.parse(object.choices[0].message.content), { color: 'blue' });
  const e = await c.embeddings.create({ model: 'scripted-embed', input: ['a', 'b'] }); // asks for base64
  assert.equal(e.data[1].embedding.length, 8);
  assert.equal((await c.completions.create({ model: 'scripted', prompt: '[[say:x| y]]' })).choices[0].text, 'x y');
  const models = await c.models.list();
  assert.ok(models.data.some((m) => m.id === 'scripted:latest'));
  assert.equal((await c.models.retrieve('scripted')).id, 'scripted');
  assert.equal((await c.responses.create({ model: 'scripted-chat', input: '[[say:fine| thanks]]' })).output_text, 'fine thanks');
  const before = await c.responses.create({ model: 'scripted-chat', input: '[[say:fine]]' });
  const next = await c.responses.create({ model: 'scripted-chat', input: 'and now?', previous_response_id: before.id }); // what the prompt says first is done again
  assert.deepEqual([next.output_text, next.previous_response_id], ['fine', before.id]);
  await assert.rejects(c.responses.create({ model: 'scripted-chat', input: 'x', previous_response_id: 'resp_none' }), (err) => err.status === 404 && err.code === 'previous_response_not_found' && err.param === 'previous_response_id');
  const kinds = [];
  for await (const ev of await c.responses.create({ model: 'scripted-chat', input: '[[say:fine]]', stream: true })) kinds.push(ev.type);
  assert.equal(kinds[0], 'response.created');
  assert.equal(kinds.at(-1), 'response.completed');
  await assert.rejects(c.chat.completions.create({ model: 'nope', messages: say('x') }), (err) => err.status === 404 && err.type === 'not_found_error');
  await assert.rejects(async () => { for await (const _ of await c.chat.completions.create({ model: 'scripted-chat', messages: say('a|b|c]][[crash'), stream: true })); }, /unexpected EOF/);
});

test('openai, several answers', async () => {
  const c = new OpenAI({ baseURL: url + '/v1', apiKey: 'x', maxRetries: 0 });
  const any = '[[any:a|b b|c|d d|e e e|f|g]]';
  const ask = { model: 'scripted-chat', messages: [{ role: 'user', content: any }], n: 5, seed: 7 };
  const r = await c.chat.completions.create(ask);
  const texts = r.choices.map((ch) => ch.message.content);
  assert.deepEqual(r.choices.map((ch) => ch.index), [0, 1, 2, 3, 4]);
  assert.ok(new Set(texts).size > 1);
  assert.equal(r.usage.completion_tokens, texts.join(' ').split(' ').length);
  assert.deepEqual((await c.chat.completions.create(ask)).choices.map((ch) => ch.message.content), texts);
  const final = await c.chat.completions.stream(ask).finalChatCompletion(); // put together by the client
  assert.deepEqual(final.choices.map((ch) => [ch.index, ch.message.content, ch.finish_reason]), texts.map((t, i) => [i, t, 'stop']));
  const calls = await c.chat.completions.stream({ model: 'scripted-chat', messages: say(call), tools: [tool], n: 2 }).finalChatCompletion();
  for (const ch of calls.choices) assert.deepEqual(JSON.parse(ch.message.tool_calls[0].function.arguments), { city: 'Paris' });
  const best = await c.completions.create({ model: 'scripted', prompt: any, best_of: 7, n: 2, logprobs: 1 });
  assert.deepEqual(best.choices.map((ch) => ch.text), ['a', 'b b']);
  assert.deepEqual(best.choices[1].logprobs, { tokens: ['b', ' b'], token_logprobs: [-0.5, -0.5], top_logprobs: [{ b: -0.5 }, { ' b': -0.5 }], text_offset: [0, 1] });
  assert.equal(best.usage.completion_tokens, 11);
  assert.equal((await c.completions.create({ model: 'scripted', prompt: '[[say:x]]', echo: true })).choices[0].text, '[[say:x]]x');
  const parts = ['', ''];
  for await (const ch of await c.completions.create({ model: 'scripted', prompt: '[[say:x| y]]', n: 2, stream: true })) for (const o of ch.choices) parts[o.index] += o.text;
  assert.deepEqual(parts, ['x y', 'x y']);
  for (const bad of [{ n: 0 }, { n: 200 }]) await assert.rejects(c.chat.completions.create({ ...ask, ...bad }), (err) => err.status === 400 && /n must be between 1 and 128/.test(err.message));
});

// wav is a sound of this many seconds at half the full level, and 24,000 samples a second.
const wav = (seconds) => {
  const head = Buffer.alloc(44), data = Buffer.alloc(2 * 24000 * seconds);
  for (let i = 0; i < data.length; i += 2) data.writeInt16LE(16384, i);
  head.write('RIFF'); head.writeUInt32LE(36 + data.length, 4); head.write('WAVEfmt ', 8); head.writeUInt32LE(16, 16); head.writeUInt16LE(1, 20); head.writeUInt16LE(1, 22);
  head.writeUInt32LE(24000, 24); head.writeUInt32LE(48000, 28); head.writeUInt16LE(2, 32); head.writeUInt16LE(16, 34); head.write('data', 36); head.writeUInt32LE(data.length, 40);
  return Buffer.concat([head, data]);
};

test('openai, speech', async () => {
  const c = new OpenAI({ baseURL: url + '/v1', apiKey: 'x', maxRetries: 0 });
  const ask = async (more, seconds = 3) => c.audio.transcriptions.create({ file: await toFile(wav(seconds), 'a.wav'), model: 'scripted-hearing', ...more });
  const said = /^Second 1 is 5\d%\. Second 2 is 5\d%\. Second 3 is 5\d%\.$/;
  assert.match((await ask({})).text, said);
  assert.match(await ask({ response_format: 'text' }), said);
  assert.match(await ask({ response_format: 'vtt' }), /^WEBVTT\n\n00:00:00\.000 --> 00:00:01\.000\nSecond 1/);
  const whole = await ask({ response_format: 'verbose_json', language: 'en', timestamp_granularities: ['segment', 'word'] });
  assert.deepEqual([whole.language, whole.duration, whole.segments.length, whole.segments[2].end, whole.words[1].start], ['english', 3, 3, 3, 1]);
  let text = '', last;
  for await (const e of await ask({ stream: true })) { if (e.type === 'transcript.text.delta') text += e.delta; last = e; }
  assert.deepEqual([last.type, last.text], ['transcript.text.done', text]);
  assert.match(text, said);
  await assert.rejects(ask({ language: 'tlh' }), (e) => e.status === 400 && /"tlh" is not known/.test(e.message));
  await assert.rejects(ask({ model: 'scripted' }), (e) => e.status === 400 && /does not support audio/.test(e.message));
  await assert.rejects(c.audio.transcriptions.create({ file: await toFile(Buffer.from('no sound'), 'a.m4a'), model: 'scripted-hearing' }), (e) => e.status === 400 && /cannot hear this/.test(e.message));
});

test('openai, a voice', async () => {
  const c = new OpenAI({ baseURL: url + '/v1', apiKey: 'x', maxRetries: 0 });
  const ask = (more) => c.audio.speech.create({ model: 'scripted-speaking', voice: 'alloy', input: 'Cats sleep. Go home.', ...more });
  const bytes = async (more) => Buffer.from(await (await ask(more)).arrayBuffer());
  const tenth = 2 * 2400; // bytes of a word; a sentence ends with half of that
  const pcm = await bytes({ response_format: 'pcm' });
  assert.equal(pcm.length, 5 * tenth);
  const r = await ask({});
  assert.equal(r.headers.get('content-type'), 'audio/wav');
  assert.deepEqual(Buffer.from(await r.arrayBuffer()).subarray(44), pcm);
  assert.equal((await bytes({ response_format: 'flac' })).toString('latin1', 0, 4), 'fLaC');
  assert.equal((await bytes({ response_format: 'pcm', speed: 2 })).length, 5 * tenth / 2);
  assert.notDeepEqual(await bytes({ response_format: 'pcm', voice: { id: 'ben' } }), pcm);
  assert.equal((await bytes({ input: 'Cats sleep.' })).readUInt32LE(40), 2.5 * tenth); // the length of one piece is told
  let sound = Buffer.alloc(0), last;
  const events = await (await ask({ response_format: 'pcm', stream_format: 'sse' })).text();
  for (const line of events.split('\n')) {
    if (!line.startsWith('data: ')) continue;
    last = JSON.parse(line.slice(6));
    if (last.type === 'speech.audio.delta') sound = Buffer.concat([sound, Buffer.from(last.audio, 'base64')]);
  }
  assert.deepEqual(sound, pcm);
  assert.deepEqual(last, { type: 'speech.audio.done', usage: { input_tokens: 20, output_tokens: 10, total_tokens: 30 } });
  await assert.rejects(ask({ response_format: 'mp3' }), (e) => e.status === 400 && /wav, pcm or flac/.test(e.message));
  await assert.rejects(ask({ voice: 'eve' }), (e) => e.status === 400 && /the model has ada, ben/.test(e.message));
  await assert.rejects(ask({ model: 'tts-1' }), (e) => e.status === 404);
  await assert.rejects(ask({ model: 'scripted' }), (e) => e.status === 400 && /does not support speech/.test(e.message));
});

test('openai, pictures', async () => {
  const c = new OpenAI({ baseURL: url + '/v1', apiKey: 'x', maxRetries: 0 });
  const ask = (more) => c.images.generate({ model: 'scripted-drawing', prompt: 'A red fox', seed: 7, ...more });
  const png = (b64) => { // its size
    const b = Buffer.from(b64, 'base64');
    assert.equal(b.toString('latin1', 1, 4), 'PNG');
    return [b.readUInt32BE(16), b.readUInt32BE(20)];
  };
  const one = await ask({});
  assert.deepEqual(png(one.data[0].b64_json), [512, 384]);
  assert.deepEqual([one.data.length, one.data[0].seed, one.size, one.output_format, one.usage.output_tokens], [1, 7, '512x384', 'png', 768]);
  const two = await ask({ n: 2, size: '512x384', response_format: 'url', quality: 'high', style: 'natural', user: 'me' }); // what a client may have set
  assert.deepEqual(two.data.map((d) => d.seed), [7, 8]);
  assert.equal(two.data[0].b64_json, one.data[0].b64_json);
  assert.notEqual(two.data[1].b64_json, one.data[0].b64_json);
  assert.equal(Buffer.from((await ask({ output_format: 'jpeg', output_compression: 80 })).data[0].b64_json, 'base64').readUInt16BE(0), 0xffd8);
  const streamed = async (stream) => { const all = []; for await (const e of stream) all.push(e); return all; };
  const came = await streamed(await ask({ stream: true, partial_images: 2 }));
  assert.deepEqual(came.map((e) => [e.type, e.partial_image_index]), [['image_generation.partial_image', 0], ['image_generation.partial_image', 1], ['image_generation.completed', undefined]]);
  assert.equal(came[2].b64_json, one.data[0].b64_json);
  assert.equal(came[2].usage.total_tokens, one.usage.total_tokens);
  for (const e of came) assert.deepEqual(png(e.b64_json), [512, 384]);

  const image = () => toFile(Buffer.from(one.data[0].b64_json, 'base64'), 'fox.png', { type: 'image/png' });
  const edit = async (more) => c.images.edit({ model: 'scripted-drawing', image: await image(), prompt: 'At night', seed: 7, strength: 0.5, ...more });
  const night = await edit({});
  assert.deepEqual(png(night.data[0].b64_json), [512, 384]);
  assert.equal(night.usage.input_tokens_details.image_tokens, 768);
  assert.equal((await edit({ image: [await image()], n: 2, size: 'auto' })).data[0].b64_json, night.data[0].b64_json);
  const changed = await streamed(await edit({ stream: true, partial_images: 1 }));
  assert.deepEqual(changed.map((e) => e.type), ['image_edit.partial_image', 'image_edit.completed']);
  assert.equal(changed[1].b64_json, night.data[0].b64_json);

  await assert.rejects(ask({ size: '1024x1024' }), (e) => e.status === 400 && /it draws 512x384/.test(e.message));
  await assert.rejects(ask({ output_format: 'webp' }), (e) => e.status === 400 && /png and jpeg/.test(e.message));
  await assert.rejects(ask({ model: 'scripted' }), (e) => e.status === 400 && /does not draw pictures/.test(e.message));
  await assert.rejects(edit({ mask: await image() }), (e) => e.status === 400 && /mask is not supported/.test(e.message));
  await assert.rejects(edit({ image: [await image(), await image()] }), (e) => e.status === 400 && /two pictures/.test(e.message));
  await assert.rejects(streamed(await ask({ prompt: 'x[[crash]]', stream: true, partial_images: 3 })), (e) => /an error was encountered/.test(e.message));
});

const soft = process.env.AXLE_TEST_SOFT_URL; // the model inside, which sees
const seen = 'A red circle, a blue square and a yellow star.';

test('a picture', { skip: !soft && 'bin/axle is not built' }, async () => {
  const picture = readFileSync('../../pocket/shapes.png').toString('base64');
  const question = 'What is in this picture?';
  const c = new Ollama({ host: soft });
  assert.equal((await c.chat({ model: 'pocket', options: { temperature: 0 }, think: false, messages: [{ role: 'user', content: question, images: [picture] }] })).message.content, seen);
  assert.equal((await c.generate({ model: 'pocket', options: { temperature: 0 }, think: false, prompt: question, images: [picture] })).response, seen);
  const image_url = { url: `data:image/png;base64,${picture}` };
  const o = new OpenAI({ baseURL: soft + '/v1', apiKey: 'x', maxRetries: 0 });
  const r = await o.chat.completions.create({ model: 'pocket', temperature: 0, reasoning_effort: 'none', messages: [{ role: 'user', content: [{ type: 'image_url', image_url }, { type: 'text', text: question }] }] });
  assert.equal(r.choices[0].message.content, seen);
  const input = [{ role: 'user', content: [{ type: 'input_text', text: question }, { type: 'input_image', image_url: image_url.url, detail: 'auto' }] }];
  assert.equal((await o.responses.create({ model: 'pocket', temperature: 0, reasoning: { effort: 'none' }, input })).output_text, seen);
});
