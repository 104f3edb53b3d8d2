// npm ollama and openai against a scripted server that speaks TLS and asks for keys. NODE_EXTRA_CA_CERTS names its certificate.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';

const { AXLE_TEST_TLS_URL: url, AXLE_TEST_TLS_PID: pid, AXLE_TEST_KEYS: file, AXLE_TEST_SERVER: axle } = process.env;
if (!url || !pid || !file || !axle) throw new Error('AXLE_TEST_TLS_URL and others name no server: run make clients-ci');
const key = (...words) => execFileSync(axle, ['key', ...words, '--keys-file', file], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
const say = (s) => [{ role: 'user', content: `[[say:${s}]]` }];
const openai = (apiKey) => new OpenAI({ baseURL: url + '/v1', apiKey, maxRetries: 0 });
const ollama = (k) => new Ollama({ host: url, headers: { Authorization: `Bearer ${k}` } });
const chat = (c, s = 'yes') => c.chat.completions.create({ model: 'scripted-chat', messages: say(s) });

// reload has the server read its file, and waits until the key works or no longer does.
async function reload(k, works) {
  process.kill(Number(pid), 'SIGHUP');
  for (;;) {
    const { status } = await fetch(url + '/api/tags', { headers: { Authorization: `Bearer ${k}` } });
    if ((status === 200) === works) return;
    await new Promise((done) => setTimeout(done, 20));
  }
}

test('roles', { timeout: 60000 }, async () => {
  const ask = key('add', 'asks'), admin = key('add', 'admin', '--role', 'admin');
  await assert.rejects(chat(openai('axle-wrong')), OpenAI.AuthenticationError);
  await assert.rejects(new Ollama({ host: url }).list(), (e) => e.status_code === 401);
  await reload(admin, true);
  assert.equal((await chat(openai(ask))).choices[0].message.content, 'yes');
  const may = ollama(ask), all = ollama(admin);
  assert.equal((await may.chat({ model: 'scripted-chat', messages: say('yes') })).message.content, 'yes');
  assert.ok((await may.list()).models.length > 0);
  const refused = (e) => e.status_code === 403 && /key/.test(e.message);
  await assert.rejects(may.create({ model: 'tls-made', from: 'scripted-chat', system: 'brief' }), refused);
  await assert.rejects(may.delete({ model: 'scripted-chat' }), refused);
  await assert.rejects(may.pull({ model: 'qwen3' }), refused);
  await assert.rejects(may.chat({ model: 'scripted-chat', messages: say('yes'), keep_alive: 0 }), refused);
  assert.equal((await all.create({ model: 'tls-made', from: 'scripted-chat', system: 'brief' })).status, 'success');
  assert.equal((await all.show({ model: 'tls-made' })).system, 'brief');
  assert.equal((await may.show({ model: 'tls-made' })).system ?? '', '');
  await all.delete({ model: 'tls-made' });
});

test('limits, and keys that come and go', { timeout: 60000 }, async () => {
  const few = key('add', 'few', '--tokens', '30');
  await reload(few, true);
  await assert.rejects(async () => { for (let i = 0; i < 30; i++) await chat(openai(few), 'one| two| three'); }, (e) =>
    e instanceof OpenAI.RateLimitError && Number(e.headers.get('retry-after')) > 0);
  const still = key('add', 'still');
  key('rm', 'few');
  await reload(few, false);
  assert.equal((await chat(openai(still))).choices[0].message.content, 'yes');
  await assert.rejects(chat(openai(few)), OpenAI.AuthenticationError);
  const out = execFileSync(axle, ['list'], { encoding: 'utf8', env: { ...process.env, AXLE_HOST: url, AXLE_KEY: still, SSL_CERT_FILE: process.env.NODE_EXTRA_CA_CERTS } });
  assert.match(out, /scripted-chat/);
});

// dial begins a session of the Realtime API. openai's client of it speaks TLS and nothing else.
function dial(of, k) {
  const rt = new OpenAIRealtimeWS(of, openai(k));
  const came = [], waiting = []; // events that are not waited for, and who waits
  rt.on('event', (e) => { const at = waiting.findIndex((w) => w.type === e.type); if (at < 0) came.push(e); else waiting.splice(at, 1)[0].done(e); });
  rt.on('error', () => {}); // they are events, too
  const next = (type) => new Promise((done) => { const at = came.findIndex((e) => e.type === type); if (at < 0) waiting.push({ type, done }); else done(came.splice(at, 1)[0]); });
  const sound = (level, seconds) => {
    const audio = Buffer.alloc(4800);
    for (let i = 0; i < audio.length; i += 2) audio.writeInt16LE(level, i);
    for (let i = 0; i < 10 * seconds; i++) rt.send({ type: 'input_audio_buffer.append', audio: audio.toString('base64') });
  };
  return { rt, came, next, sound, closed: new Promise((done) => rt.socket.on('close', done)) };
}

test('realtime', { timeout: 60000 }, async () => {
  const k = key('add', 'speaks');
  await reload(k, true);
  const wrong = new OpenAIRealtimeWS({ intent: 'transcription' }, openai('axle-wrong'));
  assert.match((await new Promise((done) => wrong.on('error', done))).message, /401/);
  const { rt, next, sound, closed } = dial({ intent: 'transcription' }, k);
  const input = (more) => rt.send({ type: 'session.update', session: { type: 'transcription', audio: { input: more } } });
  const said = 'conversation.item.input_audio_transcription.completed';
  assert.equal((await next('session.created')).session.audio.input.transcription.model, 'scripted-hearing:latest');
  input({ format: { type: 'audio/pcm', rate: 24000 }, transcription: { model: 'scripted-hearing', language: 'en' }, turn_detection: { type: 'server_vad', silence_duration_ms: 300 } });
  assert.deepEqual((await next('session.updated')).session.audio.input.turn_detection, { type: 'server_vad', threshold: 0.5, prefix_padding_ms: 300, silence_duration_ms: 300 });
  sound(0, 1); sound(16384, 2); sound(0, 1);
  const started = await next('input_audio_buffer.speech_started'), stopped = await next('input_audio_buffer.speech_stopped');
  assert.ok(Math.abs(started.audio_start_ms - 700) < 100 && Math.abs(stopped.audio_end_ms - 3300) < 100, `${started.audio_start_ms} ${stopped.audio_end_ms}`);
  const committed = await next('input_audio_buffer.committed'), added = await next('conversation.item.added'), text = await next(said);
  assert.deepEqual([started.item_id, stopped.item_id, committed.item_id, added.item.id, committed.previous_item_id], [...Array(4).fill(text.item_id), null]);
  assert.match(text.transcript, /^Second 1 is 5\d%\. Second 2 is 5\d%\. Second 3 is 5\d%\.$/);
  input({ turn_detection: null });
  rt.send({ type: 'input_audio_buffer.clear' });
  await next('input_audio_buffer.cleared');
  sound(16384, 1);
  rt.send({ type: 'input_audio_buffer.commit' });
  assert.equal((await next('input_audio_buffer.committed')).previous_item_id, text.item_id);
  assert.match((await next(said)).transcript, /^Second 1 is 5\d%\.$/);
  rt.send({ type: 'response.create', event_id: 'mine' });
  const { error } = await next('error');
  assert.deepEqual([error.event_id, error.type], ['mine', 'invalid_request_error']);
  rt.close({ code: 1000, reason: 'done' });
  assert.equal(await closed, 1000);
});

test('a conversation', { timeout: 60000 }, async () => {
  const k = key('add', 'talks', '--sessions', '1');
  await reload(k, true);
  const { rt, came, next, sound, closed } = dial({ model: 'scripted-chat' }, k);
  const session = (more) => rt.send({ type: 'session.update', session: { type: 'realtime', ...more } });
  const tell = (text) => rt.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content: [{ type: 'input_text', text }] } });
  const { session: fresh } = await next('session.created');
  assert.deepEqual([fresh.type, fresh.model, fresh.output_modalities, fresh.max_output_tokens], ['realtime', 'scripted-chat:latest', ['audio'], 'inf']);
  const second = new OpenAIRealtimeWS({ model: 'scripted-chat' }, openai(k));
  assert.match((await new Promise((done) => second.on('error', done))).message, /429/);

  session({ instructions: '[[say:One| is| here.| Two| too.]]', audio: { output: { voice: 'alloy', format: { type: 'audio/pcm', rate: 24000 } } } });
  await next('session.updated');
  sound(0, 1); sound(16384, 2); sound(0, 1);
  const heard = await next('conversation.item.input_audio_transcription.completed'), { response } = await next('response.done');
  assert.match(heard.transcript, /^Second 1 is 5/);
  assert.deepEqual([response.status, response.usage.output_tokens, response.output[0].content], ['completed', 5, [{ type: 'output_audio', transcript: 'One is here. Two too.' }]]);
  const parts = came.filter((e) => e.type === 'response.output_audio.delta');
  assert.equal(parts.reduce((n, e) => n + Buffer.from(e.delta, 'base64').length, 0), 5 * 4800 + 2 * 2400);
  assert.equal(came.filter((e) => e.type === 'response.output_audio_transcript.delta').map((e) => e.delta).join(''), 'One is here. Two too.');
  assert.ok(parts.every((e) => e.item_id === response.output[0].id && e.response_id === response.id));

  rt.send({ type: 'conversation.item.truncate', item_id: response.output[0].id, content_index: 0, audio_end_ms: 360 });
  assert.equal((await next('conversation.item.truncated')).audio_end_ms, 360);
  rt.send({ type: 'conversation.item.retrieve', item_id: response.output[0].id });
  assert.equal((await next('conversation.item.retrieved')).item.content[0].transcript, 'One is here.');

  session({ instructions: '', output_modalities: ['text'], tools: [{ type: 'function', name: 'light', description: 'Switches it.', parameters: { type: 'object', properties: { room: { type: 'string' } } } }] });
  tell('call light with room set to kitchen');
  rt.send({ type: 'response.create' });
  const call = await next('response.function_call_arguments.done');
  assert.deepEqual([call.name, JSON.parse(call.arguments)], ['light', { room: 'kitchen' }]);
  await next('response.done');
  rt.send({ type: 'conversation.item.create', item: { type: 'function_call_output', call_id: call.call_id, output: 'on' } });
  tell('[[say:It| is| on.]]');
  rt.send({ type: 'response.create', response: { metadata: { topic: 'light' } } });
  assert.equal((await next('response.output_text.done')).text, 'It is on.');
  assert.deepEqual((await next('response.done')).response.metadata, { topic: 'light' });

  tell('[[delay:50]][[say:' + 'On| and| '.repeat(400) + '|]]');
  rt.send({ type: 'response.create' });
  while (came.length) came.pop();
  await next('response.output_text.delta');
  rt.send({ type: 'response.cancel' });
  const { status, status_details } = (await next('response.done')).response;
  assert.deepEqual([status, status_details], ['cancelled', { type: 'cancelled', reason: 'client_cancelled' }]);
  rt.close({ code: 1000, reason: 'done' });
  assert.equal(await closed, 1000);
});
