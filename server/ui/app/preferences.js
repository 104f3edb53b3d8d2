// What this browser should do: language, look, size of text, Enter; the key; conversations as one file; and where to read more.
import { html } from './html.js';
import { sure, say } from './dialog.js';
import { state } from './live.js';
import { keep, key, keptAlways } from './server.js';
import { set, settings, touch } from './settings.js';
import { Status } from './status.js';
import * as store from './store.js';
import { asJSON, save } from './transfer.js';
import { listed } from './keyboard.js';
import { languages, t } from './words.js';

const Choice = ({ name, word, value, list, on }) => html`<fieldset><legend>${word}</legend><div class="row wrap">${list.map(([v, text]) => html`<label class="check" key=${v}><input type="radio" name=${name} checked=${value === v} onChange=${() => on(v)} /> ${text}</label>`)}</div></fieldset>`;

export function Preferences({ menu }) {
  const s = settings.use();
  const had = key();
  return html`<div class="bar">${menu}<h1>${t('view.settings')}</h1><span class="grow"></span><${Status} /></div><div class="page"><div class="form settings">
    <${Choice} name="lang" word=${t('set.lang')} value=${s.lang ?? ''} list=${[['', t('set.auto')], ...Object.entries(languages)]} on=${(lang) => set({ lang })} />
    <${Choice} name="theme" word=${t('set.theme')} value=${s.theme ?? ''} list=${[['', t('set.auto')], ['light', t('set.light')], ['dark', t('set.dark')]]} on=${(theme) => set({ theme })} />
    <${Choice} name="text" word=${t('set.text')} value=${String(s.text ?? 16)} list=${[['14', t('set.small')], ['16', t('set.normal')], ['18', t('set.large')], ['21', t('set.larger')]]} on=${(text) => set({ text: Number(text) })} />
    <${Choice} name="enter" word=${t('set.enter')} value=${s.enter || (touch() ? 'line' : 'send')} list=${[['send', t('set.enter.send')], ['line', t('set.enter.line')]]} on=${(enter) => set({ enter })} />
    <fieldset><legend>${t('key.title')}</legend><p>${had ? t(keptAlways() ? 'set.key.browser' : 'set.key.tab') : t('set.key.none')}</p>${state.use()?.admin === false && html`<p class="dim">${t('role.ask')}</p>`}${had && html`<button type="button" onClick=${() => { keep(null); say(t('set.key.gone')); set({}); }}>${t('set.key.forget')}</button>`}</fieldset>
    <fieldset><legend>${t('set.chats')}</legend><p class="dim">${t('set.chats.why')}</p><div class="row wrap"><button type="button" onClick=${async () => save('axle.json', 'application/json', await asJSON())}>${t('set.export')}</button>
      <button type="button" class="danger" onClick=${async () => {
        const list = await store.chats();
        if (await sure(t('set.clear.sure', { n: list.length }), t('delete'))) await store.dropChats();
      }}>${t('set.clear')}</button></div></fieldset>
    <fieldset><legend>${t('set.more')}</legend><div class="row wrap"><button type="button" onClick=${() => listed.set(true)}>${t('keys')} <kbd>?</kbd></button></div></fieldset></div></div>`;
}
