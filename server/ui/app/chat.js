// The conversation that is open: its bar, its turns, and the place to write.
import { html, useEffect, useEvent, useLayoutEffect, useRef, useState } from './html.js';
import { Composer } from './composer.js';
import { Button, Icon, Mark } from './icons.js';
import { models } from './live.js';
import * as it from './open.js';
import { Status } from './status.js';
import { Setup } from './setup.js';
import { busy } from './talk.js';
import { jobs } from './tools.js';
import { Turn, useSeconds } from './turn.js';
import { short, t } from './words.js';

const ended = { done: 'answered', stopped: 'stopped' }; // what is said of an answer once it has ended; one that failed says so itself
const first = 8, more = 30; // turns drawn at once, and when there is time; the ones before come when one scrolls up to them

function ModelChoice({ now }) {
  const list = models.use();
  const talk = (list ?? []).filter((m) => it.answers(m));
  const gone = now.chat.model && list && !talk.some((m) => m.name === now.chat.model);
  if (list && !talk.length) return html`<a class="choice" href="#/models">${t('no.model.short')}</a>`;
  return html`<label class="choice"><span class="offscreen">${t('model')}</span><select id="model" value=${now.chat.model} onChange=${(e) => it.change({ model: e.target.value })}>
    ${gone && html`<option value=${now.chat.model}>${t('gone', { model: short(now.chat.model) })}</option>`}
    ${talk.map((m) => html`<option key=${m.name} value=${m.name}>${short(m.name)}</option>`)}</select><${Icon} name="chevron" size="16" /></label>`;
}

function Welcome({ now }) {
  const draws = it.draws(models.use()?.find((m) => m.name === now.chat.model));
  const examples = draws ? ['draw.1', 'draw.2', 'draw.3'] : ['example.1', 'example.2', 'example.3'];
  return html`<div class="welcome"><${Mark} /><h1>${t(draws ? 'draw.welcome' : 'welcome')}</h1><p>${t('welcome.more')}</p>
    <ul>${examples.map((k) => html`<li key=${k}><button type="button" class="example" onClick=${() => it.ask(t(k))} disabled=${!now.chat.model}>${t(k)}</button></li>`)}</ul></div>`;
}

export function Chat({ id, menu }) {
  const now = it.open.use();
  const list = models.use();
  const scroller = useRef();
  const stick = useRef(true);
  const [away, setAway] = useState(false);
  const [count, setCount] = useState(first);
  const [setup, setSetup] = useState(false);
  busy.use();
  jobs.use();
  useSeconds(it.written(now)); // a tab that was closed writes no more, and tells none
  useEffect(() => { it.go(id); setCount(first); stick.current = true; }, [id]);
  useEffect(() => { if (now && !now.chat.model && list?.length) it.change({ model: it.usual() }); }, [now?.chat.id, list]);
  useEvent('axle-setup', () => setSetup(true));
  const own = useRef({}); // where the page has scrolled to by itself, and how high its turns and what is seen of them were then
  const down = () => {
    const el = scroller.current;
    if (!stick.current || !el) return;
    el.scrollTop = 1e9;
    own.current = { top: el.scrollTop, all: el.scrollHeight, seen: el.clientHeight };
  };
  useLayoutEffect(down, [now?.path, count]);
  // The end moves after the last word was drawn too: the browser knows a turn's height when it has laid it out (content-visibility), colours and
  // pictures come later, a banner above or a question that grows below takes from what is seen.
  useEffect(() => {
    if (!scroller.current) return undefined;
    const watch = new ResizeObserver(down);
    watch.observe(scroller.current);
    watch.observe(scroller.current.firstElementChild);
    return () => watch.disconnect();
  }, [!now]);
  useEffect(() => {
    const later = setTimeout(() => setCount((n) => Math.max(n, more)), 120);
    return () => clearTimeout(later);
  }, [id]);
  useEffect(() => { document.title = now?.saved ? now.chat.title + ' – axle' : 'axle'; }, [now?.chat.title, now?.saved]);
  if (!now) return html`<div class="bar"></div>`;
  const path = now.path;
  const from = Math.max(0, path.length - count);
  const scrolled = () => {
    const el = scroller.current, { top, all, seen } = own.current;
    if (!el) return; // another view has taken its place
    // What moves by itself has another height: the browser keeps the position within what there is. Only at the same height was it a person who scrolled.
    if (stick.current && (el.scrollTop === top || el.scrollHeight !== all || el.clientHeight !== seen)) {
      down();
      if (away) setAway(false);
      return;
    }
    const atEnd = el.scrollHeight - el.scrollTop - el.clientHeight < 60;
    stick.current = atEnd;
    if (atEnd === away) setAway(!atEnd);
    if (from > 0 && el.scrollTop < 600) {
      const was = el.scrollHeight - el.scrollTop;
      setCount(count + more);
      requestAnimationFrame(() => { el.scrollTop = el.scrollHeight - was; });
    }
  };
  const answering = it.answering(now) || it.written(now);
  return html`
    <div class="bar">${menu}<${ModelChoice} now=${now} /><span class="grow"></span><${Status} />
      <${Button} icon="settings" label=${t('setup')} class="setup" onClick=${() => setSetup(true)} /></div>
    <h1 class="offscreen" dir="auto">${now.saved ? now.chat.title : t('new')}</h1>
    <div class="scroll" ref=${scroller} onScroll=${scrolled} tabindex="-1">
      <div class=${path.length ? 'thread' : 'thread empty'} id="log">
        ${from > 0 && html`<button type="button" class="more" onClick=${() => setCount(count + more)}>${t('earlier.turns', { n: from })}</button>`}
        ${path.slice(from).map((x, i) => html`<${Turn} key=${x.id} x=${x} now=${now} last=${from + i === path.length - 1} grow=${down} />`)}
        ${!path.length && html`<${Welcome} now=${now} />`}
      </div></div>
    <div class="foot">${away && html`<button type="button" class="newest" aria-label=${t('newest')} title=${t('newest')} onClick=${() => { stick.current = true; down(); }}><${Icon} name="down" /></button>`}
      <${Composer} now=${now} grow=${down} /></div>
    <div class="offscreen" role="status" aria-live="polite">${answering ? t('answering') : ended[path[path.length - 1]?.state] ? t(ended[path[path.length - 1].state]) : ''}</div>
    ${setup && html`<${Setup} now=${now} close=${() => setSetup(false)} />`}`;
}
