// Two devices with the page's own store and its own logic, against a server whose address is given: random edits, and a network that is cut
// before a request or after it. No time passes. It ends with an error if something is lost, is not reachable, or differs.
const [base, edits, seed] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];

let state = seed >>> 0 || 1;
const random = (n) => { // xorshift
  state ^= state << 13; state >>>= 0; state ^= state >>> 17; state ^= state << 5; state >>>= 0;
  return state % n;
};
const pick = (list) => list[random(list.length)];

// A fake IndexedDB: what store.js asks of one. A transaction sees all that those before it wrote.
function fakeDB() {
  const tables = new Map();
  const clone = (o) => structuredClone(o);
  const request = (r, tx, f) => {
    tx.left++;
    queueMicrotask(() => {
      try { r.result = f(); r.onsuccess?.(); } catch (e) { tx.error = e; tx.failed = true; }
      if (--tx.left === 0) queueMicrotask(() => { if (tx.left === 0 && !tx.over) { tx.over = true; tx.failed ? tx.onabort?.() : tx.oncomplete?.(); } });
    });
    return r;
  };
  const db = {
    objectStoreNames: { contains: (n) => tables.has(n) },
    createObjectStore(n) { tables.set(n, new Map()); return { createIndex() {} }; },
    close() {},
    transaction() {
      const tx = { left: 0, over: false, abort() { tx.failed = true; } };
      const store = (n) => {
        const t = tables.get(n), ask = (f) => request({}, tx, f);
        return {
          get: (id) => ask(() => clone(t.get(id))), getAll: () => ask(() => [...t.values()].map(clone)),
          put: (o) => ask(() => { t.set(o.id, clone(o)); }), delete: (id) => ask(() => { t.delete(id); }), clear: () => ask(() => { t.clear(); }),
          index: (k) => ({ getAll: (v) => ask(() => [...t.values()].filter((o) => o[k] === v).map(clone)), getAllKeys: (v) => ask(() => [...t.values()].filter((o) => o[k] === v).map((o) => o.id)) }),
        };
      };
      tx.objectStore = store;
      request({}, tx, () => {}); // one that asks for nothing ends too
      return tx;
    },
  };
  return { open() { const r = { result: db }; queueMicrotask(() => { if (!tables.size) r.onupgradeneeded(); r.onsuccess(); }); return r; } };
}

delete globalThis.BroadcastChannel;
const app = new URL('../ui/app/', import.meta.url).href;
const { Sync } = await import(app + 'sync.js');
const { fresh } = await import(app + 'html.js');
const { leaf } = await import(app + 'merge.js');

class Cut extends Error {}

async function device(name) {
  globalThis.indexedDB = fakeDB();
  const store = await import(app + 'store.js?' + name);
  await store.chats(); // it is open now
  const d = { name, store, online: true, cuts: true, requests: 0 };
  d.sync = new Sync({ store, late: () => false, call: async (path, options = {}) => {
    d.requests++;
    const fate = d.cuts ? random(12) : 9;
    if (!d.online || fate === 0) throw new Cut('cut before');
    const r = await fetch(base + path, options);
    const body = await r.arrayBuffer();
    if (d.cuts && random(6) === 0) await edit(d); // people go on while an answer is on its way
    if (fate === 1) throw new Cut('cut after');
    return new Response(r.status === 204 ? null : body, { status: r.status, headers: r.headers });
  } });
  d.beside = 0; // turns that were put beside another device's
  d.sync.how.fresh = () => { d.beside++; return fresh(); };
  // what is there at a change of this device's, as the page marks it
  store.changed.follow((c) => { if (c && !c.shared && c.chat) d.sync.dirty.add(c.chat); });
  return d;
}

const a = await device('a'), b = await device('b');
const devices = [a, b];
let words = 0;
const shown = new Map(); // texts that a device has shown, and the conversation
const removed = new Set(); // texts that were deleted, with or without the conversation they were in
const picture = () => ({ type: 'image/png', name: 'p', data: btoa('pixels ' + random(20)) });
const say = (chat, what) => { const text = what + ' ' + ++words; shown.set(text, chat); return text; };

