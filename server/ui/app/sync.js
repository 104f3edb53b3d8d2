// Keeps this browser's conversations and the server's the same. It knows the store and how to call the server, and neither a page nor a clock:
// who owns it says when to look.
import { fresh } from './html.js';
import { acknowledged, bytesOf, merge, pending } from './merge.js';
import { sha256 } from './sha256.js';

const at = '/api/axle/conversations';
const most = 200, mostBytes = 4e6; // of a request

// Trouble is why nothing goes on: kind is 'off' (the server keeps none), 'other' (it is another folder or another's), 'full' or 'failed'.
export class Trouble extends Error {
  constructor(kind, text) {
    super(text);
    this.kind = kind;
  }
}

function base64(b) {
  let s = '';
  for (let i = 0; i < b.length; i += 0x8000) s += String.fromCharCode(...b.subarray(i, i + 0x8000));
  return btoa(s);
}

export class Sync {
  constructor({ store, call, late }) {
    this.store = store;
    this.call = call;
    this.dirty = new Set(); // conversations that may have what the server lacks
    this.names = new Map(); // of pictures, by turn, place and length: they do not change
    this.how = { late, fresh, nameOf: (where, data) => this.nameOf(where, data) };
    this.refused = ''; // why the server does not keep something
    this.room = null; // {used, most}
  }

  nameOf(where, data) {
    const key = where + ':' + data.length + ':' + data.slice(-80);
    if (!this.names.has(key)) this.names.set(key, sha256(bytesOf(data)));
    return this.names.get(key);
  }

  async ask(path, options) {
    const r = await this.call(path, { quiet: true, ...options });
    if (r.ok) return r;
    let text = '';
    try { text = (await r.json()).error ?? ''; } catch { /* the status alone must do */ }
    if (r.status === 404 && path.startsWith(at + '?')) throw new Trouble('off', text);
    throw Object.assign(new Trouble([507, 400, 413].includes(r.status) ? 'full' : 'failed', text || String(r.status)), { status: r.status });
  }

  async json(path, body, method) {
    const r = await this.ask(path, body === undefined ? { method } : { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } });
    return r.json();
  }

  // begin takes the server's folder as the one to share with: all that is here is compared with it, and sent where it lacks it.
  async begin() {
    const p = await this.json(`${at}?since=${Number.MAX_SAFE_INTEGER}`);
    await this.store.forgetMarks(true);
    await this.store.keep('sync', { owner: p.owner, round: p.round, cursor: 0 });
    await this.everything();
  }

  // everything looks at all conversations once.
  async everything() {
    for (const c of await this.store.chats()) this.dirty.add(c.id);
    for (const m of await this.store.droppedChats()) this.dirty.add(m);
  }

  // once takes in what is new there, and sends what is new here, until both are the same. It fails with Trouble, and as call does.
  async once() {
    this.refused = '';
    for (let n = 0; n < 50; n++) {
      await this.pull();
      if (!(await this.push())) return;
    }
  }

  // wait waits for a change there, for some seconds.
  async wait(seconds, signal) {
    const s = await this.store.kept('sync');
    if (s) await this.ask(`${at}?since=${s.cursor}&owner=${s.owner}&round=${s.round}&wait=${seconds}`, { signal });
  }

  async pull() {
    const touched = new Set();
    for (let more = true; more;) {
      const s = await this.store.kept('sync');
      const p = await this.json(`${at}?since=${s.cursor}`);
      this.room = { used: p.used, most: p.most };
      if (p.owner !== s.owner) throw new Trouble('other', '');
      if (p.round !== s.round) { // it was repaired: compare all
        await this.store.forgetMarks(false);
        await this.store.keep('sync', { owner: p.owner, round: p.round, cursor: 0 });
        await this.everything();
        continue;
      }
      const chats = new Map();
      for (const r of p.records) chats.set(r.chat, [...(chats.get(r.chat) ?? []), r]);
      for (const [id, list] of chats) {
        if (list.some((r) => !r.key)) {
          touched.delete(id);
          this.dirty.delete(id);
          await this.store.dropFar(id, list[list.length - 1].seq);
          continue;
        }
        touched.add(id);
        await this.take(id, list);
      }
      if (p.chats && s.cursor > 0) {
        const there = new Set(p.chats);
        for (const id of await this.store.markedChats()) if (!there.has(id)) await this.store.dropFar(id, p.cursor);
      }
      await this.store.keep('sync', { ...s, cursor: p.cursor });
      more = p.more;
    }
    for (const id of touched) {
      await this.take(id, [], true);
      this.dirty.add(id);
    }
  }

  // take takes records of a conversation into the store. Their pictures come first, since a transaction waits for no server.
  async take(id, list, whole = false) {
    const pictures = new Map();
    for (const r of list) {
      for (const { blob } of r.body?.images ?? []) {
        if (pictures.has(blob) || !/^[0-9a-f]{64}$/.test(blob)) continue;
        try {
          pictures.set(blob, base64(new Uint8Array(await (await this.ask('/api/axle/conversation-pictures/' + blob)).arrayBuffer())));
        } catch (e) {
          if (e.status !== 404) throw e; // it is lost: the words are taken without it
        }
      }
    }
    await this.store.update(id, (state) => merge(state, id, list, { ...this.how, pictures, whole }));
  }

  // push sends what the server lacks. It returns whether the server has something newer.
  async push() {
    let again = false;
    for (const id of [...this.dirty]) {
      this.dirty.delete(id);
      try {
        again = (await this.pushChat(id)) || again;
      } catch (e) {
        this.dirty.add(id);
        if (e.kind !== 'full') throw e;
        this.refused = e.message; // the others may fit
        this.later ??= new Set();
        this.later.add(id);
        this.dirty.delete(id);
      }
    }
    for (const id of this.later ?? []) this.dirty.add(id);
    this.later = null;
    return again;
  }

  async pushChat(id) {
    for (let n = 0; n < 1000; n++) {
      let list = [], dropped = false;
      await this.store.update(id, (state) => {
        list = pending(state, this.how);
        dropped = !state.chat && state.marks.some((m) => m.id === id && m.dropped);
      });
      if (dropped) {
        await this.json(at + '/' + id, undefined, 'DELETE');
        await this.store.dropFar(id, 0);
        return false;
      }
      let size = 0;
      list = list.slice(0, most).filter((r, i) => (size += JSON.stringify(r.body).length) < mostBytes || i === 0);
      if (!list.length) return false;
      const records = list.map(({ id, key, base, gone, blobs, body }) => ({ id, key, base, gone, blobs: blobs.length ? blobs : undefined, body }));
      let a;
      try {
        a = await this.json(at + '/' + id, { records });
      } catch (e) {
        if (e.status !== 410) throw e;
        await this.store.dropFar(id, 0);
        return true;
      }
      await this.store.update(id, (state) => ({ marks: acknowledged(state, id, list, a.seqs) }));
      if (a.conflict) {
        this.dirty.add(id);
        return true;
      }
      if (a.lacks) await this.sendPicture(id, a.lacks);
      if (a.refused) throw new Trouble('full', a.refused);
    }
    return false;
  }

  async sendPicture(id, name) {
    for (const x of await this.store.turns(id)) {
      for (const [n, i] of (x.images ?? []).entries()) {
        if (!i.data || this.nameOf(x.id + ':' + n, i.data) !== name) continue;
        await this.ask('/api/axle/conversation-pictures/' + name, { method: 'PUT', body: bytesOf(i.data) });
        return;
      }
    }
    throw new Trouble('full', 'a picture is neither here nor there');
  }
}
