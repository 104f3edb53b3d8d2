// Conversations, in this browser's IndexedDB. A chat is a tree of turns: each names the one before it, and the chat names the leaf that is
// shown, so that asking again keeps what was said first. Other tabs are told of every change.
import { fresh, signal, token } from './html.js';
import { leaf } from './merge.js';

export { leaf };

// marks are what is known of the server's versions, where this browser shares with it: merge.js says what they have.
const tables = ['chats', 'turns', 'presets', 'keep', 'marks'];
const channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('axle');

// changed is {table, chat, id} of the last change, here or in another tab; far: it was another's.
export const changed = signal(null);
// volatile: this browser keeps nothing (private windows of some), or has no room left: what is new is gone when the tab is closed.
export const volatile = signal(''); // '', 'volatile' or 'full', which are words

channel?.addEventListener('message', (e) => changed.set({ ...e.data, far: true }));
function tell(change) {
  changed.set(change);
  channel?.postMessage(change);
}

let opened = null;
function open() {
  return (opened ??= new Promise((ok, no) => {
    const r = indexedDB.open('axle', 2);
    r.onupgradeneeded = () => {
      for (const name of tables) {
        if (r.result.objectStoreNames.contains(name)) continue;
        const s = r.result.createObjectStore(name, { keyPath: 'id' });
        if (name === 'turns' || name === 'marks') s.createIndex('chat', 'chat');
      }
    };
    r.onsuccess = () => {
      r.result.onversionchange = () => { opened = null; r.result.close(); };
      r.result.onclose = () => { opened = null; };
      ok(r.result);
    };
    r.onerror = () => no(r.error);
    r.onblocked = () => no(new Error('blocked'));
  }).catch(() => {
    volatile.set('volatile');
    return null;
  }));
}

// held is what could not be kept, by table: it stands before what the browser has.
const held = Object.fromEntries(tables.map((n) => [n, new Map()]));

async function work(table, mode, f) {
  const db = await open();
  if (!db) return undefined;
  return new Promise((ok, no) => {
    const tx = db.transaction(table, mode);
    const r = f(tx.objectStore(table));
    tx.oncomplete = () => ok(r?.result);
    tx.onabort = tx.onerror = () => no(tx.error ?? new Error('not kept'));
  });
}

function merged(table, list, which = () => true) {
  if (!held[table].size) return list ?? [];
  return [...(list ?? []).filter((x) => !held[table].has(x.id)), ...[...held[table].values()].filter(which)];
}
const all = async (table) => merged(table, await work(table, 'readonly', (s) => s.getAll()));
const get = async (table, id) => held[table].get(id) ?? (await work(table, 'readonly', (s) => s.get(id)));

// put keeps things, and holds them where the browser does not: nothing is lost while the page is open.
async function put(table, list) {
  let kept = !!(await open());
  try {
    await work(table, 'readwrite', (s) => { for (const o of list) s.put(o); });
  } catch {
    kept = false;
    volatile.set('full');
  }
  for (const o of list) {
    if (kept) held[table].delete(o.id);
    else held[table].set(o.id, structuredClone(o));
  }
  if (kept && volatile.get() && tables.every((n) => !held[n].size)) volatile.set('');
}

async function drop(table, ids) {
  for (const id of ids) held[table].delete(id);
  await work(table, 'readwrite', (s) => { for (const id of ids) s.delete(id); });
  await again();
}
// again tries what is held, after something was deleted: there may be room for it now.
async function again() {
  if (volatile.get() === 'full') for (const n of tables) for (const o of [...held[n].values()]) await put(n, [o]);
}

