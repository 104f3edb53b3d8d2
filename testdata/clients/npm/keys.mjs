// npm ollama and openai against a scripted server that speaks TLS and asks for keys. NODE_EXTRA_CA_CERTS names its certificate.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { Ollama } from 'ollama';
import OpenAI from 'openai';

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
