// Every word the page says, by key, from one table a language (words/*.js); numbers, sizes and times as the language writes them.
import en from './words/en.js';
import { settings } from './settings.js';
import { signal } from './html.js';

const others = { de: () => import('./words/de.js'), zh: () => import('./words/zh.js'), ja: () => import('./words/ja.js'), ko: () => import('./words/ko.js') };
// A name with a * is of a table that no native speaker has read yet; the settings say so.
export const languages = { en: 'English', de: 'Deutsch', zh: '中文', ja: '日本語 *', ko: '한국어 *' };

let table = en;
export const language = signal('en');

function wanted() {
  const lang = settings.get().lang || navigator.language || 'en';
  return /^(?:de|zh|ja|ko)(?![a-z])/i.exec(lang)?.[0].toLowerCase() ?? 'en';
}

// speak loads the table of the language that is wanted.
export async function speak() {
  const lang = wanted();
  try {
    table = others[lang] ? (await others[lang]()).default : en;
  } catch {
    table = en; // the server went away: English is here
  }
  document.documentElement.lang = lang;
  language.set(lang);
}
settings.follow(() => { if (wanted() !== language.get()) speak(); });

// t is the text of a key, with its {holes} filled.
export function t(key, holes) {
  const text = table[key] ?? en[key] ?? key;
  return holes ? text.replace(/\{(\w+)\}/g, (whole, name) => holes[name] ?? whole) : text;
}

const notes = new Map(Object.entries(en).filter(([k]) => k.startsWith('note.')).map(([k, text]) => [text, k]));

// noted is what the server says in English, in the page's language: {text, lang}. What no table has stays English, and says so.
export function noted(text) {
  const key = notes.get(text);
  const own = key && table[key];
  return own ? { text: own, lang: language.get() } : { text, lang: 'en' };
}

// warned is a warning of the server in the page's language: {text, lang}. One that this page does not know, or whose values are not all there,
// as another version of the server may send, stays English, and says so.
export function warned(w) {
  const values = w.values ?? {};
  let all = true;
  const text = table['warn.' + w.id.replace(/ /g, '.')]?.replace(/\{(\w+)\}/g, (_, name) => {
    all &&= name in values;
    return typeof values[name] === 'number' ? number(values[name]) : values[name];
  });
  return text && all ? { text, lang: language.get() } : { text: w.text, lang: 'en' };
}

// unenforced is what the server's Warning headers of an answer say, each in the page's language where it is about a schema's keyword.
export const unenforced = (header) => header.split(/, (?=299 \S+ ")/).map((one) => {
  const said = one.replace(/^\d+ \S+ /, '').replace(/^"|"$/g, '');
  const [, place, keyword] = /^(#\S*): (\w+): /.exec(said) ?? [];
  const [, n] = /^(\d+) more keywords are not enforced/.exec(said) ?? [];
  if (keyword) return { text: t('unenforced', { keyword, place }), lang: language.get(), said };
  return n ? { text: t('unenforced.more', { n: number(n) }), lang: language.get(), said } : { text: said, lang: 'en', said };
});

const formats = new Map();
export function number(n, digits = 0) {
  const key = language.get() + digits;
  if (!formats.has(key)) formats.set(key, new Intl.NumberFormat(language.get(), { maximumFractionDigits: digits, minimumFractionDigits: digits }));
  return formats.get(key).format(Number(n));
}

// bytes as people who choose models count them.
export function bytes(n) {
  if (n == null || Number.isNaN(n)) return '–';
  for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) if (n >= size) return number(n / size, n >= 100 * size ? 0 : 1) + '\u00a0' + unit;
  return number(n) + '\u00a0B';
}

// span is a length of time in seconds.
export function span(s) {
  if (s == null || !Number.isFinite(s)) return '–';
  if (s < 1) return number(s * 1000) + '\u00a0ms';
  if (s < 10) return number(s, 1) + '\u00a0s';
  if (s < 90) return number(Math.round(s)) + '\u00a0s';
  if (s < 5400) return Math.floor(s / 60) + '\u00a0min' + (s < 600 ? ' ' + Math.round(s % 60) + '\u00a0s' : '');
  if (s < 172800) return Math.floor(s / 3600) + '\u00a0h ' + Math.round((s % 3600) / 60) + '\u00a0min';
  return t('days', { n: number(Math.round(s / 86400)) });
}

export const date = (ms) => new Date(ms).toLocaleString(language.get(), { dateStyle: 'medium', timeStyle: 'short' });
// short is a model's name as it is shown: without what goes without saying, and without marks that would turn what stands around it.
export const short = (model) => String(model || '').replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '').replace(/:latest$/, '');
