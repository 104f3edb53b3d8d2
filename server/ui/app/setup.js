// How a conversation is answered: its name, system prompt, thinking, numbers, format, tools; presets of all that; its files.
import { fresh, html, useEffect, useState } from './html.js';
import { Modal, sure, told } from './dialog.js';
import { numbers } from './drawing.js';
import { models } from './live.js';
import * as it from './open.js';
import * as store from './store.js';
import { sampling } from './talk.js';
import * as mcp from './tools.js';
import { asJSON, asMarkdown, save } from './transfer.js';
import { t } from './words.js';

const exampleSchema = '{\n  "type": "object",\n  "properties": { "answer": { "type": "string" } },\n  "required": ["answer"]\n}';
const exampleTools = '[{\n  "name": "weather",\n  "description": "The weather of a place",\n  "parameters": {\n    "type": "object",\n    "properties": { "place": { "type": "string" } },\n    "required": ["place"]\n  }\n}]';

// wrong says why a text is no JSON; empty text is fine.
function wrong(text) {
  if (!text || text === 'json') return '';
  try {
    JSON.parse(text);
    return '';
  } catch (e) {
    return e.message;
  }
}

function Presets({ chat }) {
  const [list, setList] = useState([]);
  useEffect(() => {
    const load = () => store.presets().then(setList);
    load();
    return store.changed.follow((c) => { if (c?.table === 'presets') load(); });
  }, []);
  const [name, setName] = useState('');
  const built = [
    { id: 'plain', name: t('preset.plain'), system: '', options: {}, think: null, format: '', tools: '', mcp: [] },
    { id: 'exact', name: t('preset.exact'), options: { temperature: 0 } }, { id: 'free', name: t('preset.free'), options: { temperature: 1.1, top_p: 0.98 } },
  ];
  const use = (p) => it.change(p.id in { exact: 1, free: 1 } ? { options: { ...chat.options, ...p.options } } : it.fields(p));
  return html`<fieldset><legend>${t('presets')}</legend><div class="row wrap">${[...built, ...list].map((p) => html`<span class="preset" key=${p.id}><button type="button" class="chip" onClick=${() => use(p)}>${p.name}</button>
    ${!built.includes(p) && html`<button type="button" class="quiet small" aria-label=${t('preset.first')} aria-pressed=${!!p.first} title=${t('preset.first')} onClick=${async () => {
      for (const q of list) if (q.first || q.id === p.id) await store.savePreset({ ...q, first: q.id === p.id && !p.first });
    }}>${p.first ? '★' : '☆'}</button><button type="button" class="quiet small" aria-label=${t('delete')} title=${t('delete')} onClick=${async () => {
      if (await sure(t('preset.delete', { name: p.name }), t('delete'))) store.dropPreset(p.id);
    }}>×</button>`}</span>`)}</div>
    <form class="row" onSubmit=${(e) => {
      e.preventDefault();
      if (!name.trim()) return;
      store.savePreset({ ...it.fields(chat), id: list.find((p) => p.name === name.trim())?.id ?? fresh(), name: name.trim() });
      setName('');
    }}><input placeholder=${t('preset.name')} aria-label=${t('preset.name')} value=${name} onInput=${(e) => setName(e.target.value)} /><button disabled=${!name.trim()}>${t('preset.save')}</button></form></fieldset>`;
}

// Served is a server whose tools may be on, and what it offers once it is.
function Served({ name, on, turn }) {
  const [got, setGot] = useState(null);
  useEffect(() => {
    if (!on) return undefined;
    const abort = new AbortController();
    setGot(null);
    mcp.list(name, abort.signal).then(setGot).catch(() => {});
    return () => abort.abort();
  }, [on]);
  const count = got && !got.error ? t(got.tools.length === 1 ? 'mcp.one' : 'mcp.count', { n: got.tools.length }) : '';
  return html`<div class="served"><label class="check"><input type="checkbox" checked=${on} onChange=${(e) => turn(e.target.checked)} /> <span>${name}</span></label>
    ${on && !got && html`<span class="dim" role="status">${t('mcp.asking')}</span>`}${got?.error && html`<p class="failed" role="alert" dir="auto">${got.error}</p>`}
    ${count && html`<details class="offered"><summary>${count}</summary><ul>${got.tools.map((x) => html`<li key=${x.name}><code>${x.name}</code>${x.description && html` <span class="dim" dir="auto">${x.description.slice(0, 300)}</span>`}</li>`)}
      ${(got.left_out ?? []).map((w, i) => html`<li key=${'out' + i} class="dim" dir="auto">${t('mcp.left.out', { what: w })}</li>`)}</ul></details>`}</div>`;
}

// Servers are those whose tools the server can run, where it has some.
function Servers({ chat }) {
  const list = mcp.servers.use();
  const [, again] = useState(0);
  useEffect(() => { mcp.look(); }, []);
  const mine = chat.mcp ?? [];
  const all = [...new Set([...(list ?? []), ...mine])];
  if (!all.length) return null;
  return html`<fieldset class="mcp"><legend>${t('mcp')}</legend><p class="dim">${t('mcp.why')}</p>${all.map((name) => html`<${Served} key=${name} name=${name} on=${mine.includes(name)}
    turn=${(on) => it.change({ mcp: on ? [...mine, name] : mine.filter((n) => n !== name) })} />`)}
    ${mcp.kept().length > 0 && html`<p class="dim">${t('mcp.kept', { names: mcp.kept().join(', ') })} <button type="button" class="quiet small" onClick=${() => { mcp.forget(); again((n) => n + 1); }}>${t('mcp.forget')}</button></p>`}</fieldset>`;
}

