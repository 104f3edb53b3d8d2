// Talking to the page, and having it read aloud. Chromium's own device is the microphone: it beeps, or plays a file.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { launch, pause } from './browser.mjs';
import { at, choose, equal, holds, inPage, keepChat } from './views.mjs';

const mic = '.composer .mic', strip = '.composer .listening';
const written = `document.querySelector('${at.text}').value`;
const said = `[...document.querySelectorAll('.said .bad span')].map((e) => e.textContent)`;
const asks = (page) => page.requests.filter((u) => u.endsWith('/v1/audio/transcriptions')).length;

// watched keeps the streams and the nodes that the page makes, to see that they end.
const watched = `(() => {
  window.streams = [];
  const real = MediaDevices.prototype.getUserMedia;
  MediaDevices.prototype.getUserMedia = async function (o) { window.asked = o; const s = await real.call(this, o); streams.push(s); return s; };
  const Node = AudioWorkletNode;
  window.AudioWorkletNode = class extends Node { constructor(...a) { super(...a); window.node = this; } };
})()`;
const live = `window.streams.flatMap((s) => s.getTracks()).filter((t) => t.readyState === 'live').length`;

// permit says whether a page may have the microphone.
export async function permit(page, url, setting = 'granted') {
  const { targetInfo } = await page.send('Target.getTargetInfo');
  await page.send('Browser.setPermission', { permission: { name: 'microphone' }, setting, origin: url, browserContextId: targetInfo.browserContextId });
}

async function open({ context, url }, { script = watched, setting, ...o } = {}) {
  const page = await context.page(o);
  await permit(page, url, setting);
  await page.send('Page.addScriptToEvaluateOnNewDocument', { source: script });
  await page.go(url + '/ui');
  await page.until('the microphone', `!!document.querySelector('${mic}')`);
  return page;
}

const middle = (page) => page.run(`(() => { const r = document.querySelector('${mic}').getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 }; })()`);
const mouse = async (page, type) => page.send('Input.dispatchMouseEvent', { type, ...await middle(page), button: 'left', clickCount: 1 });
const listens = (page) => page.until('that it listens', `document.querySelector('${mic}').getAttribute('aria-pressed') === 'true' && (document.querySelector('${strip} path')?.getAttribute('d') ?? '').length > 20`);
const done = (page) => page.until('that it is written down', `!document.querySelector('${strip}')`);
const clear = (page) => page.run(`(() => { const e = document.querySelector('${at.text}'); e.value = ''; e.dispatchEvent(new Event('input', { bubbles: true })); for (const b of document.querySelectorAll('.said button')) b.click(); })()`);

async function holdKey(page, key) {
  const o = { key, code: key === ' ' ? 'Space' : key, windowsVirtualKeyCode: key === ' ' ? 32 : 13, text: key === ' ' ? ' ' : '\r' };
  await page.run(`document.querySelector('${mic}').focus()`);
  await page.send('Input.dispatchKeyEvent', { type: 'keyDown', ...o });
  await listens(page);
  for (let i = 0; i < 5; i++) await page.send('Input.dispatchKeyEvent', { type: 'keyDown', autoRepeat: true, ...o });
  await pause(500);
  await page.send('Input.dispatchKeyEvent', { type: 'keyUp', ...o, text: undefined });
  await done(page);
}

// instead answers the requests of a pattern with a status, a type and a body.
async function instead(page, pattern, f) {
  await page.send('Fetch.enable', { patterns: [{ urlPattern: pattern, requestStage: 'Request' }] });
  page.intercept = (p) => {
    const [status, type, body] = f(p.request);
    page.send('Fetch.fulfillRequest', { requestId: p.requestId, responseCode: status, responseHeaders: [{ name: 'Content-Type', value: type }], body: Buffer.from(body).toString('base64') }).catch(() => {});
  };
}

