// Markdown that grows. Blocks that are complete are drawn once and left alone; only the last one is drawn again when more of it comes, and a
// code block not even then: its text is added to. All markup goes through the sanitiser, in clean, and nothing an answer says is fetched: a
// picture is shown as a link to it.
import { Marked } from '../vendor/marked.js';
import purify from '../vendor/purify.js';
import { Code } from './code.js';
import { t } from './words.js';

const kept = {
  ALLOWED_TAGS: ['a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'ins', 'kbd', 'li', 'mark', 'ol', 'p', 'pre', 's', 'small',
    'span', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'u', 'ul'],
  ALLOWED_ATTR: ['align', 'class', 'href', 'start'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

// clean makes nodes of HTML, of what is harmless in it.
export const clean = (text) => purify.sanitize(text, kept);

const escape = (s) => String(s ?? '').replace(/[&<>"']/g, (c) => '&#' + c.charCodeAt(0) + ';');
const safe = (href) => /^(?:https?:\/\/|mailto:)/i.test(href ?? '');
// tags a model may write itself, without attributes; all others are shown as they were written
const bare = /^<\/?(?:b|br|del|em|i|ins|kbd|mark|s|small|strong|sub|sup|u)\s*\/?>$/i;

const maths = {
  name: 'maths',
  level: 'inline',
  start: (src) => src.match(/\$|\\[([]/)?.index,
  tokenizer(src) {
    const m = /^\$\$[^$]+\$\$/.exec(src) ?? /^\\\([^]+?\\\)/.exec(src) ?? /^\\\[[^]+?\\\]/.exec(src) ?? /^\$(?![\s\d])(?:\\.|[^$\n\\])+?(?<!\s)\$(?!\w)/.exec(src);
    return m ? { type: 'maths', raw: m[0], text: m[0] } : undefined;
  },
  renderer: (token) => `<span class="maths">${escape(token.text)}</span>`,
};

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
    image: ({ href, text }) => (safe(href) ? `<a class="picture" href="${escape(href)}">${escape(text || href)}</a>` : `<span class="picture">${escape(text || t('picture'))}</span>`),
    code: ({ text, lang }) => `<pre class="lang-${escape((lang || '').split(/\s/)[0])}"><code>${escape(text)}</code></pre>`,
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
  },
});

// dress finishes nodes after they were cleaned: links that leave, code with its head, tables that scroll by themselves.
function dress(frag) {
  for (const a of frag.querySelectorAll('a[href]')) {
    a.target = '_blank';
    a.rel = 'noopener noreferrer nofollow';
    a.title = a.href;
  }
  for (const pre of frag.querySelectorAll('pre')) {
    const code = new Code((/lang-(\S+)/.exec(pre.className) ?? [])[1], clean);
    code.add(pre.textContent);
    code.end();
    pre.replaceWith(code.el);
  }
  for (const table of frag.querySelectorAll('table')) {
    const box = document.createElement('div');
    box.className = 'table';
    box.tabIndex = 0;
    table.replaceWith(box);
    box.append(table);
  }
  return frag;
}

// What is larger, or nested deeper, is shown as it was written: no reader would wait for its markup.
const longest = 60000, longestText = 12000;
const deep = /^(?: {0,3}(?:[-*+>]|\d{1,9}[.)]) ?){24}/m;

// blocks divides text into top-level blocks, without looking into them.
function blocks(src) {
  try {
    const lexer = new marked.Lexer(marked.defaults);
    const tokens = lexer.blockTokens(src, []);
    return { tokens, links: lexer.tokens.links };
  } catch {
    return { tokens: [{ type: 'paragraph', raw: src }], links: {} };
  }
}

// drawn makes nodes of one block's text. links are the addresses that other blocks have defined.
function drawn(type, raw, links) {
  const text = type === 'paragraph' || type === 'heading' || type === 'text';
  if (raw.length <= (text ? longestText : longest) && !deep.test(raw)) {
    try {
      const lexer = new marked.Lexer(marked.defaults);
      Object.assign(lexer.tokens.links, links);
      return dress(clean(marked.parser(lexer.lex(raw))));
    } catch { /* nobody's Markdown: shown as it is */ }
  }
  const pre = document.createElement('div');
  pre.className = 'as-is';
  pre.textContent = raw;
  return pre;
}

// what is nothing but words, whatever stands before it, in a line that has begun; addresses are not
const plain = /[\p{L}\p{M}\p{N} ,;’“”„–—?%…。，、！？：；]+/uy;
const more = /[\p{L}\p{M}\p{N} ,;.:!?'"()’“”„–—%…。，、！？：；-]+/uy; // and where nothing is open that one of these could close
const lead = /^ {0,3}(?:[-*+] +|\d+[.)] +|#{1,6} +|> *)*/;
const begun = new RegExp(lead.source + '(?:\\*\\*?|`)?[\\p{L}\\p{M}“„(]{2}', 'u');
const linked = /www|[/@&]/i;
const letter = /[\p{L}\p{N}]/u;
const signs = { '**': 'strong', '*': 'em', '`': 'code' };
const sign = /\*\*?|`/y;

// dangling is the sign that has opened something in the last line that is not closed yet; ''.
function dangling(text) {
  const line = text.slice(text.lastIndexOf('\n') + 1).replace(lead, '').replace(/`[^`]+`/g, '');
  const m = /(?<![*`\\])(\*\*?|`)(?=[\p{L}\p{N}])[^*`]*$/u.exec(line);
  return m && !/[*`]/.test(line.slice(0, m.index).replace(/(\*\*?)[^*]+\1/g, '')) ? m[1] : '';
}

// patch gives an element other children, and leaves those alone that stay as they were.
function patch(el, made) {
  let old = el.firstChild;
  for (let next = made.firstChild; next;) {
    const node = next, had = old;
    next = node.nextSibling;
    old = had?.nextSibling;
    if (!had) el.append(node);
    else if (had.isEqualNode(node)) continue;
    else if (had.nodeType === 3 && node.nodeType === 3) had.data = node.data;
    else if (had.nodeType === 1 && !had.source && had.cloneNode().isEqualNode(node.cloneNode())) patch(had, node);
    else had.replaceWith(node);
  }
  while (old) {
    const next = old.nextSibling;
    old.remove();
    old = next;
  }
}

// leafOf is the text that a block ends with; null where it does not end with one.
function leafOf(el) {
  const walk = document.createTreeWalker(el, NodeFilter.SHOW_ALL);
  let leaf = walk.lastChild();
  for (let next = leaf; next; next = walk.lastChild()) leaf = next;
  // white space between blocks is passed over: it belongs to no line
  while (leaf?.nodeType === 3 && !leaf.data.trim()) leaf = walk.previousNode();
  if (leaf && leaf.nodeType !== 3) leaf = leaf.lastChild;
  return leaf?.nodeType === 3 ? leaf : null;
}
const lineOf = (leaf) => (/^(?:STRONG|EM|CODE)$/.test(leaf.parentNode.nodeName) ? leaf.parentNode.parentNode : leaf.parentNode);

const opens = /^( {0,3})(`{3,}|~{3,})([^\n`]*)\n/;

// Flow draws one growing text into an element.
export class Flow {
  constructor(el) {
    this.el = el;
    this.reset();
  }

  reset() {
    this.src = '';
    this.at = 0; // where the last block begins
    this.tail = null;
    this.drawn = null;
    this.links = {};
    this.due = 0;
    this.whole = null; // the complete lines of it that were looked at
    this.fence = null; // the code block that is open: {code, mark, from, indent}
    this.sign = ''; // what is open in the last line, and drawn as if it were closed already
    this.risky = false; // the last block has something that a bracket or a quote could close
    this.el.replaceChildren();
  }

  // set shows the text; ended: no more comes.
  set(text, ended) {
    text = text.replace(/\r\n?/g, '\n');
    if (!text.startsWith(this.src)) this.reset();
    this.src = text;
    for (let n = 0; n < 100000; n++) if (!(this.fence ? this.inFence(ended) : this.settle(ended))) break;
  }

  box() {
    const el = document.createElement('div');
    el.className = 'block';
    el.dir = 'auto';
    return el;
  }

  // settle draws what is complete for good, and the rest for now. true: a code block opened.
  settle(ended) {
    const rest = this.src.slice(this.at);
    const whole = ended ? rest : rest.slice(0, rest.lastIndexOf('\n') + 1);
    if (!ended && this.tail && whole === this.whole && this.append(rest)) return false;
    this.whole = whole;
    const open = opens.exec(whole);
    if (open) {
      this.drop();
      const code = new Code(open[3], clean);
      this.el.append(code.el);
      this.fence = { code, mark: open[2], indent: open[1].length, from: this.at + open[0].length, shown: 0 };
      return true;
    }
    const { tokens, links } = blocks(whole);
    Object.assign(this.links, links);
    let last = tokens.length - 1;
    while (last >= 0 && tokens[last].type === 'space') last--;
    let done = ended ? tokens.length : Math.max(last, 0);
    // what follows an opening fence belongs to the fence's own way
    const fence = tokens.findIndex((x) => x.type === 'code' && opens.test(x.raw));
    if (fence >= 0) done = Math.min(done, fence);
    let moved = false;
    if (done > 0) {
      const raw = tokens.slice(0, done).map((x) => x.raw).join('');
      if (rest.startsWith(raw)) {
        for (const token of tokens.slice(0, done)) {
          if (token.type === 'space' || token.type === 'def') continue;
          const box = this.box();
          box.append(drawn(token.type, token.raw, this.links));
          this.settled(box);
        }
        this.at += raw.length;
        if (!this.src.slice(this.at).trim()) this.drop();
        moved = raw.length > 0;
      }
    }
    if (fence >= 0 && moved) return true;
    const left = this.src.slice(this.at);
    const now = performance.now();
    if (left === this.drawn || (!ended && this.tail && now < this.due)) return false;
    this.drawn = left;
    if (!left.trim()) return false;
    if (!this.tail) {
      this.tail = this.box();
      this.el.append(this.tail);
    }
    const kind = tokens[Math.max(last, 0)]?.type ?? 'paragraph';
    this.sign = dangling(left);
    patch(this.tail, drawn(kind, this.sign ? (this.sign === '`' ? left : left.trimEnd()) + this.sign : left, this.links));
    if (this.sign && leafOf(this.tail)?.parentNode.localName !== signs[this.sign]) { // it opened nothing
      this.sign = '';
      patch(this.tail, drawn(kind, left, this.links));
    }
    this.risky = /[[<\\$]/.test(left) || /[*`]/.test(this.tail.textContent);
    const took = performance.now() - now;
    this.due = took > 6 ? now + 6 * took : 0; // a block that is dear is drawn less often
    return false;
  }

  // settled makes the last block complete, and leaves what is drawn of it; what was drawn after it is the last one then.
  settled(box) {
    const done = this.tail;
    if (!done) {
      this.el.append(box);
      return;
    }
    const over = [...done.childNodes].slice(box.childNodes.length);
    this.tail = this.box();
    this.tail.append(...over);
    this.drawn = '';
    done.normalize();
    patch(done, box);
    this.el.append(this.tail);
  }

  // append adds to the last line what needs no reading as Markdown there: words, and pieces that are bold, slanted or code; most of what comes
  // is that. A sign that what follows may change waits for it. false: it has to be read as Markdown.
  append(rest) {
    if (!rest.startsWith(this.drawn)) return false;
    const text = rest.slice(this.drawn.length);
    if (!text) return true;
    const line = this.drawn.slice(this.drawn.lastIndexOf('\n') + 1);
    const word = line.slice(line.lastIndexOf(' ') + 1);
    if (!begun.test(line) || linked.test(word) || /www\./i.test(word + text) || (/[*`]$/.test(line) && letter.test(text[0]))) return false;
    const pieces = []; // [the sign it stands in, text, whether it begins there]
    const words = this.risky ? plain : more;
    let open = this.sign, fresh = false, before = line.slice(-1), at = 0;
    const add = (piece) => {
      pieces.push([open, piece, fresh]);
      fresh = false;
      at += piece.length;
      before = piece.slice(-1);
    };
    while (at < text.length) {
      if (open === '`') {
        const end = text.indexOf('`', at);
        const code = text.slice(at, end < 0 ? undefined : end);
        if (code.includes('\n')) return false;
        if (code) add(code);
        if (end < 0) break;
      } else {
        words.lastIndex = at;
        const found = words.exec(text)?.[0];
        if (found) {
          add(found);
          continue;
        }
      }
      sign.lastIndex = at;
      const mark = sign.exec(text)?.[0];
      if (!mark || this.risky) return false;
      const after = text[at + mark.length];
      if (after === undefined) break; // what follows decides
      if (after === '*' || after === '`' || (open && mark !== open)) return false;
      if (open) {
        if (open !== '`' && (before === ' ' || (letter.test(after) && !letter.test(before)))) return false;
        open = '';
      } else {
        if (!letter.test(after) || /[*`\\]/.test(before)) return false;
        open = mark;
        fresh = true;
      }
      at += mark.length;
      before = mark;
    }
    return this.put(pieces, text.slice(0, at), open);
  }

  // put draws what append has found. false: the last line is not there as it should be.
  put(pieces, all, open) {
    const leaf = leafOf(this.tail);
    if (!leaf) return false;
    const line = lineOf(leaf);
    if (!/^(?:P|LI|H\d)$/.test(line.nodeName) || (this.sign && leaf.parentNode.localName !== signs[this.sign])) return false;
    let into = this.sign ? leaf.parentNode : line;
    const space = /[ \t]*$/.exec(this.drawn)[0]; // where nothing followed it, it was not drawn
    const write = (el, text) => {
      if (!text) return;
      if (el.lastChild?.nodeType === 3) el.lastChild.appendData(text);
      else el.append(text);
    };
    if (!into.lastChild.textContent.endsWith(space)) write(into, space);
    for (const [mark, text, fresh] of pieces) {
      if (fresh) {
        into = document.createElement(signs[mark]);
        line.append(into);
      } else if (!mark) into = line;
      write(into, text);
    }
    this.sign = open;
    this.drawn += all;
    return true;
  }

  drop() {
    this.tail?.remove();
    this.tail = null;
    this.drawn = null;
    this.sign = '';
  }

  // inFence adds to the open code block. true: it was closed. from is where the line that grows begins, shown how much of it is there already.
  inFence(ended) {
    const f = this.fence;
    const rest = this.src.slice(f.from);
    for (let at = 0; ;) {
      const nl = rest.indexOf('\n', at);
      const line = rest.slice(at, nl < 0 ? undefined : nl).trim();
      const marks = line === f.mark[0].repeat(line.length);
      const closes = marks && line.length >= f.mark.length;
      if (closes && (nl >= 0 || ended)) {
        f.code.add(this.outdent(rest.slice(f.shown, at), f));
        f.code.text = f.code.text.replace(/\n$/, '');
        f.code.end();
        this.fence = null;
        this.at = nl < 0 ? this.src.length : f.from + nl + 1;
        this.drawn = null;
        return true;
      }
      if (nl >= 0) {
        at = nl + 1;
        continue;
      }
      const until = marks && !ended ? at : rest.length; // what may become the closing line waits
      f.code.add(this.outdent(rest.slice(f.shown, until), f));
      f.from += at;
      f.shown = until - at;
      if (ended) {
        f.code.end();
        this.fence = null;
        this.at = this.src.length;
      } else f.code.glance(performance.now());
      return false;
    }
  }

  outdent(text, f) {
    return f.indent ? text.replace(new RegExp(`^ {1,${f.indent}}`, 'gm'), '') : text;
  }
}
