// Markdown to HTML, within a number of steps. Reading Markdown takes time that grows with the square of a text, or its cube, where signs open
// what nothing closes; a text that would take too many steps is shown as it was written. No document is needed here: TestMarkdownSteps
// runs it by itself.
import { Marked } from '../vendor/marked.js';

export const escape = (s) => String(s ?? '').replace(/[&<>"']/g, (c) => '&#' + c.charCodeAt(0) + ';');
const safe = (href) => /^(?:https?:\/\/|mailto:)/i.test(href ?? '');
// tags a model may write itself, without attributes; all others are shown as they were written
const bare = /^<\/?(?:b|br|del|em|i|ins|kbd|mark|s|small|strong|sub|sup|u)\s*\/?>$/i;

// What is larger, nested deeper, or takes more steps is shown as it was written: no reader would wait for its markup.
const longest = 60000, longestText = 12000;
const deep = /^(?: {0,3}(?:[-*+>]|\d{1,9}[.)]) ?){24}/m;
//rule:T21 ./server/ui TestMarkdownSteps 600000 => 60000000
export const mostSteps = 600000; // characters looked at, and 60 for each token; a page of ordinary Markdown takes some thousands
const token = 60;
const mostElements = 2500; // that one block may become

let steps = 0;
function spend(n) {
  steps += n;
  if (steps > mostSteps) throw new Error('too many steps');
}
// spent is how many steps the last text took.
export const spent = () => steps + 30 * formulas;

// Formulas: \( \), \[ \], $$ $$, and $ $ by rules that leave prices alone. typeset says how many elements a formula becomes: its place is left empty
// here. null: its source is shown. It comes with app/formula.js, once a formula is there.
let typeset = () => null;
export const typesetting = (f) => { typeset = f; };
const mostInFormulas = 12000; // elements of one block's formulas; those beyond are shown as their source
let growing = false; // the text is the last one of an answer that grows: what is open may still be closed
let formulas = 0; // elements of the block's formulas
const formula = (source) => {
  const made = formulas < mostInFormulas ? typeset(source) : null;
  formulas += made?.n ?? 0;
  const wide = source.startsWith('$$') || source.startsWith('\\[');
  return `<span class="maths${wide ? ' wide' : source.length > 60 ? ' long' : ''}${made ? '' : ' source'}" data-tex="${escape(source)}">${made ? '' : escape(source)}</span>`;
};

const signs = /(?<![A-Za-z\d$\\])\$|\\[([]/;
// between two single $: no space at its ends, no digit or letter after. What begins with a digit, as a price does, has to have a sign of TeX, or no space.
const single = /^\$(?!\s)((?:\\.|[^$\n\\])+?)(?<!\s)\$(?!\w)/;
const isPrice = (tex) => /^\d/.test(tex) && (/\s/.test(tex) ? !/[\\^_={]/.test(tex) : /[-–/,.]$/.test(tex));
// what stands between escaped brackets may be words
const isWords = (tex) => !/[\\^_=+<>{}/\n]|^\s*[A-Za-z]\s*$/.test(tex);
function inline(src) {
  const m = /^\$\$(?:\\.|[^$\\])+\$\$/s.exec(src) ?? /^\\\([^]+?\\\)/.exec(src);
  if (m) return m[0];
  const bracket = /^\\\[([^]+?)\\\](?!\()/.exec(src);
  if (bracket) return isWords(bracket[1]) ? '' : bracket[0];
  const dollar = single.exec(src);
  return dollar && !isPrice(dollar[1]) ? dollar[0] : '';
}
const opened = /^(?:\\[([]|\$\$|\$(?=[^\s\d$])(?=[^$\n]*[\\^_{])[^$\n]*$)/;

const maths = {
  name: 'maths',
  level: 'inline',
  start: (src) => {
    const at = src.match(signs)?.index;
    spend((at ?? src.length) >> 3); // this is quick
    return at;
  },
  tokenizer(src) {
    if (!/^(?:\$|\\[([])/.test(src)) return undefined;
    const raw = inline(src);
    spend(raw ? raw.length : src.length);
    if (raw) return { type: 'maths', raw, text: raw };
    return growing && opened.test(src) ? { type: 'maths', raw: src, text: src, open: true } : undefined;
  },
  renderer: (token) => (token.open ? escape(token.text).replace(/\n/g, '<br>') : formula(token.text)),
};

// A formula that begins a line is a block of its own: its lines are no lists, quotes or headings, whatever they begin with.
const wide = {
  name: 'formula',
  level: 'block',
  start: (src) => {
    const at = src.match(/\n {0,3}(?:\$\$|\\\[)/)?.index;
    spend((at ?? src.length) >> 3);
    return at === undefined ? undefined : at + 1;
  },
  tokenizer(src) {
    const begin = /^ {0,3}(\$\$|\\\[)/.exec(src);
    if (!begin) return undefined;
    const gap = /\n[ \t]*\n/.exec(src)?.index;
    const text = src.slice(0, gap);
    const from = begin[0].length;
    const close = begin[1] === '$$' ? '$$' : '\\]';
    const end = text.indexOf(close, from);
    spend(text.length);
    if (end < 0) return growing && gap === undefined ? { type: 'formula', raw: src, text: src, open: true } : undefined;
    const rest = /^([.,;:]?)[ \t]*(?:\n|$)/.exec(src.slice(end + 2));
    if (!rest) return undefined;
    const source = src.slice(from - 2, end + 2);
    if (!source.slice(2, -2).trim() || (close === '\\]' && isWords(source.slice(2, -2)))) return undefined;
    return { type: 'formula', raw: src.slice(0, end + 2 + rest[0].length), text: source, mark: rest[1] };
  },
  renderer: (token) => (token.open ? `<p>${escape(token.text).replace(/\n/g, '<br>')}</p>` : `<p>${formula(token.text)}${token.mark}</p>`),
};

// unnamed is what a picture without a name is called.
let unnamed = () => 'picture';
export const callPictures = (f) => { unnamed = f; };

const marked = new Marked({
  gfm: true,
  breaks: true,
  extensions: [wide, maths],
  renderer: {
    html: ({ text, raw }) => (bare.test((raw ?? text).trim()) ? text : escape(raw ?? text).replace(/\n/g, '<br>')),
    heading({ tokens, depth }) { return `<h${Math.min(depth + 2, 6)} class="d${depth}">${this.parser.parseInline(tokens)}</h${Math.min(depth + 2, 6)}>`; },
    link({ href, tokens }) {
      const inner = this.parser.parseInline(tokens);
      return safe(href) ? `<a href="${escape(href)}">${inner}</a>` : inner + (href ? ` <code>${escape(href.slice(0, 200))}</code>` : '');
    },
    image: ({ href, text }) => (safe(href) ? `<a class="picture" href="${escape(href)}">${escape(text || href)}</a>` : `<span class="picture">${escape(text || unnamed())}</span>`),
    code: ({ text, lang }) => `<pre class="lang-${escape((lang || '').split(/\s/)[0])}"><code>${escape(text)}</code></pre>`,
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
});

// Counting: what begins with a sign is looked at as far as it reaches, and to the end where nothing closes it.
class Reader extends marked.Tokenizer {}
const begins = {
  emStrong: /^[*_]/, link: /^!?\[/, reflink: /^!?\[/, codespan: /^`/, del: /^~/, tag: /^</, autolink: /^</, escape: /^\\/, url: /^(?:https?:|ftp:|www\.|[\w.+-]+@)/i,
  html: /^ {0,3}</, fences: /^ {0,3}[`~]/, def: /^ {0,3}\[/, list: /^ {0,3}(?:[*+-]|\d)/, blockquote: /^ {0,3}>/, table: /^[^\n]*\|/, lheading: /^[^\n]/, text: /^/, inlineText: /^/, br: /^ *\n/, heading: /^ {0,3}#/, hr: /^ {0,3}[-*_]/, paragraph: /^/, space: /^\n/, code: /^ {4}/,
};
const plain = new Set(['lheading', 'table', 'text', 'inlineText', 'br', 'heading', 'hr', 'paragraph', 'space', 'code']); // these look no further than their line
for (const [name, sign] of Object.entries(begins)) {
  const read = marked.Tokenizer.prototype[name];
  if (!read) continue;
  Reader.prototype[name] = function counted(src, ...more) {
    const found = read.call(this, src, ...more);
    if (found) spend(token + found.raw.length);
    else if (sign.test(src)) spend(plain.has(name) ? 1 : src.length);
    return found;
  };
}
class Lexer extends marked.Lexer {
  inlineTokens(src, tokens) {
    if (src.length > longestText || / {200}/.test(src)) throw new Error('too long a text, or a gap');
    spend(token + src.length);
    return super.inlineTokens(src, tokens);
  }

  blockTokens(src, tokens, last) {
    spend(token + src.length);
    return super.blockTokens(src, tokens, last);
  }
}
const lexer = () => {
  steps = 0;
  return new Lexer({ ...marked.defaults, tokenizer: new Reader(marked.defaults) });
};

// blocks divides text into top-level blocks, without looking into them. grows: more of it comes.
export function blocks(src, grows = false) {
  growing = grows;
  try {
    const l = lexer();
    const tokens = l.blockTokens(src, []);
    return { tokens, links: l.tokens.links };
  } catch {
    return { tokens: [{ type: 'paragraph', raw: src }], links: {} };
  }
}

// html is the HTML of one block's text; null: it is to be shown as it was written. links are the addresses that other blocks have defined; grows:
// more of the text comes.
export function html(type, raw, links, grows = false) {
  steps = 0;
  formulas = 0;
  growing = grows;
  const text = type === 'paragraph' || type === 'heading' || type === 'text';
  if (raw.length > (text ? longestText : longest) || deep.test(raw)) return null;
  try {
    const l = lexer();
    Object.assign(l.tokens.links, links);
    const made = marked.parser(l.lex(raw));
    let n = 0;
    for (let at = made.indexOf('<'); at >= 0; at = made.indexOf('<', at + 1)) n++;
    return n > 2 * mostElements ? null : made;
  } catch {
    return null; // it is no Markdown that anyone writes
  }
}