export const chats = () => all('chats').then((l) => l.sort((a, b) => b.updated - a.updated));
export const chat = (id) => get('chats', id);
export async function saveChat(c) {
  await put('chats', [c]);
  tell({ table: 'chats', chat: c.id, id: c.id });
}
// saveMany keeps conversations that are not shown yet, with all their turns.
export async function saveMany(chats, turns) {
  for (let i = 0; i < turns.length; i += 1000) await put('turns', turns.slice(i, i + 1000));
  await put('chats', chats);
  tell({ table: 'chats' });
}
export async function dropChat(id) {
  tell({ table: 'chats', chat: id, gone: true }); // first: an answer that still comes must not be kept after it
  await update(id, ({ marks }) => ({ empty: true, marks: marks.some((m) => m.id === id) ? [{ id, chat: id, dropped: true }] : [] }), false);
  tell({ table: 'chats', chat: id, id, gone: true });
}
// dropFar deletes a conversation that was deleted on the server. Nothing of it is taken in again.
export async function dropFar(id, rev) {
  const there = !!(await chat(id));
  if (there) tell({ table: 'chats', chat: id, gone: true, far: true });
  await update(id, () => ({ empty: true, marks: [{ id, chat: id, gone: true, rev }] }), false);
  if (there) tell({ table: 'chats', chat: id, id, gone: true, far: true });
}

// dropHere deletes every conversation of this browser, and of no other place.
export async function dropHere() {
  tell({ table: 'chats', every: true, gone: true, shared: true });
  for (const n of ['turns', 'chats', 'marks']) {
    held[n].clear();
    await work(n, 'readwrite', (s) => { s.clear(); });
  }
  tell({ table: 'chats', every: true, gone: true, shared: true });
}

// update reads a conversation with its turns and marks, and writes what f makes of them, in one step: no other tab comes between. f gives
// {chat, turns, marks, gone}, and each may be missing; empty: all that was there goes. loud: the views are told.
export async function update(id, f, loud = true) {
  const db = await open();
  const of = (table, list) => merged(table, list, (x) => x.chat === id).sort((a, b) => (a.id < b.id ? -1 : 1));
  const plan = (c, t, m) => {
    const state = { chat: held.chats.get(id) ?? c, turns: of('turns', t), marks: of('marks', m) };
    const w = f(state) ?? {};
    return { put: [['chats', w.chat ? [w.chat] : []], ['turns', w.turns ?? []], ['marks', w.marks ?? []]],
      drop: [['chats', w.empty ? [id] : []], ['turns', w.empty ? state.turns.map((x) => x.id) : w.gone ?? []], ['marks', w.empty ? state.marks.map((x) => x.id) : []]] };
  };
  let w;
  if (!db) w = plan();
  else {
    await new Promise((ok, no) => {
      const tx = db.transaction(['chats', 'turns', 'marks'], 'readwrite');
      const at = (n) => tx.objectStore(n);
      const c = at('chats').get(id), t = at('turns').index('chat').getAll(id), m = at('marks').index('chat').getAll(id);
      let why = null;
      m.onsuccess = () => {
        try {
          w = plan(c.result, t.result, m.result);
          for (const [n, ids] of w.drop) for (const one of ids) at(n).delete(one);
          for (const [n, list] of w.put) for (const one of list) at(n).put(one);
        } catch (e) {
          why = e;
          tx.abort();
        }
      };
      tx.oncomplete = ok;
      tx.onabort = tx.onerror = () => no(why ?? tx.error ?? new Error('not kept'));
    });
  }
  for (const [n, ids] of w.drop) for (const one of ids) held[n].delete(one);
  for (const [n, list] of w.put) for (const one of list) db ? held[n].delete(one.id) : held[n].set(one.id, structuredClone(one));
  if (w.drop.some(([, ids]) => ids.length)) await again();
  if (!loud || !(w.put[0][1].length + w.put[1][1].length + w.drop[1][1].length)) return;
  if (w.put[0][1].length) tell({ table: 'chats', chat: id, id, far: true, shared: true });
  tell({ table: 'turns', chat: id, far: true, shared: true });
}

