// One turn of a conversation: what was asked, the answer with its thinking and its calls, and what can be done with it.
import { html, useEach, useEffect, useLayoutEffect, useRef, useState } from './html.js';
import { Aloud } from './aloud.js';
import { put } from './code.js';
import { say, sure, told } from './dialog.js';
import { Button, Icon } from './icons.js';
import { state } from './live.js';
import { Flow } from './markdown.js';
import * as it from './open.js';
import { download, Drawing } from './picture.js';
import { link, Look, Sources, sources } from './passages.js';
import { Pieces, said } from './pieces.js';
import { Places } from './places.js';
import { sends } from './settings.js';
import { elsewhere, late, runs } from './talk.js';
import * as tools from './tools.js';
import { number, short, span, t, unenforced } from './words.js';

// useSeconds draws anew each second while on, for what says how long.
export function useSeconds(on) {
  const [, tick] = useState(0);
  useEach(on, () => tick((n) => n + 1));
}

async function copy(text) {
  say((await put(text)) ? t('copied') : t('copy.failed'));
}

function Beside({ now, x }) {
  const list = it.beside(now, x);
  const i = list.indexOf(x);
  if (list.length < 2 || i < 0) return null;
  return html`<span class="beside" role="group" aria-label=${t('versions')}>
    <${Button} icon="left" label=${t('version.before')} disabled=${i === 0} onClick=${() => it.choose(list[i - 1])} /><span>${i + 1}/${list.length}</span><${Button} icon="right"
    label=${t('version.after')} disabled=${i === list.length - 1} onClick=${() => it.choose(list[i + 1])} /></span>`;
}

async function remove(x) {
  if (await sure(t(x.role === 'user' ? 'turn.delete.question' : 'turn.delete.answer'), t('delete'))) it.remove(x);
}

export function Pictures({ list, remove: drop }) {
  return list?.length ? html`<div class="pictures">${list.map((p, i) => html`<figure key=${i}><img src=${`data:${p.type};base64,${p.data}`} alt=${p.name || t('picture')} />${drop &&
    html`<${Button} icon="close" label=${t('picture.remove')} onClick=${() => drop(i)} />`}</figure>`)}</div>` : null;
}

function Question({ x, now }) {
  const [text, setText] = useState(null);
  const area = useRef();
  const [pieces, setPieces] = useState([]);
  const begin = () => { setText(x.text); setPieces(x.pieces ?? []); };
  const end = () => { if (text.trim() || pieces.length) { told(it.edit(x, text.trim(), pieces)); setText(null); } };
  useEffect(() => { if (text !== null) area.current?.focus(); }, [text !== null]);
  if (text !== null) {
    return html`<article class="turn user editing"><form onSubmit=${(e) => { e.preventDefault(); end(); }}>
      <${Pieces} list=${pieces} drop=${(i) => { setPieces(pieces.filter((_, j) => j !== i)); area.current.focus(); }} />
      <textarea ref=${area} dir="auto" rows=${Math.min(12, text.split('\n').length + 1)} aria-label=${t('edit')} value=${text} onInput=${(e) => setText(e.target.value)}
        onKeyDown=${(e) => {
          if (e.key === 'Escape') { e.stopPropagation(); setText(null); }
          if (sends(e)) { e.preventDefault(); end(); }
        }} />
      <div class="row end"><button type="button" onClick=${() => setText(null)}>${t('cancel')}</button><button class="primary">${t('ask.again')}</button></div></form></article>`;
  }
  return html`<article class="turn user" data-id=${x.id} aria-label=${t('you')}>
    <div class="bubble"><${Pictures} list=${x.images} /><${Pieces} list=${x.pieces} />${x.text && html`<div class="said-text" dir="auto">${x.text}</div>`}</div>
    <div class="acts"><${Beside} now=${now} x=${x} /><${Button} icon="copy" label=${t('copy')} onClick=${() => copy(said(x))} /><${Button} icon="edit" label=${t('edit.ask')}
      onClick=${begin} class="edit" /><${Button} icon="branch" label=${t('branch')} onClick=${() => it.branch(x)} /><${Button} icon="trash" label=${t('delete')} onClick=${() => remove(x)} /></div>
  </article>`;
}

