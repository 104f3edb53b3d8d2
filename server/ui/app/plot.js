// A plot of the last ten minutes, or of any numbers, drawn by uPlot; its latest numbers stand beside its title, for those who do not see it.
import { css, el, html, useEffect, useRef } from './html.js';
import { settings } from './settings.js';
import { language, number } from './words.js';

let lib = null;
function uplot() {
  lib ??= import('../vendor/uplot.js').then((m) => {
    document.head.append(el('link', { rel: 'stylesheet', href: new URL('../vendor/uplot.css', import.meta.url) }));
    return m.default;
  });
  return lib;
}

export const colours = ['--s1', '--s2', '--s3', '--s4', '--s5', '--s6'];

// Plot draws series over x. series are {label, values, colour, points}; span: how many seconds are shown, ending at the last; x is time then.
export function Plot({ title, unit = '', digits = 0, x, series, span, min = 0, max, height = 150, stamp }) {
  const box = useRef();
  const plot = useRef(null);
  const now = useRef();
  now.current = { x, series, span };
  const theme = settings.use().theme;
  const names = series.map((s) => s.label).join('|');
  useEffect(() => {
    let gone = false;
    let watch = null;
    uplot().then((U) => {
      if (gone || !box.current) return;
      const grid = { stroke: css('--line'), width: 1 };
      const axis = { stroke: css('--dim'), grid, ticks: { show: false }, font: `11px ${css('--sans')}` };
      const minutes = (v) => (span ? v.map((s, i) => `${Math.round((s - now.current.x[now.current.x.length - 1]) / 60)}`.replace('-', '−') + (i ? '' : ' min')) : v.map(String));
      const opts = {
        width: box.current.clientWidth, height, legend: { show: false }, padding: [10, 8, 0, 0],
        cursor: { drag: { x: false, y: false }, points: { size: 6 } },
        scales: {
          x: { time: false, range: (u, lo, hi) => (span && hi !== null ? [hi - span, hi] : lo === hi ? [lo - 1, hi + 1] : [lo, hi]) },
          y: { range: (u, lo, hi) => [min, max ?? Math.max((hi ?? 0) * 1.12, min + 1)] },
        },
        axes: [{ ...axis, size: 22, gap: 4, space: 70, values: (u, v) => minutes(v), incrs: span ? [60, 120, 300] : undefined,
          splits: span ? (u, i, lo, hi) => { const out = []; for (let s = hi; s >= lo; s -= 120) out.unshift(s); return out; } : undefined },
        { ...axis, size: 44, gap: 4, space: 32, values: (u, v) => v.map((n) => number(n, Math.abs(n) < 10 && n % 1 ? 1 : 0)) }],
        series: [{}, ...series.map((s, i) => ({
          label: s.label, stroke: css(s.colour ?? colours[i % colours.length]), width: 1.8, spanGaps: !!s.points,
          fill: series.length === 1 && !s.points ? css(s.colour ?? colours[0]) + '1c' : undefined, points: { show: !!s.points, size: 5, fill: css(s.colour ?? colours[i % colours.length]) },
        }))],
      };
      plot.current = new U(opts, [now.current.x, ...now.current.series.map((s) => s.values)], box.current);
      watch = new ResizeObserver(() => { if (box.current?.clientWidth) plot.current?.setSize({ width: box.current.clientWidth, height }); });
      watch.observe(box.current);
    }, () => {});
    return () => { gone = true; watch?.disconnect(); plot.current?.destroy(); plot.current = null; };
  }, [names, theme, language.get(), height]);
  useEffect(() => { plot.current?.setData([x, ...series.map((s) => s.values)]); }, [stamp]);
  const latest = (s) => { for (let i = s.values.length - 1; i >= 0; i--) if (s.values[i] != null) return s.values[i]; return null; };
  return html`<figure class="plot"><figcaption><b>${title}</b>${series.map((s, i) => html`<span key=${s.label} class="num"><i class=${'key k' + (i % colours.length + 1)}></i>${series.length > 1 && html`<bdi>${s.label}</bdi> `}${latest(s) == null ? '–'
    : number(latest(s), digits) + unit}</span>`)}</figcaption><div ref=${box} class="canvas" aria-hidden="true"></div></figure>`;
}
