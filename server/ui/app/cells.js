// The cache as a map that moves: a square a cell, a colour a conversation; what several begin with, and what is free.
import { css, html, useEffect, useLayoutEffect, useRef, useState } from './html.js';
import { json } from './server.js';
import { settings } from './settings.js';
import { bytes, number, short, t } from './words.js';

const often = 900;
const ways = 8; // colours of branches, by id

const kinds = { 0: '--cell-free', '-1': '--cell-shared', '-2': '--cell-now', '-3': '--cell-other' };
const colour = (id) => kinds[id] ?? `--b${id % ways}`;

function draw(canvas, copy) {
  const wide = canvas.parentElement.clientWidth;
  const gap = 1;
  let size = copy.cells > 6000 ? 5 : copy.cells > 1500 ? 7 : 10;
  const columns = Math.max(8, Math.floor((wide + gap) / (size + gap)));
  size = (wide + gap) / columns - gap;
  const rows = Math.ceil(copy.cells / columns);
  const high = Math.ceil(rows * (size + gap));
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    canvas.style.height = high + 'px';
  }
  const c = canvas.getContext('2d');
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, wide, high);
  const known = new Map();
  let at = 0;
  for (const [n, id] of copy.map ?? []) {
    if (!known.has(id)) known.set(id, css(colour(id)) || css('--cell-other'));
    c.fillStyle = known.get(id);
    for (let i = 0; i < n && at < copy.cells; i++, at++) c.fillRect((at % columns) * (size + gap), Math.floor(at / columns) * (size + gap), size, size);
  }
}

function Copy({ copy }) {
  const canvas = useRef();
  settings.use();
  useLayoutEffect(() => { draw(canvas.current, copy); });
  useEffect(() => {
    const watch = new ResizeObserver(() => { if (canvas.current) draw(canvas.current, copy); });
    watch.observe(canvas.current.parentElement);
    return () => watch.disconnect();
  }, [copy]);
  const list = [...(copy.branches ?? [])].sort((a, b) => b.tokens - a.tokens).slice(0, 12);
  const key = (name, text) => html`<li key=${name}><i class="cell" data-cell=${name}></i>${text}</li>`;
  return html`<div><div class="map"><canvas ref=${canvas} role="img" aria-label=${t('cells.says', { used: number(copy.used), cells: number(copy.cells), cached: number(copy.cached), free: number(copy.free) })}></canvas></div>
    <ul class="legend">${key('shared', t('cells.shared', { n: number(copy.shared) }))}${key('free', t('cells.free', { n: number(copy.free) }))}${(copy.map ?? []).some(([, id]) => id === -2) && key('now', t('cells.now'))}
      ${list.map((b) => html`<li key=${b.id}><i class="cell" data-cell=${'b' + (b.id % ways)}></i>${t(b.state === 'running' ? 'cells.running' : 'cells.cached', { n: number(b.tokens) })}${b.own ? ' · ' + t('own.yes') : ''}</li>`)}</ul>
    ${(copy.tiers ?? []).length > 0 && html`<p class="dim small">${copy.tiers.map((x) => `${t('tier.' + x.name)}: ${t(x.name === 'disk' ? 'cells.room' : 'cells.tier', { used: number(x.used), cells: number(x.cells), size: bytes(x.bytes) })}`).join(' · ')}</p>`}</div>`;
}

export function Cells({ names }) {
  const [name, setName] = useState('');
  const [map, setMap] = useState(null);
  const on = names.includes(name) ? name : '';
  useEffect(() => {
    let timer = 0;
    let over = false;
    const loop = async () => {
      try {
        if (!document.hidden) setMap(await json('/api/axle/cells' + (on ? '?model=' + encodeURIComponent(on) : ''), { quiet: true }));
      } catch { /* no model is loaded, or the server does not answer: the next turn tells */ }
      if (!over) timer = setTimeout(loop, often);
    };
    loop();
    return () => { over = true; clearTimeout(timer); };
  }, [on]);
  if (!names.length) return null;
  return html`<section class="panel"><div class="row wrap"><h2>${t('cells')}</h2><span class="grow"></span>${names.length > 1 ? html`<label><span class="offscreen">${t('model')}</span><select value=${on || map?.model || names[0]} onChange=${(e) => setName(e.target.value)}>${names.map((n) => html`<option
    key=${n} value=${n}>${short(n)}</option>`)}</select></label>` : html`<span class="dim">${short(names[0])}</span>`}</div>
    ${(map?.copies ?? []).map((c) => html`<${Copy} key=${c.device} copy=${c} />`)}</section>`;
}
