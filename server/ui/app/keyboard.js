// Keys: what each does, and the list that ? shows.
import { html, signal } from './html.js';
import { hush } from './aloud.js';
import { Modal } from './dialog.js';
import { focusComposer } from './composer.js';
import * as it from './open.js';
import { t } from './words.js';

export const listed = signal(false);

const go = (hash) => () => { location.hash = hash; };
const inLast = (kind) => () => {
  const found = document.querySelectorAll(kind);
  found[found.length - 1]?.click();
};

// keys are by what is pressed outside of a text; those with mod work inside too.
const keys = [
  ['?', 'key.list', () => listed.set(true)],
  ['n', 'new', () => { it.go(null); location.hash = '#/chat'; setTimeout(focusComposer, 50); }],
  ['/', 'key.write', focusComposer],
  ['s', 'search', () => document.getElementById('find')?.focus()],
  ['c', 'view.chat', go('#/chat')], ['m', 'view.models', go('#/models')], ['d', 'view.documents', go('#/documents')], ['k', 'view.card', go('#/card')], [',', 'view.settings', go('#/settings')],
  ['o', 'setup', () => dispatchEvent(new Event('axle-setup'))],
  ['e', 'edit.ask', inLast('.turn.user .edit')], ['r', 'again', inLast('.turn.answer .again')],
  ['t', 'key.talk', inLast('.composer .mic')], ['l', 'aloud', inLast('.turn.answer .aloud')],
  ['j', 'key.next', () => step(1)], ['i', 'key.previous', () => step(-1)],
  ['Escape', 'key.stop', () => it.stop()],
];
const more = [['Enter', 'send'], ['Shift Enter', 'key.line'], ['↑', 'key.up'], ['F2', 'key.rename'], ['Delete', 'key.delete']];

// step moves the focus from turn to turn.
function step(by) {
  const list = [...document.querySelectorAll('.turn')];
  if (!list.length) return;
  const at = list.indexOf(document.activeElement?.closest?.('.turn'));
  const next = list[Math.min(list.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : list.length - 1) : at + by))];
  next.tabIndex = -1;
  next.focus();
  next.scrollIntoView({ block: 'nearest' });
}

addEventListener('keydown', (e) => {
  if (e.defaultPrevented || e.isComposing || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
  if (e.key === 'Escape' && hush()) return;
  const writing = e.target.closest?.('input, textarea, select, [contenteditable]');
  if (writing && e.key !== 'Escape') return;
  if (writing && !it.answering(it.open.get()) && !it.written(it.open.get())) { e.target.blur(); return; }
  const found = keys.find(([k]) => k === e.key);
  if (!found) return;
  e.preventDefault();
  found[2]();
});

export function Keys() {
  if (!listed.use()) return null;
  return html`<${Modal} title=${t('keys')} close=${() => listed.set(false)} wide><dl class="keys">${[...keys, ...more].map(([k, word]) => html`<div key=${k}><dt>${k.split(' ').map((x) => html`<kbd key=${x}>${x === 'Escape' ? 'Esc' : x}</kbd>`)}</dt><dd>${t(word)}</dd></div>`)}</dl><//>`;
}
