// Code blocks: a head with the language and a button that copies, lines that are added in groups so that a long block costs no more with
// each token, and colours, which come when there is time.
import { t } from './words.js';

const files = {
  bash: 'bash', sh: 'bash', shell: 'bash', zsh: 'bash', console: 'bash', c: 'c', h: 'c', cpp: 'cpp', 'c++': 'cpp', cc: 'cpp', hpp: 'cpp', cs: 'csharp', csharp: 'csharp',
  css: 'css', diff: 'diff', patch: 'diff', go: 'go', golang: 'go', ini: 'ini', toml: 'ini', conf: 'ini', java: 'java', js: 'javascript', javascript: 'javascript',
  jsx: 'javascript', mjs: 'javascript', json: 'json', jsonc: 'json', kotlin: 'kotlin', kt: 'kotlin', lua: 'lua', php: 'php', py: 'python', python: 'python',
  python3: 'python', rs: 'rust', rust: 'rust', sql: 'sql', ts: 'typescript', tsx: 'typescript', typescript: 'typescript', xml: 'xml', html: 'xml', svg: 'xml',
  yaml: 'yaml', yml: 'yaml',
};
// languages that are made of others bring those
const needs = { cpp: ['c'], xml: ['css', 'javascript'], php: ['xml', 'css', 'javascript'] };
const most = 40000; // characters that are coloured; beyond, it takes longer than anybody reads

let core = null;
const loaded = new Map();
function grammar(name) {
  if (!loaded.has(name)) {
    loaded.set(name, (async () => {
      core ??= (await import('../vendor/highlight.js')).default;
      for (const other of needs[name] ?? []) await grammar(other);
      core.registerLanguage(name, (await import(`../vendor/hl-${name}.js`)).default);
    })());
  }
  return loaded.get(name);
}

// coloured gives HTML of spans with classes only; it goes through the sanitiser all the same.
async function coloured(text, lang) {
  const name = files[lang];
  if (!name || text.length > most) return null;
  try {
    await grammar(name);
    return core.highlight(text, { language: name, ignoreIllegals: true }).value;
  } catch {
    return null; // the server is gone, or a grammar gave up: plain text is fine
  }
}

const idle = globalThis.requestIdleCallback ?? ((f) => setTimeout(f, 30));
const group = 40; // lines a part

// Code is one block. add appends, end colours.
export class Code {
  constructor(info, clean) {
    this.clean = clean;
    this.lang = (info || '').trim().split(/[\s{,:]/)[0].toLowerCase();
    this.text = '';
    this.el = document.createElement('div');
    this.el.className = 'code';
    this.el.dir = 'ltr';
    const head = document.createElement('div');
    head.className = 'head';
    const name = document.createElement('span');
    name.textContent = this.lang || t('code.plain');
    const copy = document.createElement('button');
    copy.type = 'button';
    copy.className = 'quiet copy-code';
    copy.textContent = t('copy');
    copy.setAttribute('aria-label', t('code.copy'));
    head.append(name, copy);
    const pre = document.createElement('pre');
    pre.tabIndex = 0;
    this.code = document.createElement('code');
    pre.append(this.code);
    this.el.append(head, pre);
    this.el.source = () => this.text;
    this.part = null;
    this.lines = 0;
    this.shown = 0; // when colours were last made
  }

  add(text) {
    if (!text) return;
    this.text += text;
    while (text) {
      if (!this.part || this.lines >= group) {
        this.part = document.createElement('span');
        this.part.className = 'part';
        this.part.append('');
        this.code.append(this.part);
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
    if (this.text.length > 3000 || now - this.shown < 500 || this.busy) return;
    this.shown = now;
    this.colour();
  }

  async colour() {
    const text = this.text;
    this.busy = true;
    const made = await coloured(text, this.lang);
    this.busy = false;
    if (made === null || !this.el.isConnected && !this.ended) return;
    const had = this.text.slice(text.length); // what came meanwhile
    const part = document.createElement('span');
    part.className = 'part';
    part.append(this.clean(made));
    this.code.replaceChildren(part);
    this.part = null;
    if (had) {
      this.text = text;
      this.add(had);
    }
  }

  end() {
    this.ended = true;
    if (files[this.lang] && this.text.length <= most) idle(() => this.colour(), { timeout: 500 });
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
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'offscreen';
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
