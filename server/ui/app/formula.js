// TeX to MathML, within limits. It is loaded with temml when an answer first has a formula. No document is needed here: TestFormulas runs it
// by itself. What it gives still passes the sanitiser, in clean of app/markdown.js.
import temml from '../vendor/temml.js';

// A formula that is longer, nested deeper or becomes more is shown as its source: a browser lays out deep MathML slowly.
export const mostTeX = 4000, mostDepth = 40, mostExpansions = 300, mostElements = 4000;

// What defines, repeats or leaves the formula is no part of one: a definition can double what it stands for with each line.
const foreign = /\\(?:[gex]?def|let|futurelet|global|long|(?:re)?new(?:command|environment)|providecommand|DeclareMathOperator|csname|expandafter|noexpand|href|url|includegraphics|class|id|style|data|toggle|endtoggle|texttip|mathtip|label|e?ref)(?![a-zA-Z])/;

// bare is the TeX between its signs, and whether it stands in a line of its own.
export function bare(source) {
  const wide = source.startsWith('$$') || source.startsWith('\\[');
  const signs = source.startsWith('$') && !wide ? 1 : 2;
  return { tex: source.slice(signs, -signs).trim(), wide };
}

// deepest is how deep groups are nested in a TeX, counted before anything is read.
function deepest(tex) {
  let depth = 0, most = 0;
  for (const [sign] of tex.matchAll(/\\(?:left|begin|end|right)(?![a-zA-Z])|\\.|[{}]/gs)) {
    if (sign === '{' || sign === '\\left' || sign === '\\begin') most = Math.max(most, ++depth);
    else if (sign === '}' || sign === '\\right' || sign === '\\end') depth--;
  }
  return most;
}

// layers is how deep elements are nested in markup, and how many there are.
function layers(markup) {
  let depth = 0, most = 0, n = 0;
  for (let at = markup.indexOf('<'); at >= 0; at = markup.indexOf('<', at + 1)) {
    if (markup[at + 1] === '/') depth--;
    else {
      n++;
      most = Math.max(most, ++depth);
    }
  }
  return { depth: most, n };
}

// The page's policy forbids style attributes: what they say that matters is a class here (style/markdown.css), and the rest, colours and sizes
// a text chose, is dropped.
const said = [
  [/(?:^|;)padding-left:0(?:em|pt)?;/, 'f-start'], [/(?:^|;)padding-right:0(?:em|pt)?;/, 'f-end'], [/(?:^|;)padding-left:[12]em;/, 'f-apart'],
  [/(?:^|;)border-left:/, 'f-left'], [/(?:^|;)border-right:/, 'f-right'], [/(?:^|;)border-top:/, 'f-top'], [/(?:^|;)border-bottom:/, 'f-bottom'],
  [/(?:^|;)border:/, 'f-box'], [/(?:^|;)font-weight:bold/, 'f-bold'], [/(?:^|;)math-depth:0/, 'f-accent'], [/(?:^|;)text-align:left/, 'tml-left'],
  [/(?:^|;)width:(?:100|50)%/, 'f-wide'], [/(?:^|;)margin-left:-/, 'f-back'],
];
const plain = (markup) => markup.replace(/<(\w+)([^>]*)>/g, (whole, name, attributes) => {
  const style = / style="([^"]*)"/.exec(attributes);
  if (!style) return whole;
  const more = said.filter(([what]) => what.test(style[1])).map(([, as]) => as).join(' ');
  attributes = attributes.replace(style[0], '');
  if (!more) return `<${name}${attributes}>`;
  const had = / class="([^"]*)"/.exec(attributes);
  return had ? `<${name}${attributes.replace(had[0], ` class="${had[1]} ${more}"`)}>` : `<${name}${attributes} class="${more}">`;
});

const kept = new Map(); // by source: an answer that grows asks for the same ones again
const mostKept = 400;

// mathml is a formula's markup, and how many elements it has; null: its source is shown, since it is no TeX or beyond a limit.
export function mathml(source) {
  if (kept.has(source)) return kept.get(source);
  const made = make(source);
  if (kept.size >= mostKept) kept.delete(kept.keys().next().value);
  kept.set(source, made);
  return made;
}

function make(source) {
  const { tex, wide } = bare(source);
  if (!tex || tex.length > mostTeX || foreign.test(tex) || deepest(tex) > mostDepth) return null;
  try {
    const markup = temml.renderToString(tex, { displayMode: wide, throwOnError: true, maxExpand: mostExpansions, maxSize: [20, 20], trust: false });
    const { depth, n } = layers(markup);
    return n > mostElements || depth > 3 * mostDepth ? null : { markup: plain(markup), n };
  } catch {
    return null; // it is no TeX, or none of what can be shown
  }
}

// What is copied of a text with formulas has their TeX.
globalThis.document?.addEventListener('copy', (e) => {
  const chosen = document.getSelection();
  if (!e.clipboardData || !chosen?.rangeCount || chosen.isCollapsed) return;
  const box = document.createElement('div');
  box.className = 'md offscreen';
  for (let i = 0; i < chosen.rangeCount; i++) {
    const range = chosen.getRangeAt(i).cloneRange();
    // one end in a formula takes all of it
    const of = (node) => (node.nodeType === 1 ? node : node.parentElement)?.closest('.maths');
    const [from, to] = [of(range.startContainer), of(range.endContainer)];
    if (from) range.setStartBefore(from);
    if (to) range.setEndAfter(to);
    box.append(range.cloneContents());
  }
  const formulas = box.querySelectorAll('.maths[data-tex]');
  if (!formulas.length) return;
  for (const f of formulas) f.replaceWith(f.dataset.tex);
  for (const b of box.querySelectorAll('button')) b.remove();
  document.body.append(box); // lines are where a browser lays them out
  e.clipboardData.setData('text/plain', box.innerText);
  box.remove();
  e.preventDefault();
});