async function edit(d) {
  const s = d.store, chats = await s.chats();
  if (!chats.length || (random(40) === 0 && chats.length < 4)) {
    const c = s.newChat({ title: 'chat ' + ++words });
    const x = s.newTurn(c.id, null, 'user', { text: say(c.id, 'first') });
    c.head = x.id;
    await s.saveTurns([x]);
    await s.saveChat(c);
    return;
  }
  const c = pick(chats), turns = await s.turns(c.id), path = s.path(turns, c.head);
  const add = async (list, more = {}) => {
    await s.saveTurns(list);
    await s.saveChat({ ...c, ...more, head: list[list.length - 1].id, updated: Date.now() });
  };
  const turn = (parent, role, what, more = {}) => s.newTurn(c.id, parent, role, { text: say(c.id, what), ...more });
  if (!path.length) {
    await add([turn(null, 'user', 'anew')]);
    return;
  }
  const x = pick(path), last = path[path.length - 1];
  switch (random(13)) {
    case 0: case 1: case 2: { // ask, and an answer that is being written for a while
      const q = turn(last.id, 'user', 'question', random(6) ? {} : { images: [picture()] });
      const r = s.newTurn(c.id, q.id, 'assistant', { text: '', state: 'running', tab: d.name, beat: 1 });
      await add([q, r]);
      d.running = [...(d.running ?? []), { turn: r, left: random(4) }];
      return;
    }
    case 3: await add([turn(x.parent, x.role, 'other words', x.role === 'assistant' ? { state: 'done' } : {})]); return; // edit, again, rewrite
    case 4: { // an answer goes on in its place
      const ends = turns.filter((y) => y.role === 'assistant' && y.state !== 'running' && !turns.some((z) => z.parent === y.id)).slice(0, 3);
      if (!ends.length) return;
      const end = pick(ends);
      await s.saveTurn({ ...end, text: end.text + ' + ' + say(c.id, 'more'), state: 'done' });
      return;
    }
    case 5: await s.saveChat({ ...c, title: 'title ' + ++words, named: true }); return;
    case 6: await s.saveChat({ ...c, system: 'system ' + ++words, options: { temperature: random(10) / 10 } }); return;
    case 7: { // another branch
      const beside = turns.filter((y) => y.parent === x.parent);
      await s.saveChat({ ...c, head: s.leaf(turns, pick(beside).id) });
      return;
    }
    case 8: { // a turn is deleted, as the page does it
      if (random(3)) return;
      const gone = new Set([x.id]);
      for (let more = true; more;) {
        more = false;
        for (const y of turns) if (gone.has(y.parent) && !gone.has(y.id) && (x.role === 'user' ? y.role !== 'user' : y.role === 'tool')) more = !!gone.add(y.id);
      }
      if ((d.running ?? []).some((r) => gone.has(r.turn.id))) return;
      const left = turns.filter((y) => !gone.has(y.id)), moved = [];
      for (const y of left) if (gone.has(y.parent)) { moved.push(Object.assign(y, { parent: x.parent })); const r = (d.running ?? []).find((r) => r.turn.id === y.id); if (r) r.turn.parent = x.parent; }
      for (const y of turns) if (gone.has(y.id)) for (const part of y.text.split(' + ')) removed.add(part);
      let head = gone.has(c.head) ? s.leaf(left, x.parent) : c.head;
      if (head === null) head = left[left.length - 1]?.id ?? null;
      await s.saveTurns(moved);
      await s.saveChat({ ...c, head });
      await s.dropTurns(c.id, [...gone]);
      return;
    }
    case 9: {
      if (random(60)) return;
      for (const [text, chat] of shown) if (chat === c.id) removed.add(text);
      d.running = (d.running ?? []).filter((r) => r.turn.chat !== c.id);
      await s.dropChat(c.id);
      deleted.add(c.id);
      return;
    }
    default: await add([turn(last.id, last.role === 'user' ? 'assistant' : 'user', 'follows', { state: 'done' })]);
  }
}
const deleted = new Set();

// written lets answers come on, and end.
async function written(d) {
  for (const r of [...(d.running ?? [])]) {
    if (!(await d.store.chat(r.turn.chat))) { d.running.splice(d.running.indexOf(r), 1); continue; }
    if (r.left-- > 0) { r.turn.text += ' …'; await d.store.saveTurn(r.turn); continue; }
    r.turn.text = say(r.turn.chat, 'answer');
    r.turn.state = 'done';
    await d.store.saveTurn(r.turn);
    d.running.splice(d.running.indexOf(r), 1);
  }
}

async function look(d) {
  try { await d.sync.once(); } catch (e) { if (!(e instanceof Cut)) throw e; }
}

