// Models that are being fetched: progress, rate, time left. A pull is a request that this page holds open; the server keeps what has come
// when the page goes, so that a page that is loaded anew asks again and goes on from there.
import { fresh, signal } from './html.js';
import { fetchModels } from './live.js';
import { call, lines } from './server.js';
import * as store from './store.js';

// pulls is by name: {name, status, done, total, rate, left, error, over}
export const pulls = signal(new Map());
const ends = new Map();
const me = fresh();
const beat = 2000;

function show(name, what) {
  const next = new Map(pulls.get());
  if (what) next.set(name, { ...next.get(name), name, ...what });
  else next.delete(name);
  pulls.set(next);
}

async function remember() {
  const mine = [...ends.keys()].map((name) => ({ name, tab: me, beat: Date.now() }));
  const others = ((await store.kept('pulls')) ?? []).filter((p) => p.tab !== me && Date.now() - p.beat < 4 * beat && !ends.has(p.name));
  await store.keep('pulls', [...others, ...mine]).catch(() => {});
}
setInterval(() => { if (ends.size) remember(); }, beat);

export const forget = (name) => show(name, null);

export async function stop(name) {
  ends.get(name)?.abort();
}

export async function pull(name) {
  if (ends.has(name)) return;
  const end = new AbortController();
  ends.set(name, end);
  show(name, { status: '', done: 0, total: 0, rate: 0, left: null, error: '', over: false });
  remember();
  const files = new Map(); // by digest: [completed, total]
  const seen = []; // [time, bytes] of the last seconds
  let status = '', timer = 0;
  const draw = () => {
    timer = 0;
    const now = performance.now();
    let done = 0, total = 0;
    for (const [d, n] of files.values()) { done += d; total += n; }
    seen.push([now, done]);
    while (seen.length > 2 && seen[0][0] < now - 6000) seen.shift();
    const dt = (now - seen[0][0]) / 1000;
    const rate = dt > 0.5 ? Math.max(0, (done - seen[0][1]) / dt) : 0;
    show(name, { status, done, total, rate, left: rate > 0 && total > done ? (total - done) / rate : null });
  };
  try {
    const r = await call('/api/pull', { method: 'POST', body: JSON.stringify({ model: name }), signal: end.signal });
    for await (const o of lines(r)) {
      if (o.digest) files.set(o.digest, [o.completed ?? 0, o.total ?? 0]);
      status = o.status;
      timer ||= setTimeout(draw, 200); // what came last is shown as well, when nothing follows
    }
    clearTimeout(timer);
    draw();
    show(name, { over: true, left: null, rate: 0 });
    setTimeout(() => { if (!ends.has(name)) show(name, null); }, 6000);
    await fetchModels();
  } catch (e) {
    if (e.name === 'AbortError') show(name, null);
    else show(name, { error: e.message, rate: 0, left: null });
  } finally {
    clearTimeout(timer);
    ends.delete(name);
    remember();
  }
}

// resume goes on with what a page that is gone had begun.
export async function resume() {
  for (const p of (await store.kept('pulls')) ?? []) if (p.tab !== me && Date.now() - p.beat < 86400000) setTimeout(async () => {
    const now = ((await store.kept('pulls')) ?? []).find((q) => q.name === p.name);
    if (now && now.beat === p.beat) pull(p.name); // no tab holds it
  }, 2.2 * beat);
}
