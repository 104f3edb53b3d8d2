// Markdown that grows. Blocks that are complete are drawn once and left alone; only the last one is drawn again when more of it comes, and a
// code block not even then: its text is added to. All markup goes through the sanitiser, in clean, and nothing an answer says is fetched: a
// picture is shown as a link to it.
import purify from '../vendor/purify.js';
import { Code } from './code.js';
import { el } from './html.js';
import { blocks, callPictures, html, spent, typesetting } from './marking.js';
import { t } from './words.js';

callPictures(() => t('picture'));

// what formulas are made of, and the attributes these may have; none of them holds an address or a style
const inFormulas = ['math', 'menclose', 'mfrac', 'mi', 'mmultiscripts', 'mn', 'mo', 'mover', 'mpadded', 'mphantom', 'mprescripts', 'mroot', 'mrow', 'mspace', 'msqrt',
  'mstyle', 'msub', 'msubsup', 'msup', 'mtable', 'mtd', 'mtext', 'mtr', 'munder', 'munderover'];
const ofFormulas = new Set(['class', 'columnspan', 'depth', 'display', 'displaystyle', 'fence', 'form', 'height', 'linethickness', 'lspace', 'mathvariant', 'maxsize', 'minsize',
  'movablelimits', 'notation', 'rowspan', 'rspace', 'scriptlevel', 'separator', 'stretchy', 'symmetric', 'voffset', 'width']);
const ofText = ['align', 'class', 'data-tex', 'href', 'start'];
purify.addHook('uponSanitizeAttribute', (node, a) => {
  if (node.namespaceURI.endsWith('MathML') ? !ofFormulas.has(a.attrName) : !ofText.includes(a.attrName)) a.keepAttr = false;
});

