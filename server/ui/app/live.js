// What the server does, asked for every two seconds while the page is seen: its state, ten minutes of samples for the plots, and the models
// that are here. A server that does not answer is asked again until it does.
import { signal } from './html.js';
import { call, json, link } from './server.js';
import { runs } from './talk.js';

export const state = signal(null);
export const models = signal(null); // null: not known yet
export const samples = []; // {t, tps, ttft, cards: [{temp, load}], passes: {kind: a second}, busy: {model: share}, queued, running}
export const sampled = signal(0);
export const updated = signal(false); // the server has another version of this page

const often = 2000, rarely = 6000, keepFor = 600000;

let last = null;
let tag = null;

function sample(s, now) {
  const was = last;
  last = { s, now };
  const dt = was ? (now - was.now) / 1000 : 0;
  const one = { t: now / 1000, tps: s.tokens_per_second ?? 0, ttft: null, cards: [], passes: {}, busy: {}, queued: 0, running: 0 };
  const before = was?.s;
  if (s.first_token_ms && s.first_token_ms !== before?.first_token_ms) one.ttft = s.first_token_ms;
  for (const c of s.cards ?? []) one.cards.push({ temp: c.temperature_celsius ?? null, load: c.npu_load ?? null });
  for (const m of s.models ?? []) {
    one.queued += m.queued ?? 0;
    one.running += m.running ?? 0;
    const old = before?.models?.find((x) => x.name === m.name && x.device === m.device);
    if (!old || dt <= 0 || m.busy_seconds < old.busy_seconds) continue;
    one.busy[m.name] = Math.min(1, (m.busy_seconds - old.busy_seconds) / dt);
    for (const [kind, n] of Object.entries(m.passes ?? {})) one.passes[kind] = (one.passes[kind] ?? 0) + Math.max(0, n - (old.passes?.[kind] ?? 0)) / dt;
  }
  samples.push(one);
  while (samples.length && samples[0].t < (now - keepFor) / 1000) samples.shift();
  sampled.set(sampled.get() + 1);
}

export async function fetchModels() {
  const list = (await json('/api/tags')).models ?? [];
  models.set(list);
  return list;
}

// The page's own tag: another one means that the server was updated.
async function version() {
  const r = await call('/ui', { method: 'HEAD', quiet: true, cache: 'no-store' });
  const now = r.headers.get('ETag')?.replace(/^W\//, '');
  if (!r.ok || !now) return;
  tag ??= now;
  if (tag !== now) updated.set(true);
}

let asked = false; // for the key: once; who closed the question finds it in the banner

async function poll() {
  const was = link.get();
  const r = await call('/api/axle/state', { quiet: true, signal: AbortSignal.timeout(8000) });
  if (r.ok) {
    const s = await r.json();
    const names = (x) => (x?.models ?? []).map((m) => m.name).join();
    const other = state.get() && names(state.get()) !== names(s);
    state.set(s);
    sample(s, Date.now());
    if (was !== 'ok' || !models.get() || other) fetchModels().catch(() => {});
    if (was === 'lost') await version();
  } else if (r.status === 401 && !asked) {
    asked = true;
    fetchModels().then(hurry, () => {});
  }
}

let timer = 0;
// hurry asks now, after something was begun here.
export function hurry() {
  clearTimeout(timer);
  timer = setTimeout(loop, 150);
}

async function loop() {
  clearTimeout(timer);
  if (!document.hidden) {
    try {
      await poll();
    } catch { /* link says so, and the next turn comes */ }
  }
  const s = state.get();
  const quiet = link.get() === 'ok' && s && !s.streams?.length && !s.loads?.length && !runs.size && !watched;
  clearTimeout(timer);
  timer = setTimeout(loop, link.get() === 'lost' ? 1000 : quiet ? rarely : often);
}

let watched = 0;
// watch: a view that moves is open, and wants to be told often. It returns what ends that.
export function watch() {
  watched++;
  hurry();
  return () => { watched--; };
}

document.addEventListener('visibilitychange', () => { if (!document.hidden) hurry(); });
addEventListener('online', hurry);

export function begin() {
  loop();
  version().catch(() => {});
}
