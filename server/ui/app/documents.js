// Documents: collections that are kept on the server, their files, adding to them by a button or by dropping, and searching them.
import { html, useEach, useEffect, useEvent, useRef, useState } from './html.js';
import { say, sure, told } from './dialog.js';
import { Button, Icon } from './icons.js';
import * as it from './open.js';
import { Look, passage, place } from './passages.js';
import { json } from './server.js';
import * as shelf from './shelf.js';
import { Status } from './status.js';
import { bytes, number, t } from './words.js';

const states = { completed: '', in_progress: 'docs.reading', failed: 'docs.failed', cancelled: 'docs.failed' };

function Coming({ list }) {
  if (!list.length) return null;
  const open = list.filter((c) => c.state !== 'failed');
  return html`<ul class="coming" aria-label=${t('docs.coming')} aria-live="polite">${open.length > 0 && html`<li key="all" class="dim small">${t('docs.left', { n: number(open.length) })}<progress aria-label=${t('docs.coming')}></progress></li>`}
    ${list.filter((c) => c.state !== 'waiting').map((c) => html`<li key=${c.id} class=${c.state === 'failed' ? 'failed' : ''}>${c.state === 'failed' && html`<${Icon} name="warn" size="16" />`}<span dir="auto"><b>${c.name}</b>
      <small>${c.state === 'failed' ? c.error : t(c.state === 'sending' ? 'docs.sending' : 'docs.reading') + ' · ' + bytes(c.size)}</small></span>${
      c.state === 'failed' && html`<${Button} icon="close" label=${t('docs.forget', { name: c.name })} onClick=${() => shelf.forget(c.id)} />`}</li>`)}</ul>`;
}

function Search({ id, files }) {
  const [text, setText] = useState('');
  const [found, setFound] = useState(null);
  const [open, setOpen] = useState(null);
  const go = (e) => {
    e.preventDefault();
    if (text.trim()) told(json(`/v1/vector_stores/${id}/search`, { body: { query: text.trim().slice(0, 1200), max_num_results: 10 } }).then((r) => setFound(r.data)));
  };
  if (!files) return null;
  return html`<form class="row fetch" onSubmit=${go}><input type="search" placeholder=${t('docs.search')} aria-label=${t('docs.search')} value=${text} onInput=${(e) => setText(e.target.value)} /><button
      disabled=${!text.trim()}>${t('docs.look')}</button></form>
    ${found && !found.length && html`<p class="dim" role="status">${t('docs.none')}</p>`}
    ${found?.length > 0 && html`<ul class="hits" aria-label=${t('docs.found')}>${found.map((d, i) => {
      const p = passage(d, i + 1);
      return html`<li key=${i}><button type="button" class="piece source" onClick=${() => setOpen(p)}><span><b dir="auto">${p.name}</b><small dir="auto">${place(p)}</small><small class="line" dir="auto">${p.text.trim().slice(0, 300)}</small></span></button></li>`;
    })}</ul>`}${open && html`<${Look} p=${open} close=${() => setOpen(null)} />`}`;
}

function Files({ c, take }) {
  const [list, setList] = useState(null);
  const coming = shelf.coming.use().filter((x) => x.store === c.id);
  const files = useRef(), folder = useRef();
  const load = () => shelf.filesOf(c.id).then(setList, (e) => say(e.message, true));
  useEffect(() => { load(); }, [c.id, c.file_counts.total, c.file_counts.in_progress, coming.length]);
  useEach(list?.some((f) => f.status === 'in_progress'), load); // another tab's
  const from = (e, whole) => { take(c.id, shelf.chosen(e.target.files, whole)); e.target.value = ''; };
  return html`<div class="files"><div class="row wrap"><button type="button" onClick=${() => files.current.click()}><${Icon} name="plus" size="16" />${t('docs.add')}</button><button type="button"
      onClick=${() => folder.current.click()}>${t('docs.add.folder')}</button>
      <input type="file" hidden multiple ref=${files} class="add-files" onChange=${(e) => from(e, false)} /><input type="file" hidden webkitdirectory ref=${folder} onChange=${(e) => from(e, true)} /><span class="dim small">${t('docs.drop')}</span></div>
    <${Coming} list=${coming} /><${Search} id=${c.id} files=${list?.length} />
    ${list && html`<ul class="kept" aria-label=${t('docs.files')}>${list.map((f) => html`<li key=${f.id}><${Icon} name="text" size="18" /><span dir="auto"><b>${f.attributes?.path ?? f.filename}</b><small class="dim">${[states[f.status] && t(states[f.status]),
      f.last_error?.message, f.status === 'completed' && t('docs.passages', { n: number(f.passages) })].filter(Boolean).join(' · ')}</small></span><${Button} icon="trash" label=${t('docs.drop.file', { name: f.filename })} onClick=${async () => {
        if (await sure(t('docs.drop.file.sure', { name: f.filename }), t('delete'))) told(shelf.dropFile(c.id, f.id).then(load));
      }} /></li>`)}</ul>`}</div>`;
}

