// Trying a model that finds things in pictures: a picture, and what is found in it drawn over it.
import { html, useEvent, useRef, useState } from './html.js';
import { shrunk } from './composer.js';
import { Modal } from './dialog.js';
import { Drawn } from './places.js';
import { call, refusal } from './server.js';
import { number, short, t } from './words.js';

// found is what a model finds in a picture, in parts of its width and height.
async function found(model, picture) {
  const image = Object.assign(new Image(), { src: `data:${picture.type};base64,${picture.data}` });
  await image.decode();
  const [width, height] = [image.naturalWidth, image.naturalHeight];
  const body = new FormData();
  body.append('model', model);
  body.append('image', new Blob([Uint8Array.from(atob(picture.data), (c) => c.charCodeAt(0))], { type: picture.type }), 'picture');
  const r = await call('/v1/vision/detection', { method: 'POST', body });
  if (!r.ok) throw await refusal(r);
  return (await r.json()).predictions.map((p) => ({ label: `${p.label} ${number(100 * p.confidence)} %`, left: p.x_min / width, top: p.y_min / height, right: p.x_max / width, bottom: p.y_max / height }));
}

export function Detect({ name, close }) {
  const [seen, setSeen] = useState(null);
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const files = useRef();
  async function take(list) {
    const f = [...list].find((one) => one.type.startsWith('image/'));
    if (!f || busy) return;
    setBusy(true);
    setError('');
    try {
      const picture = await shrunk(f);
      setSeen({ picture, list: await found(name, picture), n: (seen?.n ?? 0) + 1 });
    } catch (e) {
      setSeen(null);
      setError(e instanceof DOMException ? t('picture.bad', { name: f.name }) : e.message);
    }
    setBusy(false);
  }
  useEvent('dragover', (e) => { if (e.dataTransfer?.types.includes('Files')) e.preventDefault(); });
  useEvent('drop', (e) => {
    if (!e.dataTransfer?.files.length) return;
    e.preventDefault();
    take(e.dataTransfer.files);
  });
  return html`<${Modal} title=${short(name)} close=${close} wide><p class="dim">${t('detect.why')}</p>
    <p><input type="file" accept="image/*" hidden ref=${files} onChange=${(e) => { take(e.target.files); e.target.value = ''; }} /><button type="button" class="primary" disabled=${busy} onClick=${() => files.current.click()}>${t('detect.choose')}</button></p>
    <div role="status">${busy ? t('detect.busy') : seen && !seen.list.length ? t('detect.none') : ''}</div>
    ${error && html`<p class="failed" role="alert">${error}</p>`}${seen && html`<${Drawn} key=${seen.n} picture=${seen.picture} list=${seen.list} />`}<//>`;
}
