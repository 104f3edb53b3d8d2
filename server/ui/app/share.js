// Sharing conversations with the server, where this browser was told to: when to look, which tab does it, and how it stands.
import { fresh, signal } from './html.js';
import { call, key } from './server.js';
import { set, settings } from './settings.js';
import * as store from './store.js';
import { Sync } from './sync.js';
import { busy, late, runs } from './talk.js';

export const sync = new Sync({ store, call, late });

// standing is {how, why}: how is '' (it is off), 'begins', 'saved', 'waits' (some is in this browser only), 'lost', 'key', or a Trouble's kind.
export const standing = signal({ how: '' });
const stand = (how, why = '') => { if (standing.get().how !== how || standing.get().why !== why) standing.set({ how, why }); };

const on = () => !!settings.get().share;

// One tab does it: the one whose name stands here, while it says so again and again, and how it stands. Two at once would do no harm.
const tab = fresh(), place = 'axle-share', lapse = 9000;
function mine() {
  try {
    const had = JSON.parse(localStorage.getItem(place) || 'null');
    if (had && had.tab !== tab && Date.now() - had.at < lapse && had.at <= Date.now()) {
      if (had.how) stand(had.how, had.why);
      return false;
    }
    localStorage.setItem(place, JSON.stringify({ tab, at: Date.now(), ...standing.get() }));
  } catch { /* storage is off: this tab does it for itself */ }
  return true;
}
setInterval(() => { if (on() && running) mine(); }, 3000);
addEventListener('pagehide', () => { try { if (JSON.parse(localStorage.getItem(place))?.tab === tab) localStorage.removeItem(place); } catch { /* then it lapses */ } });

let wake = () => {};
let due = 0;
const soon = (ms = 300) => { if (!due) due = setTimeout(() => { due = 0; wake(); }, ms); };
const pause = (ms) => new Promise((ok) => {
  const id = setTimeout(ok, ms);
  wake = () => { clearTimeout(id); ok(); };
});

store.changed.follow((c) => {
  if (!on() || !c || c.shared || !['chats', 'turns'].includes(c.table)) return;
  if (c.chat) sync.dirty.add(c.chat);
  else sync.everything().then(() => soon());
  if (standing.get().how === 'saved') stand('waits');
  if (!(c.table === 'turns' && runs.has(c.id))) soon(); // what is being written is sent when it has ended
});
busy.follow(() => soon());
addEventListener('online', () => soon(0));
document.addEventListener('visibilitychange', () => { if (!document.hidden) soon(0); });
settings.follow(() => soon(0));

let running = false;
async function loop() {
  let failures = 0, began = false;
  for (;;) {
    if (!on()) {
      stand('');
      began = false;
      await pause(1e9);
      continue;
    }
    running = mine();
    if (!running) {
      began = false;
      await pause(4000);
      continue;
    }
    try {
      if (!began) {
        stand('begins');
        await sync.everything();
      }
      await sync.once();
      began = true;
      failures = 0;
      if (sync.refused) stand('full', sync.refused);
      else stand('saved');
      const abort = new AbortController();
      wake = () => abort.abort();
      if (!due) await sync.wait(20, abort.signal).catch((e) => { if (e.name !== 'AbortError') throw e; });
    } catch (e) {
      if (!on()) continue;
      if (e.kind === 'off' || e.kind === 'other') stand(e.kind, e.message);
      else if (e.status === 401) stand('key');
      else if (e.kind) stand('failed', e.message);
      else stand('lost');
      await pause(Math.min(30000, 1000 * 2 ** failures++));
    }
  }
}
export const begin = () => { loop(); };

// start shares from now on. It fails where the server keeps no conversations.
export async function start() {
  await sync.begin();
  set({ share: true });
}

// end shares no longer. of: 'keep' leaves all copies where they are, 'server' deletes those of the server, 'here' those of this browser.
export async function end(of) {
  set({ share: false });
  if (of === 'server') await sync.json('/api/axle/conversations', undefined, 'DELETE');
  if (of === 'here') await store.dropHere();
  else await store.forgetMarks(true);
}

// keyless: all who reach the server share these conversations.
export const keyless = () => !key();
