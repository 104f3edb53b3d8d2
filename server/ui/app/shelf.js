// The documents that are kept on the server: collections (vector stores in OpenAI's API), their files, and files on their way there. A file is
// sent, put into a collection, and read there; what went wrong stays beside its name until it is put away.
import { fresh, signal } from './html.js';
import { call, json, refusal } from './server.js';
import { bytes, t } from './words.js';

// room is {on, used_bytes, limit_bytes, file_bytes}; on: this server keeps documents. null: not asked yet.
export const room = signal(null);
// collections are the key's own, the newest first.
export const collections = signal([]);
// coming are files on their way: {id, store, name, size, state: 'waiting', 'sending', 'reading' or 'failed', error}.
export const coming = signal([]);

const most = 500; // files of a folder that are taken at once
const page = 100; // of a list, in one answer

export async function all(path) {
  const out = [];
  for (let after = ''; ;) {
    const r = await json(`${path}?limit=${page}${after}`);
    out.push(...r.data);
    if (!r.has_more || !r.last_id) return out;
    after = '&after=' + encodeURIComponent(r.last_id);
  }
}

// look asks what there is. Where no documents are kept, that is all.
export async function look() {
  room.set(await json('/api/axle/documents', { quiet: true }));
  collections.set(room.get().on ? await all('/v1/vector_stores') : []);
}
let looked = null;
export const lookOnce = () => (looked ??= look().catch(() => { looked = null; }));

export const filesOf = (id) => all(`/v1/vector_stores/${id}/files`);
export const named = (id) => collections.get().find((c) => c.id === id);

export async function make(name) {
  const made = await json('/v1/vector_stores', { body: { name } });
  collections.set([made, ...collections.get()]);
  return made.id;
}

export async function rename(id, name) {
  await json('/v1/vector_stores/' + id, { body: { name } });
  await look();
}

// drop deletes a collection and its files: none of them is in another one, since a file is sent for each.
export async function drop(id) {
  const files = await filesOf(id);
  coming.set(coming.get().filter((c) => c.store !== id));
  await json('/v1/vector_stores/' + id, { method: 'DELETE' });
  for (const f of files) await json('/v1/files/' + f.id, { method: 'DELETE' }).catch(() => {});
  await look();
}

export async function dropFile(store, file) {
  await json('/v1/files/' + file, { method: 'DELETE' });
  await look();
}

const mark = (id, what) => coming.set(coming.get().map((c) => (c.id === id ? { ...c, ...what } : c)));
export const forget = (id) => coming.set(coming.get().filter((c) => c.id !== id));

let working = null;

// add puts files on their way to a collection: {file, path}. It resolves once each was sent and read, or has failed.
export function add(store, list) {
  coming.set([...coming.get(), ...list.map(({ file, path }) => ({ id: fresh(), store, name: path || file.name, size: file.size, state: 'waiting', error: '', file }))]);
  working ??= work().finally(() => { working = null; });
  return working;
}

async function work() {
  for (;;) {
    const next = coming.get().find((c) => c.state === 'waiting');
    if (!next) return;
    try {
      await send(next);
      forget(next.id);
    } catch (e) {
      mark(next.id, { state: 'failed', error: e.message, file: null });
    }
    await look().catch(() => {});
  }
}

const pause = (ms) => new Promise((ok) => setTimeout(ok, ms));

async function send({ id, store, name, size, file }) {
  const limit = room.get()?.file_bytes;
  if (limit > 0 && size > limit) throw new Error(t('docs.large', { most: bytes(limit) }));
  if (!size) throw new Error(t('docs.empty'));
  mark(id, { state: 'sending' });
  const form = new FormData();
  form.append('purpose', 'assistants');
  form.append('file', file, name.split('/').pop());
  const r = await call('/v1/files', { method: 'POST', body: form });
  if (!r.ok) throw await refusal(r);
  const kept = await r.json();
  mark(id, { state: 'reading', file: null });
  const at = `/v1/vector_stores/${store}/files`;
  let f;
  try {
    f = await json(at, { body: { file_id: kept.id, ...(name.includes('/') ? { attributes: { path: name.slice(-400) } } : {}) } });
    for (let wait = 150; f.status === 'in_progress'; wait = Math.min(1500, wait * 1.5)) {
      await pause(wait);
      f = await json(`${at}/${kept.id}`);
    }
    if (f.status !== 'completed') throw new Error(f.last_error?.message ?? f.status);
  } catch (e) {
    await json('/v1/files/' + kept.id, { method: 'DELETE' }).catch(() => {}); // what cannot be read takes no room
    throw e;
  }
}

// Files of a folder that have no text are left out without a word each: pictures, programs, what begins with a dot.
const texts = /(?:^|\/)(?:[^./]+|[^/]*\.(?:pdf|docx|html?|xhtml|md|markdown|txt|text|csv|tsv|log|rst|tex|org|adoc|json|jsonl|ya?ml|toml|ini|conf|cfg|xml|go|py|rs|c|h|cc|cpp|hpp|cs|java|kt|swift|lua|php|rb|pl|r|m?js|tsx?|jsx|vue|css|sh|ps1|sql|diff|patch|srt))$/i;
export const document = (name) => /\.(?:pdf|docx)$/i.test(name);

// chosen makes a list of what was chosen or dropped, {file, path}; left is how many were left out. With folder, path has its folders.
export function chosen(files, folder = false) {
  const list = [...files].map((file) => ({ file, path: file.path ?? file.webkitRelativePath ?? '' }));
  if (!folder) return { list, left: 0, name: '' };
  const good = list.filter(({ file, path }) => texts.test(path || file.name) && !/(?:^|\/)(?:\.|node_modules\/)/.test(path || file.name));
  return { list: good.slice(0, most), left: list.length - Math.min(most, good.length), name: (list[0]?.path ?? '').split('/')[0] };
}

// dropped reads what was dropped, with the files of folders. It must be called in the event itself.
export function dropped(data) {
  const entries = [...(data.items ?? [])].map((i) => i.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((e) => e.isDirectory)) return Promise.resolve(chosen(data.files));
  const found = [];
  const walk = async (e, path, depth) => {
    if (found.length > 10 * most || depth > 20) return;
    if (e.isFile) {
      const file = await new Promise((ok, no) => e.file(ok, no));
      found.push({ file, path: path + e.name });
      return;
    }
    if (e.name.startsWith('.') || e.name === 'node_modules') return;
    const reader = e.createReader();
    for (;;) { // a reader gives a hundred at a time
      const part = await new Promise((ok, no) => reader.readEntries(ok, no));
      if (!part.length) return;
      for (const x of part) await walk(x, path + e.name + '/', depth + 1);
    }
  };
  return (async () => {
    for (const e of entries) await walk(e, '', 0);
    const good = found.filter((f) => texts.test(f.path));
    return { list: good.slice(0, most), left: found.length - Math.min(most, good.length), name: entries.find((e) => e.isDirectory).name };
  })();
}
