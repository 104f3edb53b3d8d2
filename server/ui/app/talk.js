// Asking a model: the request made from a conversation's turns, the answer as it comes, and what is kept of it. An answer goes on while
// another view is shown; each is a Run, found by its turn's id.
import { draw } from './drawing.js';
import { fresh, signal, token } from './html.js';
import { said, size } from './pieces.js';
import { call, lines, refusal, Refused } from './server.js';
import * as store from './store.js';
import { asTools, marked, offered } from './tools.js';
import { t } from './words.js';

export const runs = new Map();
// busy is how many run here, for views that say so.
export const busy = signal(0);

// tab is this tab's name, which a reload keeps.
const tab = (() => {
  try {
    const had = sessionStorage.getItem('axle-tab') ?? fresh();
    sessionStorage.setItem('axle-tab', had);
    return had;
  } catch {
    return fresh();
  }
})();

// numbers and switches a conversation may set; what is empty is the model's own.
export const sampling = [
  ['temperature', 0, 2, 0.05], ['top_p', 0, 1, 0.01], ['top_k', 0, 1000, 1], ['min_p', 0, 1, 0.01], ['repeat_penalty', 0, 2, 0.01],
  ['presence_penalty', -2, 2, 0.1], ['frequency_penalty', -2, 2, 0.1], ['num_predict', -1, 131072, 1], ['num_ctx', 4, 131072, 1], ['seed', 0, 2147483647, 1],
];

export function messages(chat, path) {
  const out = chat.system ? [{ role: 'system', content: chat.system }] : [];
  for (const [i, x] of path.entries()) {
    if (x.role === 'user' && path[i + 1]?.draws) continue; // a model that writes has seen nothing of what was drawn
    if (x.role === 'assistant' && !x.text && !x.calls?.length) continue;
    const before = out[out.length - 1];
    if (x.role === 'user' && before?.role === 'user') { // an answer between them was deleted, or failed
      before.content += '\n\n' + said(x);
      if (x.images) before.images = [...(before.images ?? []), ...x.images.map((i) => i.data)];
      continue;
    }
    const m = { role: x.role, content: said(x) };
    if (x.images?.length) m.images = x.images.map((i) => i.data);
    if (x.role === 'assistant' && x.thinking) m.thinking = x.thinking;
    if (x.calls?.length) m.tool_calls = x.calls.map((c) => ({ function: { name: c.name, arguments: c.arguments } }));
    if (x.role === 'tool') m.tool_name = x.tool;
    out.push(m);
  }
  return out;
}

// weight is how many bytes of text a conversation has, as the server counts them.
export const weight = (chat, path) => messages(chat, path).reduce((n, m) => n + size(m.content) + size(m.thinking ?? '') + size(JSON.stringify(m.tool_calls ?? '')), size(chat.tools ?? '') + size(chat.format ?? ''));

function parsed(text, bad) {
  try {
    return JSON.parse(text);
  } catch (e) {
    throw new Error(t(bad, { why: e.message }));
  }
}

// request is the body for a conversation up to a turn. What is wrong in its settings is told in words.
export function request(chat, path, model) {
  const body = { model, messages: messages(chat, path), options: {} };
  for (const [name] of sampling) if (chat.options?.[name] !== undefined && chat.options[name] !== '') body.options[name] = Number(chat.options[name]);
  if (chat.options?.stop?.length) body.options.stop = chat.options.stop;
  if (chat.options?.repeatable) body.options.repeatable = true;
  if (chat.think !== null && chat.think !== undefined && chat.think !== '') body.think = chat.think;
  if (chat.format) body.format = chat.format === 'json' ? 'json' : parsed(chat.format, 'format.bad');
  if (chat.tools) body.tools = [parsed(chat.tools, 'tools.bad')].flat().map((x) => (x?.function ? x : { type: 'function', function: x }));
  return body;
}

// session is a conversation's name for what stands before several servers: it leads all turns to the one whose cache has those before. It is
// random, and is not the name that the conversation is kept under, which tells when it began.
const sessions = new Map(); // of conversations that were begun before they had one
function session(chat) {
  if (!chat.session && !sessions.has(chat.id)) sessions.set(chat.id, token());
  return chat.session || sessions.get(chat.id);
}

function cut(header) {
  if (!header) return undefined;
  return Object.fromEntries(header.split(',').map((p) => p.trim().split('=')).map(([k, v]) => [k, Number(v)]));
}

const quickest = 40, slowest = 120; // ms from one drawing to the next

// Run is one answer under way.
class Run {
  constructor(turn) {
    this.turn = turn;
    this.abort = new AbortController();
    this.followers = new Set();
    this.due = false;
    this.drawn = 0; // when it was last told
    this.gone = false; // it was deleted: nothing of it is kept
    this.pace = quickest;
  }

  follow(f) {
    this.followers.add(f);
    return () => this.followers.delete(f);
  }

  // changed tells who looks, with a frame, and less often where a frame is dear: a word sooner helps no reader, and each costs a layout.
  changed() {
    if (this.due) return;
    this.due = true;
    const go = () => {
      this.due = false;
      this.drawn = performance.now();
      for (const f of [...this.followers]) f();
      if (!document.hidden) requestAnimationFrame((now) => { this.pace = Math.min(slowest, quickest + 2 * Math.max(0, now - this.drawn - 17)); });
    };
    if (document.hidden) setTimeout(go, 200);
    else setTimeout(() => requestAnimationFrame(go), Math.max(0, this.drawn + this.pace - performance.now()));
  }

