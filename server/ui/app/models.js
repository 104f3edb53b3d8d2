// The models: what is here and what can be fetched; loading, keeping, fetching, showing, deleting, comparing.
import { html, useEffect, useState } from './html.js';
import { Compare } from './compare.js';
import { Detect } from './detect.js';
import { Modal, say, sure, told } from './dialog.js';
import { Button, Icon } from './icons.js';
import { fetchModels, hurry, models, state } from './live.js';
import * as it from './open.js';
import { forget, pull, pulls, stop } from './pulls.js';
import { json, serverNow } from './server.js';
import { Status } from './status.js';
import { bytes, date, noted, number, short, span, t } from './words.js';

const year = 365 * 86400000;

// keep loads a model, or unloads it: seconds is keep_alive.
async function keep(m, seconds) {
  const embeds = (m.capabilities ?? []).includes('embedding');
  hurry();
  await told(json(embeds ? '/api/embed' : '/api/generate', { body: { model: m.name, ...(embeds ? { input: [] } : { stream: false }), ...(seconds === undefined ? {} : { keep_alive: seconds }) } }));
  hurry();
}

async function drop(m) {
  if (!(await sure(t('model.delete', { model: m.name, size: bytes(m.size) }), t('delete')))) return;
  await told(json('/api/delete', { method: 'DELETE', body: { model: m.name } }).then(() => say(t('model.deleted', { model: short(m.name) }))));
  fetchModels().catch(() => {});
}

const fact = (k, v) => (v === undefined || v === null || v === '' || v === 0 ? null : html`<div key=${k}><dt>${k}</dt><dd dir="auto">${v}</dd></div>`);

function Show({ name, close }) {
  const [s, setS] = useState(null);
  const [error, setError] = useState('');
  useEffect(() => { json('/api/show', { body: { model: name } }).then(setS, (e) => setError(e.message)); }, [name]);
  const info = s?.model_info ?? {};
  const arch = info['general.architecture'];
  const n = (key) => (info[`${arch}.${key}`] ? number(info[`${arch}.${key}`]) : null);
  const long = (key, text) => text && html`<details key=${key}><summary>${t(key)}</summary><pre class="plain" tabindex="0" dir="auto">${text}</pre></details>`;
  return html`<${Modal} title=${name} close=${close} wide>${error ? html`<p class="failed" role="alert">${error}</p>` : s && html`<dl class="facts-list">
    ${fact(t('m.family'), s.details?.family)}${fact(t('m.parameters'), s.details?.parameter_size)}${fact(t('m.quantization'), s.details?.quantization_level)}${fact(t('m.format'), s.details?.format)}
    ${fact(t('m.context'), n('context_length') && t('tokens', { n: n('context_length') }))}${fact(t('m.layers'), n('block_count'))}${fact(t('m.width'), n('embedding_length'))}${fact(t('m.vocab'), n('vocab_size'))}
    ${fact(t('m.can'), info['general.description'] ?? (s.capabilities ?? []).map((c) => t('can.' + c)).join(', '))}${fact(t('m.modified'), s.modified_at && date(Date.parse(s.modified_at)))}${fact(t('m.parent'), s.details?.parent_model)}</dl>
    ${s.system && html`<h3>${t('system')}</h3><p dir="auto" class="pre">${s.system}</p>`}
    ${s.parameters && html`<h3>${t('m.params')}</h3><dl class="facts-list">${s.parameters.split('\n').map((l) => { const [k, ...v] = l.trim().split(/\s+/); return fact(k, v.join(' ')); })}</dl>`}
    <div class="folds">${long('m.template', s.template)}${long('m.modelfile', s.modelfile)}${long('m.license', s.license)}</div>`}<//>`;
}

const many = 12; // models from which on one looks for one by its name
const fits = { now: 'good', alone: 'warn', no: 'bad', unknown: '' };

