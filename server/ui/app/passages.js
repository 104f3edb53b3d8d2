// Passages of documents that go with a question: found in the conversation's collection, numbered through the conversation, sent before the
// words, listed beneath the answer, and shown in their page where one asks for it.
import { Modal } from './dialog.js';
import { el, html, useEffect, useLayoutEffect, useRef, useState } from './html.js';
import { Button, Icon } from './icons.js';
import { json } from './server.js';
import { number, t } from './words.js';

const several = 5; // passages for a question
const mostQuery = 1200; // characters that are searched for

// sources are a path's passages by number.
export const sources = (path) => path.flatMap((x) => x.passages ?? []);

// find searches a collection for what answers a question. A short one may go on from the one before it, and is searched with it, too.
export async function find(collection, path, text) {
  const before = path.findLast((x) => x.role === 'user')?.text ?? '';
  const query = [text, ...(text.length < 60 && before ? [before + ' ' + text] : [])].map((q) => q.slice(0, mostQuery));
  const r = await json(`/v1/vector_stores/${collection}/search`, { body: { query, max_num_results: several } });
  const from = sources(path).length;
  return r.data.map((d, i) => passage(d, from + i + 1));
}

// passage is a result of a search as it is kept. A document without headings and a title has its name for one.
export const passage = (d, n) => ({
  n, file: d.file_id, name: d.attributes?.path ?? d.filename, page: d.page, number: d.number ?? 0, line: d.place.line ?? 0, heading: !d.heading || d.heading === d.filename ? '' : d.heading,
  start: d.place.start, end: d.place.end, text: d.content.map((c) => c.text).join('\n'),
});

// place says where a passage stands, as a person would look it up.
export const place = (p) => [p.number > 0 && t('docs.page', { n: number(p.number) }), p.heading, !p.number && p.line > 0 && t('docs.line', { n: number(p.line) })].filter(Boolean).join(' · ');

// spoken is what the model is told of them. It is in English, as its training was: the answer's language is the question's.
export function spoken(passages) {
  if (!passages?.length) return '';
  const one = (p) => `[${p.n}] ${p.name}${p.number ? `, page ${p.number}` : ''}${p.heading ? `, "${p.heading}"` : ''}:\n${p.text.trim()}`;
  return 'Passages of documents that were found for the question below. Where they answer it, say so from them, and name the passage behind each statement '
    + `by its number in square brackets, like [${passages[0].n}]. Where they do not, say that the documents do not tell.\n\n${passages.map(one).join('\n\n')}\n\nThe question:`;
}

// checked is what a file of conversations says of its passages, as far as it can be one.
export const checked = (list) => list.filter((p) => Number.isInteger(p?.n) && typeof p.name === 'string' && typeof p.text === 'string').map((p) => ({
  n: p.n, file: String(p.file ?? '').slice(0, 100), name: p.name.slice(0, 500), page: Number(p.page) || 0, number: Number(p.number) || 0, line: Number(p.line) || 0,
  heading: String(p.heading ?? '').slice(0, 1000), start: Number(p.start) || 0, end: Number(p.end) || 0, text: p.text,
}));

// parted is a page's text before, in and behind a passage: positions are bytes of UTF-8.
export function parted(text, start, end) {
  const b = new TextEncoder().encode(text), d = new TextDecoder();
  return [[0, start], [start, end], [end, b.length]].map(([from, to]) => d.decode(b.subarray(from, to)));
}

// Look shows a page with the passage marked, and the pages around it.
export function Look({ p, close }) {
  const [at, go] = useState(p.page);
  const [page, setPage] = useState(null);
  const [error, setError] = useState('');
  const mark = useRef();
  useEffect(() => {
    let gone = false;
    json(`/api/axle/documents/files/${encodeURIComponent(p.file)}/pages/${at}`).then((g) => { if (!gone) { setPage(g); setError(''); } }, (e) => { if (!gone) setError(e.message); });
    return () => { gone = true; };
  }, [at]);
  useLayoutEffect(() => { mark.current?.scrollIntoView({ block: 'center' }); }, [page, error]);
  const here = page && at === p.page;
  const [before, marked, behind] = here ? parted(page.text, p.start, p.end) : [page?.text ?? '', '', ''];
  const where = error || !page ? place(p) : here ? place(p) : place({ number: page.number ?? 0, heading: page.label ?? '', line: page.line ?? 0 });
  return html`<${Modal} wide title=${p.name} close=${close}><div class="row around"><p class="dim small" dir="auto">${where}</p><span class="grow"></span>
      ${page?.pages > 1 && html`<${Button} icon="left" label=${t('docs.before')} disabled=${at === 0} onClick=${() => go(at - 1)} /><span class="num dim small">${number(at + 1)} / ${number(page.pages)}</span><${Button}
      icon="right" label=${t('docs.behind')} disabled=${at >= page.pages - 1} onClick=${() => go(at + 1)} />`}</div>
    ${error && html`<p class="failed" role="alert"><${Icon} name="warn" size="16" /><span dir="auto">${t('docs.gone', { why: error })}</span></p>`}
    ${error ? html`<pre class="plain leaf" tabindex="0" dir="auto"><mark ref=${mark}>${p.text}</mark></pre>`
    : page && html`<pre class="plain leaf" tabindex="0" dir="auto">${before}${marked && html`<mark ref=${mark}>${marked}</mark>`}${behind}</pre>`}<//>`;
}

const quoted = /\[(\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\]/g;

// cited are the numbers that an answer names.
export const cited = (text) => new Set([...text.matchAll(quoted)].flatMap((m) => m[1].split(/\s*[,;]\s*/).map(Number)));

// link makes buttons of the numbers in an answer that is drawn, but in code.
export function link(body, known, press) {
  const walker = document.createTreeWalker(body, NodeFilter.SHOW_TEXT, (n) => (n.parentElement.closest('pre, code, a, button, math') ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT));
  const texts = [];
  while (walker.nextNode()) if (walker.currentNode.data.includes('[')) texts.push(walker.currentNode);
  for (const node of texts) {
    const parts = [];
    let from = 0;
    for (const m of node.data.matchAll(quoted)) {
      const numbers = m[1].split(/\s*[,;]\s*/).map(Number);
      if (!numbers.every((n) => known.has(n))) continue;
      parts.push(node.data.slice(from, m.index));
      for (const n of numbers) {
        const p = known.get(n);
        const b = el('button', { type: 'button', className: 'cite', textContent: n, title: p.name + ', ' + place(p) }); // its name is set below, for who hears it
        b.setAttribute('aria-label', t('docs.passage', { n, name: p.name }));
        b.addEventListener('click', () => press(p));
        parts.push(b);
      }
      from = m.index + m[0].length;
    }
    if (from) node.replaceWith(...parts, node.data.slice(from));
  }
}

// Sources lists the passages behind an answer: those that it names, else all that went with the question.
export function Sources({ text, asked, all, open }) {
  const names = cited(text);
  const used = all.filter((p) => names.has(p.n));
  const list = used.length ? used : asked;
  if (!list?.length) return null;
  return html`<div class="sources"><p class="small dim">${t(used.length ? 'docs.sources' : 'docs.found')}</p><ul>${list.map((p) => html`<li key=${p.n}><button type="button" class="piece source" onClick=${() => open(p)}
    aria-label=${t('docs.passage', { n: p.n, name: p.name }) + ', ' + place(p)}><b class="num">${p.n}</b><span><b dir="auto">${p.name}</b><small dir="auto">${place(p)}</small><small class="line" dir="auto">${p.text.trim().slice(0, 160)}</small></span></button></li>`)}</ul></div>`;
}
