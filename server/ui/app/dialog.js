// Dialogs: one frame for all, questions that are answered by yes or no, the question for a key, and short messages at the edge.
import { html, signal, useEffect, useLayoutEffect, useRef, useState } from './html.js';
import { Button } from './icons.js';
import { keep, wanted } from './server.js';
import { t } from './words.js';

// Modal shows its children above the page; Escape and a click beside it close it. wide: as broad as a table needs.
export function Modal({ title, close, wide, children }) {
  const el = useRef();
  useLayoutEffect(() => {
    const back = document.activeElement, dialog = el.current;
    dialog.showModal();
    (dialog.querySelector('[autofocus]') ?? dialog.firstElementChild).focus();
    return () => { // while it is open, nothing behind it takes the focus
      dialog.close();
      back?.focus?.();
    };
  }, []);
  return html`<dialog ref=${el} class=${wide ? 'wide' : ''} aria-label=${title} onCancel=${(e) => { e.preventDefault(); close(); }}
    onMouseDown=${(e) => { if (e.target === el.current) close(); }}>
    <div class="sheet" tabindex="-1"><header><h2>${title}</h2><${Button} icon="close" label=${t('close')} onClick=${close} /></header>${children}</div>
  </dialog>`;
}

const question = signal(null);

// sure asks before something is lost. It resolves to true or false.
export const sure = (text, yes) => new Promise((ok) => question.set({ text, yes, ok }));

const said = signal([]);
let count = 0;
// say shows a sentence for some seconds; bad: until it is closed, or longer.
export function say(text, bad) {
  const id = ++count;
  said.set([...said.get().slice(-3), { id, text, bad }]);
  setTimeout(() => unsay(id), bad ? 12000 : 4000);
}
// told says why what was begun has failed, where it does; it is fulfilled in any case.
export const told = (begun) => begun.catch((e) => say(e.message, true));
const unsay = (id) => said.set(said.get().filter((s) => s.id !== id));

function Question({ q }) {
  const end = (v) => { question.set(null); q.ok(v); };
  return html`<${Modal} title=${t('sure')} close=${() => end(false)}><p dir="auto">${q.text}</p><div class="row end">
    <button type="button" onClick=${() => end(false)}>${t('cancel')}</button><button type="button" class="danger" autofocus onClick=${() => end(true)}>${q.yes}</button>
  </div><//>`;
}

function KeyQuestion({ q }) {
  const [text, setText] = useState('');
  const [always, setAlways] = useState(false);
  return html`<${Modal} title=${t('key.title')} close=${() => q.done(null)}><form onSubmit=${(e) => { e.preventDefault(); if (text.trim()) q.done({ key: text.trim(), always }); }}>
    <p>${q.wrong ? t('key.wrong') : t('key.why')}</p>
    <input type="password" class="wide" autofocus autocomplete="off" aria-label=${t('key.title')} value=${text} onInput=${(e) => setText(e.target.value)} />
    <label class="check"><input type="checkbox" checked=${always} onChange=${(e) => setAlways(e.target.checked)} /> ${t('key.always')}</label>
    <div class="row end"><button type="button" onClick=${() => q.done(null)}>${t('cancel')}</button><button class="primary">${t('ok')}</button></div>
  </form><//>`;
}

// Above is what may stand above every view.
export function Above() {
  const q = question.use();
  const k = wanted.use();
  const list = said.use();
  useEffect(() => { if (k?.wrong) keep(null); }, [k]);
  return html`${q && html`<${Question} q=${q} key=${'q'} />`}${k && html`<${KeyQuestion} q=${k} key=${'k'} />`}
  <div class="said" role="status" aria-live="polite">${list.map((s) => html`<div key=${s.id} class=${s.bad ? 'bad' : ''}><span dir="auto">${s.text}</span>
    <${Button} icon="close" label=${t('close')} onClick=${() => unsay(s.id)} /></div>`)}</div>`;
}
