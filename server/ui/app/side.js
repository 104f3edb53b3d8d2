// The side: conversations, found by what was said in them, and the ways to the other views.
import { html, useEffect, useRef, useState } from './html.js';
import { say, sure } from './dialog.js';
import { Button, Icon, Mark } from './icons.js';
import * as it from './open.js';
import * as store from './store.js';
import { importFile } from './transfer.js';
import { language, t } from './words.js';

const day = 86400000;
const first = 60, more = 200; // conversations drawn at once, and with each asking for older ones

// groups puts conversations under the words one remembers them by.
function groups(list) {
  const today = new Date().setHours(0, 0, 0, 0);
  const out = [];
  for (const c of list) {
    const name = c.updated >= today ? t('today') : c.updated >= today - day ? t('yesterday') : c.updated >= today - 6 * day ? t('week')
      : new Date(c.updated).toLocaleDateString(language.get(), { month: 'long', year: 'numeric' });
    const last = out[out.length - 1];
    if (last?.name === name) last.list.push(c);
    else out.push({ name, list: [c] });
  }
  return out;
}

function Row({ c, on, found, shut }) {
  const [name, setName] = useState(null);
  const input = useRef();
  useEffect(() => { if (name !== null) input.current?.select(); }, [name !== null]);
  const rename = () => {
    const title = name?.trim();
    setName(null);
    if (!title || title === c.title) return;
    if (it.open.get()?.chat.id === c.id) it.change({ title, named: true });
    else store.saveChat({ ...c, title, named: true });
  };
  if (name !== null) {
    return html`<li><form onSubmit=${(e) => { e.preventDefault(); rename(); }}><input ref=${input} dir="auto" aria-label=${t('rename')} value=${name} onInput=${(e) => setName(e.target.value)}
      onBlur=${rename} onKeyDown=${(e) => { if (e.key === 'Escape') { e.stopPropagation(); setName(null); } }} /></form></li>`;
  }
  return html`<li class=${on ? 'on' : ''}><a href=${'#/chat/' + c.id} aria-current=${on ? 'page' : null} onClick=${shut} onDblClick=${() => setName(c.title)} onKeyDown=${(e) => {
    if (e.key === 'F2') setName(c.title);
    if (e.key === 'Delete') drop(c);
  }}><span dir="auto">${c.title}</span>${found && html`<small dir="auto">${found}</small>`}</a>
    <span class="acts"><${Button} icon="edit" label=${t('rename')} onClick=${() => setName(c.title)} /><${Button} icon="trash" label=${t('delete')} onClick=${() => drop(c)} /></span></li>`;
}

async function drop(c) {
  if (!(await sure(t('chat.delete', { title: c.title }), t('delete')))) return;
  if (it.open.get()?.chat.id === c.id) location.hash = '#/chat';
  await store.dropChat(c.id);
}

export function Side({ route, opened, shut }) {
  const [list, setList] = useState([]);
  const [text, setText] = useState('');
  const [found, setFound] = useState(null);
  const [count, setCount] = useState(first);
  const gone = store.volatile.use();
  const file = useRef();
  useEffect(() => {
    let due = 0;
    const load = () => { due = 0; store.chats().then(setList); };
    load();
    const end = store.changed.follow((c) => { if (c?.table === 'chats' && !due) due = setTimeout(load, 50); });
    return () => { end(); clearTimeout(due); };
  }, []);
  useEffect(() => {
    if (!text.trim()) { setFound(null); return undefined; }
    const id = setTimeout(() => store.search(text.trim()).then(setFound), 120);
    return () => clearTimeout(id);
  }, [text, list]);
  const shown = found ? list.filter((c) => found.has(c.id)) : list;
  const view = (name, icon) => html`<a href=${'#/' + name} class=${route.view === name ? 'on' : ''} aria-current=${route.view === name ? 'page' : null} onClick=${shut}><${Icon}
    name=${icon} size="20" /><span>${t('view.' + name)}</span></a>`;
  return html`<nav class=${opened ? 'side open' : 'side'} aria-label=${t('views')}>
    <div class="brand"><${Mark} /><b>axle</b><span class="grow"></span><a class="quiet new" href="#/chat" aria-label=${t('new')} title=${t('new') + ' (n)'} onClick=${() => { it.go(null); shut(); }}><${Icon} name="plus" /></a></div>
    <label class="find"><${Icon} name="search" size="16" /><input id="find" type="search" placeholder=${t('search')} aria-label=${t('search')} value=${text} onInput=${(e) => setText(e.target.value)} /></label>
    <div class="chats">${groups(shown.slice(0, count)).map((g) => html`<section key=${g.name}><h2>${g.name}</h2><ul>${g.list.map((c) => html`<${Row} key=${c.id} c=${c} found=${found?.get(c.id)}
      on=${route.view === 'chat' && route.id === c.id} shut=${shut} />`)}</ul></section>`)}
      ${shown.length > count && html`<button type="button" class="text older" onClick=${() => setCount(count + more)}>${t('earlier.chats', { n: shown.length - count })}</button>`}
      ${!shown.length && html`<p class="none">${found ? t('search.none') : t('chats.none')}</p>`}
      ${gone && html`<p class="none warn">${t('volatile')}</p>`}
      <button type="button" class="text import" onClick=${() => file.current.click()}>${t('import')}</button>
      <input type="file" ref=${file} hidden multiple accept=".json,.md,application/json,text/markdown" onChange=${async (e) => {
        for (const f of [...e.target.files]) {
          try {
            const id = await importFile(f);
            if (id) location.hash = '#/chat/' + id;
          } catch (err) {
            say(err.message, true);
          }
        }
        e.target.value = '';
      }} /></div>
    <div class="ways">${view('chat', 'chat')}${view('models', 'models')}${view('card', 'card')}${view('settings', 'settings')}</div>
  </nav>`;
}
