// Conversations, in this browser's IndexedDB. A chat is a tree of turns: each names the one before it, and the chat names the leaf that is
// shown, so that asking again keeps what was said first. Other tabs are told of every change.
import { fresh, signal } from './html.js';

const tables = ['chats', 'turns', 'presets', 'keep'];
const channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('axle');

// changed is {table, chat, id} of the last change, here or in another tab; far: it was another's.
export const changed = signal(null);
// volatile: this browser keeps nothing (private windows of some): all is gone when the tab is closed.
export const volatile = signal(false);

channel?.addEventListener('message', (e) => changed.set({ ...e.data, far: true }));
function tell(change) {
  changed.set(change);
  channel?.postMessage(change);
}

let opened = null;
function open() {
  return (opened ??= new Promise((ok, no) => {
    const r = indexedDB.open('axle', 1);
    r.onupgradeneeded = () => {
      for (const name of tables) {
        const s = r.result.createObjectStore(name, { keyPath: 'id' });
        if (name === 'turns') s.createIndex('chat', 'chat');
      }
    };
    r.onsuccess = () => {
      r.result.onversionchange = () => r.result.close();
      r.result.onclose = () => { opened = null; };
      ok(r.result);
    };
    r.onerror = () => no(r.error);
    r.onblocked = () => no(new Error('blocked'));
  }).catch(() => {
    volatile.set(true);
    return null;
  }));
}

const held = Object.fromEntries(tables.map((n) => [n, new Map()])); // where nothing can be kept

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

const all = async (table) => (await work(table, 'readonly', (s) => s.getAll())) ?? [...held[table].values()];
const get = async (table, id) => (await work(table, 'readonly', (s) => s.get(id))) ?? held[table].get(id);
async function put(table, o) {
  await work(table, 'readwrite', (s) => s.put(o));
  if (volatile.get()) held[table].set(o.id, structuredClone(o));
}
async function drop(table, ids) {
  await work(table, 'readwrite', (s) => { for (const id of ids) s.delete(id); });
  for (const id of ids) held[table].delete(id);
}

export const chats = () => all('chats').then((l) => l.sort((a, b) => b.updated - a.updated));
export const chat = (id) => get('chats', id);
export async function saveChat(c) {
  await put('chats', c);
  tell({ table: 'chats', chat: c.id, id: c.id });
}
export async function dropChat(id) {
  await drop('turns', (await turns(id)).map((x) => x.id));
  await drop('chats', [id]);
  tell({ table: 'chats', chat: id, id, gone: true });
}

export async function turns(chat) {
  const found = await work('turns', 'readonly', (s) => s.index('chat').getAll(chat));
  return (found ?? [...held.turns.values()].filter((x) => x.chat === chat)).sort((a, b) => (a.id < b.id ? -1 : 1));
}
export async function saveTurn(x) {
  await put('turns', x);
  tell({ table: 'turns', chat: x.chat, id: x.id });
}
// saveTurns keeps many at once.
export async function saveTurns(list) {
  if (!list.length) return;
  await work('turns', 'readwrite', (s) => { for (const x of list) s.put(x); });
  if (volatile.get()) for (const x of list) held.turns.set(x.id, structuredClone(x));
  tell({ table: 'turns', chat: list[0].chat, id: list[list.length - 1].id });
}
export async function dropTurns(chat, ids) {
  await drop('turns', ids);
  tell({ table: 'turns', chat, id: ids[0], gone: true });
}

export const presets = () => all('presets').then((l) => l.sort((a, b) => a.name.localeCompare(b.name)));
export async function savePreset(p) {
  await put('presets', p);
  tell({ table: 'presets', id: p.id });
}
export async function dropPreset(id) {
  await drop('presets', [id]);
  tell({ table: 'presets', id, gone: true });
}

// keep and kept: small things by name, such as pulls under way.
export async function keep(id, value) {
  await put('keep', { id, value });
  tell({ table: 'keep', id });
}
export const kept = async (id) => (await get('keep', id))?.value;

// search gives the ids of chats whose title or words hold the text, with a piece of what was found.
export async function search(text) {
  const needle = text.toLocaleLowerCase();
  const found = new Map();
  for (const c of await all('chats')) if (c.title.toLocaleLowerCase().includes(needle)) found.set(c.id, '');
  for (const x of await all('turns')) {
    if (found.has(x.chat)) continue;
    const at = (x.text ?? '').toLocaleLowerCase().indexOf(needle);
    if (at >= 0) found.set(x.chat, (at > 24 ? '…' : '') + x.text.slice(Math.max(0, at - 24), at + 60).replace(/\s+/g, ' '));
  }
  return found;
}

export function newChat(from = {}) {
  const now = Date.now();
  return { title: '', named: false, model: '', system: '', options: {}, think: null, format: '', tools: '', head: null, ...from, id: fresh(), created: now, updated: now };
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

// leaf is where one arrives going on from a turn, always to the newest.
export function leaf(list, id) {
  for (let n = 0; n <= list.length; n++) {
    const next = list.filter((x) => x.parent === id).pop();
    if (!next) return id;
    id = next.id;
  }
  return id;
}
