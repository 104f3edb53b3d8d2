// Tools that the server runs (MCP servers): which there are, asking before the first use of one, running what an answer calls, and the rounds
// of that. What a tool gives is data: it is shown as text, bounded, and goes to the model as a tool's words.
import { signal } from './html.js';
import { json, lines, call, refusal, Refused } from './server.js';
import { t } from './words.js';

// mostRounds is how often a model may call tools for one question before the page asks whether it may go on.
export const mostRounds = 10;
const shown = 64 * 1024; // of a result, in letters; the server cuts at about as much

// servers are the names of those that this key may use; null: not asked yet.
export const servers = signal(null);

export async function look() {
  try {
    servers.set((await json('/api/axle/tools', { quiet: true }))?.servers ?? []);
  } catch {
    servers.set(servers.get() ?? []);
  }
  return servers.get();
}

// list gives what a server offers: {tools, left_out}, or {error}.
export async function list(server, signal) {
  try {
    return await json('/api/axle/tools/' + encodeURIComponent(server), { signal });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    return { tools: [], error: e.message };
  }
}

// offered gives the tools of a conversation's servers, by name. A server that does not answer is told, and is an error: the model would
// answer without what was asked for.
export async function offered(chat, signal) {
  const out = new Map();
  for (const [i, l] of (await Promise.all((chat.mcp ?? []).map((s) => list(s, signal)))).entries()) {
    if (l.error) throw new Refused(0, t('mcp.down', { name: chat.mcp[i], why: l.error }));
    for (const x of l.tools) out.set(x.name, x);
  }
  return out;
}

export const asTools = (known) => [...known.values()].map((x) => ({ type: 'function', function: { name: x.name, description: x.description, parameters: x.parameters } }));

// marked notes on an answer's calls which of them the server can run, and what the tool was when the model saw it.
export function marked(turn, known) {
  for (const c of turn.calls) if (known.has(c.name)) Object.assign(c, { digest: known.get(c.name).digest, title: known.get(c.name).title });
}
export const runs = (x) => x.calls?.length > 0 && x.calls.every((c) => c.digest);

// What was allowed for always is kept in this browser, and for one conversation with it. A tool that has become another is asked for again.
const slot = 'axle-tools';
function always() {
  try {
    return JSON.parse(localStorage.getItem(slot) || '{}') || {};
  } catch {
    return {};
  }
}
export function allow(c) {
  try {
    localStorage.setItem(slot, JSON.stringify({ ...always(), [c.name]: c.digest }));
  } catch { /* storage is off: it is asked for again */ }
}
export function forget() {
  try { localStorage.removeItem(slot); } catch { /* nothing is kept then */ }
}
export const kept = () => Object.keys(always());
const allowed = (chat, c) => always()[c.name] === c.digest || chat.allowed?.[c.name] === c.digest;

// jobs are the answers whose calls are being run or asked about, by the turn's id: {asks, done(choice), now, progress, abort}.
export const jobs = signal(new Map());
function put(id, job) {
  const next = new Map(jobs.get());
  if (job) next.set(id, job);
  else next.delete(id);
  jobs.set(next);
}
export const working = (x) => jobs.get().has(x.id);
export function stop(x) { jobs.get().get(x.id)?.abort.abort(); }

// rounds is how often tools were called since the last question, or since somebody said that it may go on.
export function rounds(path) {
  let n = 0;
  for (const x of [...path].reverse()) {
    if (x.role === 'user' || x.more) break;
    if (x.role === 'assistant' && x.calls?.length) n++;
  }
  return n;
}

// run runs an answer's calls one after another, asking where one is not allowed yet. It gives their results, or null where it was stopped.
// remember keeps that a tool is allowed in this conversation.
export async function run(x, chat, remember) {
  if (jobs.get().has(x.id)) return null;
  const abort = new AbortController();
  const job = { abort };
  const out = [];
  const here = { ...chat.allowed };
  try {
    for (const [i, c] of x.calls.entries()) {
      if (!allowed({ allowed: here }, c)) {
        const choice = await new Promise((ok, no) => {
          abort.signal.addEventListener('abort', () => no(new DOMException('', 'AbortError')));
          put(x.id, { ...job, now: i, asks: c, done: ok });
        });
        if (choice === 'no') {
          out.push({ name: c.name, text: 'The user did not allow this call.', refused: true });
          continue;
        }
        if (choice === 'chat') {
          here[c.name] = c.digest;
          await remember({ allowed: here });
        }
        if (choice === 'always') allow(c);
      }
      put(x.id, { ...job, now: i });
      out.push({ name: c.name, ...(await one(c, abort.signal, (progress) => put(x.id, { ...job, now: i, progress }))) });
    }
    return out;
  } catch (e) {
    if (e.name !== 'AbortError') throw e;
    return null;
  } finally {
    put(x.id, null);
  }
}

// one calls one tool. What went wrong is a result too: the model is told, and so is who reads.
async function one(c, signal, progress) {
  const began = performance.now();
  let result;
  try {
    const r = await call('/api/axle/tools/' + encodeURIComponent(c.name.split('__')[0]), { method: 'POST', signal, body: JSON.stringify({ name: c.name, arguments: c.arguments ?? {} }) });
    if (!r.ok) throw await refusal(r);
    for await (const o of lines(r)) {
      if (o.progress) progress(o.progress);
      if (o.result) result = o.result;
    }
    if (!result) throw new Refused(0, t('broke'));
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    result = { text: e.message, error: true };
  }
  return { text: String(result.text ?? '').slice(0, shown), ms: Math.round(performance.now() - began), ...(result.error && { failed: true }) };
}
