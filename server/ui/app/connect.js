// How other programs are connected: this server's address, the key, and what to copy into each program, with the tokens that its first prompt
// takes of the model's context. What there is to say of a program is the server's table, which 'axle launch' and the documents have too.
import { html, useEffect, useState } from './html.js';
import { put } from './code.js';
import { fetchModels, models, state } from './live.js';
import { talks, usual } from './open.js';
import { address, json, key } from './server.js';
import { Status } from './status.js';
import { noted, number, short, t } from './words.js';

const unkeyed = 'axle'; // what programs send that insist on a key, where the server wants none
const placeholder = 'YOUR_KEY';
const safe = /^[\w.~+/=-]+$/; // a key that means the same in every text that it is put into
const how = 'https://github.com/axle-llm/axle/blob/main/docs/api.md#keys-and-roles';

// fill puts the values into the holes of a text; what fills a hole has none.
export const fill = (text, values) => text.replace(/\{(url|host|model|key)\}/g, (_, name) => values[name]);

// fit says whether a program's first prompt has room in a context: 'fits', 'little', 'no', or 'unknown'.
export const fit = (needs, context) => (!needs.first || !(context > 0) ? 'unknown' : needs.first >= context ? 'no' : needs.room > context ? 'little' : 'fits');

const tags = { fits: 'good', little: 'warn', no: 'bad' };
const masked = (k) => '•'.repeat(12) + (k.length > 12 ? k.slice(-4) : '');

function Copied({ text, label }) {
  const [said, say] = useState('');
  useEffect(() => {
    if (!said) return undefined;
    const id = setTimeout(() => say(''), 1600);
    return () => clearTimeout(id);
  }, [said]);
  return html`<button type="button" class="quiet" aria-label=${label} onClick=${async () => say((await put(text)) ? 'copied' : 'copy.failed')}><span role="status">${t(said || 'copy')}</span></button>`;
}

// Lines is a text to copy.
function Lines({ into, text, name }) {
  return html`<div class="code" dir="ltr"><div class="head"><span>${into}</span><${Copied} text=${text} label=${t('connect.copy', { name, into })} /></div><pre tabindex="0" role="group" aria-label=${into}><code>${text}</code></pre></div>`;
}

function Key({ wants, show, setShow }) {
  const held = key();
  return html`<section><h2>${t('connect.key')}</h2>${held ? html`<div class="row wrap"><code class="key" dir="ltr">${show ? held : masked(held)}</code>
    <button type="button" aria-pressed=${show} onClick=${() => setShow(!show)}>${t('connect.key.show')}</button><${Copied} text=${held} label=${t('connect.key.copy')} /></div>
    <p class="dim small">${t('connect.key.held')}</p>` : html`<p>${t(wants ? 'connect.key.none' : 'connect.key.free', { key: unkeyed })}</p>`}
    <p class="dim small">${t('connect.key.make')} <code dir="ltr">axle key add NAME</code> · <a href=${how} target="_blank" rel="noopener noreferrer">${t('connect.key.how')}</a></p></section>`;
}

function Needs({ needs, model, context }) {
  const is = fit(needs, context);
  const values = { n: number(needs.first), context: number(context), model: short(model), version: needs.version };
  return html`<p>${needs.first ? t(needs.by === 'measured' ? 'connect.measured' : 'connect.documented', values) : t('connect.by.' + needs.by)} ${is !== 'unknown' && html`<b class=${'fit ' + tags[is]}>${t('connect.says.' + is, values)}</b>`}</p>`;
}

function Program({ p, values, model, context, open }) {
  const note = noted(p.note);
  const is = fit(p.needs, context);
  return html`<li><details open=${open} id=${'connect-' + p.id}><summary><span dir="auto">${p.name}</span> ${is !== 'unknown' && html`<em class=${'tag ' + tags[is]}>${t('connect.fit.' + is)}</em>`}</summary>
    <p lang=${note.lang}>${note.text}</p><${Needs} needs=${p.needs} model=${model} context=${context} />
    ${p.launch && html`<${Lines} into=${t('connect.launch')} name=${p.name} text=${fill('AXLE_HOST={url} axle launch ' + p.id + ' --model {model}', values)} />`}
    ${p.copy.map((c) => html`<${Lines} key=${c.into} into=${c.into} name=${p.name} text=${fill(c.text, values)} />`)}</details></li>`;
}

export function Connect({ menu }) {
  const [told, setTold] = useState(null);
  const [failed, setFailed] = useState('');
  const [url, setURL] = useState('');
  const [name, setName] = useState('');
  const [show, setShow] = useState(false);
  const list = (models.use() ?? []).filter(talks);
  const loaded = state.use()?.models ?? [];
  useEffect(() => {
    fetchModels().catch(() => {});
    json('/api/axle/connect').then(setTold, (e) => setFailed(e.message));
  }, []);
  const model = list.find((m) => m.name === name) ?? list.find((m) => loaded.some((l) => l.name === m.name)) ?? list.find((m) => m.name === usual()) ?? list[0];
  const context = model?.details?.context_length ?? 0;
  const here = address();
  const addresses = [{ url: here, from: 'page' }, ...(told?.addresses ?? []).filter((a) => a.url !== here)];
  const at = addresses.some((a) => a.url === url) ? url : here;
  const held = key();
  const values = { url: at, host: at.replace(/^\w+:\/\//, ''), model: model ? short(model.name) : 'MODEL', key: held ? (show && safe.test(held) ? held : placeholder) : told?.keys ? placeholder : unkeyed };
  const opened = location.hash.split('/')[2];
  return html`<div class="bar">${menu}<h1>${t('view.connect')}</h1><span class="grow"></span><${Status} /></div><div class="page connect">
    <p>${t('connect.what')}</p>${failed && html`<p class="warn" role="alert">${failed}</p>`}
    <section><h2>${t('connect.address')}</h2><fieldset><legend>${t('connect.address.which')}</legend>${addresses.map((a) => html`<label class="check" key=${a.url}><input type="radio" name="address" checked=${a.url === at} onChange=${() => setURL(a.url)} />
      <code dir="ltr">${a.url}</code> <span class="dim small">${t('connect.from.' + a.from)}</span></label>`)}</fieldset>
      ${told && !told.addresses.some((a) => a.from === 'lan') && html`<p class="dim small">${t('connect.alone')} <code dir="ltr">AXLE_HOST=0.0.0.0:11434</code></p>`}</section>
    <${Key} wants=${told?.keys} show=${show} setShow=${setShow} />
    <section><h2>${t('connect.model')}</h2>${model ? html`<div class="row wrap"><select aria-label=${t('connect.model')} value=${model.name} onChange=${(e) => setName(e.target.value)}>${list.map((m) => html`<option key=${m.name} value=${m.name}>${short(m.name)}</option>`)}</select>
      <span class="dim">${context ? t('m.context.n', { n: number(context) }) : ''}</span></div>` : html`<p>${t('connect.no.model')}</p>`}</section>
    <section><h2>${t('connect.programs')}</h2><ul class="cards">${(told?.programs ?? []).map((p) => html`<${Program} key=${p.id} p=${p} values=${values} model=${model?.name} context=${context} open=${opened === p.id} />`)}</ul></section></div>`;
}
