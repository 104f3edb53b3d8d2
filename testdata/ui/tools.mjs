// Tools that the server runs: choosing servers, the question before the first use, results, refusals, errors, rounds and stopping; by keyboard,
// on a phone, in every language, with axe-core where it is there.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { pause } from './browser.mjs';
import { Server, scripted } from './servers.mjs';
import { ask, at, choose, equal, holds, inPage, lastAnswer } from './views.mjs';

const nasty = '<img src=x onerror="document.title=\'hacked\'"><script>document.title="hacked"</script> [a](javascript:alert(1))';

// Tools is a server of tools by HTTP, as small as the protocol allows.
class Tools {
  calls = [];
  description = 'Switches a lamp. ' + nasty;

  async start() {
    this.server = http.createServer((q, r) => {
      let body = '';
      q.on('data', (d) => { body += d; }).on('end', () => this.answer(q, r, body ? JSON.parse(body) : {}));
    });
    await new Promise((ok) => this.server.listen(0, '127.0.0.1', ok));
    this.url = `http://127.0.0.1:${this.server.address().port}/mcp`;
    return this;
  }

  answer(q, r, m) {
    if (q.method !== 'POST') return r.writeHead(405).end();
    if (m.id === undefined) return r.writeHead(202).end();
    const say = (result) => r.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id: m.id, result }));
    const tool = (name, description) => ({ name, description, inputSchema: { type: 'object', properties: { name: { type: 'string' } } } });
    if (m.method === 'initialize') return say({ protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'lamps', version: '1' } });
    if (m.method === 'tools/list') return say({ tools: [tool('lamp', this.description), tool('again', 'Calls for more'), tool('slow', 'Takes its time'), tool('broken', 'Fails')] });
    if (m.method !== 'tools/call') return say({});
    this.calls.push(m.params);
    const text = (text, isError) => say({ content: [{ type: 'text', text }], isError });
    switch (m.params.name) {
      case 'lamp': return text(`${nasty} ${m.params.arguments.name} is on [[say:The lamp is on.]]`);
      case 'again': return text('more');
      case 'broken': return text('no such lamp [[say:It failed.]]', true);
      default: this.held = r; // slow
        return q.socket.on('close', () => { this.closed = true; });
    }
  }

  end() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

const results = `[...document.querySelectorAll('.turn.tool')]`;
const lastResult = `${results}.pop()?.textContent ?? ''`;

export const tools = {
  async tools({ context }) {
    const lamps = await new Tools().start();
    const server = new Server(scripted);
    const file = join(server.dir, 'mcp.json');
    writeFileSync(file, JSON.stringify({ mcpServers: { home: { url: lamps.url }, gone: { url: 'http://127.0.0.1:1/' } } }), { mode: 0o600 });
    server.args = ['--mcp', file];
    try {
      await server.start();
      await drive(context, server, lamps);
    } finally {
      await server.end();
      lamps.end();
    }
  },
};

async function on(page, name) {
  await page.click('.setup');
  await page.until('the servers', `document.querySelectorAll('.mcp .served').length === 2`);
  const box = `[...document.querySelectorAll('.mcp .served')].find((s) => s.textContent.includes('${name}')).querySelector('input')`;
  await page.run(`${box}.focus()`);
  await page.key(' ');
  await page.until('that it is on', `${box}.checked`);
}

