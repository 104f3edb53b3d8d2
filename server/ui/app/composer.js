// Where one writes or talks: the text, the pictures that go with it, how the model thinks, and the button that sends or stops.
import { el, html, useEffect, useEvent, useLayoutEffect, useRef, useState } from './html.js';
import { say, told } from './dialog.js';
import { useDictation } from './dictation.js';
import { Button, Icon } from './icons.js';
import { models, state } from './live.js';
import * as it from './open.js';
import { large, mostText, pasted, Pieces, read, said, tokens } from './pieces.js';
import { Room } from './room.js';
import { enterSends, sends, settings, touch } from './settings.js';
import * as shelf from './shelf.js';
import { weight } from './talk.js';
import { Pictures } from './turn.js';
import { bytes, number, short, t } from './words.js';

const drafts = new Map(); // by conversation, for as long as the page lives
const side = 2048; // no encoder looks at more

// shrunk makes a file's picture no larger than a model sees, turned as the camera meant it.
export async function shrunk(file) {
  const image = await createImageBitmap(file, { imageOrientation: 'from-image' });
  const scale = Math.min(1, side / Math.max(image.width, image.height));
  let data = file;
  if (scale < 1 || file.size > 2e6 || !/^image\/(png|jpeg|webp)$/.test(file.type)) {
    const canvas = el('canvas', { width: Math.max(1, Math.round(image.width * scale)), height: Math.max(1, Math.round(image.height * scale)) });
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    data = await new Promise((ok) => canvas.toBlob(ok, file.type === 'image/png' && file.size < 4e6 ? 'image/png' : 'image/jpeg', 0.9));
  }
  image.close();
  const b = new Uint8Array(await data.arrayBuffer());
  let text = '';
  for (let i = 0; i < b.length; i += 32768) text += String.fromCharCode(...b.subarray(i, i + 32768));
  return { type: data.type, data: btoa(text), name: file.name };
}

const most = 8; // pictures in a question
const kinds = 'text/*,application/json,application/xml,' + ('md txt csv tsv log go py rs c h cc cpp hpp cs java kt swift lua php rb pl r js mjs ts tsx jsx vue css html svg xml sh ps1 sql toml ini conf cfg env yaml yml json ' +
  'jsonl ipynb diff patch tex rst srt').replace(/(\S+) ?/g, '.$1,').slice(0, -1);
const muchText = 50000; // browsers that put so much into a field line by line, to undo it, take minutes

export const focusComposer = () => document.getElementById('text')?.focus();

