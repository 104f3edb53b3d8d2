// The benchmark: begun here where the server allows it, its numbers, its plots, and what changed since the last one.
import { html, useEach, useEffect, useState } from './html.js';
import { told } from './dialog.js';
import { state } from './live.js';
import { Plot } from './plot.js';
import { json } from './server.js';
import { settings } from './settings.js';
import { date, number, short, span, t } from './words.js';

// better: which way a number should go.
const columns = [['decode_tps', 'stream.rate', 1, 1], ['prefill_tps', 'bench.prefill', 0, 1], ['first_token_ms', 'bench.first', 0, -1], ['token_p50_ms', 'bench.p50', 1, -1], ['token_p95_ms', 'bench.p95', 1, -1],
  ['token_p99_ms', 'bench.p99', 1, -1], ['busy_percent', 'bench.busy', 0, 0]];

function Change({ now, then, better }) {
  if (!then || now == null) return null;
  const p = (100 * (now - then)) / then;
  if (Math.abs(p) < 0.05) return html`<small class="dim">±0 %</small>`;
  return html`<small class=${better && Math.abs(p) >= 2 ? (p * better > 0 ? 'good' : 'bad') : 'dim'}>${p > 0 ? '+' : '−'}${number(Math.abs(p), 1)} %</small>`;
}

function Result({ r }) {
  const old = (c) => r.last?.cases?.find((x) => x.load === c.load);
  const longest = Math.max(0, ...r.cases.map((c) => c.latency_by_token_ms?.length ?? 0));
  const x = Array.from({ length: longest }, (_, i) => i + 1);
  return html`<article class="result"><h3>${short(r.model)}</h3><p class="dim">${[date(Date.parse(r.when)), r.name || r.device, r.driver].filter(Boolean).join(' · ')}${r.last ? ' · ' + t('bench.against', { when: date(Date.parse(r.last.when)) }) : ''}</p>
    ${r.disturbed && html`<p class="warn">${t('bench.disturbed')}</p>`}
    <div class="table" tabindex="0"><table><thead><tr><th>${t('bench.load')}</th>${columns.map(([k, word]) => html`<th key=${k}>${t(word)}</th>`)}</tr></thead><tbody>${r.cases.map((c) => html`<tr key=${c.load}><th scope="row">${t('bench.case', { p: number(c.prompt_tokens), n: number(c.output_tokens),
      c: number(c.clients) })}</th>${columns.map(([k, word, digits, better]) => html`<td key=${k} class="num" data-name=${t(word)}>${number(c[k] ?? 0, digits)} <${Change} now=${c[k]} then=${old(c)?.[k]} better=${better} /></td>`)}</tr>`)}</tbody></table></div>
    ${longest > 1 && html`<${Plot} title=${t('bench.by.token')} unit=" ms" digits=${1} x=${x} stamp=${r.when} series=${r.cases.filter((c) => c.latency_by_token_ms?.length).map((c) => ({
      label: t('bench.clients', { c: number(c.clients) }), values: x.map((i) => c.latency_by_token_ms[i - 1] ?? null) }))} />`}</article>`;
}

export function Bench({ models }) {
  const [b, setB] = useState(null);
  const [model, setModel] = useState(settings.get().model ?? '');
  const [size, setSize] = useState('short');
  const on = b?.running;
  const load = () => json('/api/axle/bench', { quiet: true }).then(setB, () => {});
  useEffect(() => { load(); }, []);
  useEach(!!on, load);
  if (!b) return null;
  const chosen = models.includes(model) ? model : models[0];
  const sizes = { short: {}, long: { prompt_tokens: 512, output_tokens: 256, clients: [1], repeats: 3 }, many: { prompt_tokens: 64, output_tokens: 64, clients: [1, 2, 4, 8], repeats: 2 } };
  const start = (e) => {
    e.preventDefault();
    told(json('/api/axle/bench', { body: { model: chosen, ...sizes[size] } })).then(load);
  };
  return html`<section class="panel"><h2>${t('bench')}</h2>${!b.allowed && html`<p class="dim">${(state.get()?.admin !== false && b.why) || t('bench.off')}</p>`}
    ${b.allowed && !on && html`<form class="row wrap" onSubmit=${start}><label><span class="offscreen">${t('model')}</span><select value=${chosen} onChange=${(e) => setModel(e.target.value)}>${models.map((m) => html`<option key=${m} value=${m}>${short(m)}</option>`)}</select></label>
      <label><span class="offscreen">${t('bench.size')}</span><select value=${size} onChange=${(e) => setSize(e.target.value)}>${Object.keys(sizes).map((k) => html`<option key=${k} value=${k}>${t('bench.size.' + k)}</option>`)}</select></label>
      <button disabled=${!chosen}>${t('bench.start')}</button><span class="dim small">${t('bench.takes')}</span></form>`}
    ${on && html`<div class="progress"><div class="row"><span>${t('bench.running', { model: short(on.model), step: number(on.step), steps: number(on.steps) })}</span><span class="grow"></span><span class="num dim">${span(on.elapsed_seconds)}</span>
      ${b.allowed && html`<button type="button" onClick=${() => told(json('/api/axle/bench', { method: 'DELETE' })).then(load)}>${t('stop')}</button>`}</div><progress max=${on.steps} value=${on.step - 1}></progress></div>`}
    ${b.error && html`<p class="failed" role="alert">${b.error}</p>`}
    ${(b.results ?? []).map((r) => html`<${Result} key=${r.model + r.when} r=${r} />`)}</section>`;
}
