// How full a conversation's context is, before the next question is sent, and which turns the server will leave out then: the oldest, until
// the rest fits. What was answered last, the server has counted; what came since is estimated.
import { html } from './html.js';
import { Icon } from './icons.js';
import { said, tokens } from './pieces.js';
import { number, t } from './words.js';

const frame = 5; // tokens of a template around a message, about
const told = 0.75; // how full it is when one is told what goes first

const guesses = new WeakMap(); // by turn: {of, n}
function guess(x) {
  const of = x.text.length + (x.thinking?.length ?? 0);
  if (guesses.get(x)?.of !== of) guesses.set(x, { of, n: frame + tokens(said(x)) + tokens(x.thinking ?? '') });
  return guesses.get(x).n;
}

// fill is {used, out, first}: about how many tokens the next question has with all that was said before, how many turns do not fit, and the
// last turn of these, or the first that will not.
export function fill(chat, path, typed, room) {
  const turns = path.filter((x) => !x.draws);
  const last = turns.findLastIndex((x) => x.stats?.prompt > 0);
  let guessed = tokens(chat.system ?? '') + tokens(chat.tools ?? ''), used = 0, scale = 1;
  turns.forEach((x, i) => {
    guessed += guess(x);
    if (i !== last) return;
    const known = (x.cut?.cut ?? 0) + (x.stats.used ?? x.stats.prompt + x.stats.output);
    scale = Math.min(4, Math.max(0.25, known / guessed));
    [used, guessed] = [known, 0];
  });
  used = Math.round(used + scale * (guessed + (typed ? frame + tokens(typed) : 0)));
  let out = 0;
  for (let over = used - room + 1; over > 0 && out < turns.length; out++) over -= scale * guess(turns[out]);
  return { used, out, first: turns[Math.max(0, out - 1)] };
}

function words(x) {
  const all = said(x).replace(/\s+/g, ' ').trim();
  return all.length > 60 ? all.slice(0, 60).trim() + '…' : all;
}

export function Room({ chat, path, typed, room }) {
  if (!Number.isFinite(room) || !path.length) return null;
  const { used, out, first } = fill(chat, path, typed, room);
  const text = t('room', { n: number(used), room: number(room) });
  const note = out === 1 ? t('room.out.one', { text: words(first) }) : out ? t('room.out', { n: number(out), text: words(first) })
    : used > told * room && first ? t('room.next', { text: words(first) }) : '';
  return html`<div class=${out ? 'room over' : 'room'}><progress max=${room} value=${Math.min(used, room)} aria-label=${t('room.label')} aria-valuetext=${text}></progress><span>${text}</span></div>
    ${note && html`<p class=${out ? 'note cut' : 'note'}><${Icon} name="warn" size="16" /><span dir="auto">${note}</span></p>`}`;
}
