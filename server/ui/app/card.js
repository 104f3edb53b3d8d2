// The card: how warm, how busy, what lies in its memory, what runs and waits, and what to do where something is wrong.
import { html, useEffect } from './html.js';
import { Bench } from './bench.js';
import { Cells } from './cells.js';
import { told } from './dialog.js';
import { Icon } from './icons.js';
import { hurry, models, sampled, samples, state, watch } from './live.js';
import { Progress } from './models.js';
import { talks } from './open.js';
import { Plot } from './plot.js';
import { json } from './server.js';
import { Servers } from './servers.js';
import { Status } from './status.js';
import { bytes, number, short, span, t, warned } from './words.js';

const minutes = 600;
const parts = ['layers', 'head', 'cache', 'states', 'encoder', 'buffers', 'draft'];

function Tile({ word, value, unit, more, bad }) {
  return html`<div class=${bad ? 'tile bad' : 'tile'}><dt>${word}</dt><dd><b class="num">${value}</b>${unit && html`<span> ${unit}</span>`}${more && html`<small>${more}</small>`}</dd></div>`;
}

function Memory({ card, list }) {
  const all = card.memory_bytes;
  const mine = list.filter((m) => m.device === card.device || (!m.device && true));
  const used = mine.reduce((n, m) => n + (m.memory?.total ?? 0), 0);
  const total = all || used;
  if (!total) return null;
  const other = all ? Math.max(0, all - (card.memory_free_bytes ?? 0) - used) : 0;
  const wide = (n) => ({ flexGrow: n / total });
  return html`<section class="panel"><div class="row wrap"><h2>${t('memory')}</h2><span class="grow"></span><span class="dim num">${all ? t(card.memory_of === 'host' ? 'memory.host' : 'memory.free', { free: bytes(card.memory_free_bytes), all: bytes(all) }) : bytes(used)}</span></div>
    <div class="stack" role="img" aria-label=${mine.map((m) => `${short(m.name)} ${bytes(m.memory?.total)}`).join(', ')}>${mine.map((m, i) => parts.filter((p) => m.memory?.[p]).map((p) => html`<span key=${m.name + p} class=${`part p-${p} m${i % 4}`}
      style=${wide(m.memory[p])} title=${`${short(m.name)} · ${t('mem.' + p)} ${bytes(m.memory[p])}`}></span>`))}${other > total / 200 && html`<span class="part p-other" style=${wide(other)} title=${`${t('mem.other')} ${bytes(other)}`}></span>`}
      ${all > 0 && html`<span class="part p-free" style=${wide(Math.max(0, card.memory_free_bytes ?? 0))}></span>`}</div>
    ${mine.length > 0 && html`<div class="table" tabindex="0"><table><thead><tr><th>${t('model')}</th>${parts.map((p) => html`<th key=${p}><i class=${'key p-' + p}></i>${t('mem.' + p)}</th>`)}<th>${t('mem.total')}</th></tr></thead>
      <tbody>${mine.map((m) => html`<tr key=${m.name}><th scope="row">${short(m.name)}</th>${parts.map((p) => html`<td key=${p} class="num">${m.memory?.[p] ? bytes(m.memory[p]) : '–'}</td>`)}<td class="num">${bytes(m.memory?.total)}</td></tr>`)}</tbody></table></div>`}</section>`;
}

// Where each model's rows are kept, and what that has saved so far.
function Tiers({ list }) {
  const all = list.filter((m) => m.tiers?.length);
  if (!all.length) return null;
  const rows = (x) => (x.name === 'disk' ? t('tier.room', { n: number(x.rows ?? 0) }) : `${number(x.used ?? 0)} / ${number(x.rows ?? 0)}`);
  return html`<section class="panel"><h2>${t('tiers')}</h2><div class="table" tabindex="0"><table><thead><tr><th>${t('model')}</th><th>${t('tier.place')}</th><th>${t('tier.rows')}</th><th>${t('tier.hits')}</th><th>${t('tier.moved')}</th>
    <th>${t('tier.saved')}</th></tr></thead><tbody>${all.map((m) => m.tiers.map((x) => html`<tr key=${m.name + x.name}><th scope="row">${short(m.name)}</th><td>${t('tier.' + x.name)}</td><td class="num">${rows(x)}</td><td class="num">${number(x.hits)}</td>
    <td class="num">${x.in_bytes + x.out_bytes ? bytes(x.in_bytes + x.out_bytes) : '–'}</td><td class="num">${x.saved_seconds > 0 ? span(x.saved_seconds) : '–'}</td></tr>`))}</tbody></table></div>
    ${all.filter((m) => m.slots).map((m) => html`<p key=${m.name} class="dim small">${short(m.name)}: ${t('mem.slots', { used: number(m.slots_used), n: number(m.slots), kept: number(m.slots_kept) })}</p>`)}</section>`;
}