const marks = () => all('marks');
// droppedChats are conversations that were deleted here, and not yet on the server; markedChats those that the server has.
export const droppedChats = () => marks().then((l) => l.filter((m) => m.id === m.chat && m.dropped).map((m) => m.id));
export const markedChats = () => marks().then((l) => l.filter((m) => m.id === m.chat && m.rev && !m.gone).map((m) => m.id));
// forgetMarks forgets what the server has; of every: and what was deleted there.
export async function forgetMarks(every) {
  const list = await marks();
  if (every) await drop('marks', list.map((m) => m.id));
  else await put('marks', list.filter((m) => m.id !== m.chat || !m.gone).map((m) => ({ ...m, rev: 0 })));
}
// dropChats deletes every conversation.
export async function dropChats() {
  tell({ table: 'chats', every: true, gone: true });
  const shared = (await marks()).filter((m) => m.id === m.chat && !m.gone);
  for (const n of ['turns', 'chats', 'marks']) {
    held[n].clear();
    await work(n, 'readwrite', (s) => { s.clear(); });
  }
  await put('marks', shared.map((m) => ({ id: m.id, chat: m.id, dropped: true })));
  await again();
  tell({ table: 'chats', every: true, gone: true });
}

export async function turns(chat) {
  const found = await work('turns', 'readonly', (s) => s.index('chat').getAll(chat));
  return merged('turns', found, (x) => x.chat === chat).sort((a, b) => (a.id < b.id ? -1 : 1));
}
export const everyTurn = () => all('turns').then((l) => l.sort((a, b) => (a.id < b.id ? -1 : 1)));
export const saveTurn = (x) => saveTurns([x]);
// saveTurns keeps many of one conversation at once.
export async function saveTurns(list) {
  if (!list.length) return;
  await put('turns', list);
  tell({ table: 'turns', chat: list[0].chat, id: list[list.length - 1].id });
}
// stopTurn asks the tab that writes an answer to stop.
export const stopTurn = (chat, id) => tell({ table: 'turns', chat, id, stop: true });
export async function dropTurns(chat, ids) {
  tell({ table: 'turns', chat, ids, gone: true });
  await update(chat, ({ marks }) => ({ gone: ids, marks: marks.filter((m) => ids.includes(m.id) && !m.gone).map((m) => ({ ...m, dropped: true })) }), false);
  tell({ table: 'turns', chat, ids, gone: true });
}

export const presets = () => all('presets').then((l) => l.sort((a, b) => a.name.localeCompare(b.name)));
export async function savePreset(p) {
  await put('presets', [p]);
  tell({ table: 'presets', id: p.id });
}
export async function dropPreset(id) {
  await drop('presets', [id]);
  tell({ table: 'presets', id, gone: true });
}

// keep and kept: small things by name, such as pulls under way.
export async function keep(id, value) {
  await put('keep', [{ id, value }]);
  tell({ table: 'keep', id });
}
export const kept = async (id) => (await get('keep', id))?.value;

// search gives the ids of chats whose title or words hold the text, with a piece of what was found. over says that the search is no longer wanted.
export async function search(text, over = () => false) {
  const needle = text.toLocaleLowerCase();
  const found = new Map();
  const look = (x) => {
    for (const text of [x.text ?? '', ...(x.pieces ?? []).flatMap((p) => [p.name, p.text])]) {
      const at = found.has(x.chat) ? -1 : text.toLocaleLowerCase().indexOf(needle);
      if (at >= 0) found.set(x.chat, (at > 24 ? '…' : '') + text.slice(Math.max(0, at - 24), at + 60).replace(/\s+/g, ' '));
    }
  };
  for (const c of await all('chats')) if (c.title.toLocaleLowerCase().includes(needle)) found.set(c.id, '');
  held.turns.forEach(look);
  for (let after = ''; !over();) { // this many at a time: they may hold pictures
    const part = await work('turns', 'readonly', (s) => s.getAll(IDBKeyRange.lowerBound(after, true), 500));
    part?.forEach(look);
    if (!part?.length) break;
    after = part[part.length - 1].id;
  }
  return found;
}

export function newChat(from = {}) {
  const now = Date.now();
  return { title: '', named: false, model: '', system: '', options: {}, think: null, format: '', tools: '', head: null, ...from, id: fresh(), session: token(), created: now, updated: now };
}
export function newTurn(chat, parent, role, from = {}) {
  return { text: '', ...from, id: fresh(), chat, parent, role, at: Date.now() };
}

// path is the turns from the first to a leaf.
export function path(list, head) {
  const by = new Map(list.map((x) => [x.id, x]));
  const out = [];
  for (let x = by.get(head); x && out.length <= list.length; x = by.get(x.parent)) out.unshift(x);
  return out;
}
