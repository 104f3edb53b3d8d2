// Conversations on the server: two browsers that see the same ones, with a server that goes away and comes back.
import { join } from 'node:path';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { Server, scripted } from './servers.mjs';
import { ask, asked, at, choose, equal, holds, inPage } from './views.mjs';

const standing = (page, how) => page.until('how it stands: ' + how, `[...document.querySelectorAll('.shared')].some((e) => ${JSON.stringify(how)} === e.textContent)`);
const saved = 'All is saved on the server.';

async function settings(page, url) {
  await page.go(url + '/ui#/settings');
  await page.until('the switch', `!!document.querySelector('#share')`);
}

async function on(page, url) {
  await settings(page, url);
  await page.run(`document.querySelector('#share').focus()`);
  await page.key(' ');
  await page.until('the question', `/Send the \\d+ conversations/.test(document.querySelector('dialog')?.textContent)`);
  await page.key('Enter');
  await standing(page, saved);
}

const titles = `[...document.querySelectorAll('.chats li a span')].map((e) => e.textContent).join('|')`;
const shown = `[...document.querySelectorAll('${at.turns}')].map((e) => e.textContent).join('|')`;
const bytesIn = (dir) => readdirSync(dir, { recursive: true, withFileTypes: true }).filter((f) => f.isFile()).map((f) => readFileSync(join(f.parentPath ?? f.path, f.name), 'latin1')).join('\n');

export const shares = {
  async shares({ browser, context }) {
    const dir = mkdtempSync(join(tmpdir(), 'axle-shared-'));
    const keys = [['ann', 'the-key-of-ann', 'id=ann-0123456789abcdef role=ask'], ['bob', 'the-key-of-bob', 'id=bob-0123456789abcdef role=ask']];
    const server = await new Server(scripted, { keys, args: ['--conversations', join(dir, 'c')] }).start();
    const others = [];
    const device = async (key, o) => {
      const c = others.length ? await browser.context() : context;
      others.push(c);
      const page = await c.page({ excuse: /ERR_CONNECTION|Failed to load resource/, ...o });
      await page.go(server.url + '/ui#/settings');
      await inPage(page, `(await use('server')).keep('${key}', true); (await use('settings')).set({ lang: 'en' });`);
      await page.reload();
      return page;
    };
    try {
      const pc = await device('the-key-of-ann');
      await pc.go(server.url + '/ui#/chat');
      await choose(pc, 'scripted-chat:latest');
      await asked(pc, 'before it was shared [[say:an answer of the PC]]');
      await on(pc, server.url);
      const phone = await device('the-key-of-ann', { phone: true, wide: 390, high: 844 });
      await on(phone, server.url);
      await phone.go(server.url + '/ui#/chat');
      const id = await inPage(phone, `return (await (await use('store')).chats())[0]?.id`);
      await phone.run(`location.hash = '#/chat/${id}'`);
      await phone.until('what the PC has said', `(${shown}).includes('an answer of the PC')`);

      // What is answered on one is on the other when it is done.
      await asked(phone, 'more [[say:an answer of the phone]]', 2);
      await pc.go(server.url + '/ui#/chat/' + id);
      await pc.until('what the phone has said', `(${shown}).includes('an answer of the phone')`);

      // Both go on without the server: two branches, with the arrows that there are.
      await server.kill();
      for (const [page, text] of [[pc, 'asked on the PC'], [phone, 'asked on the phone']]) {
        await ask(page, text);
        await page.until('the question', `(${shown}).includes('${text}')`);
      }
      await standing(pc, 'The server is not reached. What is new is in this browser only.');
      await server.start();
      for (const page of [pc, phone]) await standing(page, saved);
      const turns = (page) => inPage(page, `return (await (await use('store')).turns('${id}')).map((x) => x.text).sort().join('|')`);
      await pc.until('both questions', `(async () => { const s = await import(new URL('app/store.js', new URL('../', document.querySelector('script[type=module]').src))); return (await s.turns('${id}')).filter((x) => x.text.startsWith('asked on')).length === 2; })()`);
      await phone.until('both questions', `(async () => { const s = await import(new URL('app/store.js', new URL('../', document.querySelector('script[type=module]').src))); return (await s.turns('${id}')).filter((x) => x.text.startsWith('asked on')).length === 2; })()`);
      equal('the turns of both', await turns(phone), await turns(pc));
      await pc.until('arrows', `/[12]\\/2/.test(document.body.innerText)`);

      // Another key sees nothing of it.
      const bob = await device('the-key-of-bob');
      await on(bob, server.url);
      equal('conversations of another key', await bob.run(titles), '');

      // What is deleted on one is deleted on the other, and on the server.
      holds('it is on the server', bytesIn(join(dir, 'c')).includes('an answer of the PC'));
      await inPage(pc, `await (await use('store')).dropChat('${id}')`);
      await phone.until('that it is gone', `(async () => { const s = await import(new URL('app/store.js', new URL('../', document.querySelector('script[type=module]').src))); return (await s.chats()).length === 0; })()`);
      holds('nothing of it is on the server', !/an answer of|asked on/.test(bytesIn(join(dir, 'c'))));

      // Switching it off asks what becomes of the copies.
      await settings(pc, server.url);
      await pc.click('#share');
      await pc.until('the question', `document.querySelectorAll('dialog .row button').length === 3`);
      await pc.key('Escape');
      holds('it is still on', await pc.run(`document.querySelector('#share').checked`));
      await pc.click('#share');
      await pc.click('dialog button', 'Delete them on the server');
      await pc.until('that it is off', `!document.querySelector('#share').checked && !document.querySelector('.shared')`);
      await standing(phone, 'The server’s folder, or your key, is another than before. Nothing is sent.');
      for (const page of [pc, phone]) holds('nothing is wider than the page', await page.run('document.documentElement.scrollWidth <= innerWidth'));
    } finally {
      for (const c of others.slice(1)) await c.end();
      await server.end();
      rmSync(dir, { recursive: true, force: true });
    }
  },

  // A server without a folder says so, and the switch stays off.
  async unshared({ context, url }) {
    const page = await context.page({ excuse: /404/ });
    await settings(page, url);
    await page.click('#share');
    await page.until('the question', `!!document.querySelector('dialog .danger')`);
    await page.click('dialog .danger');
    await page.until('why not', `document.body.innerText.includes('without --conversations')`);
    holds('it is off', !(await page.run(`document.querySelector('#share').checked`)));
  },
};
