// Reading aloud: an answer's sentences, spoken by a model of the server one after the other. One answer is read at a time.
import { html, signal, useEffect } from './html.js';
import { say } from './dialog.js';
import { Button } from './icons.js';
import { models } from './live.js';
import { call, refusal } from './server.js';
import { settings } from './settings.js';
import { t } from './words.js';
import { samples } from './wav.js';

// reading is what is read: {id, sounds}; sounds: the first sentence was heard.
export const reading = signal(null);

// speakers are the models that speak, the newest first.
export const speakers = (list) => (list ?? []).filter((m) => !m.says && m.capabilities?.includes('speech'));

const most = 400; // characters that are spoken at once; more would be waited for
const ahead = 2; // sentences that are made while one is heard

// words is what is read of an answer's element: not its code, and each block on a line of its own.
export function words(from) {
  const copy = from.cloneNode(true);
  for (const e of copy.querySelectorAll('.code, pre, svg, button')) e.remove();
  const walk = document.createTreeWalker(copy, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) walk.currentNode.data = walk.currentNode.data.replace(/\s+/g, ' ');
  for (const e of copy.querySelectorAll('td:not(:last-child), th:not(:last-child)')) e.append(', ');
  for (const e of copy.querySelectorAll('br')) e.replaceWith('\n');
  for (const e of copy.querySelectorAll('div, p, li, ul, ol, h1, h2, h3, h4, h5, h6, tr, blockquote')) {
    e.prepend('\n');
    e.append('\n');
  }
  return copy.textContent.replace(/ +/g, ' ');
}

// sentences cuts a text where a voice pauses, and what is long without a pause at a space. What has neither letters nor digits is left out. The
// end of a sentence is looked for in few dots at once, so that a long row of them, as in a table of contents, does not take the square of its length.
export function sentences(text) {
  const out = [];
  for (const line of text.split('\n')) {
    for (let one of line.match(/[^\s].*?(?:[.!?…]{1,9}["'”’)»\]]*(?=\s|$)|[。！？；]+[”’」』）]*|$)/g) ?? []) {
      for (one = one.trim(); one.length > most;) {
        const part = one.slice(0, most);
        const cut = Math.max(part.lastIndexOf(', '), part.lastIndexOf('，'), part.lastIndexOf('、')) + 1 || part.lastIndexOf(' ') + 1 || most;
        out.push(one.slice(0, cut).trim());
        one = one.slice(cut).trim();
      }
      out.push(one);
    }
  }
  return out.filter((s) => /[\p{L}\p{N}]/u.test(s));
}

async function spoken(input, signal) {
  const list = speakers(models.get());
  const { model, id } = settings.get().voice ?? {};
  const chosen = list.some((m) => m.name === model);
  const body = { model: chosen ? model : list[0]?.name, input, response_format: 'wav', ...(chosen ? { voice: id } : {}) };
  const r = await call('/v1/audio/speech', { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' }, signal });
  if (!r.ok) throw await refusal(r);
  let bytes;
  try {
    bytes = await r.arrayBuffer();
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Error(t('broke'));
  }
  const sound = samples(bytes);
  if (!sound) throw new Error(t('aloud.bad'));
  return sound;
}

let now = null;

// hush ends what is read. true: something was.
export function hush() {
  if (!now) return false;
  now.abort.abort();
  now.context?.close().catch(() => {}); // each has its own: what is suspended and resumed at once may stay silent
  now = null;
  reading.set(null);
  return true;
}

// read speaks a text for the answer of an id, and ends what was read before.
export async function read(id, text) {
  hush();
  const list = sentences(text);
  if (!list.length) return say(t('aloud.nothing'), true);
  const mine = { abort: new AbortController() };
  now = mine;
  reading.set({ id, sounds: false });
  try {
    const context = mine.context = new AudioContext();
    await context.resume();
    const heard = [];
    for (let i = 0, free = 0; i < list.length; i++) {
      const sound = await spoken(list[i], mine.abort.signal);
      if (now !== mine) return undefined;
      if (!sound.channels[0].length) continue;
      const buffer = context.createBuffer(sound.channels.length, sound.channels[0].length, sound.rate);
      sound.channels.forEach((c, j) => buffer.copyToChannel(c, j));
      const source = context.createBufferSource();
      source.buffer = buffer;
      source.connect(context.destination);
      const start = Math.max(free, context.currentTime + 0.02);
      source.start(start);
      free = start + buffer.duration;
      heard.push(new Promise((ok) => { source.onended = ok; }));
      reading.set({ id, sounds: true });
      await heard[heard.length - 1 - ahead];
      if (now !== mine) return undefined;
    }
    await Promise.all(heard);
    if (now === mine) hush();
  } catch (e) {
    if (now !== mine) return undefined;
    hush();
    say(e.message, true);
  }
  return undefined;
}

// Aloud is the button that reads an answer; drawn gives the element that it is drawn in, once all of it is there, or null if it has gone by then.
export function Aloud({ id, drawn }) {
  const can = speakers(models.use()).length > 0;
  const is = reading.use();
  const on = is?.id === id;
  useEffect(() => () => { if (reading.get()?.id === id) hush(); }, [id]); // it is out of sight, and could not be ended
  if (!can && !on) return null;
  return html`<${Button} icon=${on ? 'stop' : 'sound'} class=${'aloud' + (on ? (is.sounds ? ' on' : ' on waits') : '')} label=${t(on ? 'aloud.stop' : 'aloud')}
    onClick=${async () => {
      if (on && hush()) return;
      const all = await drawn();
      if (all) read(id, words(all));
    }} />`;
}