async function drive(context, server, lamps) {
  const page = await context.page({ excuse: /50[23]/ });
  await page.go(server.url + '/ui');
  await choose(page, 'scripted-chat:latest');
  await on(page, 'home');
  await page.until('what it offers', `/4/.test(document.querySelector('.mcp .offered summary')?.textContent)`);
  await page.run(`document.querySelector('.mcp .offered').open = true`);
  holds('names of tools are shown', await page.run(`document.querySelector('.mcp .offered').textContent.includes('home__lamp')`));
  holds('no markup of a description', await page.run(`!document.querySelector('.mcp img, .mcp script')`));
  await violations(page, 'settings');
  await page.key('Escape');

  // The question, by keyboard alone: it has the focus, and Enter runs the call once.
  await ask(page, 'call home__lamp with name set to kitchen');
  await page.until('a question', `!!document.querySelector('.ask')`);
  equal('calls before a yes', lamps.calls.length, 0);
  holds('the arguments are shown', await page.run(`/kitchen/.test(document.querySelector('.turn.answer .call[open] pre').textContent)`));
  await page.until('the focus on the question', `document.activeElement?.closest('.ask') && document.activeElement.classList.contains('primary')`);
  await violations(page, 'question');
  await page.key('Enter');
  await page.until('the answer', `(${lastAnswer}) === 'The lamp is on.' && ${at.idle}`);
  equal('the call', [lamps.calls.length, lamps.calls[0].name, lamps.calls[0].arguments], [1, 'lamp', { name: 'kitchen' }]);
  holds('a result is text', await page.run(`(${lastResult}).includes('<img src=x') && !document.querySelector('.turn.tool img, .turn.tool script') && document.title !== 'hacked'`));
  holds('a result and the call are folded', await page.run(`!${results}.pop().querySelector('details').open && !document.querySelector('.turn.answer .call[open]')`));
  await violations(page, 'result');

  // Once was once; not to run it is told to the model, which calls again here. Allowed in the conversation, all further calls run, up to the
  // number of rounds.
  const fresh = async (name) => { await anew(page); await on(page, name); await page.key('Escape'); };
  const count = (name) => lamps.calls.filter((c) => c.name === name).length;
  const ends = (what) => page.until(what, `!!document.querySelector('.run-calls') && ${at.idle}`, `document.querySelectorAll('.turn').length`);
  await fresh('home');
  await ask(page, 'call home__again with name set to x');
  await page.click('.ask .no');
  await page.until('the refusal', `/did not allow/.test(${lastResult})`);
  equal('calls after a no', count('again'), 0);
  await page.click('.ask button:nth-child(2)');
  await ends('the end of the rounds');
  equal('rounds', count('again'), 9); // and the one that was refused
  await page.click('.run-calls');
  await page.until('more rounds', `document.querySelectorAll('.turn.tool').length > 10`);
  await ends('their end');

  // Another conversation asks; always is for all of them.
  await fresh('home');
  await ask(page, 'call home__again with name set to x');
  await page.click('.ask button:nth-child(3)');
  await ends('the end of the rounds');
  await fresh('home');
  await ask(page, 'call home__again with name set to x');
  await ends('the end of rounds without a question');

  // A tool that fails.
  await fresh('home');
  await ask(page, 'call home__broken with name set to x');
  await page.click('.ask .primary');
  await page.until('that it failed', `(${lastAnswer}) === 'It failed.' && /failed/.test(${lastResult}) && ${at.idle}`);

  // Stopped in the middle: the server is told, and the call can be run again.
  await fresh('home');
  await ask(page, 'call home__slow with name set to x');
  await page.click('.ask .primary');
  await page.until('a call under way', `${at.busy}`);
  for (let i = 0; i < 500 && !lamps.held; i++) await pause(20);
  holds('the call came', lamps.held);
  await page.click(at.send);
  await page.until('that it is over', `${at.idle} && !!document.querySelector('.run-calls')`);
  await page.reload();
  await page.until('the call after a reload', `!!document.querySelector('.run-calls')`);

  // A tool that has become another is asked for again, though it was allowed for always.
  await inPage(page, `const tools = await use('tools'); tools.allow({ name: 'home__lamp', digest: 'another' });`);
  await anew(page);
  await on(page, 'home');
  await page.until('what is kept', `/home__lamp/.test(document.querySelector('.mcp').textContent)`);
  await page.key('Escape');
  await ask(page, 'call home__lamp with name set to x');
  await page.until('a question for what has changed', `!!document.querySelector('.ask')`);
  await page.click('.ask .no');
  await page.until('a question again', `!!document.querySelector('.ask')`);
  await page.click(at.send); // stops it
  await page.until('that it is over', `${at.idle}`);

  // A server that cannot be reached is told, in settings and in the answer.
  await anew(page);
  await on(page, 'gone');
  await page.until('why', `/does not start/.test(document.querySelector('.mcp .failed')?.textContent)`);
  await page.key('Escape');
  await ask(page, 'hello');
  await page.until('an error that names it', `/gone/.test(document.querySelector('.turn.answer .failed')?.textContent) && ${at.idle}`);

  for (const lang of ['en', 'de', 'zh', 'ja', 'ko']) {
    for (const dark of [false, true]) {
      const phone = await context.page({ wide: 390, high: 844, phone: true, dark });
      await phone.go(server.url + '/ui');
      await inPage(phone, `const s = await use('settings'); s.set({ lang: '${lang}' });`);
      await phone.reload();
      await choose(phone, 'scripted-chat:latest');
      await inPage(phone, `const it = await use('open'); await it.change({ mcp: ['home'] });`);
      await ask(phone, 'call home__lamp with name set to kitchen');
      await phone.until('a question', `!!document.querySelector('.ask')`);
      holds('nothing is wider than the phone', await phone.run(`document.documentElement.scrollWidth <= 390 && [...document.querySelectorAll('.ask button')].every((b) => b.getBoundingClientRect().right <= 390)`));
      await violations(phone, `${lang} on a phone`);
      await phone.shot(`build/ui/tools-${lang}-${dark ? 'dark' : 'light'}.png`);
      await phone.click('.ask .primary');
      await phone.until('the answer', `(${lastAnswer}) === 'The lamp is on.' && ${at.idle}`);
      await phone.close();
    }
  }
}

async function anew(page) {
  await page.run(`location.hash = '#/chat'`);
  await page.click('.new');
  await page.until('an empty conversation', `document.querySelectorAll('${at.turns}').length === 0`);
}

// violations asks axe-core, where it is there.
async function violations(page, where) {
  const lib = [process.env.AXE, 'node_modules/axe-core/axe.min.js'].find((f) => f && existsSync(f));
  if (!lib) return;
  await page.send('Page.setBypassCSP', { enabled: true });
  await page.run(readFileSync(lib, 'utf8') + ';0');
  const bad = await page.run(`axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }).then((r) => r.violations.map((v) => v.id + ' ' + v.nodes[0].html.slice(0, 120)))`);
  equal(`axe-core, ${where}`, bad, []);
}