// What is said goes to the model and into the field: held by the mouse or a key, or begun and ended by clicks. Escape throws it away.
async function talks(t) {
  const page = await open(t);
  await choose(page, 'scripted-chat:latest');
  await mouse(page, 'mousePressed');
  await listens(page);
  await page.until('the time', `!/^0:00/.test(document.querySelector('${strip} .time').textContent)`);
  await mouse(page, 'mouseReleased');
  await done(page);
  const words = await page.run(written);
  holds(`what was heard: ${words}`, /^Second 1 is [1-9]\d*%\.( Second \d is \d+%\.)+$/.test(words));
  equal('questions that were sent', await page.run(`document.querySelectorAll('${at.turns}').length`), 0);
  equal('where one goes on writing', await page.run(`document.activeElement.id`), 'text');
  equal('microphones that are open', await page.run(live), 0);
  await page.until('the end of its audio context', `node.context.state === 'closed'`);

  await clear(page);
  await page.type('onetwo');
  await page.run(`document.querySelector('${at.text}').setSelectionRange(3, 3)`);
  await page.click(mic);
  await listens(page);
  await pause(600); // a click lets it run
  equal('whether it listens', await page.run(`document.querySelector('${mic}').getAttribute('aria-pressed')`), 'true');
  await page.click(mic);
  await done(page);
  holds(`in the middle: ${await page.run(written)}`, /^one( Second \d is \d+%\.)+ two$/.test(await page.run(written)));

  for (const key of [' ', 'Enter']) {
    await clear(page);
    await holdKey(page, key);
    holds(`by ${JSON.stringify(key)}: ${await page.run(written)}`, /^Second 1/.test(await page.run(written)));
  }

  await clear(page);
  const before = asks(page);
  for (const how of [() => page.key('Escape'), () => page.click(`${strip} .discard`)]) {
    await page.run(`document.querySelector('${mic}').click()`); // as a screen reader does it
    await listens(page);
    await how();
    await done(page);
    await pause(300);
    equal('what is left of it', [asks(page) - before, await page.run(written), await page.run(live)], [0, '', 0]);
  }

}

