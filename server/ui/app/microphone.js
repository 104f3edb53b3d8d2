// The microphone: recording from it, and asking the server what was said.
import { call, refusal } from './server.js';
import { settings } from './settings.js';
import { span, t } from './words.js';
import { written } from './wav.js';

export const longest = 300; // seconds of a recording
const rate = 16000; // what recognisers hear; where a browser does not resample, the server does
const tail = 150; // ms that what was said last takes to get here

// hearers are the models that write speech down, the newest first.
export const hearers = (models) => (models ?? []).filter((m) => !m.says && m.capabilities?.includes('audio'));

const shipped = 'pocket-hearing:latest';

// hearer is the name of the one that is asked: the one that was chosen, or the newest that was fetched, or the one that ships with axle. '': none.
export function hearer(models) {
  const list = hearers(models).map((m) => m.name);
  return list.find((name) => name === settings.get().hearer) ?? list.find((name) => name !== shipped) ?? list[0] ?? '';
}

const reasons = { NotFoundError: 'mic.none', OverconstrainedError: 'mic.none', NotAllowedError: 'mic.denied', SecurityError: 'mic.denied', NotReadableError: 'mic.taken', AbortError: 'mic.taken' };

// listener is an audio context with the recorder loaded; of a rate, where one is given and the browser has it.
async function listener(hertz) {
  let context;
  try {
    context = new AudioContext(hertz ? { sampleRate: hertz } : {});
  } catch (e) {
    if (!hertz) throw e;
    return listener(0);
  }
  try {
    await context.audioWorklet.addModule(new URL('./recorder.js', import.meta.url));
  } catch (e) {
    shut(context); // else it would run for as long as the page lives
    throw e;
  }
  return context;
}

const shut = (context) => context.close().catch(() => {}); // it may be closed already

// connected is the recorder that hears a stream. Firefox connects no context to a microphone of another rate.
async function connected(stream, context) {
  let from;
  try {
    from = context.createMediaStreamSource(stream);
  } catch {
    shut(context);
    context = await listener(0);
    from = context.createMediaStreamSource(stream);
  }
  const node = new AudioWorkletNode(context, 'recorder', { numberOfOutputs: 0, channelCount: 1, channelCountMode: 'explicit' });
  from.connect(node);
  await context.resume();
  return node;
}

// record begins to listen. level is told how loud each twentieth of a second is; full, that the recording is as long as it may be, or that the
// microphone was taken away. It fails in words. The recording's end gives a wav; drop throws it away. The signal's end lets go of a microphone
// for which there is no recording yet.
export async function record({ level, full, signal }) {
  if (!window.isSecureContext || !navigator.mediaDevices?.getUserMedia || !window.AudioWorkletNode) throw new Error(t('mic.insecure'));
  // Recognisers have learnt from noise and echoes; what a browser takes out of them, it takes out of words too.
  const asked = navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1, echoCancellation: false, noiseSuppression: false, autoGainControl: true } });
  const made = listener(rate);
  made.catch(() => {}); // it is told below, when people have answered the browser
  const silent = () => {
    asked.then((s) => s.getTracks().forEach((track) => track.stop()), () => {});
    made.then(shut, () => {});
  };
  signal.addEventListener('abort', silent);
  let stream, node;
  try {
    stream = await asked;
    node = await connected(stream, await made);
  } catch (e) {
    silent();
    throw new Error(t(reasons[e.name] ?? 'mic.failed', { why: e.message }));
  }
  const pieces = [];
  let seconds = 0, loud = false, over;
  const last = new Promise((ok) => { over = ok; });
  node.port.onmessage = ({ data }) => {
    if (!data) return over();
    pieces.push(data.samples);
    loud ||= data.level > 0;
    seconds += data.samples.length / node.context.sampleRate;
    level(data.level);
    if (seconds >= longest) full();
    return undefined;
  };
  for (const track of stream.getTracks()) track.onended = full;
  const drop = () => {
    node.port.onmessage = null;
    for (const track of stream.getTracks()) {
      track.onended = null;
      track.stop();
    }
    shut(node.context);
  };
  return {
    seconds: () => seconds,
    drop,
    async end() {
      const hertz = node.context.sampleRate;
      if (seconds < longest) await new Promise((ok) => setTimeout(ok, tail));
      node.port.postMessage(null);
      await Promise.race([last, new Promise((ok) => setTimeout(ok, 1000))]); // a browser that stops the audio thread answers no more
      drop();
      if (!loud) throw new Error(t('mic.muted'));
      return written(pieces, hertz);
    },
  };
}

// heard is what a model hears in a wav. It fails where that is nothing, in words.
export async function heard(sound, model, signal) {
  const body = new FormData();
  body.append('model', model);
  body.append('file', sound, 'speech.wav');
  const r = await call('/v1/audio/transcriptions', { method: 'POST', body, signal });
  if (!r.ok) throw await refusal(r);
  const { text } = await r.json();
  if (!text?.trim()) throw new Error(t('mic.silence') + (model === shipped ? ' ' + t('mic.shipped') : ''));
  return text.trim();
}

export const tooLong = () => t('mic.limit', { time: span(longest) });
