// The conversation that is open, and everything that can be done with it. Views draw it and call these; nothing else changes it.
import { say } from './dialog.js';
import { signal } from './html.js';
import { hurry, models } from './live.js';
import { find } from './passages.js';
import { set as remember, settings } from './settings.js';
import * as store from './store.js';
import { answer, elsewhere, runs } from './talk.js';
import * as tools from './tools.js';
import { t } from './words.js';

// open is {chat, turns, path, saved}; path is what is shown. It is replaced whole, never changed in place.
export const open = signal(null);

// talks says whether a model answers: one that embeds or hears does not, nor one of a kind that is not run.
export const talks = (m) => !m.says && (m.capabilities ?? ['completion']).includes('completion');

// draws says whether a model draws, and answers with a picture.
export const draws = (m) => !!m && !m.says && (m.capabilities ?? []).includes('image');
export const answers = (m) => talks(m) || draws(m);

// usual is the model for a new conversation: the one used last, else the newest that talks, else one that draws.
export function usual() {
  const list = (models.get() ?? []).filter(answers);
  return list.find((m) => m.name === settings.get().model)?.name ?? (list.find(talks) ?? list[0])?.name ?? '';
}

function show(chat, turns, saved = true) {
  turns = turns.map((x) => runs.get(x.id)?.turn ?? x);
  open.set({ chat, turns, path: store.path(turns, chat.head), saved });
}

let going = 0;

// go opens a conversation by id; without one, a new one that is kept when something is asked. One that is new stays, with what was written
// in it; of several that are asked for at once, the last is opened.
export async function go(id) {
  const mine = ++going;
  const now = open.get();
  if (now && (id ? now.saved && now.chat.id === id : !now.saved)) return;
  if (!id) {
    const preset = (await store.presets()).find((p) => p.first);
    if (mine !== going) return;
    open.set(null);
    show(store.newChat({ model: usual(), ...(preset ? fields(preset) : {}) }), [], false);
    return;
  }
  const chat = await store.chat(id);
  const turns = chat && await store.turns(id);
  if (mine !== going) return;
  if (chat) show(chat, turns);
  else location.hash = '#/chat';
}

export const fields = ({ system, options, think, format, tools, mcp }) => structuredClone({ system, options, think, format, tools, mcp });

store.changed.follow(async (c) => {
  const { chat: { id } = {}, saved } = open.get() ?? {};
  if (!saved || (c?.chat !== id && !c?.every)) return;
  if (c.table === 'chats' && c.gone) {
    if (c.far) say(t('chat.gone'));
    go(null);
    if (location.hash === '#/chat/' + id) location.hash = '#/chat';
    return;
  }
  if (!c.far) return;
  const chat = await store.chat(id);
  const turns = chat && await store.turns(id);
  if (chat && open.get()?.chat.id === id) show(chat, turns);
});

// change sets something of the conversation: its model, its name, how it answers.
export async function change(what) {
  const now = open.get();
  const chat = { ...now.chat, ...what };
  if (what.model) remember({ model: what.model });
  open.set({ ...now, chat });
  if (now.saved) await store.saveChat(chat);
}

async function add(turns, head, more = {}) {
  const now = open.get();
  const chat = { ...now.chat, ...more, head, updated: Date.now() };
  const list = [...now.turns, ...turns];
  show(chat, list);
  await store.saveTurns(turns);
  await store.saveChat(chat);
  if (!now.saved) history.replaceState(null, '', '#/chat/' + chat.id);
  dispatchEvent(new CustomEvent('axle-opened'));
}

const titled = (text) => text.trim().split('\n')[0].slice(0, 80) || t('picture');

async function reply(after, more = {}) {
  const now = open.get();
  const model = now.chat.model;
  const turn = store.newTurn(now.chat.id, after, 'assistant', { model, ...(draws(models.get()?.find((m) => m.name === model)) && { draws: true, ...more }) });
  const before = store.path(now.turns, after);
  const run = answer(now.chat, before, turn);
  await add([turn], turn.id);
  hurry();
  run.done.then(() => carry(turn));
  return run;
}

// carry runs what an answer calls, where the server can, and lets the model go on with the results. It does so while the conversation is
// shown, for a number of rounds; more: somebody has said that there may be as many again.
export async function carry(x, more = false) {
  const now = open.get();
  if (x.state !== 'done' || !tools.runs(x) || now?.chat.id !== x.chat || now.chat.head !== x.id) return;
  if (more) x.more = true;
  else if (tools.rounds(now.path) > tools.mostRounds) return;
  const list = await tools.run(x, now.chat, (what) => (open.get()?.chat.id === x.chat ? change(what) : undefined));
  const then = open.get();
  if (list && then?.chat.id === x.chat && then.chat.head === x.id) await results(x, list);
}

// carried is what goes with a question in addition to its words.
const carried = ({ images, pieces, passages }) => ({ ...(images?.length ? { images } : {}), ...(pieces?.length ? { pieces } : {}), ...(passages?.length ? { passages } : {}) });

// searched are the passages of the conversation's documents for a question after path. It fails where they cannot be searched: a question
// about documents is not asked without them.
const searched = ({ chat }, path, text) => (chat.collection && text.trim() && !draws(models.get()?.find((m) => m.name === chat.model)) ? find(chat.collection, path, text) : []);

// ask sends the user's words, pictures and pieces of text, after the turn that is shown last.
export async function ask(text, more = {}) {
  const before = open.get();
  const passages = before.chat.collection ? await searched(before, before.path, text) : [];
  const now = open.get();
  if (now?.chat.id !== before.chat.id) return undefined; // another one was opened meanwhile: it is not asked there
  if (!now.chat.model) now.chat.model = usual();
  const turn = store.newTurn(now.chat.id, now.chat.head, 'user', { text, ...carried({ ...more, passages }) });
  await add([turn], turn.id, now.chat.named || now.turns.length ? {} : { title: titled(text || more.pieces?.[0]?.name || '') });
  return reply(turn.id);
}

