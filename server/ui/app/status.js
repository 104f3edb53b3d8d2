// One line of how the server is, and the banner where something is wrong. The line leads to the card.
import { html } from './html.js';
import { Icon } from './icons.js';
import { fetchModels, hurry, state, updated } from './live.js';
import { between, key, keep, link } from './server.js';
import { number, span, t, warned } from './words.js';

export function Status() {
  const s = state.use();
  const how = link.use();
  if (how === 'lost') return html`<a class="status bad" href="#/card"><i></i>${t('status.lost')}</a>`;
  if (how === 'key') return html`<a class="status warn" href="#/card"><i></i>${t('status.key')}</a>`;
  if (!s) return html`<a class="status" href="#/card"></a>`;
  const hot = (s.cards ?? []).map((c) => c.temperature_celsius).filter((x) => x != null);
  const parts = [];
  // the answer that runs, one's own before others'
  const running = (s.streams ?? []).filter((x) => x.tokens_per_second > 0);
  const own = running.filter((x) => x.own);
  const rate = (own.length ? own : running).reduce((n, x) => n + x.tokens_per_second, 0);
  if (rate > 0) parts.push(t('rate', { n: number(rate, 1) }));
  if (hot.length) parts.push(number(Math.max(...hot)) + ' °C');
  if (!parts.length) parts.push(t(s.status === 'ok' ? 'status.ok' : 'status.bad'));
  const bad = s.status !== 'ok' || s.warnings?.length;
  const load = s.loads?.[0];
  if (load?.state === 'loading' && load.bytes) parts.unshift(t('loading.short') + ' ' + number((100 * load.bytes_done) / load.bytes) + ' %');
  return html`<a class=${bad ? 'status warn' : 'status'} href="#/card" title=${(s.warnings ?? []).map((w) => warned(w).text).join('\n') || t('status.title', { time: span(s.uptime_seconds) })}><i></i><span>${parts.map((p, i) => html`<span key=${i}>${p}</span>`)}</span></a>`;
}

export function Banner() {
  const how = link.use();
  const why = between.use();
  const fresh = updated.use();
  if (how === 'lost') return html`<div class="banner" role="alert"><${Icon} name="warn" /><span>${why || t('lost.long')}</span></div>`;
  if (how === 'key') {
    return html`<div class="banner" role="alert"><${Icon} name="warn" /><span>${t(key() ? 'key.wrong' : 'key.needed')}</span><button type="button" onClick=${() => {
      if (key()) keep(null);
      fetchModels().then(hurry, () => {});
    }}>${t('key.give')}</button></div>`;
  }
  if (fresh) return html`<div class="banner calm" role="status"><span>${t('updated')}</span><button type="button" onClick=${() => location.reload()}>${t('reload')}</button></div>`;
  return null;
}