const kept = {
  ALLOWED_TAGS: [...inFormulas, 'a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'ins', 'kbd', 'li', 'mark', 'ol', 'p', 'pre', 's', 'small',
    'span', 'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'u', 'ul'],
  ALLOWED_ATTR: [...ofText, ...ofFormulas],
  ADD_URI_SAFE_ATTR: [...ofFormulas, 'align', 'data-tex', 'start'],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

// clean makes nodes of HTML, of what is harmless in it.
const clean = (text) => purify.sanitize(text, kept);

// fill puts a formula into its place. Its markup is cleaned once and copied from then on: a block that grows asks for it with every word.
function fill(place, made) {
  made.nodes ??= clean(made.markup);
  place.append(document.importNode(made.nodes, true));
}

// dress finishes nodes after they were cleaned: links that leave, code with its head, tables that scroll by themselves.
function dress(frag) {
  for (const a of frag.querySelectorAll('a[href]')) Object.assign(a, { target: '_blank', rel: 'noopener noreferrer nofollow', title: a.href });
  for (const pre of frag.querySelectorAll('pre')) {
    const code = new Code((/lang-(\S+)/.exec(pre.className) ?? [])[1]);
    code.add(pre.textContent);
    code.end();
    pre.replaceWith(code.el);
  }
  for (const table of frag.querySelectorAll('table')) {
    const box = el('div', { className: 'table', tabIndex: 0 });
    table.replaceWith(box);
    box.append(table);
  }
  const formulas = frag.querySelectorAll('.maths');
  for (const f of formulas) if (f.matches('.wide, .long')) f.tabIndex = 0; // it scrolls by itself where it has no room
  if (!formulas.length) return frag;
  if (!typesets) expect(formulas);
  else for (const f of formulas) if (!f.firstChild) fill(f, late.mathml(f.dataset.tex));
  return frag;
}

// Formulas are typeset by what is loaded when the first of them is seen; those that were drawn before it came are given their markup then, in turns.
let typesets = false, coming = null;
const early = new Set();
function expect(formulas) {
  for (const f of formulas) early.add(f);
  coming ??= import('./formula.js').then(({ mathml }) => {
    typesetting(mathml);
    typesets = true;
    late.mathml = mathml;
    late.go();
  }, () => { coming = null; }); // the server went away: the next formula tries again
}
const late = {
  go() {
    for (const f of early) {
      if (left <= 0) {
        waiting.add(late);
        took(0);
        return;
      }
      early.delete(f);
      const made = this.mathml(f.dataset.tex);
      took(800 + 30 * (made?.n ?? 0));
      if (!made) continue;
      f.classList.remove('source');
      f.replaceChildren();
      fill(f, made);
    }
  },
};

// drawn makes nodes of one block's text. links are the addresses that other blocks have defined.
function drawn(type, raw, links, grows) {
  const made = html(type, raw, links, grows);
  return made === null ? asIs(raw) : dress(clean(made));
}

const mostBoxes = 300; // code blocks and tables of one answer: each scrolls by itself, and thousands of those hold up a browser; what follows is shown as it was written

// asIs is text as it was written.
const asIs = (text) => el('div', { className: 'as-is' }, text);

// A text is read in windows: what is longer than the widest without an end is shown as it was written.
const windows = [16000, 64000];

// Much is drawn in turns, so that a page that shows it answers meanwhile. What a turn holds is counted in steps, not in time: what is short is
// there at once on every machine.
const turn = 100000;
let left = turn, timer = null;
const waiting = new Set();
function rest() {
  timer = null;
  left = turn;
  for (const flow of [...waiting]) if (left > 0) { waiting.delete(flow); flow.go(); }
}
function took(n) {
  left -= n;
  timer ??= setTimeout(rest);
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
  const last = text.slice(text.lastIndexOf('\n') + 1);
  if (last.length > 2000) return '';
  const line = last.replace(lead, '').replace(/`[^`]+`/g, '');
  const m = /(?<![*`\\])(\*\*?|`)(?=[\p{L}\p{N}])[^*`]*$/u.exec(line);
  return m && !/[*`]/.test(line.slice(0, m.index).replace(/(\*\*?)[^*]+\1/g, '')) ? m[1] : '';
}

// patch gives an element other children, and leaves those alone that stay as they were.
function patch(into, made) {
  let old = into.firstChild;
  for (let next = made.firstChild; next;) {
    const node = next, had = old;
    next = node.nextSibling;
    old = had?.nextSibling;
    if (!had) into.append(node);
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
function leafOf(block) {
  const walk = document.createTreeWalker(block, NodeFilter.SHOW_ALL);
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
  constructor(into) {
    this.el = into;
    this.reset();
  }

  reset() {
    this.src = '';
    this.ended = false;
    this.at = 0; // where the last block begins
    this.tail = null;
    this.drawn = null;
    this.links = {};
    this.due = 0;
    this.whole = null; // the complete lines of it that were looked at
    this.fence = null; // the code block that is open: {code, mark, from, indent}
    this.sign = ''; // what is open in the last line, and drawn as if it were closed already
    this.risky = false; // the last block has something that a bracket or a quote could close
    this.boxes = 0;
    this.queue = []; // blocks that are complete and not drawn yet
    waiting.delete(this);
    this.el.replaceChildren();
  }

  // set shows the text; ended: no more comes. What is long is drawn in turns. What goes on after its end is drawn anew: its last block was closed.
  set(text, ended) {
    text = text.replace(/\r\n?/g, '\n');
    if (!text.startsWith(this.src) || (this.ended && (!ended || text !== this.src))) this.reset();
    this.src = text;
    this.ended = ended;
    this.go();
  }

  // go draws what may be drawn now.
  go() {
    for (;;) {
      if (left <= 0) {
        timer ??= setTimeout(rest);
        waiting.add(this);
        return;
      }
      if (!(this.fence ? this.inFence(this.ended) : this.queue.length ? this.next() : this.settle(this.ended))) break;
    }
    waiting.delete(this);
    for (const f of this.whenDrawn?.splice(0) ?? []) f();
  }

  // all is fulfilled once everything that was set is drawn.
  all() { return new Promise((ok) => { if (waiting.has(this)) (this.whenDrawn ??= []).push(ok); else ok(); }); }

  box() { return el('div', { className: 'block', dir: 'auto' }); }

  // next draws the first of the blocks that are complete.
  next() {
    const token = this.queue.shift();
    if (token.type !== 'space' && token.type !== 'def') {
      const box = this.box();
      box.append(drawn(token.type, token.raw, this.links));
      took(spent() + token.raw.length + 800); // the sanitiser takes its time for each
      this.boxes += box.querySelectorAll('.code, .table').length;
      this.settled(box);
    }
    this.at += token.raw.length;
    if (!this.queue.length && !this.src.slice(this.at).trim()) this.drop();
    return true;
  }

  // read divides what comes next into blocks, as much of it as it needs to find one that is complete.
  read(text, ended) {
    for (const wide of windows) {
      const final = ended && text.length <= wide;
      const whole = final ? text : text.slice(0, text.lastIndexOf('\n', wide) + 1);
      const { tokens, links } = blocks(whole, !final);
      took(spent());
      let last = tokens.length - 1;
      while (last >= 0 && tokens[last].type === 'space') last--;
      let done = final ? tokens.length : Math.max(last, 0);
      // what follows an opening fence belongs to the fence's own way
      const fence = tokens.findIndex((x) => x.type === 'code' && opens.test(x.raw));
      if (fence >= 0) done = Math.min(done, fence);
      const raw = tokens.slice(0, done).map((x) => x.raw).join('');
      const ready = raw && text.startsWith(raw) ? tokens.slice(0, done) : [];
      if (ready.length || text.length <= wide) return { ready, links, kind: tokens[Math.max(last, 0)]?.type ?? 'paragraph' };
    }
    const wide = windows[windows.length - 1];
    return { ready: [{ type: 'list', raw: text.slice(0, text.lastIndexOf('\n', wide) + 1 || wide) }], links: {} };
  }

  // settle finds what is complete for good, and draws the rest for now. true: there is more to do.
  settle(ended) {
    const text = this.src.slice(this.at);
    if (this.boxes > mostBoxes) {
      this.tail ??= this.el.appendChild(this.box());
      if (text !== this.drawn) this.tail.replaceChildren(asIs(text));
      this.drawn = text;
      return false;
    }
    const whole = ended ? text : text.slice(0, text.lastIndexOf('\n') + 1);
    if (!ended && this.tail && whole === this.whole && this.append(text)) return false;
    this.whole = whole;
    const open = opens.exec(whole);
    if (open) {
      this.drop();
      const code = new Code(open[3]);
      this.el.append(code.el);
      took(1000);
      this.boxes++;
      this.fence = { code, mark: open[2], indent: open[1].length, from: this.at + open[0].length, shown: 0 };
      return true;
    }
    const { ready, links, kind } = this.read(text, ended);
    Object.assign(this.links, links);
    this.queue = ready;
    if (ready.length) return true;
    const now = performance.now();
    if (text === this.drawn || (!ended && this.tail && now < this.due)) return false;
    this.drawn = text;
    if (!text.trim()) return false;
    this.tail ??= this.el.appendChild(this.box());
    this.sign = dangling(text);
    const made = html(kind, this.sign ? (this.sign === '`' ? text : text.trimEnd()) + this.sign : text, this.links, !ended);
    if (made === null) {
      this.sign = '';
      this.tail.replaceChildren(asIs(text));
    } else patch(this.tail, dress(clean(made)));
    if (this.sign && leafOf(this.tail)?.parentNode.localName !== signs[this.sign]) { // it opened nothing
      this.sign = '';
      patch(this.tail, drawn(kind, text, this.links, !ended));
    }
    this.risky = /[[<\\$]/.test(text) || /[*`]/.test(this.tail.textContent);
    took(spent() + text.length);
    const cost = performance.now() - now;
    this.due = cost > 6 ? now + 6 * cost : 0; // a block that is dear is drawn less often
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
    const write = (to, text) => {
      if (!text) return;
      if (to.lastChild?.nodeType === 3) to.lastChild.appendData(text);
      else to.append(text);
    };
    if (!into.lastChild.textContent.endsWith(space)) write(into, space);
    for (const [mark, text, fresh] of pieces) {
      if (fresh) into = line.appendChild(el(signs[mark]));
      else if (!mark) into = line;
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
