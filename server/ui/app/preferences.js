// What this browser should do: language, look, size of text, Enter; the key; conversations as one file; and where to read more.
import { html, useEffect, useState } from './html.js';
import { speakers } from './aloud.js';
import { sure, say } from './dialog.js';
import { models, state } from './live.js';
import { hearers } from './microphone.js';
import { json, keep, key, keptAlways } from './server.js';
import { set, settings, touch } from './settings.js';
import { Sharing } from './sharing.js';
import { Status } from './status.js';
import * as store from './store.js';
import { asJSON, save } from './transfer.js';
import { listed } from './keyboard.js';
import { language, languages, short, t } from './words.js';

const Choice = ({ name, word, value, list, on }) => html`<fieldset><legend>${word}</legend><div class="row wrap">${list.map(([v, text]) => html`<label class="check" key=${v}><input type="radio" name=${name} checked=${value === v} onChange=${() => on(v)} /> ${text}</label>`)}</div></fieldset>`;

const Pick = ({ word, value, list, on, children }) => html`<fieldset><legend>${word}</legend><select aria-label=${word} value=${value} onChange=${(e) => on(e.target.value)}>${list.map(([v, text]) => html`<option key=${v} value=${v}>${text}</option>`)}</select>${children}</fieldset>`;

// spoken is a language's name in the page's language.
function spoken(tag) {
  try {
    return new Intl.DisplayNames([language.get()], { type: 'language' }).of(tag);
  } catch {
    return tag; // it is no tag
  }
}

// Voice is the choice of a voice that reads aloud, of all that the models here have.
function Voice({ value }) {
  const [list, setList] = useState([]);
  const [why, setWhy] = useState('');
  useEffect(() => { json('/v1/audio/voices').then((r) => setList(r?.voices ?? []), (e) => setWhy(e.message)); }, []);
  const several = new Set(list.map((v) => v.model)).size > 1;
  const at = list.findIndex((v) => v.id === value?.id && v.model === value.model);
  return html`<${Pick} word=${t('set.voice')} value=${at < 0 ? '' : String(at)} list=${[['', t('set.voice.own')], ...list.map((v, i) => [String(i), [v.name, v.language && spoken(v.language), several && short(v.model)].filter(Boolean).join(' · ')])]}
    on=${(i) => set({ voice: i === '' ? null : { model: list[i].model, id: list[i].id } })}>${why && html`<p class="dim" role="alert">${why}</p>`}<//>`;
}

export function Preferences({ menu }) {
  const s = settings.use();
  const had = key();
  const list = models.use();
  const hear = hearers(list);
  return html`<div class="bar">${menu}<h1>${t('view.settings')}</h1><span class="grow"></span><${Status} /></div><div class="page"><div class="form settings">
    <${Choice} name="lang" word=${t('set.lang')} value=${s.lang ?? ''} list=${[['', t('set.auto')], ...Object.entries(languages)]} on=${(lang) => set({ lang })} />
    <p class="dim drafts">* ${t('set.lang.draft')}</p>
    <${Choice} name="theme" word=${t('set.theme')} value=${s.theme ?? ''} list=${[['', t('set.auto')], ['light', t('set.light')], ['dark', t('set.dark')]]} on=${(theme) => set({ theme })} />
    <${Choice} name="text" word=${t('set.text')} value=${String(s.text ?? 16)} list=${[['14', t('set.small')], ['16', t('set.normal')], ['18', t('set.large')], ['21', t('set.larger')]]} on=${(text) => set({ text: Number(text) })} />
    <${Choice} name="enter" word=${t('set.enter')} value=${s.enter || (touch() ? 'line' : 'send')} list=${[['send', t('set.enter.send')], ['line', t('set.enter.line')]]} on=${(enter) => set({ enter })} />
    ${hear.length > 0 && html`<${Choice} name="heard" word=${t('set.heard')} value=${s.heard ?? ''} list=${[['', t('set.heard.field')], ['send', t('set.heard.send')]]} on=${(heard) => set({ heard })} />`}
    ${hear.length > 1 && html`<${Pick} word=${t('set.hearer')} value=${hear.some((m) => m.name === s.hearer) ? s.hearer : ''} list=${[['', t('set.hearer.own')], ...hear.map((m) => [m.name, short(m.name)])]} on=${(name) => set({ hearer: name })} />`}
    ${speakers(list).length > 0 && html`<${Voice} value=${s.voice} />`}
    <fieldset><legend>${t('key.title')}</legend><p>${had ? t(keptAlways() ? 'set.key.browser' : 'set.key.tab') : t('set.key.none')}</p>${state.use()?.admin === false && html`<p class="dim">${t('role.ask')}</p>`}${had && html`<button type="button" onClick=${() => { keep(null); say(t('set.key.gone')); set({}); }}>${t('set.key.forget')}</button>`}</fieldset>
    <fieldset><legend>${t('set.chats')}</legend><${Sharing} /><div class="row wrap"><button type="button" onClick=${async () => save('axle.json', 'application/json', await asJSON())}>${t('set.export')}</button>
      <button type="button" class="danger" onClick=${async () => {
        const list = await store.chats();
        if (await sure(t('set.clear.sure', { n: list.length }) + (s.share ? ' ' + t('share.delete') : ''), t('delete'))) await store.dropChats();
      }}>${t('set.clear')}</button></div></fieldset>
    <fieldset><legend>${t('set.more')}</legend><div class="row wrap"><button type="button" onClick=${() => listed.set(true)}>${t('keys')} <kbd>?</kbd></button></div></fieldset></div></div>`;
}