// A recording has a longest length; what was said is sent at once where that was chosen; whatever goes wrong is told in words, and the
// microphone is let go.
async function microphone(t) {
  const page = await open(t, { excuse: /503/ });
  await choose(page, 'scripted-chat:latest');
  await page.run(`document.querySelector('${mic}').click()`);
  await listens(page);
  await page.run(`node.port.onmessage({ data: { samples: new Int16Array(300 * node.context.sampleRate), level: 0.1 } })`); // five minutes
  await page.until('the end of a recording that is as long as it may be', `/^Second 1 .*Second 300 is/.test(${written}) && !document.querySelector('${strip}')`);
  holds('what is told of that', await page.run(`[...document.querySelectorAll('.said span')].some((e) => /at most 5\\smin/.test(e.textContent))`));

  await inPage(page, `(await use('settings')).set({ heard: 'send' });`);
  await clear(page);
  await mouse(page, 'mousePressed');
  await listens(page);
  await pause(500);
  await mouse(page, 'mouseReleased');
  await page.until('a question that was spoken', `/^Second 1/.test(document.querySelector('.turn.user .said-text')?.textContent ?? '') && ${written} === ''`);
  await page.until('its answer', at.idle);
  await inPage(page, `(await use('settings')).set({ heard: '' });`);

  await page.run(`document.querySelector('${mic}').click()`);
  await listens(page);
  await page.run(`for (const track of streams[streams.length - 1].getTracks()) track.dispatchEvent(new Event('ended'))`);
  await page.until('what was said until the microphone was taken away', `/^Second 1/.test(${written}) && !document.querySelector('${strip}') && ${live} === 0`);

  await page.run(`document.querySelector('${mic}').click()`);
  await listens(page);
  await inPage(page, `const { models } = await use('live'); window.known = models.get(); models.set(known.filter((m) => !m.capabilities.includes('audio')));`);
  await page.until('that it is let go where the last model that hears is gone', `!document.querySelector('${mic}') && !document.querySelector('${strip}') && ${live} === 0`);
  await inPage(page, `(await use('live')).models.set(window.known);`);
  await page.until('the microphone', `!!document.querySelector('${mic}')`);
  const kept = await keepChat(page, [['user', 'Talk']]);
  for (const to of ['#/settings', '#/chat']) {
    await page.run(`location.hash = '#/chat/${kept}'`);
    await page.until('the conversation', `document.querySelectorAll('${at.turns}').length === 1 && !!document.querySelector('${mic}')`);
    await pause(300); // what ends with the conversation before has ended
    await page.run(`document.querySelector('${mic}').click()`);
    await listens(page);
    await page.run(`location.hash = '${to}'`);
    await page.until(`that it is let go by going to ${to}`, `!document.querySelector('${strip}') && ${live} === 0`);
  }

  const speak = async () => {
    await clear(page);
    await page.run(`document.querySelector('${mic}').click()`);
    await listens(page);
    await page.run(`document.querySelector('${mic}').click()`);
    await done(page);
    return page.run(said);
  };
  for (const [how, want] of [[[503, 'application/json', '{"error":{"message":"the queue is full"}}'], ['the queue is full']], [[200, 'application/json', '{"text":" "}'], ['No words were heard.']],
    [[200, 'text/html', '<title>Log in</title>'], ['What answered is not axle but a page, perhaps one that wants you to log in. Load this page anew.']]]) {
    await instead(page, '*/v1/audio/transcriptions', () => how);
    equal('what is told', [await speak(), await page.run(written)], [want, '']);
  }
  await page.send('Fetch.disable');

  for (const [what, o, want] of [
    ['a browser that does not allow it', { setting: 'denied' }, /does not let this page/],
    ['a page without https', { script: `Object.defineProperty(window, 'isSecureContext', { value: false })` }, /--tls-self-signed/],
    ['no microphone', { script: `MediaDevices.prototype.getUserMedia = async () => { throw new DOMException('Requested device not found', 'NotFoundError'); }` }, /has no microphone/],
    ['one that is taken', { script: `MediaDevices.prototype.getUserMedia = async () => { throw new DOMException('Could not start audio source', 'NotReadableError'); }` }, /Another program/],
    ['one that cannot be used', { script: `MediaDevices.prototype.getUserMedia = async () => { throw new DOMException('as it is', 'InvalidStateError'); }` }, /cannot be used: as it is/],
  ]) {
    const other = await open(t, o);
    await other.click(mic);
    await other.until(what, `(${said}).length === 1`);
    const [told] = await other.run(said);
    holds(`${what}: ${told}`, want.test(told));
    equal('what is left of it', [await other.run(`!!document.querySelector('${strip}')`), asks(other)], [false, 0]);
    await other.close();
  }
  const muted = await open(t, { script: `MediaDevices.prototype.getUserMedia = async () => new AudioContext().createMediaStreamDestination().stream` });
  await mouse(muted, 'mousePressed');
  await muted.until('that it listens', `document.querySelector('${mic}').getAttribute('aria-pressed') === 'true'`);
  await pause(500);
  await mouse(muted, 'mouseReleased');
  await muted.until('silence', `(${said}).length === 1`);
  holds('what is told of silence', /muted/.test((await muted.run(said))[0]) && asks(muted) === 0);

  const slow = await open(t, { script: `${watched}; AudioWorklet.prototype.addModule = () => new Promise(() => {});` });
  await slow.click(mic);
  await slow.until('that the microphone is open before the page can record', `${live} === 1`);
  await slow.key('Escape');
  await slow.until('that it is let go', `!document.querySelector('${strip}') && ${live} === 0`);

  const german = await open(t);
  await inPage(german, `(await use('settings')).set({ lang: 'de' });`);
  await german.until('its name in German', `document.querySelector('${mic}').getAttribute('aria-label') === 'Zum Sprechen halten'`);
  const deaf = await t.context.page();
  await deaf.send('Page.addScriptToEvaluateOnNewDocument', { source: `(() => { const real = fetch; window.fetch = async (to, o) => { const r = await real(to, o); if (new URL(to, location).pathname !== '/api/tags') return r;
    const models = (await r.json()).models.filter((m) => !m.capabilities.includes('audio')); return new Response(JSON.stringify({ models })); }; })()` });
  await deaf.go(t.url + '/ui');
  await deaf.until('the models', `document.querySelectorAll('#model option').length > 1`);
  equal('microphones where no model hears', await deaf.run(`document.querySelectorAll('${mic}').length`), 0);
}

