// Asking a model for a picture: of the last question's words, or made of its picture where it has one.
import { said } from './pieces.js';
import { call, lines, refusal, Refused } from './server.js';
import { t } from './words.js';

// numbers a conversation may set for pictures; what is empty is the model's own.
export const numbers = [['seed', 0, 4294967295, 1], ['steps', 1, 1000, 1], ['guidance', 0.5, 50, 0.5], ['strength', 0.05, 1, 0.05]];

// request is the path and the body for a turn. A jpeg is a fifth of a png, and a browser's room for conversations is not endless.
export function request(chat, path, turn) {
  const question = path.findLast((x) => x.role === 'user');
  const body = { model: turn.model, prompt: said(question), stream: true, progress: true, partial_images: 1, output_format: 'jpeg', output_compression: 92 };
  const from = question.images?.[0]?.data;
  if (from) body.image = from;
  for (const [name] of numbers) {
    const value = chat.options?.[name];
    if (value === undefined || value === '' || (name === 'seed' && turn.anew) || (name === 'strength' && !from)) continue;
    body[name] = Number(value);
  }
  if (chat.options?.negative_prompt) body.negative_prompt = chat.options.negative_prompt;
  return { path: from ? '/v1/images/edits' : '/v1/images/generations', body };
}

// draw fills a turn with its picture. run.progress is {step, steps, picture} on the way: it is not kept.
export async function draw(run, chat, path, turn) {
  const started = performance.now();
  const { path: where, body } = request(chat, path, turn);
  const r = await call(where, { method: 'POST', body: JSON.stringify(body), signal: run.abort.signal, headers: { 'Content-Type': 'application/json' } });
  if (!r.ok) throw await refusal(r);
  for await (const o of lines(r)) {
    const picture = o.b64_json && { type: 'image/' + o.output_format, data: o.b64_json, name: '' };
    if (/\.progress$/.test(o.type)) run.progress = { ...run.progress, step: o.step, steps: o.steps };
    else if (/\.partial_image$/.test(o.type)) run.progress = { ...run.progress, picture };
    else if (/\.completed$/.test(o.type)) Object.assign(turn, { images: [picture], seed: o.seed, size: o.size });
    run.changed();
  }
  if (!turn.images) throw new Refused(0, t('broke'));
  turn.seconds = (performance.now() - started) / 1000;
  turn.state = 'done';
}
