// A turn's picture: how far it is, the picture, and its file.
import { html } from './html.js';
import { save } from './transfer.js';
import { t } from './words.js';

// Drawing shows a turn that is drawn. of is what was asked for; grow is called when the picture has its height.
export function Drawing({ x, run, of, grow }) {
  const on = run?.progress;
  const done = x.images?.[0];
  const shown = done ?? on?.picture;
  const text = on && t('draw.step', { step: on.step, steps: on.steps });
  const [width, height] = (x.size ?? '').split('x');
  return html`<div class="drawing">
    ${on && !done && html`<div class="progress"><span>${text}</span><progress max=${on.steps} value=${on.step} aria-label=${text}></progress></div>`}
    ${shown && html`<img class=${done ? '' : 'partial'} src=${`data:${shown.type};base64,${shown.data}`} alt=${of || t('picture')} width=${width || undefined} height=${height || undefined} onLoad=${grow} />`}</div>`;
}

// download gives a turn's picture as a file.
export function download(x) {
  const { type, data } = x.images[0];
  save(`axle-${x.seed ?? 'picture'}.${type === 'image/png' ? 'png' : 'jpg'}`, type, Uint8Array.from(atob(data), (c) => c.charCodeAt(0)));
}
