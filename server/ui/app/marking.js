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
export const spent = () => steps;

const maths = {
  name: 'maths',
  level: 'inline',
  start: (src) => {
    const at = src.match(/\$|\\[([]/)?.index;
    spend((at ?? src.length) >> 3); // this is quick
    return at;
  },
  tokenizer(src) {
    if (!/^(?:\$|\\[([])/.test(src)) return undefined;
    const m = /^\$\$[^$]+\$\$/.exec(src) ?? /^\\\([^]+?\\\)/.exec(src) ?? /^\\\[[^]+?\\\]/.exec(src) ?? /^\$(?![\s\d])(?:\\.|[^$\n\\])+?(?<!\s)\$(?!\w)/.exec(src);
    spend(m ? m[0].length : src.length);
    return m ? { type: 'maths', raw: m[0], text: m[0] } : undefined;
  },
  renderer: (token) => `<span class="maths">${escape(token.text)}</span>`,
};

// unnamed is what a picture without a name is called.
let unnamed = () => 'picture';
export const callPictures = (f) => { unnamed = f; };

const marked = new Marked({
  gfm: true,
  breaks: true,
  extensions: [maths],
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

// blocks divides text into top-level blocks, without looking into them.
export function blocks(src) {
  try {
    const l = lexer();
    const tokens = l.blockTokens(src, []);
    return { tokens, links: l.tokens.links };
  } catch {
    return { tokens: [{ type: 'paragraph', raw: src }], links: {} };
  }
}

// html is the HTML of one block's text; null: it is to be shown as it was written. links are the addresses that other blocks have defined.
export function html(type, raw, links) {
  steps = 0;
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