function Thinking({ x, live }) {
  const body = useRef();
  const [shown, setShown] = useState(false);
  const write = () => {
    if (!shown || !body.current) return;
    const node = body.current.firstChild;
    const had = node.data.length;
    if (x.thinking.length > had) node.appendData(x.thinking.slice(had));
    else if (x.thinking.length < had) node.data = x.thinking;
    if (live) body.current.scrollTop = body.current.scrollHeight;
  };
  useLayoutEffect(write);
  useEffect(() => (live && shown ? runs.get(x.id)?.follow(write) : undefined), [live, shown]);
  const since = runs.get(x.id)?.thinkingSince ?? performance.now() - (Date.now() - x.at); // another tab's began about then
  const on = live && x.thinkMs === undefined;
  const seconds = on ? (performance.now() - since) / 1000 : (x.thinkMs ?? 0) / 1000;
  return html`<details class=${on ? 'thinking live' : 'thinking'} onToggle=${(e) => setShown(e.target.open)}>
    <summary><${Icon} name="think" size="16" /><span>${on ? t('thinking.now', { time: span(Math.max(1, Math.round(seconds))) }) : seconds < 0.01 ? t('thinking.brief') : t('thinking.done', { time: span(seconds) })}</span></summary>
    <div class="thought" dir="auto" tabindex="0" ref=${(el) => { body.current = el; if (el && !el.firstChild) el.append(''); }}></div></details>`;
}

// tidy shows an object as its lines.
const tidy = (o) => (typeof o === 'string' ? o : JSON.stringify(o, null, 2));

// Run is what becomes of an answer's calls that the server can run: a question before the first use of a tool, how far it is, or a button.
function Run({ x, now }) {
  const job = tools.jobs.use().get(x.id);
  const first = useRef();
  useEffect(() => { if (job?.asks && (document.activeElement === document.body || document.activeElement?.id === 'text')) first.current?.focus(); }, [job?.asks]);
  if (job?.asks) {
    return html`<div class="ask" role="group" aria-label=${t('mcp.ask', { name: job.asks.name })}><p dir="auto">${t('mcp.ask', { name: job.asks.title ? `${job.asks.title} (${job.asks.name})` : job.asks.name })}</p>
      <p class="dim">${t('mcp.ask.why')}</p><div class="row wrap">${['once', 'chat', 'always'].map((k, i) => html`<button type="button" key=${k} ref=${i ? null : first} class=${i ? '' : 'primary'}
      onClick=${() => job.done(k)}>${t('mcp.' + k)}</button>`)}<button type="button" class="quiet no" onClick=${() => job.done('no')}>${t('mcp.no')}</button></div></div>`;
  }
  if (job) {
    const p = job.progress;
    return html`<p class="note" role="status"><span class="dots" aria-hidden="true"><i></i><i></i><i></i></span> <span dir="auto">${t('mcp.runs', { name: x.calls[job.now].name })}${p ? ' ' + number(p.done) + (p.total ? '/' + number(p.total) : '') + ' ' + (p.message ?? '') : ''}</span></p>`;
  }
  return html`<div class="row wrap">${tools.rounds(now.path) > tools.mostRounds && html`<p class="note">${t('mcp.rounds', { n: tools.mostRounds })}</p>`}<button type="button" class="chip run-calls"
    onClick=${() => it.carry(x, true)}><${Icon} name="tool" size="16" />${t('mcp.run')}</button></div>`;
}

function Calls({ x, open, now }) {
  const [given, setGiven] = useState({});
  const byServer = tools.runs(x);
  const asks = tools.jobs.use().get(x.id)?.asks; // what is asked about is to be read
  const send = (e) => {
    e.preventDefault();
    it.results(x, x.calls.map((c, i) => ({ name: c.name, text: given[i] ?? '' })));
  };
  return html`<div class="calls">${x.calls.map((c, i) => html`<details class="call" key=${i} open=${open && (!byServer || asks === c)}><summary><${Icon} name="tool" size="16" /><span>${t('call.of', { name: c.name })}</span></summary>
    <pre tabindex="0" dir="ltr">${tidy(c.arguments)}</pre></details>`)}
    ${open && byServer && html`<${Run} x=${x} now=${now} />`}
    ${open && !byServer && html`<form class="results" onSubmit=${send}><p>${t('call.wait')}</p>${x.calls.map((c, i) => html`<label key=${i}>${t('call.result', { name: c.name })}<textarea rows="2"
      dir="auto" value=${given[i] ?? ''} onInput=${(e) => setGiven({ ...given, [i]: e.target.value })} /></label>`)}<div class="row end"><button class="primary">${t('call.send')}</button></div></form>`}</div>`;
}

