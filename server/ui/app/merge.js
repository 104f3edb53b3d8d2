// What two devices make of one conversation. Nothing here knows a browser or a server: a test drives it with two devices and a clock of its own.
//
// A mark is what a device knows of the server's version of a turn, or under the conversation's id of the conversation: {id, chat, rev, sum,
// parent}; rev is the version's place, sum that of its content, without the parent. gone: it was deleted there. dropped: it was deleted here,
// and the server does not know yet. A conversation's mark has its fields in base.
import { sumOf } from './sha256.js';

const roles = ['user', 'assistant', 'tool'];

// ordered is JSON in which the same things are the same text.
function ordered(v) {
  if (Array.isArray(v)) return '[' + v.map((x) => ordered(x ?? null)).join() + ']';
  if (v && typeof v === 'object') return '{' + Object.keys(v).filter((k) => v[k] !== undefined).sort().map((k) => JSON.stringify(k) + ':' + ordered(v[k])).join() + '}';
  return JSON.stringify(v) ?? 'null';
}
const same = (a, b) => ordered(a ?? null) === ordered(b ?? null);
const sum = (body) => sumOf(ordered({ ...body, parent: null }));

export const bytesOf = (data) => Uint8Array.from(atob(data), (c) => c.charCodeAt(0));

// writing is a turn that is being written, in this browser: it is not sent before it has ended.
const writing = (x, late) => x.state === 'running' && !late(x);

// turnBody is a turn as the server has it: with the names of its pictures, and without what is only this tab's.
function turnBody(x, nameOf) {
  const body = JSON.parse(JSON.stringify({ ...x, tab: undefined, beat: undefined, images: undefined, parent: x.parent ?? null }));
  if (body.state === 'running') body.state = 'stopped';
  if (x.images) body.images = x.images.map((i, n) => ({ type: i.type, name: i.name ?? '', blob: i.data ? nameOf(x.id + ':' + n, i.data) : i.blob }));
  return body;
}

// chatBody is a conversation as the server has it; what is being written is not shown to others yet.
function chatBody(c, turns, late) {
  const body = JSON.parse(JSON.stringify(c));
  for (let x = turns.get(body.head); x && writing(x, late); x = turns.get(body.head)) body.head = x.parent ?? null;
  return body;
}

const keyed = (list) => new Map(list.map((x) => [x.id, x]));

// pending are the records that the server lacks, in the order in which it is to have them. state is {chat, turns, marks}, how has late and
// nameOf, which gives a picture's name.
export function pending({ chat, turns, marks }, how) {
  const out = [], by = keyed(marks), there = keyed(turns);
  if (!chat) return out;
  const add = (key, mark, body, sum, more) => out.push({ key, base: mark?.rev ?? 0, body, sum, blobs: [...new Set((body.images ?? []).map((i) => i.blob))], ...more,
    id: sumOf(key + ' ' + (mark?.rev ?? 0) + ' ' + ordered(body)).slice(0, 32) });
  for (const x of turns) {
    if (writing(x, how.late)) continue;
    const body = turnBody(x, how.nameOf), s = sum(body), mark = by.get(x.id);
    if (!mark?.rev || mark.sum !== s || mark.parent !== body.parent) add(x.id, mark, body, s);
  }
  for (const mark of marks) if (mark.dropped && mark.rev && mark.id !== chat.id && !there.has(mark.id)) add(mark.id, mark, { parent: mark.parent ?? null }, 'gone', { gone: true });
  const body = chatBody(chat, there, how.late), s = sum(body), mark = by.get(chat.id);
  if (!mark?.rev || mark.sum !== s) add('chat', mark, body, s);
  return out;
}

// acknowledged are the marks of records that the server has kept. What was deleted here meanwhile is to be deleted there.
export function acknowledged({ chat, turns }, id, list, seqs) {
  const there = keyed(turns);
  if (!chat) return [{ id, chat: id, rev: seqs[0] ?? 0, dropped: true }];
  return list.slice(0, seqs.length).map((r, i) => {
    if (r.key === 'chat') return { id, chat: id, rev: seqs[i], sum: r.sum, base: r.body };
    return { id: r.key, chat: id, rev: seqs[i], sum: r.sum, parent: r.body.parent, ...(r.gone ? { gone: true } : !there.has(r.key) && { dropped: true }) };
  });
}

const sound = (b) => roles.includes(b?.role) && typeof b.text === 'string' && (!b.images || Array.isArray(b.images));

