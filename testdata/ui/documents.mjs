// Documents: added by a button and by dropping a folder, read or refused one by one, searched, asked about, and quoted with their place.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { at, choose, equal, holds, ask, lastAnswer } from './views.mjs';

// pdf has a page for each line of text.
function pdf(...lines) {
  let out = '%PDF-1.4\n';
  const from = [];
  const object = (s) => { from.push(out.length); out += `${from.length} 0 obj\n${s}\nendobj\n`; };
  object('<< /Type /Catalog /Pages 2 0 R >>');
  object(`<< /Type /Pages /Kids [${lines.map((_, i) => `${4 + 2 * i} 0 R`).join(' ')}] /Count ${lines.length} >>`);
  object('<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>');
  lines.forEach((text, i) => {
    const s = `BT /F 12 Tf 50 700 Td (${text}) Tj ET`;
    object(`<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources << /Font << /F 3 0 R >> >> /Contents ${5 + 2 * i} 0 R >>`);
    object(`<< /Length ${s.length} >>\nstream\n${s}\nendstream`);
  });
  const start = out.length;
  out += `xref\n0 ${from.length + 1}\n0000000000 65535 f \n${from.map((n) => String(n).padStart(10, '0') + ' 00000 n \n').join('')}`;
  return Buffer.from(out + `trailer << /Size ${from.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`, 'latin1');
}

function crc(b) {
  let c = ~0;
  for (const x of b) {
    c ^= x;
    for (let k = 0; k < 8; k++) c = (c >>> 1) ^ (c & 1 ? 0xedb88320 : 0);
  }
  return ~c >>> 0;
}

// docx is an archive of stored parts: a heading and a paragraph.
function docx(heading, text) {
  const w = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"';
  const para = (style, s) => `<w:p><w:pPr><w:pStyle w:val="${style}"/></w:pPr><w:r><w:t>${s}</w:t></w:r></w:p>`;
  const parts = { 'word/styles.xml': `<w:styles ${w}><w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style></w:styles>`, 'word/document.xml': `<w:document ${w}><w:body>${para('H1', heading)}${para('', text)}</w:body></w:document>` };
  const local = [], list = [];
  let where = 0;
  for (const [name, s] of Object.entries(parts)) {
    const n = Buffer.from(name), d = Buffer.from(s), head = Buffer.alloc(26);
    head.writeUInt16LE(20, 0);
    head.writeUInt32LE(crc(d), 10);
    head.writeUInt32LE(d.length, 14);
    head.writeUInt32LE(d.length, 18);
    head.writeUInt16LE(n.length, 22);
    const one = Buffer.concat([Buffer.from('PK\x03\x04'), head, n, d]), rest = Buffer.alloc(14);
    rest.writeUInt32LE(where, 10);
    list.push(Buffer.concat([Buffer.from('PK\x01\x02\x14\0'), head, rest, n]));
    local.push(one);
    where += one.length;
  }
  const all = Buffer.concat(list), end = Buffer.alloc(18);
  end.writeUInt16LE(2, 4);
  end.writeUInt16LE(2, 6);
  end.writeUInt32LE(all.length, 8);
  end.writeUInt32LE(where, 12);
  return Buffer.concat([...local, all, Buffer.from('PK\x05\x06'), end]);
}

const filler = 'This paragraph is about something else and says nothing of it. '.repeat(12);
const files = {
  'manual.pdf': pdf('The cover of the manual.', 'The flux capacitor needs one point twenty one gigawatts.'),
  'letter.docx': docx('Holidays', 'The office is closed from Christmas Eve until Epiphany.'),
  'rules.md': `# Rules\n\n${filler}\n\n## Grüße und Öffnung\n\nDer Zugang öffnet um sieben; die Parole heißt Schwertfisch.\n\n${filler}`,
  'page.html': '<title>Fees</title><script>never()</script><h1>Fees</h1><p>The parking fee is four euros a day.</p>',
  'notes.txt': 'The spare key hangs behind the boiler.\n',
  'scan.pdf': pdf(''),
};

const kept = `[...document.querySelectorAll('.kept b')].map((e) => e.textContent).sort()`;
const dialog = `document.querySelector('dialog[open]')`;

