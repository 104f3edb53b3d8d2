// The side: conversations, found by what was said in them, and the ways to the other views.
import { html, useEffect, useRef, useState } from './html.js';
import { say, sure, told } from './dialog.js';
import { Button, Icon, Mark } from './icons.js';
import * as it from './open.js';
import { settings } from './settings.js';
import { Standing } from './sharing.js';
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
  const input = useRef(), link = useRef(), back = useRef(null); // back: how the field was left, which happens once: 'key' or 'elsewhere'
  useEffect(() => {
    if (name !== null) input.current?.select();
    else if (back.current === 'key') link.current?.focus();
    back.current = null;
  }, [name !== null]);
  const end = (how, take = true) => {
    if (back.current) return; // a field that goes away is left once more
    const title = take && name.trim();
    back.current = how;
    setName(null);
    if (!title || title === c.title) return;
    if (it.open.get()?.chat.id === c.id) it.change({ title, named: true });
    else store.saveChat({ ...c, title, named: true });
  };
  if (name !== null) {
    return html`<li><form onSubmit=${(e) => { e.preventDefault(); end('key'); }}><input ref=${input} dir="auto" aria-label=${t('rename')} value=${name} onInput=${(e) => setName(e.target.value)}
      onBlur=${() => end('elsewhere')} onKeyDown=${(e) => { if (e.key === 'Escape') { e.stopPropagation(); end('key', false); } }} /></form></li>`;
  }
  return html`<li class=${on ? 'on' : ''}><a ref=${link} href=${'#/chat/' + c.id} aria-current=${on ? 'page' : null} onClick=${shut} onDblClick=${() => setName(c.title)} onKeyDown=${(e) => {
    if (e.key === 'F2') setName(c.title);
    if (e.key === 'Delete') drop(c, e.currentTarget);
  }}><span dir="auto">${c.title}</span>${found && html`<small dir="auto">${found}</small>`}</a>
    <span class="acts"><${Button} icon="edit" label=${t('rename')} onClick=${() => setName(c.title)} /><${Button} icon="trash" label=${t('delete')} onClick=${(e) => drop(c, e.currentTarget)} /></span></li>`;
}

// drop deletes a conversation, after asking; the focus goes to the one beneath it, or above, where it would be lost.
async function drop(c, from) {
  const links = [...document.querySelectorAll('.chats li a')];
  const i = links.findIndex((a) => a.parentNode.contains(from));
  if (!(await sure(t('chat.delete', { title: c.title }) + (settings.get().share ? ' ' + t('share.delete') : ''), t('delete')))) return;
  await store.dropChat(c.id);
  const at = document.activeElement;
  if (at === document.body || at?.closest('.chats')) (links[i + 1] ?? links[i - 1] ?? document.getElementById('find')).focus();
}

export function Side({ route, opened, shut }) {
  const [list, setList] = useState([]);
  const [text, setText] = useState('');
  const [found, setFound] = useState(null);
  const [count, setCount] = useState(first);
  const gone = store.volatile.use();
  const file = useRef();
  useEffect(() => { if (gone === 'full') say(t(gone), true); }, [gone]);
  useEffect(() => {
    let due = 0;
    const load = () => { due = 0; store.chats().then(setList); };
    load();
    const end = store.changed.follow((c) => { if (c?.table === 'chats' && !due) due = setTimeout(load, 50); });
    return () => { end(); clearTimeout(due); };
  }, []);
  useEffect(() => {
    if (!text.trim()) { setFound(null); return undefined; }
    let over = false;
    const id = setTimeout(() => store.search(text.trim(), () => over).then((f) => { if (!over) setFound(f); }), 120);
    return () => { over = true; clearTimeout(id); };
  }, [text, list]);
  const shown = found ? list.filter((c) => found.has(c.id)) : list;
  const view = (name, icon) => html`<a href=${'#/' + name} class=${route.view === name ? 'on' : ''} aria-current=${route.view === name ? 'page' : null} onClick=${shut}><${Icon}
    name=${icon} size="20" /><span>${t('view.' + name)}</span></a>`;
  return html`<nav class=${opened ? 'side open' : 'side'} aria-label=${t('views')}>
    <div class="brand"><${Mark} /><b>axle</b><span class="grow"></span><a class="quiet new" href="#/chat" aria-label=${t('new')} title=${t('new') + ' (n)'} onClick=${() => { it.go(null); shut(); }}><${Icon} name="plus" /></a></div>
    <label class="find"><${Icon} name="search" size="16" /><input id="find" type="search" placeholder=${t('search')} aria-label=${t('search')} value=${text} onInput=${(e) => setText(e.target.value)} /></label>
    <div class="chats"><${Standing} />${gone && html`<p class="none warn" role="status">${t(gone)}</p>`}${groups(shown.slice(0, count)).map((g) => html`<section key=${g.name}><h2>${g.name}</h2><ul>${g.list.map((c) => html`<${Row} key=${c.id} c=${c} found=${found?.get(c.id)}
      on=${route.view === 'chat' && route.id === c.id} shut=${shut} />`)}</ul></section>`)}
      ${shown.length > count && html`<button type="button" class="text older" onClick=${() => setCount(count + more)}>${t('earlier.chats', { n: shown.length - count })}</button>`}
      ${!shown.length && html`<p class="none">${found ? t('search.none') : t('chats.none')}</p>`}
      <button type="button" class="text import" onClick=${() => file.current.click()}>${t('import')}</button>
      <input type="file" ref=${file} hidden multiple accept=".json,.md,application/json,text/markdown" onChange=${async (e) => {
        const list = [...e.target.files];
        e.target.value = '';
        for (const f of list) await told(importFile(f).then((id) => { if (id) location.hash = '#/chat/' + id; }));
      }} /></div>
    <div class="ways">${view('chat', 'chat')}${view('models', 'models')}${view('documents', 'text')}${view('card', 'card')}${view('connect', 'connect')}${view('settings', 'settings')}</div>
  </nav>`;
}