// what an answer waits for before its first word
function Waiting({ x }) {
  const load = state.use()?.loads?.find((l) => l.model === x.model);
  const since = Math.max(0, Math.round((Date.now() - x.at) / 1000));
  let text = since > 1 ? t('waiting', { time: span(since) }) : '';
  if (load) {
    text = t('load.' + load.state, { model: short(load.model) });
    if (load.state === 'loading' && load.bytes) text += ' ' + number((100 * load.bytes_done) / load.bytes) + ' %' + (load.left_seconds != null ? ' · ' + t('left', { time: span(load.left_seconds) }) : '');
  }
  return html`<div class="waiting"><span class="dots" aria-hidden="true"><i></i><i></i><i></i></span><span>${text}</span></div>`;
}

// Rewriting is where an answer's words are edited: kept as they are then, or gone on from.
function Rewriting({ x, end }) {
  const [text, setText] = useState(x.text);
  const area = useRef();
  useEffect(() => { area.current.focus(); }, []);
  const keep = (on) => {
    if (!text.trim()) return;
    end();
    if (text !== x.text) it.rewrite(x, text, on);
    else if (on) it.goOn(x);
  };
  return html`<article class="turn answer editing"><form onSubmit=${(e) => { e.preventDefault(); keep(true); }}>
    <textarea ref=${area} dir="auto" rows=${Math.min(20, text.split('\n').length + 2)} aria-label=${t('edit.answer')} value=${text} onInput=${(e) => setText(e.target.value)}
      onKeyDown=${(e) => {
        if (e.key === 'Escape') { e.stopPropagation(); end(); }
        if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); keep(true); }
      }} />
    <div class="row end"><button type="button" onClick=${end}>${t('cancel')}</button><button type="button" class="keep" disabled=${!text.trim()} onClick=${() => keep(false)}>${t('edit.keep')}</button><button
      class="primary" disabled=${!text.trim()}>${t('go.on')}</button></div></form></article>`;
}

function Answer(props) {
  const [editing, edit] = useState(false);
  return editing ? html`<${Rewriting} x=${props.x} end=${() => edit(false)} />` : html`<${Answered} ...${props} edit=${() => edit(true)} />`;
}

