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

// openai's client of the Realtime API speaks TLS and nothing else.
test('realtime', { timeout: 60000 }, async () => {
  const k = key('add', 'speaks');
  await reload(k, true);
  const wrong = new OpenAIRealtimeWS({ intent: 'transcription' }, openai('axle-wrong'));
  assert.match((await new Promise((done) => wrong.on('error', done))).message, /401/);
  const rt = new OpenAIRealtimeWS({ intent: 'transcription' }, openai(k));
  const came = [], waiting = []; // events that are not waited for, and who waits
  rt.on('event', (e) => { const at = waiting.findIndex((w) => w.type === e.type); if (at < 0) came.push(e); else waiting.splice(at, 1)[0].done(e); });
  rt.on('error', () => {}); // they are events, too
  const next = (type) => new Promise((done) => { const at = came.findIndex((e) => e.type === type); if (at < 0) waiting.push({ type, done }); else done(came.splice(at, 1)[0]); });
  const closed = new Promise((done) => rt.socket.on('close', done));
  const input = (more) => rt.send({ type: 'session.update', session: { type: 'transcription', audio: { input: more } } });
  const sound = (level, seconds) => {
    const audio = Buffer.alloc(4800);
    for (let i = 0; i < audio.length; i += 2) audio.writeInt16LE(level, i);
    for (let i = 0; i < 10 * seconds; i++) rt.send({ type: 'input_audio_buffer.append', audio: audio.toString('base64') });
  };
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
