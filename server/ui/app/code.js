// Code blocks: a head with the language and a button that copies, lines that are added in groups so that a long block costs no more with
// each token, and colours, which come when there is time.
import { el } from './html.js';
import { t } from './words.js';

const files = {
  bash: 'bash', sh: 'bash', shell: 'bash', zsh: 'bash', console: 'bash', c: 'c', h: 'c', cpp: 'cpp', 'c++': 'cpp', cc: 'cpp', hpp: 'cpp', cs: 'csharp', csharp: 'csharp',
  css: 'css', diff: 'diff', patch: 'diff', go: 'go', golang: 'go', ini: 'ini', toml: 'ini', conf: 'ini', java: 'java', js: 'javascript', javascript: 'javascript',
  jsx: 'javascript', mjs: 'javascript', json: 'json', jsonc: 'json', kotlin: 'kotlin', kt: 'kotlin', lua: 'lua', php: 'php', py: 'python', python: 'python',
  python3: 'python', rs: 'rust', rust: 'rust', sql: 'sql', ts: 'typescript', tsx: 'typescript', typescript: 'typescript', xml: 'xml', html: 'xml', svg: 'xml',
  yaml: 'yaml', yml: 'yaml',
};
const drawings = new Set(['mermaid', 'plantuml', 'dot', 'graphviz']); // a description of a drawing: no program draws it here, and the head says so
const most = 40000; // characters that are coloured; beyond, it takes longer than reading it does
const patience = 4000; // ms for one text, once its grammar is there

// One worker colours one text after the other. It is ended where a text takes too long, which stays plain.
let worker = null, last = Promise.resolve();
function start() {
  const url = new URL('./colours.js', import.meta.url).href;
  const made = globalThis.trustedTypes?.createPolicy('axle', { createScriptURL: () => url }).createScriptURL('') ?? url;
  start = () => new Worker(made, { type: 'module' });
  return start();
}

function work(text, name) {
  return new Promise((ok) => {
    let late = null;
    const end = (parts, over) => {
      clearTimeout(late);
      if (over) {
        worker?.terminate();
        worker = null;
      }
      ok(parts);
    };
    try {
      worker ??= start();
      worker.onmessage = ({ data }) => {
        if (data === 'begun') late = setTimeout(() => end(null, true), patience);
        else end(data, false);
      };
      worker.onerror = () => end(null, true);
      worker.postMessage({ text, name });
    } catch {
      end(null, true);
    }
  });
}

// coloured gives a text's parts, as colours.js has them; null: it stays plain.
async function coloured(text, lang) {
  const name = files[lang];
  if (!name || text.length > most) return null;
  last = last.then(() => work(text, name));
  return last;
}

// spans makes nodes of parts.
function spans(parts) {
  const top = el('span', { className: 'part' });
  let at = top;
  for (const p of parts) {
    if (typeof p === 'string') at.append(p);
    else at = p ? at.appendChild(el('span', { className: p[0] })) : at.parentNode;
  }
  return top;
}

const idle = globalThis.requestIdleCallback ?? ((f) => setTimeout(f, 30));
const group = 40; // lines a part

// Code is one block. add appends, end colours.
export class Code {
  constructor(info) {
    this.lang = (info || '').trim().split(/[\s{,:]/)[0].toLowerCase();
    this.text = '';
    this.code = el('code');
    const copy = el('button', { type: 'button', className: 'quiet copy-code' }, t('copy'));
    copy.setAttribute('aria-label', t('code.copy'));
    const head = el('div', { className: 'head' }, el('span', {}, this.lang || t('code.plain')), copy);
    const note = drawings.has(this.lang) ? [el('p', { className: 'note', dir: 'auto' }, t('code.drawing'))] : [];
    this.el = el('div', { className: 'code', dir: 'ltr', source: () => this.text }, head, ...note, el('pre', { tabIndex: 0 }, this.code));
    this.part = null;
    this.lines = 0;
    this.shown = 0; // when colours were last made
  }

  add(text) {
    if (!text) return;
    this.text += text;
    while (text) {
      if (!this.part || this.lines >= group) {
        this.part = this.code.appendChild(el('span', { className: 'part' }, ''));
        this.lines = 0;
      }
      // a part ends with a line, and takes what is left of the group
      let at = 0;
      while (this.lines < group) {
        const nl = text.indexOf('\n', at);
        if (nl < 0) { at = text.length; break; }
        at = nl + 1;
        this.lines++;
      }
      this.part.firstChild.appendData(text.slice(0, at));
      text = text.slice(at);
    }
  }

  // glance colours a small block that still grows, now and then.
  glance(now) {
    if (this.text.length > 3000 || now - this.shown < 500 || this.busy || this.dear) return;
    this.shown = now;
    this.colour();
  }

  async colour() {
    const text = this.text;
    this.busy = true;
    const made = await coloured(text, this.lang);
    this.busy = false;
    this.dear = made === null; // what took too long is not tried again
    if (made === null || !this.el.isConnected && !this.ended) return;
    const had = this.text.slice(text.length); // what came meanwhile
    this.code.replaceChildren(spans(made));
    this.part = null;
    if (had) {
      this.text = text;
      this.add(had);
    }
  }

  end() {
    this.ended = true;
    if (files[this.lang] && this.text.length <= most && !this.dear) idle(() => this.colour(), { timeout: 500 });
  }
}

// put copies text to the clipboard, on plain http:// pages too, which have no navigator.clipboard.
export async function put(text) {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch { /* not allowed: the old way */ }
  const area = el('textarea', { value: text, className: 'offscreen' });
  document.body.append(area);
  const back = document.activeElement;
  area.select();
  const ok = document.execCommand('copy');
  area.remove();
  back?.focus?.();
  return ok;
}

// One listener for all of them.
document.addEventListener('click', async (e) => {
  const b = e.target.closest?.('.copy-code');
  if (!b) return;
  const text = b.closest('.code').source();
  b.textContent = (await put(text)) ? t('copied') : t('copy.failed');
  setTimeout(() => { b.textContent = t('copy'); }, 1600);
});
