// Every way a picture comes into the page, each answered by the model that ships inside, on the software card: the button's files, the
// clipboard, a file dropped anywhere, and a phone's camera, whose photos lie on their side and are larger than any model sees.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { tmpdir } from 'node:os';
import { at, asked, choose, equal, holds, inPage } from './views.mjs';

const shapes = resolve('testdata/pocket/shapes.png');
const seen = 'A red circle, a blue square and a yellow star.';
const question = 'What is in this picture?';

// waiting are the pictures that go with the next question, as they will be sent.
const waiting = `[...document.querySelectorAll('.composer .pictures img')].map((i) => i.src)`;

async function open({ context, url }, o) {
  const page = await context.page(o);
  await page.send('Page.setInterceptFileChooserDialog', { enabled: true });
  const others = page.event.bind(page);
  page.event = (method, p) => {
    if (method === 'Page.fileChooserOpened') page.chooser?.(p);
    else others(method, p);
  };
  await page.go(url + '/ui');
  await choose(page, 'pocket:latest');
  return page;
}

// answers asks about the pictures that wait, and begins another conversation, in which they are not.
async function answers(page, how) {
  await inPage(page, `await (await use('open')).change({ options: { temperature: 0 }, think: false });`);
  equal(how, await asked(page, question), seen);
  equal('the pictures left for the next question', await page.run(waiting), []);
  holds('the question shows its picture', await page.run(`document.querySelector('.turn.user .pictures img').naturalWidth > 0`));
  await page.run(`location.hash = '#/chat'`);
  await page.until('another conversation', `!document.querySelector('${at.turns}') && !!document.querySelector('${at.text}')`);
}

// pick presses a button that asks for files, and gives it some.
async function pick(page, selector, files) {
  const opened = new Promise((ok) => { page.chooser = ok; });
  await page.click('.composer button', selector);
  const { backendNodeId, mode } = await opened;
  const { object } = await page.send('DOM.resolveNode', { backendNodeId });
  const { result } = await page.send('Runtime.callFunctionOn', { objectId: object.objectId, returnByValue: true,
    functionDeclaration: 'function () { return { accept: this.accept, capture: this.getAttribute("capture") }; }' });
  await page.send('DOM.setFileInputFiles', { files, backendNodeId });
  return { mode, ...result.value };
}

const has = (page, n) => page.until(`${n} pictures with the question`, `(${waiting}).length === ${n}`);

// photo is a picture as a phone makes one: lying, upright by its EXIF only, 4000 pixels long.
async function photo(page) {
  const png = readFileSync(shapes).toString('base64');
  const lying = Buffer.from(await page.run(`(async () => {
    const image = await createImageBitmap(new Blob([Uint8Array.from(atob('${png}'), (c) => c.charCodeAt(0))], { type: 'image/png' }));
    const canvas = Object.assign(document.createElement('canvas'), { width: 4000, height: 3000 });
    const g = canvas.getContext('2d');
    g.translate(0, 3000);
    g.rotate(-Math.PI / 2);
    g.drawImage(image, 0, 0, 3000, 4000);
    return canvas.toDataURL('image/jpeg', 0.95).split(',')[1];
  })()`), 'base64');
  const tiff = Buffer.from('II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0', 'latin1'); // orientation 6: turn it to the right
  const body = Buffer.concat([Buffer.from('Exif\0\0', 'latin1'), tiff]);
  return Buffer.concat([lying.subarray(0, 2), Buffer.from([0xff, 0xe1, 0, body.length + 2]), body, lying.subarray(2)]);
}

export async function sees(t) {
  const dir = mkdtempSync(join(tmpdir(), 'axle-ui-'));
  try {
    const page = await open(t);
    const files = await pick(page, 'Attach pictures or text files', [shapes]);
    holds('the button takes several pictures', files.mode === 'selectMultiple' && files.accept.includes('image/*') && files.capture === null);
    await has(page, 1);
    await answers(page, 'a file');

    await page.run(`document.querySelector('${at.text}').focus()`);
    const { targetInfo } = await page.send('Target.getTargetInfo');
    await page.send('Browser.grantPermissions', { permissions: ['clipboardReadWrite', 'clipboardSanitizedWrite'], origin: t.url, browserContextId: targetInfo.browserContextId });
    await page.send('Runtime.evaluate', { userGesture: true, awaitPromise: true, expression: `navigator.clipboard.write([new ClipboardItem({ 'image/png':
      new Blob([Uint8Array.from(atob('${readFileSync(shapes).toString('base64')}'), (c) => c.charCodeAt(0))], { type: 'image/png' }) })])` });
    await page.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', key: 'v', code: 'KeyV', windowsVirtualKeyCode: 86, modifiers: 2, commands: ['paste'] });
    await page.send('Input.dispatchKeyEvent', { type: 'keyUp', key: 'v', code: 'KeyV', windowsVirtualKeyCode: 86, modifiers: 2 });
    await has(page, 1);
    await answers(page, 'what was pasted');

    const data = { items: [], files: [shapes], dragOperationsMask: 1 };
    for (const type of ['dragEnter', 'dragOver', 'drop']) await page.send('Input.dispatchDragEvent', { type, x: 700, y: 300, data });
    await has(page, 1);
    holds('what is dropped does not replace the page', await page.run(`!!document.querySelector('${at.text}')`));
    await answers(page, 'what was dropped');

    // Two at once, one taken back; and a file that only calls itself a picture.
    const bad = join(dir, 'bad.png');
    writeFileSync(bad, 'no picture');
    await pick(page, 'Attach pictures or text files', [shapes, bad, shapes]);
    await has(page, 2);
    await page.until('what is said of the bad one', `/bad\\.png/.test(document.body.innerText)`);
    await page.click('.composer .pictures button', 'Remove the picture');
    await has(page, 1);
    await answers(page, 'one of two');
    await page.close();

    const phone = await open(t, { wide: 390, high: 844, phone: true });
    const jpg = join(dir, 'IMG_0001.jpg');
    writeFileSync(jpg, await photo(phone));
    const camera = await pick(phone, 'Take a picture', [jpg]);
    equal('the camera asks for', [camera.accept, camera.capture, camera.mode], ['image/*', 'environment', 'selectSingle']);
    await has(phone, 1);
    const size = await phone.run(`(async () => { const i = document.querySelector('.composer .pictures img'); await i.decode(); return [i.naturalWidth, i.naturalHeight]; })()`);
    equal('the photo is sent upright, and no larger than a model looks', size, [1536, 2048]);
    await answers(phone, 'the photo');
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
