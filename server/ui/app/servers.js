// Several servers: what each of them does, in a table. Their peers ask each other (--peers), and the page asks its own server alone.
import { html, useEffect, useState } from './html.js';
import { call } from './server.js';
import { bytes, number, short, span, t } from './words.js';

const often = 2000;

const name = (s, i) => s.node || (s.own ? '–' : s.address || t('servers.n', { n: number(i + 1) }));
const cards = (s, f) => s.cards.map(f).filter(Boolean).join(', ') || '–';

function Row({ s, i }) {
  const head = html`<th scope="row"><span dir="auto">${name(s, i)}</span>${s.own && html` <em class="tag on">${t('servers.own')}</em>`}${s.node && s.address && html` <small class="dim" dir="ltr">${s.address}</small>`}</th>`;
  if (s.error) return html`<tr>${head}<td colspan="7"><em class="tag bad">${t('servers.' + (s.error === 'late' ? 'unreached' : s.error))}</em>${s.why && html` <small class="dim" lang="en" dir="ltr">${s.why}</small>`}</td></tr>`;
  return html`<tr>${head}<td class="num">${cards(s, (c) => (c.state !== 'ready' ? t('servers.lost') : c.temperature_celsius == null ? '' : number(c.temperature_celsius) + ' °C'))}</td><td class="num">${cards(s, (c) => (c.npu_load == null ? '' : number(c.npu_load) + ' %'))}</td>
    <td class="num">${cards(s, (c) => c.memory_bytes > 0 && `${bytes(c.memory_free_bytes)} / ${bytes(c.memory_bytes)}`)}</td><td dir="auto">${s.models.map(short).join(', ') || '–'}</td>
    <td class="num">${number(s.running)}${s.waiting ? ' · ' + t('tile.queued', { n: number(s.waiting) }) : ''}</td><td class="num">${number(s.tokens_per_second, 1)}</td><td class="num">${span(s.uptime_seconds)}</td></tr>`;
}

// Servers asks once, and goes on only where there are several.
export function Servers() {
  const [list, setList] = useState([]);
  useEffect(() => {
    let timer = 0, over = false;
    const ask = async () => {
      let several = true;
      if (!document.hidden) try {
        const r = await call('/api/axle/peers', { quiet: true, signal: AbortSignal.timeout(8000) });
        const all = r.ok ? (await r.json()).servers ?? [] : [];
        if (over) return;
        setList(all);
        several = all.length > 1 || r.status === 401; // the state asks for a key
      } catch { /* the next turn comes; the line above says that the server does not answer */ }
      if (several && !over) timer = setTimeout(ask, often);
    };
    ask();
    return () => { over = true; clearTimeout(timer); };
  }, []);
  if (list.length < 2) return null;
  return html`<section class="panel servers"><h2>${t('servers')}</h2><div class="table" tabindex="0"><table><thead><tr><th><span class="offscreen">${t('servers')}</span></th><th>${t('plot.warm')}</th><th>${t('tile.npu')}</th><th>${t('servers.free')}</th><th>${t('model')}</th><th>${t('tile.running')}</th>
    <th>${t('plot.rate')}</th><th>${t('tile.up')}</th></tr></thead><tbody>${list.map((s, i) => html`<${Row} key=${i} s=${s} i=${i} />`)}</tbody></table></div></section>`;
}