for (const d of devices) { d.cuts = false; await d.sync.begin(); }
const bad = [];
{ // First what chance seldom brings: both change one turn, and one changes what the other deletes.
  const s = a.store, c = s.newChat({ title: 'both' }), q = s.newTurn(c.id, null, 'user', { text: 'q' });
  const [x, y] = ['x', 'y'].map((text) => s.newTurn(c.id, q.id, 'assistant', { text, state: 'done' }));
  const after = s.newTurn(c.id, y.id, 'user', { text: 'after y' });
  await s.saveTurns([q, x, y]);
  await s.saveChat({ ...c, head: x.id });
  for (const d of devices) await d.sync.once();
  await a.store.saveTurn({ ...x, text: 'x, left' });
  await b.store.saveTurn({ ...x, text: 'x, right' });
  await a.store.dropTurns(c.id, [y.id]);
  await b.store.saveTurns([{ ...y, text: 'y, changed' }, after]);
  for (const d of [a, b, a, b]) await d.sync.once();
  for (const d of devices) {
    const turns = await d.store.turns(c.id), texts = turns.map((z) => z.text).sort().join();
    if (texts !== 'after y,q,x, left,x, right,y, changed') bad.push(`${d.name} has ${texts}`);
    const of = turns.find((z) => z.text === 'after y')?.parent;
    if (turns.find((z) => z.id === of)?.text !== 'y, changed') bad.push(`${d.name}: what followed a turn does not follow it any more`);
  }
  await a.store.dropChat(c.id);
  for (const d of devices) await d.sync.once();
}
for (const d of devices) d.cuts = true;
for (let n = 0; n < edits; n++) {
  const d = pick(devices);
  await edit(d);
  await written(d);
  if (random(50) === 0) d.online = !d.online;
  if (random(4) === 0) await look(d);
  if (random(300) === 0) { // the page is loaded anew: what it had in mind is gone
    d.sync.dirty.clear();
    await d.sync.everything();
  }
}
for (const d of devices) { d.online = true; d.cuts = false; while (d.running?.length) await written(d); await d.sync.everything(); }
for (let n = 0; n < 4; n++) for (const d of devices) await d.sync.once();

const all = async (d) => {
  const out = {};
  for (const c of await d.store.chats()) out[c.id] = { chat: c, turns: (await d.store.turns(c.id)).map(({ tab, beat, ...x }) => x) };
  return out;
};
const ordered = (v) => JSON.stringify(v, (k, o) => (o && typeof o === 'object' && !Array.isArray(o) ? Object.fromEntries(Object.entries(o).sort()) : o));
const x = await all(a), y = await all(b);
if (ordered(Object.entries(x).sort()) !== ordered(Object.entries(y).sort())) {
  for (const id of new Set([...Object.keys(x), ...Object.keys(y)])) {
    if (ordered(x[id]?.chat) !== ordered(y[id]?.chat)) bad.push(`chat ${id} differs: ${ordered(x[id]?.chat)} | ${ordered(y[id]?.chat)}`);
    const by = new Map((y[id]?.turns ?? []).map((z) => [z.id, ordered(z)]));
    for (const z of x[id]?.turns ?? []) if (by.get(z.id) !== ordered(z)) bad.push(`turn differs: ${ordered(z)} | ${by.get(z.id)}`);
    for (const z of y[id]?.turns ?? []) if (!(x[id]?.turns ?? []).some((w) => w.id === z.id)) bad.push(`only on b: ${ordered(z)}`);
  }
}
for (const id of deleted) if (x[id] || y[id]) bad.push(`${id} was deleted, and is back`);
// Every text is there, and can be reached: from the turns that are shown by going to those beside them.
let reachable = 0, conflicts = 0;
const found = new Set();
for (const { chat, turns } of Object.values(x)) {
  const seen = new Set(), ids = new Set(turns.map((z) => z.id));
  const heads = [chat.head];
  while (heads.length) {
    const path = a.store.path(turns, heads.pop());
    for (const z of path) {
      if (seen.has(z.id)) continue;
      seen.add(z.id);
      for (const part of z.text.split(' + ')) found.add(part);
      for (const w of turns) if (w.parent === z.parent && !seen.has(w.id)) heads.push(leaf(turns, w.id));
    }
  }
  reachable += seen.size;
  for (const z of turns) {
    if (!seen.has(z.id)) bad.push(`not reachable: ${ordered(z)} of head ${chat.head}`);
    if (z.parent && !ids.has(z.parent)) bad.push(`its parent is not there: ${ordered(z)}`);
    if (z.state === 'running') bad.push(`still written: ${ordered(z)}`);
    for (const i of z.images ?? []) if (!i.data) bad.push('a picture is not there');
  }
}
for (const [text, chat] of shown) if (!removed.has(text) && !deleted.has(chat) && !found.has(text)) bad.push(`lost: "${text}" of ${chat}`);
console.log(JSON.stringify({ edits, requests: a.requests + b.requests, chats: Object.keys(x).length, reachable, beside: a.beside + b.beside, texts: shown.size, removed: removed.size, deleted: deleted.size }));
for (const s of bad.slice(0, 12)) console.log(s.slice(0, 600));
process.exit(bad.length ? 1 : 0);
