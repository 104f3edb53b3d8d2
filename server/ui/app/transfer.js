// Conversations as files: JSON keeps everything, Markdown what one reads. Both can be taken in again.
import * as store from './store.js';
import { late } from './talk.js';
import { short, t } from './words.js';

const kind = 'axle-chats';

export async function asJSON(ids) {
  const chats = [];
  for (const id of ids) {
    const chat = await store.chat(id);
    if (chat) chats.push({ chat, turns: await store.turns(id) });
  }
  return JSON.stringify({ kind, version: 1, chats }, null, 1);
}

const quoted = (s) => s.split('\n').map((l) => '> ' + l).join('\n');

export function asMarkdown(chat, path) {
  const out = [`# ${chat.title}`];
  if (chat.system) out.push('## System', chat.system);
  for (const x of path) {
    if (x.role === 'user') out.push('## User', x.text + (x.images?.length ? `\n\n*${t('pictures.n', { n: x.images.length })}*` : ''));
    else if (x.role === 'tool') out.push(`## Tool: ${x.tool}`, x.text);
    else {
      out.push(`## Assistant: ${short(x.model)}`);
      if (x.thinking) out.push(quoted(x.thinking));
      for (const c of x.calls ?? []) out.push('```json\n' + JSON.stringify(c) + '\n```');
      out.push(x.text);
    }
  }
  return out.join('\n\n') + '\n';
}

export function save(name, type, text) {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(new Blob([text], { type }));
  a.download = name.replace(/[\\/:*?"<>|\s]+/g, ' ').trim().slice(0, 80);
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

const text = (s) => typeof s === 'string';
const mostFile = 200e6, mostTurns = 100000;

// taken makes a turn of what a file says, of the fields we know and nothing else.
function taken(x, chat, ids) {
  if (!x || !['user', 'assistant', 'tool'].includes(x.role) || !text(x.text)) throw new Error(t('import.bad'));
  const turn = store.newTurn(chat.id, ids.get(x.parent) ?? null, x.role, { text: x.text });
  for (const k of ['thinking', 'model', 'tool', 'error', 'state', 'warning']) if (text(x[k])) turn[k] = x[k];
  for (const k of ['thinkMs', 'firstMs', 'at']) if (Number.isFinite(x[k])) turn[k] = x[k];
  if (turn.state === 'running' && !late(x)) turn.state = 'stopped';
  if (Array.isArray(x.images)) {
    turn.images = x.images.filter((i) => /^image\/[\w.+-]+$/.test(i?.type) && /^[A-Za-z0-9+/=]+$/.test(i?.data)).map(({ type, data, name }) => ({ type, data, name: text(name) ? name : '' }));
  }
  if (Array.isArray(x.calls)) turn.calls = x.calls.filter((c) => text(c?.name)).map((c) => ({ name: c.name, arguments: c.arguments ?? {} }));
  if (Number.isFinite(x.stats?.output)) turn.stats = { output: x.stats.output, prompt: Number(x.stats.prompt) || 0, rate: Number(x.stats.rate) || 0, load: 0, reason: String(x.stats.reason ?? '') };
  ids.set(x.id, turn.id);
  return turn;
}

async function keep(chat, turns) {
  await store.saveTurns(turns);
  await store.saveChat(chat);
  return chat.id;
}

function fromJSON(o) {
  if (o?.kind !== kind || !Array.isArray(o.chats)) throw new Error(t('import.bad'));
  return o.chats.map(({ chat: c, turns }) => {
    if (!text(c?.title) || !Array.isArray(turns) || turns.length > mostTurns) throw new Error(t('import.bad'));
    const chat = store.newChat({ title: c.title.slice(0, 500), named: true, model: text(c.model) ? c.model : '', system: text(c.system) ? c.system : '', format: text(c.format) ? c.format : '',
      tools: text(c.tools) ? c.tools : '', think: ['boolean', 'string'].includes(typeof c.think) ? c.think : null,
      options: c.options && typeof c.options === 'object' ? Object.fromEntries(Object.entries(c.options).filter(([, v]) => ['number', 'string', 'boolean'].includes(typeof v) || Array.isArray(v))) : {} });
    const ids = new Map();
    const made = turns.map((x) => taken(x, chat, ids));
    chat.head = ids.get(c.head) ?? made[made.length - 1]?.id ?? null;
    return [chat, made];
  });
}

function fromMarkdown(src, name) {
  const parts = src.split(/^## (System|User|Assistant|Tool)(?:: ?(.*))?$/m);
  if (parts.length < 4) throw new Error(t('import.bad'));
  const chat = store.newChat({ title: (/^# (.+)$/m.exec(parts[0]) ?? [])[1]?.slice(0, 500) || name, named: true });
  const made = [];
  let parent = null;
  for (let i = 1; i + 2 < parts.length + 1; i += 3) {
    const [who, more, body] = [parts[i], parts[i + 1], (parts[i + 2] ?? '').trim()];
    if (who === 'System') { chat.system = body; continue; }
    const x = store.newTurn(chat.id, parent, who.toLowerCase(), { text: body });
    if (who === 'Assistant') {
      x.model = more || '';
      x.state = 'done';
      const thought = /^(?:> ?.*\n?)+/.exec(body);
      if (thought) {
        x.thinking = thought[0].replace(/^> ?/gm, '').trim();
        x.text = body.slice(thought[0].length).trim();
      }
    }
    if (who === 'Tool') x.tool = more || '';
    made.push(x);
    parent = x.id;
  }
  chat.head = parent;
  return [[chat, made]];
}

// importFile takes a file in and gives the id of its first conversation.
export async function importFile(f) {
  if (f.size > mostFile) throw new Error(t('import.large'));
  const src = await f.text();
  let list;
  if (/^\s*\{/.test(src)) {
    let o;
    try {
      o = JSON.parse(src);
    } catch {
      throw new Error(t('import.bad'));
    }
    list = fromJSON(o);
  } else list = fromMarkdown(src, f.name.replace(/\.\w+$/, ''));
  let first = null;
  for (const [chat, turns] of list) {
    const id = await keep(chat, turns);
    first ??= id;
  }
  return first;
}