// merge takes the server's records into a device's state, and gives what is to be written: {chat, turns, marks, gone} (gone: ids of turns that
// go). how has late, nameOf, fresh, and pictures: a map from names to data. whole: all records of the conversation are here now.
export function merge({ chat, turns, marks }, id, records, how) {
  const t = keyed(turns), m = keyed(marks), was = new Map(t), had = new Map(m);
  let c = chat;
  const home = (key, body, parent) => ({ ...body, id: key, chat: id, parent, ...(body.images && { images: body.images.map((i) => ({ ...i, data: how.pictures.get(i.blob) ?? '', blob: how.pictures.has(i.blob) ? undefined : i.blob })) }) });

  const turn = (r) => {
    const key = r.key, mark = m.get(key), local = t.get(key), parent = r.body.parent ?? null;
    if (mark && mark.rev >= r.seq || (!r.gone && !sound(r.body))) return;
    const s = r.gone ? 'gone' : sum(r.body);
    const next = { id: key, chat: id, rev: r.seq, sum: s, parent, ...(r.gone && { gone: true }) };
    m.set(key, next);
    if (!local) {
      if (mark?.dropped && s === mark.sum) m.set(key, { ...next, dropped: true }); // it was only moved there: it is still to go
      else if (!r.gone) t.set(key, home(key, r.body, parent)); // it is new, or was changed after it was deleted here: it stays
      return;
    }
    const mine = turnBody(local, how.nameOf), ours = sum(mine), busy = writing(local, how.late);
    const at = !mark || mine.parent === mark.parent ? parent : mine.parent;
    const untouched = mark?.sum === ours && !busy;
    if (r.gone && untouched) t.delete(key);
    else if (r.gone && busy) m.set(key, { ...next, sum: '', gone: undefined }); // what is written here stays
    else if (r.gone) {
      t.delete(key);
      aside(local, parent);
    } else if (untouched) t.set(key, home(key, r.body, at));
    else if (s === ours || s === mark?.sum) {
      if (local.parent !== at) t.set(key, { ...local, parent: at });
    } else if (busy) {
      const other = how.fresh(); // what is written here keeps its place, and the other stands beside it
      t.set(other, home(other, r.body, parent));
    } else {
      t.set(key, home(key, r.body, parent));
      aside(local, local.parent ?? null);
    }
  };
  // aside puts a turn that was changed here beside the server's, and what follows it here with it.
  const aside = (x, parent) => {
    const copy = { ...x, id: how.fresh(), parent };
    t.set(copy.id, copy);
    for (const y of [...t.values()]) if (y.parent === x.id && !m.has(y.id)) t.set(y.id, { ...y, parent: copy.id });
    if (c?.head === x.id) c = { ...c, head: copy.id };
  };

  const meta = (r) => {
    const mark = m.get(id), theirs = r.body;
    if (mark && mark.rev >= r.seq || typeof theirs?.title !== 'string') return;
    m.set(id, { id, chat: id, rev: r.seq, sum: sum(theirs), base: theirs });
    if (!c) {
      c = { ...theirs, id };
      return;
    }
    const mine = chatBody(c, t, how.late), base = mark?.base, later = (mine.updated ?? 0) > (theirs.updated ?? 0);
    const out = {};
    for (const k of new Set([...Object.keys(mine), ...Object.keys(theirs)])) {
      const ours = base ? !same(mine[k], base[k]) && (same(theirs[k], base[k]) || later) : later;
      out[k] = ours ? mine[k] : theirs[k];
    }
    out.updated = Math.max(mine.updated ?? 0, theirs.updated ?? 0);
    if (mine.head !== c.head) out.head = c.head; // something is being written here, and shown
    c = { ...out, id };
  };

  const deleted = m.get(id)?.dropped || m.get(id)?.gone;
  if (!deleted) for (const r of records) (r.key === 'chat' ? meta : turn)(r);

  // What follows a turn that was deleted follows the one before it.
  const upward = (p) => {
    for (let n = 0; p !== null && !t.has(p) && m.has(p) && n <= m.size; n++) p = m.get(p).parent ?? null;
    return p !== null && how.whole && !t.has(p) ? null : p;
  };
  for (const x of [...t.values()]) {
    const p = upward(x.parent ?? null);
    if (p !== (x.parent ?? null)) t.set(x.id, { ...x, parent: p });
  }
  if (c && how.whole && t.size) {
    const list = [...t.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    let head = c.head ?? null;
    if (!t.has(head)) head = upward(head) ?? null;
    head = leaf(list, head) ?? list[list.length - 1].id;
    if (head !== c.head) c = { ...c, head };
  }
  return {
    chat: c !== chat ? c : undefined, turns: [...t.values()].filter((x) => x !== was.get(x.id)), gone: [...was.keys()].filter((k) => !t.has(k)),
    marks: [...m.values()].filter((x) => x !== had.get(x.id)),
  };
}

// leaf is where one arrives going on from a turn, always to the newest.
export function leaf(list, id) {
  const last = new Map(list.map((x) => [x.parent ?? null, x.id]));
  for (let n = 0; n <= list.length && last.has(id); n++) id = last.get(id);
  return id;
}