  stop() { this.abort.abort(); }
}

// answer asks for the turn that follows path, fills it in, and keeps it. It returns the run at once. on: the turn's own words are the
// beginning, and the model goes on from them.
export function answer(chat, path, turn, on = false) {
  const run = new Run(turn);
  runs.set(turn.id, run);
  busy.set(runs.size);
  Object.assign(turn, { state: 'running', tab, beat: Date.now() }, { calls: [] }, on ? { text: turn.text.trimEnd(), thinking: turn.thinking ?? '' } : { text: '', thinking: '' });
  if (on) {
    path = [...path, { ...turn }]; // as it is now: the request is made of it
    for (const k of ['error', 'status', 'cut', 'warning']) delete turn[k];
  }
  run.done = go(run, chat, path, turn).finally(() => {
    runs.delete(turn.id);
    busy.set(runs.size);
    for (const f of [...run.followers]) f();
  });
  return run;
}

const alive = 1000, waits = 2500; // how often an answer is kept that comes, and one that has not begun: other tabs see from it that it is alive

async function go(run, chat, path, turn) {
  let saved = performance.now();
  let saving = Promise.resolve();
  const save = () => {
    saved = performance.now();
    turn.beat = Date.now();
    saving = saving.then(() => run.gone || store.saveTurn(turn)).catch(() => {});
  };
  save();
  const pulse = setInterval(() => { if (performance.now() - saved > waits - 100) save(); }, waits);
  try {
    await (turn.draws ? draw(run, chat, path, turn) : write(run, chat, path, turn, () => { if (performance.now() - saved > alive) save(); }));
  } catch (e) {
    if (e.name === 'AbortError') turn.state = 'stopped';
    else Object.assign(turn, { state: 'failed', error: e.message, status: e.status });
    if (run.thinkingSince && turn.thinkMs === undefined) turn.thinkMs = Math.round(performance.now() - run.thinkingSince);
  }
  clearInterval(pulse);
  save();
  await saving;
}

// write fills a turn with words. came is called after each piece.
async function write(run, chat, path, turn, came) {
  const started = performance.now();
  const on = path[path.length - 1]?.id === turn.id;
  const asked = request(chat, path, turn.model);
  const known = chat.mcp?.length ? await offered(chat, run.abort.signal) : new Map();
  if (known.size) asked.tools = [...(asked.tools ?? []), ...asTools(known)];
  if (on) delete asked.format; // the server would hold what comes to a whole object, and this is the rest of one
  const body = JSON.stringify(asked);
  const before = (on && turn.stats?.output) || 0; // tokens of what it goes on from
  delete turn.stats;
  const r = await call('/api/chat', { method: 'POST', body, signal: run.abort.signal, headers: { 'X-Session-Id': session(chat) } });
  if (!r.ok) throw await refusal(r);
  turn.cut = cut(r.headers.get('Axle-Truncated'));
  turn.warning = r.headers.get('Warning') ?? undefined;
  let ended = null;
  for await (const o of lines(r)) {
    const m = o.message ?? {};
    if (m.thinking) {
      run.thinkingSince ??= performance.now();
      turn.thinking += m.thinking;
    }
    if ((m.content || m.tool_calls || o.done) && run.thinkingSince && turn.thinkMs === undefined) turn.thinkMs = Math.round(performance.now() - run.thinkingSince);
    if (turn.firstMs === undefined && (m.content || m.thinking || m.tool_calls)) turn.firstMs = Math.round(performance.now() - started);
    if (m.content) turn.text += m.content;
    for (const c of m.tool_calls ?? []) turn.calls.push({ name: c.function?.name, arguments: c.function?.arguments });
    if (o.done) ended = o;
    run.changed();
    came();
  }
  if (!ended) throw new Refused(0, t('broke'));
  marked(turn, known);
  turn.state = 'done';
  turn.stats = {
    prompt: ended.prompt_eval_count ?? 0, output: before + (ended.eval_count ?? 0), used: (ended.prompt_eval_count ?? 0) + (ended.eval_count ?? 0), reason: ended.done_reason,
    rate: ended.eval_duration ? (ended.eval_count / ended.eval_duration) * 1e9 : 0, load: (ended.load_duration ?? 0) / 1e9,
  };
}

// What is deleted, here or in another tab, is not written any more.
store.changed.follow((c) => {
  if (c?.stop) runs.get(c.id)?.stop();
  if (!c?.gone || (c.table !== 'chats' && c.table !== 'turns')) return;
  for (const run of runs.values()) {
    if (!c.every && !(c.table === 'chats' ? c.chat === run.turn.chat : c.ids.includes(run.turn.id))) continue;
    run.gone = true;
    run.stop();
  }
});

// late is a turn that is no longer written: its tab was closed or loaded anew in the middle.
export const late = (x) => x.state === 'running' && !runs.has(x.id) && (x.tab === tab || Date.now() - (x.beat ?? 0) > 6000);

// elsewhere is a turn that another tab writes.
export const elsewhere = (x) => x.state === 'running' && !runs.has(x.id) && !late(x);

addEventListener('pagehide', () => { for (const r of runs.values()) if (!r.gone) store.saveTurn(r.turn); });
