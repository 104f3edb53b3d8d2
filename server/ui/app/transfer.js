// Conversations as files: JSON keeps everything, Markdown what one reads. Both can be taken in again.
import { el } from './html.js';
import { checked as passages } from './passages.js';
import { checked, said } from './pieces.js';
import * as store from './store.js';
import { late } from './talk.js';
import { bytes, short, t } from './words.js';

const kind = 'axle-chats';

// asJSON is a file of one conversation, or of all.
export async function asJSON(id) {
  const chats = (id ? [await store.chat(id)] : await store.chats()).filter(Boolean);
  const turns = id ? await store.turns(id) : await store.everyTurn();
  const of = new Map(chats.map((c) => [c.id, []]));
  for (const x of turns) of.get(x.chat)?.push(x);
  return JSON.stringify({ kind, version: 1, chats: chats.map((chat) => ({ chat: { ...chat, session: undefined }, turns: of.get(chat.id) })) }, null, 1);
}

const quoted = (s) => s.split('\n').map((l) => '> ' + l).join('\n');
const head = /^(\\*)(## (?:System|User|Assistant|Tool)(?:: ?.*)?|> \*Thinking:\*)$/gm; // what the file's own lines look like
const kept = (s) => s.replace(head, '\\$1$2'); // words that look like one of them get a backslash, which is taken off again
const bare = (s) => s.replace(head, (_, slashes, line) => slashes.slice(1) + line);
const thought = '> *Thinking:*\n>\n';

export function asMarkdown(chat, path) {
  const out = [`# ${chat.title}`];
  if (chat.system) out.push('## System', kept(chat.system));
  for (const x of path) {
    if (x.role === 'user') out.push('## User', kept(said(x)) + (x.images?.length ? `\n\n*${t('pictures.n', { n: x.images.length })}*` : ''));
    else if (x.role === 'tool') out.push(`## Tool: ${x.tool}`, kept(x.text));
    else {
      out.push(`## Assistant: ${short(x.model)}`);
      if (x.thinking) out.push(thought + quoted(x.thinking));
      for (const c of x.calls ?? []) out.push('```json\n' + JSON.stringify(c) + '\n```');
      out.push(kept(x.text) + (x.images?.length ? `*${t('pictures.n', { n: x.images.length })}*` : ''));
    }
  }
  return out.join('\n\n') + '\n';
}

export function save(name, type, text) {
  const a = el('a', { href: URL.createObjectURL(new Blob([text], { type })), download: name.replace(/[\\/:*?"<>|\s]+/g, ' ').trim().slice(0, 80) });
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

const text = (s) => typeof s === 'string';
const mostFile = 200e6, mostTurns = 100000;

class Unknown extends Error {} // it is no file of ours, or a part of one

// taken makes a turn of what a file says, of the fields we know and nothing else.
function taken(x, chat, ids) {
  if (!x || !['user', 'assistant', 'tool'].includes(x.role) || !text(x.text)) throw new Unknown();
  const turn = store.newTurn(chat.id, ids.get(x.parent) ?? null, x.role, { text: x.text });
  for (const k of ['thinking', 'model', 'tool', 'error', 'state', 'warning', 'size']) if (text(x[k])) turn[k] = x[k];
  for (const k of ['thinkMs', 'firstMs', 'at', 'seed', 'seconds']) if (Number.isFinite(x[k])) turn[k] = x[k];
  for (const k of ['draws', 'edited']) if (x[k] === true) turn[k] = true;
  if (turn.state === 'running' && !late(x)) turn.state = 'stopped';
  if (Array.isArray(x.images)) {
    turn.images = x.images.filter((i) => /^image\/[\w.+-]+$/.test(i?.type) && /^[A-Za-z0-9+/=]+$/.test(i?.data)).map(({ type, data, name }) => ({ type, data, name: text(name) ? name : '' }));
  }
  if (Array.isArray(x.pieces)) turn.pieces = checked(x.pieces);
  if (Array.isArray(x.passages)) turn.passages = passages(x.passages);
  if (Array.isArray(x.calls)) turn.calls = x.calls.filter((c) => text(c?.name)).map((c) => ({ name: c.name, arguments: c.arguments ?? {} }));
  if (Number.isFinite(x.stats?.output)) turn.stats = { output: x.stats.output, prompt: Number(x.stats.prompt) || 0, rate: Number(x.stats.rate) || 0, load: 0, reason: String(x.stats.reason ?? '') };
  if (['cut', 'prompt', 'limit'].every((k) => Number.isFinite(x.cut?.[k]))) turn.cut = { cut: x.cut.cut, prompt: x.cut.prompt, limit: x.cut.limit };
  ids.set(x.id, turn.id);
  return turn;
}

const scalar = (v) => ['number', 'string', 'boolean'].includes(typeof v) || (Array.isArray(v) && v.every(text));

function fromJSON(o) {
  if (o?.kind !== kind || !Array.isArray(o.chats)) throw new Unknown();
  return o.chats.map((one) => {
    const { chat: c, turns } = one ?? {};
    if (!text(c?.title) || !Array.isArray(turns) || turns.length > mostTurns) throw new Unknown();
    const chat = store.newChat({ title: c.title.slice(0, 500), named: true, think: ['boolean', 'string'].includes(typeof c.think) ? c.think : null });
    for (const k of ['model', 'system', 'format', 'tools']) if (text(c[k])) chat[k] = c[k];
    for (const k of ['created', 'updated']) if (Number.isFinite(c[k]) && c[k] > 0 && c[k] < chat[k]) chat[k] = c[k]; // it stays where it was among the others
    if (c.options && typeof c.options === 'object') chat.options = Object.fromEntries(Object.entries(c.options).filter(([, v]) => scalar(v)));
    const ids = new Map();
    const made = turns.map((x) => taken(x, chat, ids));
    chat.head = ids.get(c.head) ?? made[made.length - 1]?.id ?? null;
    return [chat, made];
  });
}

function fromMarkdown(src, name) {
  const parts = src.split(/^## (System|User|Assistant|Tool)(?:: ?(.*))?$/m);
  if (parts.length < 4) throw new Unknown();
  const chat = store.newChat({ title: (/^# (.+)$/m.exec(parts[0]) ?? [])[1]?.slice(0, 500) || name, named: true });
  const made = [];
  let parent = null;
  for (let i = 1; i + 2 < parts.length + 1; i += 3) {
    const [who, more, body] = [parts[i], parts[i + 1], (parts[i + 2] ?? '').trim()];
    if (who === 'System') { chat.system = bare(body); continue; }
    const x = store.newTurn(chat.id, parent, who.toLowerCase(), { text: bare(body) });
    if (who === 'Assistant') {
      x.model = more || '';
      x.state = 'done';
      const quote = body.startsWith(thought) && /^(?:>.*(?:\n|$))+/.exec(body)[0];
      if (quote) {
        x.thinking = quote.slice(thought.length).replace(/^> ?/gm, '').trimEnd();
        x.text = bare(body.slice(quote.length).trim());
      }
    }
    if (who === 'Tool') x.tool = more || '';
    made.push(x);
    parent = x.id;
  }
  chat.head = parent;
  return [[chat, made]];
}

// importFile takes a file in and gives the id of its first conversation. Of a file with a fault nothing is taken.
export async function importFile(f) {
  if (f.size > mostFile) throw new Error(t('import.large', { name: f.name, most: bytes(mostFile) }));
  let list;
  try {
    const src = (await f.text()).replace(/\r\n?/g, '\n');
    list = /^\s*[[{]/.test(src) ? fromJSON(JSON.parse(src)) : fromMarkdown(src, f.name.replace(/\.\w+$/, ''));
  } catch (e) {
    throw new Error(t(e instanceof DOMException ? 'file.unread' : 'import.bad', { name: f.name }));
  }
  await store.saveMany(list.map(([chat]) => chat), list.flatMap(([, turns]) => turns));
  return list[0]?.[0].id ?? null;
}