// edit asks again with other words and pieces: a branch beside the first.
export async function edit(x, text, pieces) {
  const before = open.get();
  const passages = await searched(before, store.path(before.turns, x.parent), text);
  if (open.get()?.chat.id !== before.chat.id) return undefined;
  const turn = store.newTurn(x.chat, x.parent, 'user', { text, ...carried({ images: x.images, pieces, passages }) });
  await add([turn], turn.id);
  return reply(turn.id);
}

// again answers anew, with the conversation's model as it is now: beside the first answer. A picture is drawn with another seed.
export const again = (x) => reply(x.parent, { anew: true });

// goesOn says whether a model can go on from an answer's words: one that has some, and neither calls nor pictures.
export const goesOn = (x) => !!x.text?.trim() && !x.calls?.length && !x.draws && !x.images?.length;

// goOn lets the conversation's model go on from an answer's last word, in its place; where turns follow it, in a copy beside it.
export async function goOn(x) {
  const now = open.get();
  if (now.turns.some((y) => y.parent === x.id)) return rewrite(x, x.text, true);
  const chosen = models.get()?.find((m) => m.name === now.chat.model);
  x.model = chosen && talks(chosen) ? chosen.name : x.model || now.chat.model;
  const run = answer(now.chat, store.path(now.turns, x.parent), x, true);
  const chat = { ...now.chat, updated: Date.now() };
  show(chat, now.turns);
  hurry();
  await store.saveChat(chat);
  return run;
}

// rewrite keeps an answer in other words beside the model's own; on: the model goes on from them.
export async function rewrite(x, text, on = false) {
  const turn = store.newTurn(x.chat, x.parent, 'assistant', { text: text.trimEnd(), model: x.model, state: 'done', ...(text !== x.text && { edited: true }),
    ...(x.thinking && { thinking: x.thinking, thinkMs: x.thinkMs }) });
  await add([turn], turn.id);
  return on ? goOn(turn) : undefined;
}

// results gives the results of an answer's calls, and lets the model go on.
export async function results(x, list) {
  const now = open.get();
  let after = x.id;
  const made = list.map(({ name, ...what }) => {
    const turn = store.newTurn(now.chat.id, after, 'tool', { tool: name, ...what });
    after = turn.id;
    return turn;
  });
  await add(made, after);
  return reply(after);
}

// begun keeps a conversation of one question that was answered elsewhere, and gives its id.
export async function begun(model, asked, answer) {
  const chat = store.newChat({ model, title: titled(asked) });
  const question = store.newTurn(chat.id, null, 'user', { text: asked });
  const reply = store.newTurn(chat.id, question.id, 'assistant', { ...answer, model, state: 'done' });
  chat.head = reply.id;
  await store.saveTurns([question, reply]);
  await store.saveChat(chat);
  return chat.id;
}

export function stop() {
  for (const x of open.get()?.path ?? []) {
    if (elsewhere(x)) store.stopTurn(x.chat, x.id);
    else runs.get(x.id)?.stop();
    tools.stop(x);
  }
}
export const answering = (now) => now?.path.some((x) => runs.has(x.id) || tools.working(x)) ?? false;
// written says whether another tab answers.
export const written = (now) => now?.path.some(elsewhere) ?? false;

// remove deletes a turn. What followed an answer follows its question then; with a question go its answers, with a call its results.
export async function remove(x) {
  const now = open.get();
  runs.get(x.id)?.stop();
  await runs.get(x.id)?.done;
  const gone = new Set([x.id]);
  for (let more = true; more;) {
    more = false;
    for (const y of now.turns) if (gone.has(y.parent) && !gone.has(y.id) && (x.role === 'user' ? y.role !== 'user' : y.role === 'tool')) more = !!gone.add(y.id);
  }
  const turns = now.turns.filter((y) => !gone.has(y.id));
  const moved = [];
  for (const y of turns) if (gone.has(y.parent)) moved.push(Object.assign(y, { parent: x.parent }));
  let head = gone.has(now.chat.head) ? store.leaf(turns, x.parent) : now.chat.head;
  if (head === null) head = turns[turns.length - 1]?.id ?? null;
  const chat = { ...now.chat, head, updated: Date.now() };
  show(chat, turns);
  await store.saveTurns(moved);
  await store.saveChat(chat);
  await store.dropTurns(chat.id, [...gone]);
}

// branch makes a conversation of its own of everything up to a turn.
export async function branch(x) {
  const now = open.get();
  const chat = { ...store.newChat(structuredClone(now.chat)), title: t('branch.of', { title: now.chat.title }), named: true };
  let parent = null;
  const list = [];
  for (const y of store.path(now.turns, x.id)) {
    const copy = { ...store.newTurn(chat.id, parent, y.role, structuredClone(y)), chat: chat.id };
    if (copy.state === 'running') copy.state = 'stopped';
    list.push(copy);
    parent = copy.id;
  }
  await store.saveTurns(list);
  chat.head = parent;
  await store.saveChat(chat);
  location.hash = '#/chat/' + chat.id;
}

// beside are the turns one can choose from at a place: the same question asked otherwise, the same answer given again, and what another device
// or a deletion has put there.
export const beside = (now, x) => now.turns.filter((y) => (y.parent ?? null) === (x.parent ?? null));

export async function choose(x) {
  const now = open.get();
  const chat = { ...now.chat, head: store.leaf(now.turns, x.id) };
  show(chat, now.turns);
  await store.saveChat(chat);
}