// What an answer waited for, where that was long enough to ask about.
const waited = (s) => (s.load_seconds >= 1 || s.queue_seconds >= 1) && t('stream.waits', { load: span(s.load_seconds), queue: s.queue_seconds == null ? '–' : span(s.queue_seconds) });

function Streams({ list }) {
  const end = (s) => told(json('/api/axle/streams/' + encodeURIComponent(s.id), { method: 'DELETE' })).then(hurry);
  return html`<section class="panel"><h2>${t('streams')}</h2>${list.length ? html`<div class="table" tabindex="0"><table><thead><tr><th>${t('model')}</th><th>${t('stream.state')}</th><th>${t('stream.age')}</th><th>${t('stream.prompt.n')}</th><th>${t('stream.tokens')}</th>
    <th>${t('stream.rate')}</th><th><span class="offscreen">${t('stream.end')}</span></th></tr></thead><tbody>${list.map((s) => html`<tr key=${s.id}><th scope="row">${short(s.model)}${s.own ? html` <em class="tag on">${t('own.yes')}</em>` : ''}</th><td>${t('stream.' + s.state)}${waited(s) && html` <small class="dim">${waited(s)}</small>`}</td><td class="num">${span(s.age_seconds)}</td>
    <td class="num">${s.prompt_tokens ? number(s.prompt_tokens) + (s.cached_tokens ? ` (${t('stream.cached', { n: number(s.cached_tokens) })})` : '') : '–'}</td><td class="num">${number(s.tokens)}</td><td class="num">${s.tokens_per_second ? number(s.tokens_per_second, 1) : '–'}</td>
    <td>${s.own && html`<button type="button" onClick=${() => end(s)}>${t('stream.end')}</button>`}</td></tr>`)}</tbody></table></div>` : html`<p class="dim">${t('streams.none')}</p>`}</section>`;
}

function Plots({ s }) {
  const n = sampled.use();
  const x = samples.map((p) => p.t);
  const of = (f) => samples.map((p) => f(p) ?? null);
  const kinds = [...new Set(samples.flatMap((p) => Object.keys(p.passes)))].sort();
  const names = [...new Set(samples.flatMap((p) => Object.keys(p.busy)))].sort();
  const cards = s.cards ?? [];
  const many = cards.length > 1;
  const label = (i, w) => (many ? cards[i].device : w);
  const warm = cards.some((c) => c.temperature_celsius != null);
  const load = cards.some((c) => c.npu_load != null);
  return html`<section class="plots" aria-label=${t('plots')}>
    <${Plot} title=${t('plot.rate')} digits=${1} x=${x} span=${minutes} stamp=${n} series=${[{ label: t('plot.rate'), values: of((p) => p.tps) }]} />
    <${Plot} title=${t('plot.first')} unit=" ms" x=${x} span=${minutes} stamp=${n} series=${[{ label: t('plot.first'), values: of((p) => p.ttft), points: true }]} />
    ${warm && html`<${Plot} title=${t('plot.warm')} unit=" °C" digits=${0} x=${x} span=${minutes} stamp=${n} min=${20} max=${110} series=${cards.map((c, i) => ({ label: label(i, t('plot.warm')), values: of((p) => p.cards[i]?.temp) }))} />`}
    <${Plot} title=${t('plot.busy')} unit=" %" x=${x} span=${minutes} stamp=${n} max=${100} series=${load && !names.length ? cards.map((c, i) => ({ label: label(i, t('plot.busy')), values: of((p) => p.cards[i]?.load) }))
      : names.length ? names.map((m) => ({ label: short(m), values: of((p) => (p.busy[m] === undefined ? null : 100 * p.busy[m])) })) : [{ label: t('plot.busy'), values: of(() => 0) }]} />
    ${kinds.length > 0 && html`<${Plot} title=${t('plot.passes')} digits=${1} x=${x} span=${minutes} stamp=${n} series=${kinds.map((k) => ({ label: k, values: of((p) => p.passes[k]) }))} />`}
    <${Plot} title=${t('plot.queue')} x=${x} span=${minutes} stamp=${n} series=${[{ label: t('plot.running'), values: of((p) => p.running) }, { label: t('plot.waiting'), values: of((p) => p.queued) }]} /></section>`;
}

