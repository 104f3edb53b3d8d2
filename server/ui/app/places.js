// The boxes and points of an answer, drawn over the picture that was asked about, and listed beneath it for who does not see them.
import { html, useEffect, useState } from './html.js';
import { counted, places } from './grounding.js';
import { json } from './server.js';
import { number, t } from './words.js';

// measures are what models count coordinates in, as far as that was asked for: [parts of the width, of the height], or null.
const measures = new Map();
async function measure(model) {
  if (!measures.has(model)) measures.set(model, json('/api/show', { body: { model } }).then((s) => s.model_info?.['axle.places'] ?? null, () => { measures.delete(model); return null; }));
  return measures.get(model);
}

// asked is the picture that an answer is about: the only one of the last question before it that has some. Of several, answers do not say which.
export function asked(now, x) {
  for (let y = x; y; y = now.turns.find((z) => z.id === y.parent)) {
    if (y.role === 'user' && y.images?.length) return y.images.length === 1 ? y.images[0] : null;
  }
  return null;
}

const percent = (v) => number(100 * v, 0) + ' %';
const told = (p) => (p.point ? t('place.point', { x: percent(p.left), y: percent(p.top) })
  : t('place.box', { x: percent(p.left), y: percent(p.top), width: percent(p.right - p.left), height: percent(p.bottom - p.top) }));

const colours = 6;

function Mark({ p, i, width, height, on }) {
  const [x, y, right, bottom] = [p.left * width, p.top * height, p.right * width, p.bottom * height];
  const size = Math.max(width, height) / 28;
  const kind = `k${(i % colours) + 1}${on ? ' on' : ''}`;
  const name = p.label || String(i + 1);
  // A label stands above its box, or in it where there is no room.
  const up = y > 1.4 * size;
  return html`<g class=${kind}>${p.point ? html`<circle class="halo" cx=${x} cy=${y} r=${size / 2.5} /><circle cx=${x} cy=${y} r=${size / 2.5} />`
    : html`<rect class="halo" x=${x} y=${y} width=${right - x} height=${bottom - y} /><rect x=${x} y=${y} width=${right - x} height=${bottom - y} />`}
    <text x=${Math.min(p.point ? x + size / 2 : x, width - Math.min(width, 0.6 * size * name.length))} y=${up ? y - size / 3 : y + size} font-size=${size}>${name}</text></g>`;
}

// Drawn is a picture with places over it, and the list of them.
export function Drawn({ picture, list }) {
  const [size, setSize] = useState(null);
  const [held, hold] = useState(null);
  const [over, point] = useState(null);
  const on = over ?? held;
  return html`<figure class="places" aria-label=${t('places')}>
    <div class="ground"><img src=${`data:${picture.type};base64,${picture.data}`} alt=${picture.name || t('picture')} onLoad=${(e) => setSize([e.target.naturalWidth, e.target.naturalHeight])} />
      ${size && html`<svg viewBox=${`0 0 ${size[0]} ${size[1]}`} class=${on === null ? '' : 'one'} aria-hidden="true">${list.map((p, i) => html`<${Mark} key=${i} p=${p} i=${i} width=${size[0]} height=${size[1]} on=${i === on} />`)}</svg>`}</div>
    <figcaption><ol>${list.map((p, i) => html`<li key=${i}><button type="button" class="place" aria-pressed=${i === held} onClick=${() => hold(i === held ? null : i)} onMouseEnter=${() => point(i)}
      onMouseLeave=${() => point(null)} onFocus=${() => point(i)} onBlur=${() => point(null)}><i class=${`key k${(i % colours) + 1}`}></i><bdi>${p.label || number(i + 1)}</bdi><small>${told(p)}</small></button></li>`)}</ol></figcaption></figure>`;
}

// Places is an answer's, where it tells some.
export function Places({ x, now }) {
  const [parts, setParts] = useState(null);
  const picture = asked(now, x);
  const ask = !!picture && counted(x.text);
  useEffect(() => {
    let gone = false;
    if (ask) measure(x.model).then((m) => { if (!gone) setParts(m); });
    return () => { gone = true; };
  }, [ask, x.model]);
  const list = picture ? places(x.text, parts) : [];
  return list.length ? html`<${Drawn} picture=${picture} list=${list} />` : null;
}