// folder is a folder on the disk with files, for what Chromium itself opens.
function folder(list) {
  const dir = mkdtempSync(join(tmpdir(), 'axle-documents-'));
  for (const [name, data] of Object.entries(list)) {
    mkdirSync(join(dir, 'shelf', name, '..'), { recursive: true });
    writeFileSync(join(dir, 'shelf', name), data);
  }
  return dir;
}

async function drop(page, path) {
  const data = { items: [], files: [path], dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop']) await page.send('Input.dispatchDragEvent', { type, x: 600, y: 400, data });
}

async function chooseFiles(page, selector, paths) {
  const { root } = await page.send('DOM.getDocument');
  const { nodeId } = await page.send('DOM.querySelector', { nodeId: root.nodeId, selector });
  await page.send('DOM.setFileInputFiles', { nodeId, files: paths });
}

// collected makes a collection by the keyboard alone, with what it is given.
export async function collected(page, name, list) {
  await page.run(`location.hash = '#/documents'`);
  await page.until('the view', `!!document.querySelector('.documents form input')`);
  await page.run(`document.querySelector('.documents form input').focus()`);
  await page.type(name);
  await page.key('Enter');
  await page.until('the collection', `!!document.querySelector('.collection.opened .files input[type=file]')`);
  const dir = folder(list);
  await chooseFiles(page, '.add-files', Object.keys(list).map((n) => join(dir, 'shelf', n)));
  return dir;
}

export const documents = {
  async documents({ context, url }) {
    const page = await context.page();
    await page.go(url + '/ui');
    await choose(page, 'scripted-chat:latest');
    const dir = await collected(page, 'House', files);
    try {
      const read = Object.keys(files).filter((n) => n !== 'scan.pdf').sort();
      await page.until('all that can be read', `JSON.stringify(${kept}) === ${JSON.stringify(JSON.stringify(read))}`, kept);
      const refused = await page.until('what is said of the scan', `document.querySelector('.coming .failed')?.textContent`);
      holds('the scan is named with the way out: ' + refused, refused.includes('scan.pdf') && refused.includes('OCR'));
      await page.click('.coming .failed button');
      await page.until('that the message is put away', `!document.querySelector('.coming .failed')`);

      // Searched without a model; the passage is marked in its page, also behind letters of several bytes.
      await page.run(`document.querySelector('.files input[type=search]').focus()`);
      await page.type('Parole Schwertfisch');
      await page.key('Enter');
      await page.until('a passage', `document.querySelector('.hits b')?.textContent === 'rules.md'`);
      await page.run(`document.querySelector('.hits button').focus()`);
      await page.key('Enter');
      await page.until('the passage in its page', `${dialog}?.querySelector('mark')?.textContent.includes('Schwertfisch')`);
      holds('the mark is the passage and not the page', await page.run(`(() => { const m = ${dialog}.querySelector('mark').textContent, all = ${dialog}.querySelector('.leaf').textContent; return m.length <= all.length && !m.includes('\\ufffd'); })()`));
      await page.key('Escape');
      await page.until('that the focus is back', `!${dialog} && !!document.activeElement.closest('.hits')`);

      // Asked about: the passages go with the question, the answer's number opens its page.
      await page.click('.collection .does .primary');
      await page.until('the conversation with its documents', `document.querySelector('#documents')?.selectedOptions[0].textContent === 'House'`);
      await choose(page, 'scripted-chat:latest');
      await page.run(`(() => { const f = fetch; window.fetch = (u, o) => { if (String(u).endsWith('/api/chat')) window.asked = JSON.parse(o.body); return f(u, o); }; })()`);
      await ask(page, 'How many gigawatts does the flux capacitor need? [[delay:1]][[say:It needs 1.21 gigawatts [1]. |`x[1]` stays code.]]');
      await page.until('the answer', `(${lastAnswer}).includes('stays code') && !document.querySelector('.turn.live')`);
      const said = await page.run(`window.asked.messages.at(-1).content`);
      holds('the passages went with the question: ' + said.slice(0, 300), said.includes('[1] manual.pdf, page 2') && said.includes('one point twenty one') && said.trim().includes('The question:'));
      await page.until('the number as a button', `document.querySelectorAll('.turn.answer .cite').length === 1`);
      equal('code is left as it is', await page.run(`document.querySelector('.turn.answer code').textContent`), 'x[1]');
      equal('file and page beneath the answer', await page.run(`[...document.querySelectorAll('.sources .source')].map((e) => e.querySelector('span b').textContent + ' / ' + e.querySelector('small').textContent)`), ['manual.pdf / page 2']);
      await page.run(`document.querySelector('.cite').focus()`);
      await page.key('Enter');
      await page.until('the page of the PDF', `${dialog}?.querySelector('mark')?.textContent.includes('gigawatts')`);
      await page.click('dialog .around button', 'Page before');
      await page.until('the page before', `${dialog}.querySelector('.leaf').textContent.includes('cover') && !${dialog}.querySelector('mark')`);
      await page.key('Escape');
      await page.until('that the focus is on the number', `!${dialog} && document.activeElement.className === 'cite'`);
      await page.reload();
      await page.until('the quotation after a reload', `document.querySelectorAll('.turn.answer .cite').length === 1 && document.querySelectorAll('.sources .source').length === 1`);

      // The next question's passages have numbers of their own.
      await ask(page, 'And the parking fee? [[say:Four euros.]]');
      await page.until('the second answer', `(${lastAnswer}).includes('Four')  && !document.querySelector('.turn.live')`);
      const second = await page.run(`[...document.querySelectorAll('.turn.answer')].pop().querySelectorAll('.source').length`);
      holds('what was found stands beneath an answer that names none of it', second > 0);
      const numbers = await page.run(`[...document.querySelectorAll('.source > .num')].map((e) => Number(e.textContent))`);
      equal('no number stands for two passages', new Set(numbers).size, numbers.length);

      // What is deleted is gone from the server, and the passage that was quoted is still shown.
      await page.run(`location.hash = '#/documents'`);
      await page.click('.collection button', 'Delete the collection House');
      await page.click('dialog .danger');
      await page.until('that it is gone', `!document.querySelector('.collection')`);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  },

  // A folder that is dropped becomes a collection; what has no text in it is left out. On a phone nothing is wider than the screen.
  async shelf({ context, url }) {
    const page = await context.page();
    await page.go(url + '/ui');
    await page.run(`location.hash = '#/documents'`);
    await page.until('the view', `!!document.querySelector('.documents form input')`);
    const dir = folder({ 'a/deep/one.md': '# One\n\nThe first text.', 'b/two.txt': 'The second text.', 'picture.png': '\x89PNG', '.git/config': 'secret' });
    try {
      await drop(page, join(dir, 'shelf'));
      await page.until('the folder as a collection', `JSON.stringify(${kept}) === '["shelf/a/deep/one.md","shelf/b/two.txt"]'`, kept);
      equal('its name', await page.run(`document.querySelector('.collection .fold').textContent.trim()`), 'shelf');
      holds('that files were left out', await page.run(`document.querySelector('.said').textContent.includes('left out')`));

      // A PDF on a conversation: it is kept on the server, and the conversation is asked about it.
      await page.run(`location.hash = '#/chat'`);
      await choose(page, 'scripted-chat:latest');
      writeFileSync(join(dir, 'manual.pdf'), files['manual.pdf']);
      await drop(page, join(dir, 'manual.pdf'));
      await page.until('the documents of the conversation', `document.querySelector('#documents')?.selectedOptions[0].textContent === 'manual.pdf'`);
      await page.until('that it was read', `!document.querySelector('.coming')`);
      await ask(page, 'What does the flux capacitor need? [[say:Power [1]. ]]');
      await page.until('the answer with its source', `document.querySelector('.source span b')?.textContent === 'manual.pdf'`);

      const phone = await context.page({ wide: 390, high: 844, phone: true });
      await phone.go(url + '/ui#/documents');
      await phone.until('the collections', `document.querySelectorAll('.collection').length === 2`);
      await phone.click('.fold');
      await phone.until('the files', `document.querySelectorAll('.kept li').length > 0`);
      equal('how much wider than the screen the documents are', await phone.run('document.documentElement.scrollWidth') - phone.wide, 0);
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  },
};