const kinds = { axcl: 1, axengine: 1 };
const what = (c) => !c.software && [c.bus, c.driver && t('card.driver', { v: c.driver }), c.firmware && t('card.firmware', { v: c.firmware })].filter(Boolean).join(' · ');

export function Card({ menu }) {
  const s = state.use();
  const list = models.use();
  useEffect(() => watch(), []);
  if (!s) return html`<div class="bar">${menu}<h1>${t('view.card')}</h1><span class="grow"></span><${Status} /></div><p class="page dim">${t('card.wait')}</p>`;
  const loaded = s.models ?? [];
  const cards = s.cards ?? [];
  const queued = loaded.reduce((n, m) => n + (m.queued ?? 0), 0);
  const running = loaded.reduce((n, m) => n + (m.running ?? 0), 0);
  const talk = (list ?? []).filter((m) => talks(m)).map((m) => m.name);
  return html`<div class="bar">${menu}<h1>${t('view.card')}</h1><span class="grow"></span><${Status} /></div><div class="page card-page">
    ${(s.warnings ?? []).map((w) => html`<p class="warning" role="alert" key=${w.id + w.about}><${Icon} name="warn" /><span dir="auto" lang=${warned(w).lang}>${w.about && html`<b>${w.about}: </b>`}${warned(w).text}</span></p>`)}
    ${cards.map((c) => html`<section class="head" key=${c.device}><h2>${c.name || c.device}</h2><p class="dim">${c.software ? t('card.soft') : kinds[c.kind] ? t('kind.' + c.kind) : c.says || ''}${what(c) ? ' · ' + what(c) : ''}</p></section>`)}
    <dl class="tiles">${cards.filter((c) => c.temperature_celsius != null).map((c) => html`<${Tile} key=${'t' + c.device} word=${t('plot.warm')} value=${number(c.temperature_celsius)} unit="°C" more=${cards.length > 1 ? c.device : ''} bad=${c.temperature_celsius >= 85} />`)}
      ${cards.filter((c) => c.npu_load != null).map((c) => html`<${Tile} key=${'n' + c.device} word=${t('tile.npu')} value=${number(c.npu_load)} unit="%" more=${cards.length > 1 ? c.device : ''} />`)}
      <${Tile} word=${t('plot.rate')} value=${number(s.tokens_per_second ?? 0, 1)} /><${Tile} word=${t('plot.first')} value=${s.first_token_ms ? number(s.first_token_ms) : '–'} unit=${s.first_token_ms ? 'ms' : ''} />
      <${Tile} word=${t('tile.running')} value=${number(running)} more=${queued ? t('tile.queued', { n: number(queued) }) : ''} /><${Tile} word=${t('tile.up')} value=${span(s.uptime_seconds)} /></dl>
    ${(s.loads ?? []).map((l) => html`<section class="panel" key=${l.model}><${Progress} done=${l.bytes_done} total=${l.bytes} rate=${l.bytes_per_second} left=${l.left_seconds}
      text=${t('load.' + l.state, { model: short(l.model) })} />${l.files > 0 && html`<p class="dim small num">${t('load.files', { n: number(l.files_done), all: number(l.files) })} ${l.file}</p>`}</section>`)}
    <${Servers} /><${Plots} s=${s} />${cards.map((c) => html`<${Memory} key=${c.device} card=${c} list=${loaded} />`)}<${Tiers} list=${loaded} /><${Cells} names=${loaded.filter((m) => m.cells).map((m) => m.name)} />
    <${Streams} list=${s.streams ?? []} /><${Bench} models=${talk} /></div>`;
}
