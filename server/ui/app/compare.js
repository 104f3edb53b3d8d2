// Two models, one question, two answers side by side. They are asked one after the other where they would be in each other's way.
import { html, useEffect, useLayoutEffect, useRef, useState, token } from './html.js';
import { Modal } from './dialog.js';
import * as it from './open.js';
import { Flow } from './markdown.js';
import { call, lines, refusal } from './server.js';
import { sends } from './settings.js';
import { number, short, span, t } from './words.js';

function Column({ run, draw, keep }) {
  const body = useRef();
  const flow = useRef();
  useLayoutEffect(() => {
    flow.current ??= new Flow(body.current);
    flow.current.set(run.text, run.over);
  });
  return html`<section aria-busy=${!run.over} data-draw=${draw}><h3>${short(run.model)}</h3><p class="dim num">${run.facts || (run.over ? '' : run.text ? t('answering') : t('stream.waiting'))}</p>
    <div class="md" ref=${body}></div>${run.over && run.text && html`<button type="button" onClick=${() => keep(run)}>${t('compare.keep')}</button>`}${run.error && html`<p class="failed" role="alert">${run.error}</p>`}</section>`;
}

export function Compare({ list, close }) {
  const [names, setNames] = useState([list[0]?.name, list[1]?.name]);
  const [text, setText] = useState('');
  const [after, setAfter] = useState(true);
  const [runs, setRuns] = useState(null);
  const [n, draw] = useState(0);
  const end = useRef(null);
  useEffect(() => () => end.current?.abort(), []);

  async function one(run, signal) {
    const began = performance.now();
    try {
      const r = await call('/api/chat', { method: 'POST', signal, headers: { 'X-Session-Id': token() }, body: JSON.stringify({ model: run.model, messages: [{ role: 'user', content: run.asked }] }) });
      if (!r.ok) throw await refusal(r);
      let first = 0;
      for await (const o of lines(r)) {
        if (!first && (o.message?.content || o.message?.thinking)) first = performance.now() - began;
        run.text += o.message?.content ?? '';
        run.thinking += o.message?.thinking ?? '';
        if (o.done) run.facts = [t('tokens', { n: number(o.eval_count ?? 0) }), o.eval_duration && t('rate', { n: number((o.eval_count / o.eval_duration) * 1e9, 1) }), t('first.after', { time: span(first / 1000) })].filter(Boolean).join(' · ');
        run.due ??= requestAnimationFrame(() => { run.due = null; draw((x) => x + 1); });
      }
    } catch (e) {
      run.error = e.name === 'AbortError' ? '' : e.message;
    }
    run.over = true;
    draw((x) => x + 1);
  }

  async function ask(e) {
    e.preventDefault();
    if (end.current) { end.current.abort(); return; }
    end.current = new AbortController();
    const two = names.map((model) => ({ model, asked: text.trim(), text: '', thinking: '', over: false }));
    setRuns(two);
    const { signal } = end.current;
    if (after) for (const r of two) await one(r, signal);
    else await Promise.all(two.map((r) => one(r, signal)));
    end.current = null;
    draw((x) => x + 1);
  }

  // keep goes on with one of the two, in a conversation that begins with the question and its answer.
  const keep = async (run) => {
    close();
    location.hash = '#/chat/' + (await it.begun(run.model, run.asked, { text: run.text, thinking: run.thinking }));
  };

  const choice = (i) => html`<label class="row">${t('model')} ${i + 1}<select value=${names[i]} onChange=${(e) => setNames(names.map((v, j) => (j === i ? e.target.value : v)))}>${list.map((m) => html`<option key=${m.name} value=${m.name}>${short(m.name)}</option>`)}</select></label>`;
  return html`<${Modal} title=${t('compare')} close=${close} wide><form class="form" onSubmit=${ask}><div class="row wrap">${choice(0)}${choice(1)}
    <label class="check"><input type="checkbox" checked=${after} onChange=${(e) => setAfter(e.target.checked)} /> ${t('compare.after')}</label></div>
    <textarea rows="2" dir="auto" autofocus aria-label=${t('message')} placeholder=${t('message')} value=${text} onInput=${(e) => setText(e.target.value)}
      onKeyDown=${(e) => { if (sends(e)) { e.preventDefault(); if (!end.current && text.trim()) ask(e); } }} /><div class="row end"><button class="primary" disabled=${!end.current && !text.trim()}>${end.current ? t('stop') : t('compare.ask')}</button></div></form>
    ${runs && html`<div class="two">${runs.map((r) => html`<${Column} key=${r} run=${r} draw=${n} keep=${keep} />`)}</div>`}<//>`;
}
