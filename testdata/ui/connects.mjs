// The view Connect: what it says of this server, what is copied, the key that is shown when that is asked for, and who does not fit a context.
import { Server, scripted } from './servers.mjs';
import { equal, holds, inPage } from './views.mjs';

const program = (id) => `document.getElementById('connect-${id}')`;
const text = (id) => `[...${program(id)}.querySelectorAll('pre')].map((p) => p.textContent).join('\\n')`;
const ready = `!!${program('claude')}`;
const clipped = `(() => { window.copied = []; navigator.clipboard.writeText = async (s) => { window.copied.push(s); }; })()`;

export const connects = {
  // Without keys: the address that the page has, a model's name and any key stand in the lines; the words say who does not fit; a phone has
  // no line wider than itself.
  async connect({ context, url }) {
    const page = await context.page();
    await page.go(url + '/ui');
    await page.run(clipped);
    await page.click('.ways a', 'Connect');
    await page.until('the programs', ready);
    equal('programs', await page.run(`document.querySelectorAll('.connect details').length`), 17);
    await page.click('#connect-claude summary');
    await page.until('the model', `/scripted/.test(${text('claude')})`);
    holds('the lines of Claude Code', (await page.run(text('claude'))).includes(`ANTHROPIC_BASE_URL=${url} ANTHROPIC_AUTH_TOKEN=axle claude --model scripted`));
    holds('how axle starts it', (await page.run(text('claude'))).includes(`AXLE_HOST=${url} axle launch claude --model scripted`));
    holds('that it does not fit', await page.run(`/18,600 tokens \\(measured with version 2.1.197\\)/.test(${program('claude')}.textContent) && /does not fit: scripted\\S* has a context of 4,096/.test(${program('claude')}.textContent)`));
    holds('no hole is open', await page.run(`!/\\{(url|host|model|key)\\}/.test(document.querySelector('.connect').textContent)`));
    await page.run(`${program('claude')}.querySelector('.code:last-of-type button').focus()`);
    await page.key('Enter');
    await page.until('what was copied', `window.copied.length === 1`);
    holds('what was copied is the line', (await page.run(`window.copied[0]`)).startsWith('ANTHROPIC_BASE_URL='));
    await page.until('that it was copied', `/Copied/.test(${program('claude')}.textContent)`);
    await page.run(`location.hash = '#/connect/opencode'`);
    await page.reload();
    await page.until('the program that the address names', `${program('opencode')}?.open`);
    for (const [lang, word] of [['de', 'Verbinden'], ['zh', '连接'], ['en', 'Connect']]) {
      await inPage(page, `(await use('settings')).set({ lang: '${lang}' });`);
      await page.until(lang, `document.querySelector('h1').textContent === '${word}'`);
      holds('no key of a table is shown in ' + lang, await page.run(`!/connect\\.|note\\./.test(document.querySelector('.connect').textContent)`));
    }
    const phone = await context.page({ wide: 390, high: 844, phone: true });
    await phone.go(url + '/ui#/connect/codex');
    await phone.until('the programs', ready);
    await phone.run(`[...document.querySelectorAll('.connect details')].forEach((d) => { d.open = true; })`);
    holds('the page is as wide as the phone', await phone.run(`document.querySelector('.connect').scrollWidth <= document.querySelector('.connect').clientWidth && document.documentElement.scrollWidth <= 390`));
  },

  // With a key: it is masked, and stands in no line, until it is shown; then the lines have it.
  async connectkey({ context }) {
    const server = await new Server(scripted, { keys: [['me', 'sekrit-of-mine-0123456789']] }).start();
    try {
      const page = await context.page({ excuse: /401/ });
      await page.go(server.url + '/ui');
      await page.until('the question for the key', `!!document.querySelector('dialog input[type=password]')`);
      await page.run(`document.querySelector('dialog input[type=password]').focus()`);
      await page.type('sekrit-of-mine-0123456789');
      await page.key('Enter');
      await page.until('its end', `!document.querySelector('dialog')`);
      await page.run(`location.hash = '#/connect/curl'`);
      await page.until('the programs', ready);
      const all = `document.querySelector('.connect').innerHTML`;
      holds('the key is not in the page', !(await page.run(all)).includes('sekrit'));
      holds('its end is', await page.run(`/•6789/.test(document.querySelector('.key').textContent)`));
      holds('the lines have a place for it', (await page.run(text('curl'))).includes('Bearer YOUR_KEY'));
      await page.click('.connect button', 'Show');
      await page.until('the key', `document.querySelector('.key').textContent === 'sekrit-of-mine-0123456789'`);
      holds('the lines have it', (await page.run(text('curl'))).includes('Bearer sekrit-of-mine-0123456789'));
      await page.click('.connect button', 'Show');
      await page.until('that it is hidden', `!${all}.includes('sekrit')`);
    } finally {
      await server.end();
    }
  },
};