function Collection({ c, opened, toggle, take }) {
  const [name, setName] = useState(null);
  const n = c.file_counts.total;
  const field = useRef();
  useEffect(() => { if (name !== null) field.current?.focus(); }, [name !== null]);
  return html`<li class=${opened ? 'collection opened' : 'collection'}><div class="model"><div class="what">${name !== null ? html`<form class="row" onSubmit=${(e) => {
      e.preventDefault();
      if (name.trim()) told(shelf.rename(c.id, name.trim()));
      setName(null);
    }}><input ref=${field} dir="auto" aria-label=${t('rename')} value=${name} onInput=${(e) => setName(e.target.value)} onKeyDown=${(e) => { if (e.key === 'Escape') { e.stopPropagation(); setName(null); } }} /><button>${t('ok')}</button></form>`
    : html`<h2><button type="button" class="text fold" aria-expanded=${opened} onClick=${toggle}><${Icon} name=${opened ? 'chevron' : 'right'} size="16" /><span dir="auto">${c.name || t('docs.unnamed')}</span></button></h2>`}
    <p class="dim">${[t(n === 1 ? 'docs.file' : 'docs.count', { n: number(n) }), bytes(c.usage_bytes), c.file_counts.in_progress > 0 && t('docs.reading')].filter(Boolean).join(' · ')}</p></div>
    <div class="does"><button type="button" class="primary" disabled=${!n} onClick=${async () => { await it.go(null); await it.change({ collection: c.id }); location.hash = '#/chat'; }}>${t('docs.ask')}</button><${Button} icon="edit" label=${t('rename')}
      onClick=${() => setName(c.name)} /><${Button} icon="trash" label=${t('docs.delete', { name: c.name })} onClick=${async () => {
        if (await sure(t('docs.delete.sure', { name: c.name, n: number(n) }), t('delete'))) told(shelf.drop(c.id));
      }} /></div></div>${opened && html`<${Files} c=${c} take=${take} />`}</li>`;
}

export function Documents({ menu }) {
  const room = shelf.room.use();
  const list = shelf.collections.use();
  const [open, setOpen] = useState(null);
  const [name, setName] = useState('');
  const [over, setOver] = useState(false);
  const [error, setError] = useState('');
  useEffect(() => { shelf.look().then(() => setError(''), (e) => setError(e.message)); }, []);

  // take adds files to a collection, or to a new one.
  async function take(id, { list: files, left, name: folder }) {
    if (left > 0) say(t('docs.skipped', { n: number(left) }), !files.length);
    if (!files.length) return;
    try {
      id ??= await shelf.make(folder || files[0].file.name);
      setOpen(id);
      await shelf.add(id, files);
    } catch (e) {
      say(e.message, true);
    }
  }
  useEvent('dragover', (e) => { if (room?.on && e.dataTransfer?.types.includes('Files')) { e.preventDefault(); setOver(true); } });
  useEvent('dragleave', (e) => { if (!e.relatedTarget) setOver(false); });
  useEvent('drop', (e) => {
    setOver(false);
    if (!room?.on || !e.dataTransfer?.types.includes('Files')) return;
    e.preventDefault();
    told(shelf.dropped(e.dataTransfer).then((got) => take(list.some((c) => c.id === open) ? open : null, got)));
  });
  return html`<div class="bar">${menu}<h1>${t('view.documents')}</h1><span class="grow"></span><${Status} /></div><div class=${over ? 'page documents over' : 'page documents'}>
    ${error && html`<p class="failed" role="alert"><${Icon} name="warn" size="16" /><span dir="auto">${error}</span></p>`}
    ${room && !room.on && html`<section><p>${t('docs.off')}</p><pre class="plain" tabindex="0" dir="ltr">axle serve --documents ~/.local/share/axle/documents</pre></section>`}
    ${room?.on && html`<p class="dim">${t('docs.what')}</p>
      <form class="row fetch" onSubmit=${(e) => { e.preventDefault(); if (name.trim()) told(shelf.make(name.trim()).then((id) => { setName(''); setOpen(id); })); }}><input dir="auto" maxlength="100" placeholder=${t('docs.name')}
        aria-label=${t('docs.name')} value=${name} onInput=${(e) => setName(e.target.value)} /><button class="primary" disabled=${!name.trim()}>${t('docs.make')}</button></form>
      ${!list.length && html`<p class="dim zone">${t('docs.none.yet')}</p>`}
      <ul class="cards">${list.map((c) => html`<${Collection} key=${c.id} c=${c} opened=${open === c.id} toggle=${() => setOpen(open === c.id ? null : c.id)} take=${take} />`)}</ul>
      ${room.limit_bytes > 0 && html`<p class="dim small">${t('docs.room', { used: bytes(room.used_bytes), all: bytes(room.limit_bytes) })}</p>`}`}</div>`;
}
