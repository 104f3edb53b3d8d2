// The places of answers, drawn over the picture that was asked about.
import { at, equal, holds, inPage } from './views.mjs';

const drawn = `[...document.querySelectorAll('.ground rect:not(.halo), .ground circle:not(.halo)')].map((e) => ['x', 'y', 'width', 'height', 'cx', 'cy'].map((k) => e.getAttribute(k)).filter(Boolean).map(Number))`;
const listed = `[...document.querySelectorAll('.place')].map((e) => e.innerText.replace(/\\s+/g, ' ').trim())`;

// placed puts a question with pictures of 400 × 200 pixels and its answer into the page's store, and shows them.
export async function placed(page, pictures, text) {
  const id = await inPage(page, `
    const store = await use('store');
    const canvas = Object.assign(document.createElement('canvas'), { width: 400, height: 200 });
    canvas.getContext('2d').fillRect(0, 0, 200, 100);
    const picture = { type: 'image/png', data: canvas.toDataURL('image/png').split(',')[1], name: 'shapes.png' };
    const chat = store.newChat({ title: 'places', named: true, model: 'scripted-chat:latest' });
    const question = store.newTurn(chat.id, null, 'user', { text: 'Where?', images: Array(${pictures}).fill(picture) });
    const answer = store.newTurn(chat.id, question.id, 'assistant', { text: ${JSON.stringify(text)}, state: 'done', model: chat.model });
    const more = store.newTurn(chat.id, answer.id, 'user', { text: 'And?' });
    const last = store.newTurn(chat.id, more.id, 'assistant', { text: 'Nothing else.', state: 'done', model: chat.model });
    for (const x of [question, answer, more, last]) await store.saveTurn(x);
    chat.head = last.id;
    await store.saveChat(chat);
    return chat.id;`);
  await page.run(`location.hash = '#/chat/${id}'`);
  await page.until('the conversation', `document.querySelectorAll('${at.turns}').length === 4 && location.hash.endsWith('${id}')`);
}

// tried opens the dialog in which a model that finds things is tried.
export async function tried(page) {
  await page.run(`location.hash = '#/models'`);
  await page.until('the model', `[...document.querySelectorAll('.model')].some((e) => e.innerText.includes('scripted-detecting'))`);
  await page.run(`[...document.querySelectorAll('.model')].find((e) => e.innerText.includes('scripted-detecting')).querySelector('.does .primary').click()`);
  await page.until('the dialog', `!!document.querySelector('dialog input[type=file]')`);
}

const yard = `await (async () => { const canvas = Object.assign(document.createElement('canvas'), { width: 400, height: 200 }); canvas.getContext('2d').fillRect(0, 0, 400, 200);
  return new File([await new Promise((ok) => canvas.toBlob(ok))], 'yard.png', { type: 'image/png' }); })()`;

// dropped drops a file on the page: a picture of 400 × 200 pixels, or what make makes.
export const dropped = (page, make = yard) => page.run(`(async () => { const data = new DataTransfer(); data.items.add(${make}); dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); })()`);

export const places = {
  async places({ context, url }) {
    const page = await context.page();
    await page.go(url + '/ui');
    const marks = '<ref>a dog</ref><box><250><500><750><1000></box>\n\n<ref>its nose</ref><box><300><600></box>';
    await placed(page, 1, marks);
    await page.until('what is drawn', `(${drawn}).length === 2`);
    equal('a box and a point, in pixels of the picture', await page.run(drawn), [[100, 100, 200, 100], [120, 120]]);
    equal('what is said of them', await page.run(listed), ['a dog box: 25 % from the left, 50 % from the top, 50 % wide, 50 % high', 'its nose point: 30 % from the left, 60 % from the top']);
    equal('the coordinates stay text', await page.run(`document.querySelector('${at.said}').innerText.replace(/\\s+/g, '')`), marks.replace(/\s+/g, ''));
    holds('the picture and the figure have names', await page.run(`document.querySelector('.ground img').alt === 'shapes.png' && document.querySelector('figure.places').getAttribute('aria-label') === 'Places in the picture'`));
    const covers = await page.run(`(() => { const [a, b] = ['img', 'svg'].map((s) => document.querySelector('.ground ' + s).getBoundingClientRect()); return ['x', 'y', 'width', 'height'].every((k) => Math.abs(a[k] - b[k]) < 1); })()`);
    holds('the drawing lies over the picture', covers);
    // By keyboard: what has the focus is the one that is seen, and Enter keeps it so.
    await page.run(`document.querySelector('.place').focus()`);
    await page.until('the first alone', `document.querySelectorAll('.ground .one .on').length === 1 && !!document.querySelector('.ground g.k1.on')`);
    await page.key('Enter');
    await page.key('Tab');
    await page.until('the second', `document.activeElement.innerText.includes('its nose') && !!document.querySelector('.ground g.k2.on')`);
    await page.run(`document.activeElement.blur()`);
    await page.until('the first, which is held', `!!document.querySelector('.ground g.k1.on') && document.querySelector('.place').getAttribute('aria-pressed') === 'true'`);

    // In JSON the model tells what is counted. A label is text, whatever it says.
    await page.answers('*/api/show', () => JSON.stringify({ model_info: { 'axle.places': [800, 800] } }));
    await placed(page, 1, '```json\n[{"bbox_2d": [80, 160, 400, 400], "label": "<img src=x onerror=alert(1)>"}]\n```');
    await page.until('a box of JSON', `(${drawn}).length === 1`);
    equal('a box in eight hundredths', await page.run(drawn), [[40, 40, 160, 60]]);
    holds('its label is text', await page.run(`document.querySelector('.ground text').textContent === '<img src=x onerror=alert(1)>' && !document.querySelector('.ground text img, .place img')`));

    // Of two pictures the answer does not say which; without any there is nothing to draw on.
    for (const n of [2, 0]) {
      await placed(page, n, marks);
      await page.until('the answer', `document.querySelector('${at.said}').innerText.includes('<box>')`);
      equal(`drawings for ${n} pictures`, await page.run(drawn), []);
    }
  },

  // A model that finds things is tried from the list of models: with a chosen picture, a dropped one, and a file that is none.
  async detect({ context, url }) {
    const page = await context.page();
    await page.go(url + '/ui');
    await tried(page);
    await dropped(page);
    await page.until('what was found', `(${drawn}).length === 2`);
    equal('the boxes', await page.run(drawn), [[100, 50, 200, 100], [0, 0, 200, 100]]);
    equal('their names', await page.run(`[...document.querySelectorAll('.ground text')].map((e) => e.textContent)`), ['person 90 %', 'cat 46 %']);
    await dropped(page, `new File(['no picture'], 'bad.png', { type: 'image/png' })`);
    await page.until('what is said of a bad one', `/bad\\.png/.test(document.querySelector('dialog .failed')?.innerText ?? '') && (${drawn}).length === 0`);
    await page.answers('*/v1/vision/detection', () => '{"success":true,"predictions":[]}');
    await dropped(page);
    await page.until('that nothing was found', `document.querySelector('dialog [role=status]').innerText === 'Nothing was found in the picture.'`);
    await page.key('Escape');
    await page.until('its end', `!document.querySelector('dialog')`);
  },
};