export function Composer({ now, grow }) {
  const id = now.chat.id;
  const [text, setText] = useState(drafts.get(id)?.text ?? '');
  const [pictures, setPictures] = useState(drafts.get(id)?.pictures ?? []);
  const [pieces, setPieces] = useState(drafts.get(id)?.pieces ?? []);
  const area = useRef(), files = useRef(), camera = useRef();
  const known = models.use();
  const on = settings.use();
  const model = known?.find((m) => m.name === now.chat.model);
  const can = model?.capabilities ?? [];
  const draws = it.draws(model);
  const sees = can.includes('vision') || draws;
  const collection = now.chat.collection ?? '';
  const shelves = shelf.collections.use();
  const coming = shelf.coming.use().filter((c) => c.store === collection);
  const asking = useRef(false); // documents are being searched for what is written here
  useEffect(() => { shelf.lookOnce(); }, []);
  const busy = it.answering(now) || (it.written(now) && !text.trim() && !pieces.length); // what is written here may be asked beside it
  useEffect(() => {
    setText(drafts.get(id)?.text ?? '');
    setPictures(drafts.get(id)?.pictures ?? []);
    setPieces(drafts.get(id)?.pieces ?? []);
    if (!touch()) area.current?.focus();
  }, [id]);
  useEffect(() => { drafts.set(id, { text, pictures, pieces }); }, [text, pictures, pieces]);
  useLayoutEffect(() => { // browsers without field-sizing
    if (CSS.supports('field-sizing', 'content')) return;
    area.current.style.height = 'auto';
    area.current.style.height = area.current.scrollHeight + 2 + 'px';
    grow(); // while it was low, more was seen of the turns, and the end was elsewhere
  }, [text]);

  // kept puts files that only the server reads into the conversation's documents.
  async function kept(got) {
    if (got.left > 0) say(t('docs.skipped', { n: number(got.left) }), !got.list.length);
    if (!got.list.length) return;
    await shelf.lookOnce();
    if (!shelf.room.get()?.on) throw new Error(t('docs.off.file'));
    const store = shelf.named(collection)?.id ?? (await shelf.make(got.name || got.list[0].file.name));
    if (it.open.get()?.chat.id === id) await it.change({ collection: store });
    await shelf.add(store, got.list);
  }

  async function take(list) {
    const documents = draws ? [] : list.filter((f) => shelf.document(f.name));
    if (documents.length) told(kept(shelf.chosen(documents)));
    for (const f of list.filter((f) => !documents.includes(f))) {
      try {
        if (f.type.startsWith('image/')) {
          if (!sees) throw new Error(t('picture.blind'));
          const p = await shrunk(f);
          setPictures((had) => {
            if (draws) return [p]; // a picture is made of one
            if (had.length < most) return [...had, p];
            say(t('picture.most', { n: most }), true);
            return had;
          });
        } else {
          const p = await read(f);
          setPieces((had) => [...had, p]);
        }
      } catch (e) {
        say(e instanceof DOMException ? t(f.type.startsWith('image/') ? 'picture.bad' : 'file.unread', { name: f.name }) : e.message, true);
      }
    }
    area.current?.focus();
  }

  // dropped anywhere on the page
  useEvent('dragover', (e) => { if (e.dataTransfer?.types.includes('Files')) e.preventDefault(); });
  useEvent('drop', (e) => {
    if (!e.dataTransfer?.files.length) return;
    e.preventDefault();
    const folder = [...e.dataTransfer.items].some((i) => i.webkitGetAsEntry?.()?.isDirectory);
    if (folder && !draws) told(shelf.dropped(e.dataTransfer).then(kept));
    else take([...e.dataTransfer.files]);
  });

  function send(e) {
    e?.preventDefault();
    if (busy) return it.stop();
    const words = text.trim();
    if (!words && (draws || (!pictures.length && !pieces.length))) return undefined;
    if (!now.chat.model && !it.usual()) return say(t('no.model'), true);
    const all = weight(now.chat, [...now.path, { role: 'user', text: words, pieces }]);
    if (all > mostText) return say(t('text.much', { have: bytes(all), most: bytes(mostText) }), true);
    const clear = () => {
      drafts.delete(id);
      if (it.open.get()?.chat.id !== id) return;
      setText('');
      setPictures([]);
      setPieces([]);
    };
    if (!collection) clear();
    else if (asking.current) return undefined;
    asking.current = true; // what is written stays until its documents were searched
    it.ask(words, { images: pictures, pieces }).then(() => { if (collection) clear(); }, (e) => say(e.message, true)).finally(() => { asking.current = false; });
    return undefined;
  }

  // into puts text into the field, where the cursor is.
  function into(words, focus = true) {
    area.current.setRangeText(words, area.current.selectionStart, area.current.selectionEnd, 'end');
    setText(area.current.value);
    if (focus) area.current.focus();
  }

  // What was said goes where the cursor is, between spaces; it is sent where that was chosen, unless an answer is being written.
  const sending = useRef(false);
  const voice = useDictation(id, (words) => {
    const { value, selectionStart: from, selectionEnd: to } = area.current;
    into((/\S$/.test(value.slice(0, from)) ? ' ' : '') + words + (/^[\p{L}\p{N}]/u.test(value.slice(to)) ? ' ' : ''), !touch()); // no keyboard comes up over what was said
    sending.current = on.heard === 'send' && !busy;
  });
  useEffect(() => {
    if (sending.current) send();
    sending.current = false;
  }, [text]);

  const room = Math.min(...[model?.details?.context_length, state.get()?.models?.find((m) => m.name === now.chat.model)?.context, now.chat.options?.num_ctx].filter((n) => n > 0));
  const long = pieces.length > 0 ? tokens(said({ text, pieces })) : 0;
  const think = now.chat.think;
  const next = think === null || think === undefined || think === '' ? true : think ? false : null;
  const thinkWord = think === null || think === undefined || think === '' ? t('think.auto') : think ? t('think.on') : t('think.off');
  // Each conversation has a field of its own: what was written in another one cannot be called back by undoing, nor is it held for that.
  return html`<form class="composer" id="form" onSubmit=${send}>
    <${Pictures} list=${pictures} remove=${(i) => setPictures(pictures.filter((_, j) => j !== i))} />
    <${Pieces} list=${pieces} drop=${(i) => { setPieces(pieces.filter((_, j) => j !== i)); area.current.focus(); }} open=${(i) => { setPieces(pieces.filter((_, j) => j !== i)); into(pieces[i].text); }} />
    ${coming.length > 0 && html`<ul class="coming" aria-label=${t('docs.coming')} aria-live="polite">${coming.map((c) => html`<li key=${c.id} class=${c.state === 'failed' ? 'failed' : ''}><span dir="auto"><b>${c.name}</b> <small>${
      c.state === 'failed' ? c.error : t(c.state === 'reading' ? 'docs.reading' : 'docs.sending')}</small></span>${c.state === 'failed' && html`<${Button} icon="close" label=${t('docs.forget', { name: c.name })} onClick=${() => shelf.forget(c.id)} />`}</li>`)}</ul>`}
    ${!draws && html`<${Room} chat=${now.chat} path=${now.path} typed=${said({ text, pieces })} room=${room} />`}
    ${long > room && html`<p class="note cut"><${Icon} name="warn" size="16" />${t('piece.context', { n: number(long), model: short(now.chat.model), room: number(room) })}</p>`}
    <textarea id="text" class=${text.length > muchText ? 'much' : ''} key=${id} ref=${area} rows="1" dir="auto" placeholder=${t(draws ? 'draw.what' : 'message')} aria-label=${t(draws ? 'draw.what' : 'message')} enterkeyhint=${enterSends() ? 'send' : 'enter'} value=${text}
      onInput=${(e) => setText(e.target.value)}
      onPaste=${(e) => {
        const list = [...e.clipboardData.files];
        const words = e.clipboardData.getData('text/plain');
        if (!list.length && words.length < large) return;
        e.preventDefault();
        if (list.length) return take(list);
        setPieces((had) => [...had, pasted(words.replace(/\r\n?/g, '\n'), had)]);
      }}
      onKeyDown=${(e) => {
        if (sends(e)) {
          e.preventDefault();
          if (!busy) send();
        } else if (e.key === 'ArrowUp' && !text) {
          const edits = document.querySelectorAll('.turn.user .edit');
          if (edits.length) { e.preventDefault(); edits[edits.length - 1].click(); }
        }
      }} />
    ${voice?.strip}
    <div class="tools" key="tools">
      <input type="file" ref=${files} hidden multiple accept=${draws ? 'image/*' : (sees ? 'image/*,' : '') + '.pdf,.docx,' + kinds}
        onChange=${(e) => { take([...e.target.files]); e.target.value = ''; }} />
      <${Button} icon="attach" label=${t(draws ? 'draw.from' : sees ? 'attach.picture' : 'attach')} onClick=${() => files.current.click()} />
      ${sees && touch() && html`<input type="file" ref=${camera} hidden accept="image/*" capture="environment" onChange=${(e) => { take([...e.target.files]); e.target.value = ''; }} />
        <${Button} icon="camera" label=${t('camera')} onClick=${() => camera.current.click()} />`}
      ${can.includes('thinking') && html`<button type="button" class=${'chip' + (think === true || think ? ' on' : '')} title=${t('think.what')} aria-label=${t('think.what') + ': ' + thinkWord}
        onClick=${() => it.change({ think: next })}><${Icon} name="think" size="16" />${thinkWord}</button>`}
      ${!draws && (shelves.length > 0 || collection) && html`<label class=${'chip docs' + (collection ? ' on' : '')} title=${t('docs.choose')}><${Icon} name="text" size="16" /><span class="offscreen">${t('docs.choose')}</span><select id="documents" value=${collection}
        onChange=${(e) => it.change({ collection: e.target.value })}><option value="">${t('docs.no')}</option>${collection && !shelf.named(collection) && html`<option value=${collection}>${t('docs.away')}</option>`}${shelves.map((c) => html`<option key=${c.id}
        value=${c.id}>${c.name || t('docs.unnamed')}</option>`)}</select></label>`}
      <span class="hint">${on.enter !== 'line' && !touch() ? t('enter.hint') : ''}</span>
      ${voice?.button}
      <button id="send" class=${busy ? 'send stop' : 'send'} aria-label=${busy ? t('stop') : t('send')} title=${busy ? t('stop') : t('send')}
        disabled=${!busy && !text.trim() && (draws || (!pictures.length && !pieces.length))}><${Icon} name=${busy ? 'stop' : 'send'} size="20" /></button>
    </div></form>`;
}
