// Talking instead of writing: the button that is held, what is heard while it is, and the text that comes of it.
import { html, useEach, useEffect, useLayoutEffect, useRef, useState } from './html.js';
import { hush } from './aloud.js';
import { say } from './dialog.js';
import { Button, Icon } from './icons.js';
import { models } from './live.js';
import { heard, hearer, longest, record, tooLong } from './microphone.js';
import { short, t } from './words.js';

const click = 400; // ms: who presses for less lets it run, and presses again to end it

const bars = 64;

// Levels is how loud a recording was, from its beginning on, in so few bars that they fit: when they are full, each two become one. So nothing
// slides by.
class Levels {
  constructor() {
    Object.assign(this, { list: [], each: 2, n: 0, loudest: 0, drawn: () => {} });
  }

  add(level) {
    this.loudest = Math.max(this.loudest, level);
    if (++this.n < this.each) return;
    this.list.push(this.loudest);
    this.n = this.loudest = 0;
    if (this.list.length === bars) {
      this.list = this.list.filter((_, i) => i % 2).map((x, i) => Math.max(x, this.list[2 * i]));
      this.each *= 2;
    }
    this.drawn();
  }
}

// height of half a bar: speech fills most of it.
const height = (level) => Math.max(1, Math.min(18, 18 * Math.sqrt(3 * level)));
const drawing = (list) => list.map((level, i) => `M${3 * i + 2} ${(20 - height(level)).toFixed(1)}V${(20 + height(level)).toFixed(1)}`).join('');

function Wave({ levels }) {
  const path = useRef();
  useLayoutEffect(() => {
    const every = matchMedia('(prefers-reduced-motion: reduce)').matches ? 1000 : 0;
    let last = 0;
    levels.drawn = () => {
      if (performance.now() - last < every) return;
      last = performance.now();
      path.current?.setAttribute('d', drawing(levels.list));
    };
    levels.drawn();
    return () => { levels.drawn = () => {}; };
  }, [levels]);
  return html`<svg class="wave" viewBox=${`0 0 ${3 * bars} 40`} preserveAspectRatio="none" aria-hidden="true"><path ref=${path} /></svg>`;
}

const clock = (s) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, '0')}`;

function Time({ recording }) {
  const [, tick] = useState(0);
  useEach(true, () => tick((n) => n + 1));
  return html`<span class="time" role="timer"><b>${clock(Math.min(longest, recording.seconds()))}</b> / ${clock(longest)}</span>`;
}

// useDictation is what a conversation's field needs to be talked to: {button, strip}, null where no model hears. take is given the words.
export function useDictation(id, take) {
  const model = hearer(models.use());
  const [state, setState] = useState(''); // '', asking (for the microphone), on, writing
  const run = useRef(null), pressed = useRef({}), latest = useRef();
  latest.current = take;

  const over = (mine, error) => {
    if (run.current !== mine) return; // it was thrown away
    run.current = null;
    setState('');
    if (error) say(error.message, true);
  };

  async function begin() {
    hush();
    const mine = { levels: new Levels(), abort: new AbortController() };
    run.current = mine;
    setState('asking');
    try {
      mine.recording = await record({ signal: mine.abort.signal, level: (l) => mine.levels.add(l), full: () => finish(mine, mine.recording?.seconds() >= longest) });
    } catch (e) {
      return over(mine, e);
    }
    if (run.current === mine) setState('on');
    else mine.recording.drop();
    return undefined;
  }

  async function finish(mine, limit) {
    if (!mine || mine !== run.current || mine.ending) return;
    if (!mine.recording) { // the button was let go before there was a microphone
      drop();
      return;
    }
    mine.ending = true;
    setState('writing');
    if (limit) say(tooLong());
    try {
      const words = await heard(await mine.recording.end(), model, mine.abort.signal);
      if (run.current === mine) latest.current(words);
      over(mine);
    } catch (e) {
      over(mine, e);
    }
  }

  function drop() {
    const mine = run.current;
    run.current = null;
    mine?.abort.abort();
    mine?.recording?.drop();
    setState('');
  }

  useEffect(() => drop, [id]);
  useEffect(() => { if (!model) drop(); }, [!model]); // nothing would show that the microphone is open
  useLayoutEffect(() => {
    if (!state) return undefined;
    const f = (e) => {
      if (e.key !== 'Escape' || document.querySelector('dialog[open]')) return;
      e.preventDefault();
      e.stopPropagation();
      drop();
    };
    addEventListener('keydown', f, true);
    return () => removeEventListener('keydown', f, true);
  }, [state]);

  const press = () => {
    pressed.current = { at: performance.now(), began: !run.current };
    if (!run.current) begin();
  };
  const release = () => {
    const { at, began } = pressed.current;
    pressed.current = {};
    if (at !== undefined && (!began || performance.now() - at >= click)) finish(run.current);
  };
  const key = (f) => (e) => {
    if (e.key !== ' ' && e.key !== 'Enter') return;
    e.preventDefault(); // else it would be a click too
    if (!e.repeat) f();
  };
  if (!model) return null;
  const word = t(state === 'on' ? 'mic.on' : state === 'writing' ? 'mic.writing' : 'mic.asking', { model: short(model) });
  return {
    button: html`<button type="button" class=${'quiet mic ' + state} aria-label=${t('mic')} title=${t('mic.title')} aria-pressed=${state === 'on'} aria-busy=${state === 'writing'}
      onMouseDown=${(e) => e.preventDefault()} onContextMenu=${(e) => e.preventDefault()}
      onPointerDown=${(e) => { if (e.button === 0) { e.currentTarget.setPointerCapture(e.pointerId); press(); } }} onPointerUp=${release} onPointerCancel=${() => { pressed.current = {}; }}
      onKeyDown=${key(press)} onKeyUp=${key(release)} onClick=${(e) => { if (e.detail === 0) { press(); release(); } }}><${Icon} name="mic" size="20" /></button>`,
    strip: state ? html`<div key="listening" class=${'listening ' + state}><span class="offscreen" role="status">${word}</span>${state === 'on' ? html`<${Wave} levels=${run.current.levels} /><${Time} recording=${run.current.recording} />`
      : html`<span class="dots" aria-hidden="true"><i></i><i></i><i></i></span><span class="grow" aria-hidden="true">${word}</span>`}
      <${Button} icon="close" class="discard" label=${t('mic.drop')} onClick=${drop} /></div>` : null,
  };
}
