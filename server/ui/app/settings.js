// What this browser was told to do, kept in localStorage: theme, language, size of text, and how to send.
import { signal } from './html.js';

const name = 'axle-settings';

function read() {
  try {
    return JSON.parse(localStorage.getItem(name) || '{}') || {};
  } catch {
    return {};
  }
}

// settings: theme ('', light, dark), lang ('', en, de, zh), text (pixels), enter ('', send, line), share (conversations are on the server too), model (the one used last), side (open),
// hearer (the model that writes speech down), heard ('', send: what was said is sent at once), voice ({model, id} that reads aloud).
export const settings = signal(read());

export function set(change) {
  const next = { ...settings.get(), ...change };
  try {
    localStorage.setItem(name, JSON.stringify(next));
  } catch { /* storage is off: it holds until the page is closed */ }
  settings.set(next);
}

function apply(s) {
  const root = document.documentElement;
  if (s.theme) root.dataset.theme = s.theme;
  else delete root.dataset.theme;
  root.style.setProperty('--size', (Number(s.text) || 16) + 'px');
}
settings.follow(apply);
// another tab was told
addEventListener('storage', (e) => { if (e.key === name) settings.set(read()); });

// touch: there is no keyboard, as far as one can know.
export const touch = () => matchMedia('(hover: none) and (pointer: coarse)').matches;

// enterSends says whether Enter sends, or makes a line.
export const enterSends = () => (settings.get().enter ? settings.get().enter === 'send' : !touch());

// sends says whether a key sends what was written.
export const sends = (e) => e.key === 'Enter' && !e.isComposing && !e.shiftKey && (enterSends() || e.ctrlKey || e.metaKey);