function Answered({ x, now, last, grow, edit }) {
  const run = runs.get(x.id);
  const [, tick] = useState(0);
  const body = useRef();
  const flow = useRef();
  // While only words come, they go to their place and nothing else is drawn.
  useEffect(() => {
    let shape = '';
    return run?.follow(() => {
      const now = `${runs.has(x.id)} ${!!x.text} ${!!x.thinking} ${x.thinkMs} ${x.calls.length} ${x.state} ${!!x.cut} ${run.progress?.step} ${!!run.progress?.picture} ${!!x.images}`;
      if (now === shape && flow.current) {
        flow.current.set(x.text, false);
        grow();
      } else tick((n) => n + 1);
      shape = now;
    });
  }, [run]);
  const live = !!run || elsewhere(x);
  const lived = useRef(live);
  useSeconds(live && !x.text);
  useLayoutEffect(() => {
    flow.current ??= new Flow(body.current);
    flow.current.set(x.text ?? '', !live);
    if (live || lived.current) grow(); // and once more when it has ended, for what stands beneath it then
    lived.current = live;
  });
  const asked = now.turns.find((y) => y.id === x.parent)?.passages;
  const [looking, look] = useState(null);
  const all = asked || x.text?.includes('[') ? sources(now.path) : [];
  useEffect(() => {
    if (live || !all.length) return;
    flow.current.all().then(() => { if (body.current) link(body.current, new Map(all.map((p) => [p.n, p])), look); });
  }, [live, all.length, x.text]);
  const broken = late(x);
  const words = !live && it.goesOn(x);
  const s = x.stats;
  const calls = x.calls?.length ? x.calls : null;
  const drawn = x.images?.length && [t('draw.seed', { seed: x.seed }), x.size?.replace('x', ' × '), x.seconds > 0 && span(x.seconds)].filter(Boolean).join(' · ');
  const facts = drawn || [...(s ? [s.output === 1 ? t('token') : t('tokens', { n: number(s.output) }), s.rate > 0 && s.output > 1 && t('rate', { n: number(s.rate, 1) }), x.firstMs !== undefined && t('first.after', { time: span(x.firstMs / 1000) }),
    s.load > 1 && t('loaded.in', { time: span(s.load) })] : []), x.edited && t('edited')].filter(Boolean).join(' · ');
  return html`<article class=${live ? 'turn answer live' : 'turn answer'} data-id=${x.id} aria-busy=${live} aria-label=${t('answer.of', { model: short(x.model) })}>
    <div class="who">${short(x.model)}</div>
    ${x.cut && html`<p class="note cut"><${Icon} name="warn" size="16" />${t('cut', { cut: number(x.cut.cut), prompt: number(x.cut.prompt), limit: number(x.cut.limit) })}</p>`}
    ${x.warning && html`<p class="note"><${Icon} name="warn" size="16" /><span>${unenforced(x.warning).map((w, i) => html`<span key=${i} class="each" dir="auto" lang=${w.lang} title=${w.said}>${w.text}</span>`)}</span></p>`}
    ${x.thinking && html`<${Thinking} x=${x} live=${live} />`}
    <div class="md" ref=${body}></div>
    ${!live && x.text && all.length > 0 && html`<${Sources} text=${x.text} asked=${asked} all=${all} open=${look} />`}${looking && html`<${Look} p=${looking} close=${() => look(null)} />`}
    ${!live && x.text && html`<${Places} x=${x} now=${now} />`}
    ${(x.draws || x.images) && html`<${Drawing} x=${x} run=${run} of=${now.turns.find((y) => y.id === x.parent)?.text} grow=${grow} />`}
    ${live && !x.text && !x.thinking && !calls && !run?.progress && html`<${Waiting} x=${x} />`}
    ${calls && html`<${Calls} x=${x} open=${last && !live} now=${now} />`}
    ${x.state === 'failed' && html`<p class="failed" role="alert"><${Icon} name="warn" size="16" /><span dir="auto">${x.error}</span></p>`}
    ${x.state === 'stopped' && html`<p class="note">${t('stopped')}</p>`}
    ${broken && html`<p class="note">${t('broken.off')}</p>`}
    ${!live && s?.reason === 'length' && html`<p class="note">${t('length')}</p>`}
    ${words && (broken || x.state === 'stopped' || x.state === 'failed' || s?.reason === 'length') && html`<button type="button" class="chip go-on" onClick=${() => it.goOn(x)}><${Icon} name="right" size="16" />${t('go.on')}</button>`}
    ${(!live || null) && html`<div class="acts"><${Beside} now=${now} x=${x} />${x.images?.length ? html`<${Button} icon="down" label=${t('draw.save')} onClick=${() => download(x)} class="save" />` : x.draws ? null
      : html`<${Button} icon="copy" label=${t('copy')} onClick=${() => copy(x.text)} />`}${
      x.text && html`<${Aloud} id=${x.id} drawn=${async () => { await flow.current.all(); return body.current; }} />`}<${Button} icon="again"
      label=${t(x.draws ? 'draw.again' : 'again')} onClick=${() => it.again(x)} class="again" />${words && html`<${Button} icon="edit" label=${t('edit.answer')} onClick=${edit} class="rewrite" />`}<${Button} icon="branch" label=${t('branch')} onClick=${() => it.branch(x)} /><${Button} icon="trash" label=${t('delete')}
      onClick=${() => remove(x)} /><span class="facts">${facts}</span></div>`}
  </article>`;
}

function Result({ x }) {
  return html`<article class="turn tool" data-id=${x.id}><details class=${x.failed ? 'call bad' : 'call'}><summary><${Icon} name=${x.failed || x.refused ? 'warn' : 'tool'} size="16" /><span>${t(x.refused ? 'mcp.refused' : x.failed ? 'mcp.failed' : 'call.result', { name: x.tool })}${x.ms >= 100 ? ' · ' + span(x.ms / 1000) : ''}</span></summary>
    <pre tabindex="0" dir="auto">${x.text}</pre></details></article>`;
}

export function Turn(props) {
  const kind = { user: Question, assistant: Answer, tool: Result }[props.x.role] ?? Result;
  return html`<${kind} ...${props} />`;
}