function Here({ m, room, run, show, look, may }) {
  const load = state.use()?.loads?.find((l) => l.model === m.name);
  const d = m.details ?? {};
  const kept = run && Date.parse(run.expires_at) - serverNow() > year;
  const can = m.capabilities ?? [];
  const memory = run?.memory?.total ?? room?.card_bytes;
  const left = run ? (Date.parse(run.expires_at) - serverNow()) / 1000 : 0;
  return html`<li class="model"><div class="what"><h3><span dir="auto">${short(m.name)}</span>${run && html`<em class="tag on">${t('m.loaded')}</em>`}</h3>
    <p class="dim">${[d.parameter_size, d.quantization_level, bytes(m.size), d.context_length && t('m.context.n', { n: number(d.context_length) })].filter(Boolean).join(' · ')}</p>
    ${m.says && html`<p class="dim" lang="en" dir="ltr">${m.says}</p>`}<p class="tags">${can.filter((c) => c !== 'completion').map((c) => html`<em class="tag" key=${c}>${t('can.' + c)}</em>`)}${memory ? html`<em class="tag">${t('m.needs', { size: bytes(memory) })}</em>` : null}
      ${!run && !m.says && room?.fits && room.fits !== 'unknown' && html`<em class=${'tag ' + fits[room.fits]}>${t('fits.' + room.fits)}</em>`}${run && html`<em class="tag">${kept ? t('m.kept') : left > 0 ? t('m.until', { time: span(left) }) : t('m.busy')}</em>`}</p>
    ${load && html`<${Progress} done=${load.bytes_done} total=${load.bytes} text=${t('load.' + load.state, { model: short(m.name) })} rate=${load.bytes_per_second} left=${load.left_seconds} />`}</div>
    <div class="does">${it.answers(m) && html`<button type="button" class="primary" onClick=${async () => { await it.go(null); it.change({ model: m.name }); location.hash = '#/chat'; }}>${t(it.draws(m) ? 'm.draw' : 'm.talk')}</button>`}
      ${!m.says && can.includes('detection') && html`<button type="button" class="primary" onClick=${() => look(m.name)}>${t('detect')}</button>`}
      ${m.says ? null : run ? may && html`<button type="button" onClick=${() => keep(m, 0)}>${t('m.unload')}</button>` : html`<button type="button" disabled=${!!load} onClick=${() => keep(m)}>${t('m.load')}</button>`}
      ${run && may && html`<button type="button" aria-pressed=${!!kept} onClick=${() => keep(m, kept ? 300 : -1)}>${kept ? t('m.release') : t('m.keep')}</button>`}
      <button type="button" onClick=${() => show(m.name)}>${t('m.show')}</button>${may && html`<${Button} icon="trash" label=${t('m.delete', { model: short(m.name) })} onClick=${() => drop(m)} />`}</div></li>`;
}

export function Progress({ done, total, text, rate, left, children }) {
  const part = total ? Math.min(1, done / total) : null;
  return html`<div class="progress"><div class="row"><span dir="auto">${text}</span><span class="grow"></span><span class="num dim">${[part !== null && number(100 * part) + ' %', total ? `${bytes(done)} / ${bytes(total)}` : '', rate > 0 && bytes(rate) + '/s',
    left != null && t('left', { time: span(left) })].filter(Boolean).join(' · ')}</span>${children}</div><progress max="1" value=${part ?? undefined} aria-label=${text}></progress></div>`;
}

function Pulling({ p }) {
  const connects = !p.total && /^(?:|pulling manifest)$/.test(p.status);
  const text = p.error ? '' : connects && !p.over ? t('pull.connects', { model: short(p.name) }) : p.over ? t('pull.done', { model: short(p.name) }) : p.total ? t('pull.fetching', { model: short(p.name) }) : t('pull.begins', { model: short(p.name) }) + (p.status ? ' ' + p.status : '');
  return html`<li>${p.error ? html`<div class="failed" role="alert"><${Icon} name="warn" size="16" /><span dir="auto"><b>${p.name}</b>: ${/HF_ENDPOINT=/.test(p.error) ? html`${t('pull.unreached')} <small class="dim" lang="en" dir="ltr">${p.error}</small>` : p.error}</span><span class="grow"></span>
    <button type="button" onClick=${() => pull(p.name)}>${t('pull.again')}</button><${Button} icon="close" label=${t('close')} onClick=${() => forget(p.name)} /></div>`
    : html`<${Progress} done=${p.over ? p.total : p.done} total=${p.total} text=${text} rate=${p.rate} left=${p.left}>${!p.over && html`<button type="button" onClick=${() => stop(p.name)}>${t('stop')}</button>`}<//>`}</li>`;
}

function Noted({ text: said }) {
  const { text, lang } = noted(said);
  return html`<p class="dim small" lang=${lang} dir="auto">${text}</p>`;
}