const answer = `Hello there. How are you, Mr. 3.5?

\`\`\`go
func secret() {}
\`\`\`

## A head

- first **point**
- second

| a | b |
|---|---|
| one | two |

${'long words and '.repeat(60)}the end.`;
const parts = ['Hello there.', 'How are you, Mr.', '3.5?', 'A head', 'first point', 'second', 'a, b', 'one, two'];

// An answer is read sentence by sentence, each asked for while the one before is heard, without its code and what was thought. One answer is read
// at a time; it ends by its button, by Escape, by talking, with its conversation, and with itself: the one that is ended takes a minute, which is
// longer than a test waits. The voice is that of the settings.
async function aloud(t) {
  const page = await open(t, { excuse: /503/, script: `${watched};
    window.played = []; window.over = 0; window.ahead = [];
    const start = AudioBufferSourceNode.prototype.start, real = fetch;
    AudioBufferSourceNode.prototype.start = function (at) {
      window.sounding = this.context;
      played.push({ at, length: this.buffer.duration, rate: this.buffer.sampleRate });
      this.addEventListener('ended', () => { over++; });
      start.call(this, at);
    };
    window.fetch = (to, o) => { if (String(to).endsWith('/v1/audio/speech')) ahead.push(played.length - over); return real(to, o); };` });
  const asked = [];
  page.seen = (q) => { if (q.url.endsWith('/v1/audio/speech')) asked.push(JSON.parse(q.postData)); };
  const id = await keepChat(page, [['user', 'Talk'], ['assistant', answer], ['user', 'Once more'], ['assistant', 'Another. '.repeat(400)], ['user', 'Code'], ['assistant', '```\nx\n```']]);
  await inPage(page, `const S = await use('store'); for (const x of await S.turns('${id}')) if (x.role === 'assistant') await S.saveTurn(Object.assign(x, { thinking: 'A secret.', thinkMs: 10 }));`);
  await page.reload();
  await page.until('the buttons', `document.querySelectorAll('.turn.answer .aloud').length === 3`);
  const ids = await page.run(`[...document.querySelectorAll('.turn.answer')].map((e) => e.dataset.id)`);
  const press = async (i) => { // by a key: a browser lets a page sound only where somebody has pressed something
    await page.run(`document.querySelector('[data-id="${ids[i]}"] .aloud').focus()`);
    await page.key('Enter');
  };
  const names = `[...document.querySelectorAll('.turn.answer .aloud')].map((b) => b.getAttribute('aria-label').split(' ')[0])`;
  await press(0);
  await page.until('the first sound', `played.length > 0`);
  equal('the buttons while it is read', await page.run(names), ['Stop', 'Read', 'Read']);
  await page.until('the end', `!document.querySelector('.aloud.on')`, 'played.length');
  const long = asked.slice(parts.length).map((q) => q.input);
  equal('what was read', asked.slice(0, parts.length).map((q) => q.input), parts);
  holds(`what is long is cut at spaces: ${long}`, long.length > 1 && long.every((s) => s.length <= 400 && /\S$/.test(s)) && long.join(' ') === 'long words and '.repeat(60) + 'the end.');
  equal('how it was asked for', { ...asked[0], input: '' }, { model: 'scripted-speaking:latest', input: '', response_format: 'wav' });
  const ahead = await page.run('ahead');
  holds(`sentences that were not heard yet when the next was asked for: ${ahead}`, ahead.length === asked.length && Math.max(...ahead) === 2);
  const sounds = await page.run('played');
  equal('sounds', [sounds.length, sounds[0].rate, Math.round(100 * sounds[0].length)], [asked.length, 24000, 25]); // two words, and a pause
  holds('two are heard at once', sounds.every((s, i) => i === 0 || s.at >= sounds[i - 1].at + sounds[i - 1].length - 1e-6));

  const cut = (text) => inPage(page, `return (await use('aloud')).sentences(${text});`);
  equal('sentences', await cut(`'So... “Well.” Is it?! Wait...what 3.5 ' + '.'.repeat(20) + ' end'`), ['So...', '“Well.”', 'Is it?!', 'Wait...what 3.5 ' + '.'.repeat(20), 'end']);
  equal('a long row of dots', (await cut(`'a' + '.'.repeat(3e5) + 'b. c'`)).length, 3); // it would take minutes

  const quiet = async (what) => {
    await page.until(what, `!document.querySelector('.aloud.on') && sounding.state === 'closed'`);
    const n = asked.length;
    await pause(700);
    equal(what + ': sentences that are asked for all the same', asked.length - n, 0);
  };
  const begin = async (i) => {
    await press(i);
    await page.until('the sound', `(${names}).map((n) => n === 'Stop').indexOf(true) === ${i} && !!document.querySelector('.aloud.on:not(.waits)')`);
  };
  await begin(1);
  await begin(0);
  equal('one at a time', await page.run(`document.querySelectorAll('.aloud.on').length`), 1);
  await press(0);
  await quiet('its button ends it');
  await begin(1);
  await page.key('Escape');
  await quiet('Escape ends it');
  await begin(1);
  await page.run(`document.querySelector('${mic}').click()`);
  await quiet('talking ends it');
  await page.key('Escape');
  const other = await keepChat(page, [['user', 'Something else']], 'other');
  const back = async () => {
    await page.run(`location.hash = '#/chat/${id}'`);
    await page.until('the buttons', `document.querySelectorAll('.turn.answer .aloud').length === 3`);
  };
  await back();
  await begin(1);
  await page.run(`location.hash = '#/chat/${other}'`);
  await page.until('the other conversation', `document.querySelectorAll('${at.turns}').length === 1`);
  await quiet('another conversation ends it');
  await back();
  await inPage(page, `(await use('markdown')).Flow.prototype.all = () => new Promise((ok) => { window.draw = ok; });`);
  await press(1);
  await page.until('that it waits for the answer to be drawn', `!!window.draw`);
  await page.run(`location.hash = '#/chat/${other}'`);
  await page.until('the other conversation', `document.querySelectorAll('${at.turns}').length === 1`);
  await page.run(`window.draw()`);
  await quiet('what has gone while it was drawn is not read');
  await page.reload();
  await back();
  await begin(1);
  await page.run(`location.hash = '#/settings'`);
  await page.until('the voices', `[...document.querySelectorAll('.settings select')].some((s) => s.options.length === 3)`);
  await pause(500);
  const n = asked.length;
  equal('the voices', await page.run(`[...document.querySelectorAll('.settings select')].pop().innerText.split('\\n')`), ['The model’s first', 'ada · American English', 'ben · British English']);
  await page.run(`(() => { const s = [...document.querySelectorAll('.settings select')].pop(); s.selectedIndex = 2; s.dispatchEvent(new Event('change', { bubbles: true })); })()`);
  equal('another view ends it', asked.length - n, 0);
  await page.run(`location.hash = '#/chat/${id}'`);
  await page.until('the buttons', `document.querySelectorAll('.turn.answer .aloud').length === 3`);
  await press(2);
  await page.until('that code is not read', `/code is left out/.test((${said})[0] ?? '')`);
  await begin(1);
  await press(1);
  equal('the voice', asked[asked.length - 1].voice, 'ben');

  await clear(page);
  for (const [how, want] of [[[503, 'application/json', '{"error":{"message":"the queue is full"}}'], 'the queue is full'], [[200, 'audio/wav', 'RIFF no sound'], 'The model’s sound could not be played.']]) {
    await instead(page, '*/v1/audio/speech', () => how);
    await press(1);
    await page.until('what is told', `(${said}).length === 1 && !document.querySelector('.aloud.on')`);
    equal('what is told', await page.run(said), [want]);
    await clear(page);
  }
  await page.send('Fetch.disable');
  await begin(1);
  await inPage(page, `const { open, remove } = await use('open'); await remove(open.get().path.find((x) => x.id === '${ids[1]}'));`);
  await page.until('that it is gone', `!document.querySelector('[data-id="${ids[1]}"]')`);
  await quiet('its answer is gone, and that ends it');
}

