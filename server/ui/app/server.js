// The one way to the server: calls with the key, where one is wanted; answers line by line; errors as the server words them.
import { signal, fresh } from './html.js';
import { span, t } from './words.js';

// This file is /ui/HASH/app/server.js, perhaps behind a proxy's prefix; the API begins three steps up.
const base = new URL('../../../', import.meta.url);

// address is the server's as this page reached it, without a slash at its end.
export const address = () => base.href.replace(/\/$/, '');

// link is 'ok', 'lost' (no answer), or 'key' (a key is wanted and not given). between: who answers is a proxy that does not reach it.
export const link = signal('ok');
export const between = signal('');

let ahead = 0;
// serverNow is the server's time, by which its moments are to be read: a browser's clock may be wrong by a day.
export const serverNow = () => Date.now() + ahead;

// wanted is the question for a key, while it stands: {wrong, done(key, keep)}.
export const wanted = signal(null);

const keyName = 'axle-key';
const slot = (store, f) => { try { return f(store()); } catch { return null; } };
let held = null; // where both kinds of storage are off

export const key = () => held ?? slot(() => sessionStorage, (s) => s.getItem(keyName)) ?? slot(() => localStorage, (s) => s.getItem(keyName));

// keep takes a key for this tab, or with always for this browser; null forgets it in both.
export function keep(value, always) {
  held = value;
  for (const [store, on] of [[() => sessionStorage, value !== null], [() => localStorage, value !== null && always]]) {
    slot(store, (s) => (on ? s.setItem(keyName, value) : s.removeItem(keyName)));
  }
}
export const keptAlways = () => slot(() => localStorage, (s) => s.getItem(keyName)) !== null;

let session = slot(() => localStorage, (s) => s.getItem('axle-session'));
if (!session || !/^[\w-]{16,64}$/.test(session)) {
  session = fresh() + fresh().slice(9);
  slot(() => localStorage, (s) => s.setItem('axle-session', session));
}

// Refused is what the server said instead of an answer.
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

let asking = null;
function ask(wrong) {
  asking ??= new Promise((ok) => wanted.set({ wrong, done: ok })).then((given) => {
    asking = null;
    wanted.set(null);
    if (!given) {
      link.set('key');
      throw new Refused(401, t('key.needed'));
    }
    keep(given.key, given.always);
  });
  return asking;
}

// foreign says what a page that came instead of the API's answer means: a proxy stands before the server, and its pages are not for us.
// '': it is the server's own answer.
function foreign(r) {
  if (!/^text\/html/.test(r.headers.get('Content-Type') ?? '')) return '';
  if (r.ok) return t('proxy.page');
  if (r.status === 413) return t('proxy.413');
  if (r.status === 429) {
    const after = Number(r.headers.get('Retry-After'));
    return t('proxy.429') + (after > 0 ? ' ' + t('proxy.after', { time: span(after) }) : '');
  }
  return t([502, 503, 504].includes(r.status) ? 'proxy.down' : 'proxy.other', { n: r.status });
}

// call is fetch with the key and the session. quiet: who polls must not ask people for keys.
export async function call(path, { quiet, ...options } = {}) {
  for (let tried = false; ; tried = true) {
    const had = key();
    const headers = { ...options.headers, 'Axle-Session': session };
    if (had) headers.Authorization = 'Bearer ' + had;
    let r;
    try {
      r = await fetch(new URL(path.replace(/^\//, ''), base), { ...options, headers });
    } catch (e) {
      if (e.name === 'AbortError') throw e;
      between.set('');
      link.set('lost');
      throw new Refused(0, t('lost'));
    }
    const date = Date.parse(r.headers.get('Date') ?? '');
    if (Number.isFinite(date)) ahead = Math.abs(date - Date.now()) > 5000 ? date - Date.now() : 0; // it is told in seconds
    const other = /^\/(api|v1)\//.test(path) && foreign(r);
    const gone = other && (r.ok || r.status >= 500);
    between.set(gone ? other : '');
    if (gone) {
      link.set('lost');
      throw new Refused(r.status, other);
    }
    if (r.status !== 401) {
      link.set('ok');
      return r;
    }
    if (quiet) {
      link.set('key');
      return r;
    }
    if (key() === had) await ask(tried || !!had);
  }
}

export async function refusal(r) {
  let text = foreign(r);
  if (text) return new Refused(r.status, text);
  try {
    const body = await r.text();
    try {
      const e = JSON.parse(body).error;
      text = typeof e === 'string' ? e : e?.message;
    } catch {
      text = body.slice(0, 500);
    }
  } catch { /* the status alone must do */ }
  return new Refused(r.status, text || t('status', { n: r.status }));
}

// json sends a body, if there is one, and gives the answer's.
export async function json(path, { body, method, ...options } = {}) {
  const r = await call(path, { method: method || (body === undefined ? 'GET' : 'POST'), body: body === undefined ? undefined : JSON.stringify(body), ...options });
  if (!r.ok) throw await refusal(r);
  const text = await r.text();
  return text ? JSON.parse(text) : null;
}

// lines gives a streamed answer's objects one by one: lines of JSON, or the data of events. An object with an error ends it. What has come is read at once, piece by piece as it
// was sent: a reading that waits would hold up all that follows it, since each gives one piece.
export async function* lines(r) {
  if (!r.ok) throw await refusal(r);
  const reader = r.body.getReader();
  const decoder = new TextDecoder(); // a piped stream of text would cost as much again with each token
  try {
    for (let begun = ''; ;) {
      let part;
      try {
        part = await reader.read();
      } catch (e) {
        if (e.name === 'AbortError') throw e;
        throw new Refused(0, t('broke'));
      }
      const found = (begun + decoder.decode(part.value, { stream: !part.done })).split('\n');
      begun = part.done ? '' : found.pop();
      for (const line of found) {
        if (!line || line.startsWith('event: ')) continue;
        const o = JSON.parse(line.startsWith('data: ') ? line.slice(6) : line);
        if (o.error) throw new Refused(r.status, typeof o.error === 'string' ? o.error : o.error.message);
        yield o;
      }
      if (part.done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
