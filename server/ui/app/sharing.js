// The switch of the settings that shares conversations with the server, with what it means and how it stands.
import { html, useEffect, useState } from './html.js';
import { Modal, say, sure, told } from './dialog.js';
import { settings } from './settings.js';
import { end, keyless, standing, start, sync } from './share.js';
import * as store from './store.js';
import { bytes, t } from './words.js';

// Standing says in a sentence where the conversations are.
export function Standing() {
  const { how, why } = standing.use();
  if (!how) return null;
  const bad = !['begins', 'saved', 'waits'].includes(how);
  return html`<p class=${bad ? 'none warn shared' : 'none shared'} role="status">${t('share.' + how, { why })}</p>`;
}

function Ending({ close }) {
  const off = (of) => { close(); told(end(of)); };
  return html`<${Modal} title=${t('share.end')} close=${close}><p>${t('share.end.why')}</p><div class="row wrap end">
    <button type="button" class="danger" onClick=${() => off('here')}>${t('share.end.here')}</button>
    <button type="button" class="danger" onClick=${() => off('server')}>${t('share.end.server')}</button>
    <button type="button" class="primary" autofocus onClick=${() => off('keep')}>${t('share.end.keep')}</button></div><//>`;
}

export function Sharing() {
  const on = !!settings.use().share;
  const [ending, setEnding] = useState(false);
  const [working, setWorking] = useState(false);
  const [, again] = useState(0);
  const { how } = standing.use();
  useEffect(() => { again((n) => n + 1); }, [how]);
  const begin = async () => {
    const list = await store.chats();
    if (!(await sure(t('share.sure', { n: list.length }) + (keyless() ? ' ' + t('share.keyless') : ''), t('share.send')))) return;
    setWorking(true);
    await start().catch((e) => say(e.kind === 'off' ? t('share.off') : e.message, true));
    setWorking(false);
  };
  return html`<p class="dim">${t(on ? 'share.on' : 'set.chats.why')}</p>
    <label class="check"><input type="checkbox" id="share" checked=${on} disabled=${working} onClick=${(e) => { e.preventDefault(); on ? setEnding(true) : begin(); }} /> ${t('share.title')}</label>
    <p class="dim">${t('share.why')}</p>
    ${on && html`<${Standing} />`}
    ${on && how === 'other' && html`<div class="row"><button type="button" onClick=${begin}>${t('share.again')}</button></div>`}
    ${on && sync.room && html`<p class="dim">${t('share.room', { used: bytes(sync.room.used), most: bytes(sync.room.most) })}</p>`}
    ${ending && html`<${Ending} close=${() => setEnding(false)} />`}`;
}