export function Setup({ now, close }) {
  const chat = now.chat;
  const model = models.use()?.find((m) => m.name === chat.model);
  const can = model?.capabilities ?? [];
  const option = (name, value) => {
    const options = { ...chat.options };
    if (value === '' || value === undefined || value === false) delete options[name];
    else options[name] = value;
    it.change({ options });
  };
  const badFormat = wrong(chat.format), badTools = wrong(chat.tools);
  const kind = !chat.format ? '' : chat.format === 'json' ? 'json' : 'schema';
  const name = chat.title || 'chat';
  const fields = (list) => html`<div class="grid">${list.map(([n, min, max, step]) => html`<label key=${n}>${t('o.' + n)}<input type="number" inputmode="decimal" min=${min} max=${max} step=${step} placeholder=${t('own')}
    value=${chat.options?.[n] ?? ''} onChange=${(e) => { if (e.target.checkValidity()) option(n, e.target.value === '' ? '' : Number(e.target.value)); else e.target.reportValidity(); }} /></label>`)}</div>`;
  const draws = it.draws(model);
  return html`<${Modal} title=${t('setup')} close=${close}><div class="form">
    ${now.saved && html`<label>${t('name')}<input dir="auto" value=${chat.title} onChange=${(e) => { if (e.target.value.trim()) it.change({ title: e.target.value.trim(), named: true }); }} /></label>`}
    ${draws && html`<fieldset><legend>${t('draw.how')}</legend><p class="dim">${t('sampling.why')}</p>${fields(numbers)}
      <label>${t('o.negative_prompt')}<textarea rows="2" dir="auto" value=${chat.options?.negative_prompt ?? ''} onChange=${(e) => option('negative_prompt', e.target.value.trim())} /></label></fieldset>`}
    ${!draws && html`<${Presets} chat=${chat} />
    <label>${t('system')}<textarea rows="4" dir="auto" placeholder=${t('system.hint')} value=${chat.system} onChange=${(e) => it.change({ system: e.target.value })} /></label>
    ${can.includes('thinking') && html`<fieldset><legend>${t('think.what')}</legend><div class="row">${[[null, 'think.auto'], [true, 'think.on'], [false, 'think.off']].map(([v, k]) => html`<label class="check"
      key=${k}><input type="radio" name="think" checked=${(chat.think ?? null) === v} onChange=${() => it.change({ think: v })} /> ${t(k)}</label>`)}</div></fieldset>`}
    <details open=${Object.keys(chat.options ?? {}).length > 0}><summary>${t('sampling')}</summary><p class="dim">${t('sampling.why')}</p>
      ${fields(sampling)}
      <label>${t('o.stop')}<textarea rows="2" dir="auto" placeholder=${t('o.stop.hint')} value=${(chat.options?.stop ?? []).join('\n')}
        onChange=${(e) => option('stop', e.target.value.trim() ? e.target.value.split('\n').filter(Boolean) : '')} /></label>
      <label class="check"><input type="checkbox" checked=${!!chat.options?.repeatable} onChange=${(e) => option('repeatable', e.target.checked)} /> ${t('o.repeatable')}</label></details>
    <details open=${!!chat.format}><summary>${t('format')}</summary><div class="row">${[['', 'format.none'], ['json', 'format.json'], ['schema', 'format.schema']].map(([v, k]) => html`<label class="check" key=${k}><input
      type="radio" name="format" checked=${kind === v} onChange=${() => it.change({ format: v === 'schema' ? exampleSchema : v })} /> ${t(k)}</label>`)}</div>
      ${kind === 'schema' && html`<textarea class="mono" rows="8" dir="ltr" spellcheck="false" aria-label=${t('format.schema')} aria-invalid=${!!badFormat} value=${chat.format} onInput=${(e) => it.change({ format: e.target.value || '{}' })} />`}
      ${badFormat && html`<p class="failed" role="alert">${t('format.bad', { why: badFormat })}</p>`}</details>
    ${can.includes('tools') && html`<${Servers} chat=${chat} />`}
    ${can.includes('tools') && html`<details open=${!!chat.tools}><summary>${t('tools')}</summary><p class="dim">${t('tools.why')}</p><textarea class="mono" rows="8" dir="ltr" spellcheck="false" aria-label=${t('tools')}
      aria-invalid=${!!badTools} placeholder=${exampleTools} value=${chat.tools} onInput=${(e) => it.change({ tools: e.target.value })} />
      ${badTools && html`<p class="failed" role="alert">${t('tools.bad', { why: badTools })}</p>`}</details>`}`}
    ${now.saved && html`<div class="row wrap end"><button type="button" onClick=${async () => save(name + '.json', 'application/json', await asJSON(chat.id))}>${t('export.json')}</button>
      <button type="button" onClick=${() => save(name + '.md', 'text/markdown', asMarkdown(chat, now.path))}>${t('export.md')}</button>
      <button type="button" class="danger" onClick=${async () => {
        if (!(await sure(t('chat.delete', { title: chat.title }), t('delete')))) return;
        close();
        await told(store.dropChat(chat.id));
      }}>${t('chat.drop')}</button></div>`}
  </div><//>`;
}