export const voices = { talks, microphone, aloud };

// played is a recording, as a browser reads it, for Chromium to play into the microphone: with silence before and after it, since the file begins
// when the microphone is opened.
async function played(page, file) {
  const samples = await page.run(`(async () => {
    const sound = await new OfflineAudioContext(1, 1, 16000).decodeAudioData(Uint8Array.from(atob('${readFileSync(file).toString('base64')}'), (c) => c.charCodeAt(0)).buffer);
    return [...sound.getChannelData(0)].map((x) => Math.round(x * 32767));
  })()`);
  const data = Int16Array.from([...new Array(16000).fill(0), ...samples, ...new Array(8000).fill(0)]);
  const head = Buffer.alloc(44);
  head.write('RIFF');
  head.writeUInt32LE(36 + data.byteLength, 4);
  head.write('WAVEfmt ', 8);
  for (const [at, n] of [[16, 16], [24, 16000], [28, 32000], [40, data.byteLength]]) head.writeUInt32LE(n, at);
  for (const [at, n] of [[20, 1], [22, 1], [32, 2], [34, 16]]) head.writeUInt16LE(n, at);
  head.write('data', 36);
  return { wav: Buffer.concat([head, Buffer.from(data.buffer)]), seconds: data.length / 16000 };
}

// hears speaks recordings into the page: the field holds their words, by the recogniser that ships inside. The microphone runs at a rate of its
// own, and one of the browsers does not resample.
export async function hears(t) {
  const dir = mkdtempSync(join(tmpdir(), 'axle-ui-'));
  const texts = readFileSync('models/hearing/testdata/said.txt', 'utf8').trim().split('\n').map((l) => l.split('\t'));
  const plain = await t.context.page();
  await plain.go(t.url + '/ui');
  const got = [];
  for (const [i, script] of [[0, watched], [3, watched], [6, `(() => { const Real = AudioContext; window.AudioContext = class extends Real { constructor(o = {}) { if (o.sampleRate) throw new DOMException('no', 'NotSupportedError'); super(o); } }; })()`]]) {
    const [name, text] = texts[i];
    const { wav, seconds } = await played(plain, join('models/hearing/testdata', name));
    writeFileSync(join(dir, 'said.wav'), wav);
    const browser = await launch([`--use-file-for-fake-audio-capture=${join(dir, 'said.wav')}%noloop`]);
    try {
      const page = await open({ context: await browser.context(), url: t.url }, { script });
      await mouse(page, 'mousePressed');
      await page.until('that it listens', `document.querySelector('${mic}').getAttribute('aria-pressed') === 'true'`);
      await pause(1000 * seconds);
      await mouse(page, 'mouseReleased');
      await done(page);
      got.push([await page.run(written), text]);
      equal('what is told', await page.run(said), []);
      if (page.problems.length) throw new Error('the page complains: ' + page.problems[0]);
    } finally {
      await browser.close();
    }
  }
  rmSync(dir, { recursive: true, force: true });
  for (const [words, text] of got) equal('what was spoken into the page', words, text);
  return got.map(([words]) => words).join(' · ');
}