function Catalogue({ cat, under, here, may }) {
  const [text, setText] = useState('');
  const [all, setAll] = useState(false);
  const list = (cat?.catalogue ?? []).filter((e) => !e.here && !here.has(e.name) && (!text || `${e.name} ${e.repository}`.toLowerCase().includes(text.toLowerCase())));
  const can = cat ? cat.can_pull !== false : true;
  const few = all || text ? list : list.filter((e) => !e.not_yet && e.fits !== 'no').slice(0, 12);
  const name = text.trim();
  return html`<section><h2>${t('catalogue')}</h2>${!can && may && html`<p class="dim">${t('pull.off')}</p>`}
    ${can && html`<form class="row fetch" onSubmit=${(e) => { e.preventDefault(); if (name) { pull(name); setText(''); } }}><input type="search" dir="ltr" placeholder=${t('pull.name')} aria-label=${t('pull.name')} value=${text} onInput=${(e) => setText(e.target.value)} />
      <button class="primary" disabled=${!name}>${t('pull')}</button></form>`}
    <ul class="cards">${few.map((e) => html`<li class="model" key=${e.name}><div class="what"><h3>${e.name}</h3><p class="dim">${[e.parameters, e.quantization, e.size_bytes && (e.size_estimated ? '≈ ' : '') + bytes(e.size_bytes),
      e.tokens_per_second > 0 && t('rate', { n: number(e.tokens_per_second, 1) })].filter(Boolean).join(' · ')}</p>
      <p class="tags">${e.kind && e.kind !== 'text' && html`<em class="tag">${t('can.' + e.kind)}</em>`}${e.not_yet ? html`<em class="tag warn" title=${noted(e.not_yet).text}>${t('m.not.yet')}</em>` : e.needs_card ? html`<em class="tag warn">${t('m.needs.card')}</em>` : fits[e.fits] !== undefined && e.fits !== 'unknown' && html`<em class=${'tag ' + fits[e.fits]}>${t('fits.' + e.fits)}</em>`}${e.cards_gb?.length > 0 && html`<em class="tag">${t('m.card.of', { sizes: e.cards_gb.join(', ') })}</em>`}</p>
      ${(e.not_yet || (e.note && !e.needs_card)) && html`<${Noted} text=${e.not_yet || e.note} />`}</div>
      <div class="does">${can && !e.not_yet && html`<button type="button" disabled=${under.has(e.name)} onClick=${() => pull(e.name)}>${t('pull')}</button>`}</div></li>`)}</ul>
    ${!all && !text && list.length > few.length && html`<button type="button" onClick=${() => setAll(true)}>${t('catalogue.all', { n: list.length })}</button>`}
    ${text && !list.length && html`<p class="dim">${t('catalogue.none')}</p>`}</section>`;
}

export function Models({ menu }) {
  const list = models.use();
  const s = state.use();
  const under = pulls.use();
  const [cat, setCat] = useState(null);
  const [shown, setShown] = useState(null);
  const [look, setLook] = useState(null);
  const [compare, setCompare] = useState(false);
  const [text, setText] = useState('');
  const loaded = (s?.models ?? []).map((m) => m.name).join();
  useEffect(() => { fetchModels().catch(() => {}); }, []);
  useEffect(() => { json('/api/axle/catalogue').then(setCat, () => setCat({})); }, [loaded, list?.length]);
  const here = new Set((list ?? []).map((m) => m.name));
  const may = s?.admin !== false;
  const talk = (list ?? []).filter((m) => it.talks(m));
  const found = (list ?? []).filter((m) => !text.trim() || m.name.toLowerCase().includes(text.trim().toLowerCase()));
  return html`<div class="bar">${menu}<h1>${t('view.models')}</h1><span class="grow"></span><${Status} /></div><div class="page models">
    ${under.size > 0 && html`<ul class="pulls" aria-label=${t('pulls')}>${[...under.values()].map((p) => html`<${Pulling} key=${p.name} p=${p} />`)}</ul>`}
    ${!may && html`<p class="note role">${t('role.ask')}</p>`}
    <section><div class="row"><h2>${t('models.here')}</h2><span class="grow"></span>${talk.length > 1 && html`<button type="button" onClick=${() => setCompare(true)}>${t('compare')}</button>`}</div>
      ${cat?.memory_bytes > 0 && html`<p class="dim">${t((s?.cards ?? []).every((c) => c.memory_of === 'host') ? 'memory.host' : 'memory.free', { free: bytes(cat.memory_free_bytes), all: bytes(cat.memory_bytes) })}</p>`}
      ${list && !list.length && html`<p>${t('models.none')}</p>`}
      ${cat?.first && cat.can_pull && html`<p class="note row wrap"><span>${t('models.first', { model: cat.first, size: bytes(cat.memory_bytes) })}</span><button type="button" class="primary" disabled=${under.has(cat.first)} onClick=${() => pull(cat.first)}>${t('pull')}</button></p>`}
      ${list?.length > many && html`<input type="search" class="here" dir="auto" placeholder=${t('models.find', { n: number(list.length) })} aria-label=${t('models.find', { n: number(list.length) })} value=${text} onInput=${(e) => setText(e.target.value)} />`}
      ${list?.length > 0 && !found.length && html`<p class="dim">${t('models.find.none')}</p>`}
      <ul class="cards">${found.map((m) => html`<${Here} key=${m.name} m=${m} may=${may} show=${setShown} look=${setLook} room=${cat?.here?.find((h) => h.name === m.name)} run=${s?.models?.find((x) => x.name === m.name)} />`)}</ul></section>
    <${Catalogue} cat=${cat} under=${under} here=${here} may=${may} /></div>
    ${shown && html`<${Show} name=${shown} close=${() => setShown(null)} />`}${look && html`<${Detect} name=${look} close=${() => setLook(null)} />`}${compare && html`<${Compare} list=${talk} close=${() => setCompare(false)} />`}`;
}
