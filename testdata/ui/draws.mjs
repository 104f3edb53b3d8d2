// A model that draws, in the page: each step, a picture on the way, the picture with its seed and its file, again with another seed, stopping, a picture
// that is made of one, and what is there after a reload.
import { resolve } from 'node:path';
import { ask, at, choose, equal, holds, inPage } from './views.mjs';

const model = 'scripted-drawing:latest';
const last = `[...document.querySelectorAll('${at.answers}')].pop()`;
const picture = `(${last})?.querySelector('.drawing img:not(.partial)')`;
const finished = (n) => `document.querySelectorAll('${at.answers}:not(.live)').length === ${n} && !!(${picture})?.complete`;
const seed = `Number(/seed (\\d+)/.exec((${last}).querySelector('.facts').textContent)?.[1] ?? -1)`;
const saved = `(async () => { const had = URL.createObjectURL, click = HTMLAnchorElement.prototype.click, out = {};
  URL.createObjectURL = (b) => { Object.assign(out, { type: b.type, size: b.size }); return had.call(URL, b); };
  HTMLAnchorElement.prototype.click = function () { out.name = this.download; };
  (${last}).querySelector('.save').click();
  URL.createObjectURL = had; HTMLAnchorElement.prototype.click = click;
  return out; })()`;

async function fits(page, what) {
  equal(`how much wider than the screen ${what} is`, await page.run('document.documentElement.scrollWidth') - page.wide, 0);
  holds(`${what}: the picture is within its turn`, await page.run(`(() => { const i = (${picture}).getBoundingClientRect(), t = (${last}).getBoundingClientRect();
    return i.width > 200 && i.left >= t.left - 1 && i.right <= t.right + 1 && Math.abs(i.width / i.height - 512 / 384) < 0.02; })()`));
  equal(`${what}: elements with a style of their own`, await page.run(`document.querySelectorAll('#log [style], #form [style]').length`), 0);
}

export async function draws({ context, url }) {
  const page = await context.page({ excuse: /status of 400/ });
  await page.go(url + '/ui');
  await choose(page, model);
  await page.until('what is to be drawn', `document.querySelector('#text').placeholder === 'What the picture shows' && document.querySelector('.welcome h1').textContent === 'What would you like to see?'`);
  await ask(page, 'A red fox [[delay:500]]');
  await page.until('a step', `(${last})?.querySelector('progress')?.value >= 1 && /step \\d of 4/.test((${last}).querySelector('progress').getAttribute('aria-label'))`);
  holds('the button says stop while it draws', await page.run(at.busy));
  await page.until('a picture on the way', `!!(${last})?.querySelector('.drawing img.partial')`);
  await page.until('the picture', finished(1));
  equal('its size', await page.run(`(${picture}).naturalWidth + 'x' + (${picture}).naturalHeight`), '512x384');
  equal('what a screen reader says of it', await page.run(`(${picture}).alt`), 'A red fox [[delay:500]]');
  holds('what is left of how far it was', await page.run(`!(${last}).querySelector('progress, .partial, .waiting')`));
  await fits(page, 'the conversation');
  const first = await page.run(seed), before = await page.run(`(${picture}).src`);
  const file = await page.run(saved);
  holds(`the file: ${JSON.stringify(file)}`, file.name === `axle-${first}.jpg` && file.type === 'image/jpeg' && file.size > 1000);

  await page.click(`${at.answers}:last-child .again`);
  await page.until('another picture', `/^2\\/2$/.test((${last}).querySelector('.beside span')?.textContent ?? '') && ${finished(1)} && (${picture}).src !== ${JSON.stringify(before)}`);
  holds('it has another seed', (await page.run(seed)) !== first);
  equal('what the button is called', await page.run(`(${last}).querySelector('.again').getAttribute('aria-label')`), 'Again with another seed');

  // A seed of the conversation's is kept to, but for a picture that is drawn again.
  await page.click('.bar .setup');
  await page.until('the settings of pictures', `[...document.querySelectorAll('dialog legend')].some((l) => l.textContent === 'How pictures are drawn') && !/Sampling/.test(document.querySelector('dialog').textContent)`);
  await page.run(`(() => { const f = document.querySelector('dialog input[max="4294967295"]'); f.value = '42'; f.dispatchEvent(new Event('change', { bubbles: true })); })()`);
  await page.key('Escape');
  await page.until('the end of the settings', `!document.querySelector('dialog')`);
  await ask(page, 'A lighthouse');
  await page.until('the picture of the seed', `${finished(2)} && ${seed} === 42`);

  // A picture that is added is changed.
  const { result } = await page.send('Runtime.evaluate', { expression: `document.querySelector('.composer input[type=file]')` });
  await page.send('DOM.setFileInputFiles', { files: [resolve('testdata/pocket/shapes.png')], objectId: result.objectId });
  await page.until('the picture to start from', `document.querySelectorAll('.composer .pictures img').length === 1`);
  holds('a picture without words is not sent', await page.run(`document.querySelector('#send').disabled`));
  const asked = page.requests.length;
  await ask(page, 'Make it night');
  await page.until('the changed picture', finished(3));
  holds('it was asked for as an edit', page.requests.slice(asked).some((r) => r.endsWith('/v1/images/edits')));

  await ask(page, 'Slowly [[delay:60000]]');
  await page.until('that it draws', `${at.busy} && !!(${last}).querySelector('.waiting')`);
  await page.click(at.send);
  await page.until('the stop', `${at.idle} && /Stopped/.test((${last}).textContent)`);
  await ask(page, '[[err:400:this is not drawn]]');
  await page.until('the error', `(${last}).querySelector('.failed')?.textContent === 'this is not drawn'`);

  await page.reload();
  await page.until('the pictures after a reload', `document.querySelectorAll('${at.answers} .drawing img').length === 3`);
  equal('pictures in a file of the conversation that is taken in again', await inPage(page, `const { asJSON, importFile } = await use('transfer'); const store = await use('store');
    const id = await importFile(new File([await asJSON(location.hash.slice('#/chat/'.length))], 'kept.json'));
    return (await store.turns(id)).filter((x) => x.draws && x.images?.length === 1 && Number.isFinite(x.seed) && x.size === '512x384').length;`), 4);
  await choose(page, 'scripted-chat:latest');
  await ask(page, '[[say:words]]');
  await page.until('a model that writes, in the same conversation', `(${last}).querySelector('.md').textContent.trim() === 'words' && ${at.idle}`); // it is told nothing of what was drawn: not the error, for one

  const told = await inPage(page, `const turn = (role, text, more) => ({ role, text, pieces: [], ...more });
    return (await use('talk')).messages({}, [turn('user', 'A'), turn('assistant', ''), turn('user', 'B'), turn('assistant', '', { draws: true }), turn('user', 'C')]).map((m) => m.content);`);
  equal('what a model that writes is told after a question that failed and one that was drawn', told, ['A\n\nC']);

  const phone = await context.page({ wide: 390, high: 844, phone: true });
  await phone.go(url + '/ui');
  await choose(phone, model);
  await ask(phone, 'A small house');
  await phone.until('the picture on a phone', finished(1));
  await fits(phone, 'on a phone');
  return 'steps, a picture on the way, seeds, files, edits, a stop, an error, a reload, a phone';
}
