// Texts that go with a question and are too long to stand in it: what was pasted, and files. Each is {name, text, size}. They are kept with the
// turn, shown as their name, size and first line, and sent before the words, as a code block each.
import { Code } from './code.js';
import { Modal } from './dialog.js';
import { html, useLayoutEffect, useRef, useState } from './html.js';
import { Button, Icon } from './icons.js';
import { spoken } from './passages.js';
import { bytes, number, t } from './words.js';

export const large = 20000; // characters that are pasted as a piece: browsers take long to lay out more, and it is not read in a field
export const mostText = 4 << 20; // bytes of text that the server takes in one request
const shown = 200000; // characters that are shown when one looks at it

export const made = (name, text) => ({ name, text, size: new Blob([text]).size });

// pasted is a piece with a name that the others do not have.
export function pasted(text, others) {
  let name = t('piece.pasted');
  for (let n = 2; others.some((p) => p.name === name); n++) name = t('piece.pasted') + ' ' + n;
  return made(name, text);
}

const ending = (name) => (/\.(\w{1,12})$/.exec(name) ?? [])[1]?.toLowerCase() ?? '';

function fenced({ name, text }) {
  const mark = '`'.repeat(Math.max(3, ...[...text.matchAll(/`{3,}/g)].map((m) => m[0].length + 1)));
  return `${name}:\n${mark}${ending(name)}\n${text.replace(/\n$/, '')}\n${mark}`;
}

// said is all that a question says to the model.
export const said = (x) => [...(x.pieces ?? []).map(fenced), spoken(x.passages), x.text].filter(Boolean).join('\n\n');

// size is about how many bytes a text has: exactly, where it could matter.
export const size = (text) => (text.length * 3 < mostText / 8 ? text.length : new Blob([text]).size);

// tokens is about how many tokens a text becomes; the server alone knows.
export function tokens(text) {
  const part = text.slice(0, 20000);
  const wide = part.replace(/[\0-\u02ff]/g, '').length;
  return Math.round(((part.length - wide) / 4 + wide / 1.5) * (text.length / (part.length || 1)));
}

const texty = (f) => /^text\/|json|xml|javascript/.test(f.type);

// read makes a piece of a file. What is no text in UTF-8, UTF-16 or, where its kind says that it is text, Western Europe's old encoding, is
// refused in words.
export async function read(file) {
  if (file.size > mostText) throw new Error(t('file.large', { name: file.name, most: bytes(mostText) }));
  const b = new Uint8Array(await file.arrayBuffer());
  const wide = b[0] === 0xff && b[1] === 0xfe ? 'utf-16le' : b[0] === 0xfe && b[1] === 0xff ? 'utf-16be' : '';
  let text;
  try {
    text = new TextDecoder(wide || 'utf-8', { fatal: true }).decode(b);
  } catch {
    if (texty(file)) text = new TextDecoder('windows-1252').decode(b);
  }
  if (text === undefined || text.includes('\0')) throw new Error(t('file.kind', { name: file.name }));
  return made(file.name, text.replace(/\r\n?/g, '\n'));
}

// checked is what a file of conversations says of its pieces, as far as it can be one.
export const checked = (list) => list.filter((p) => typeof p?.name === 'string' && typeof p.text === 'string').map((p) => made(p.name.slice(0, 300), p.text));

const firstLine = (text) => (/\S.*/.exec(text.slice(0, 4000)) ?? [''])[0].slice(0, 120);

function Look({ piece, close }) {
  const el = useRef();
  useLayoutEffect(() => {
    const code = new Code(ending(piece.name));
    code.text = piece.text; // what is copied is all of it
    const part = piece.text.slice(0, shown);
    code.add(part);
    code.text = piece.text;
    el.current.replaceChildren(code.el);
    if (part.length === piece.text.length) code.end();
  }, [piece]);
  return html`<${Modal} wide title=${piece.name} close=${close}><p class="dim small">${facts(piece)}${piece.text.length > shown && ' · ' + t('piece.part', { n: number(shown) })}</p><div ref=${el} class="md looked"></div><//>`;
}

const lines = (text) => {
  let n = 1;
  for (let at = text.indexOf('\n'); at >= 0 && at < text.length - 1; at = text.indexOf('\n', at + 1)) n++;
  return n;
};
const counted = new WeakMap();
function facts(p) {
  if (!counted.has(p)) counted.set(p, lines(p.text));
  const n = counted.get(p);
  return bytes(p.size) + ' · ' + (n === 1 ? t('piece.line') : t('piece.lines', { n: number(n) }));
}

// Pieces lists them. drop and open, where they are given, take one out, and put one into the field.
export function Pieces({ list, drop, open }) {
  const [looking, look] = useState(null);
  if (!list?.length) return null;
  return html`<ul class="pieces" aria-label=${t('pieces')}>${list.map((p, i) => html`<li key=${i + p.name}><button type="button" class="piece" aria-label=${t('piece.look', { name: p.name }) + ', ' + facts(p)}
    onClick=${() => look(p)}><${Icon} name="text" size="20" /><span><b dir="auto">${p.name}</b><small>${facts(p)}</small><small class="line" dir="auto">${firstLine(p.text)}</small></span></button>${
    open && html`<${Button} icon="down" class="into" label=${t('piece.into', { name: p.name })} onClick=${() => open(i)} />`}${
    drop && html`<${Button} icon="close" class="drop" label=${t('piece.remove', { name: p.name })} onClick=${() => drop(i)} />`}</li>`)}</ul>
    ${looking && html`<${Look} piece=${looking} close=${() => look(null)} />`}`;
}
