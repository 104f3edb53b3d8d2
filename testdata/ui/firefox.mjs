// The page in Firefox (Debian's firefox-esr), over WebDriver BiDi, without any package: what is asked of it is what browser.mjs asks of
// Chromium, so that a test of the main paths runs in both.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { Page, pause } from './browser.mjs';
import { axeCore } from './measure.mjs';
import { formulas } from './formulas.mjs';
import { asked, at, choose, equal, holds, inPage, keepChat, lastAnswer } from './views.mjs';

export const firefox = [process.env.FIREFOX, '/usr/bin/firefox-esr', '/usr/bin/firefox'].find((p) => p && existsSync(p));

// settings that keep it quiet: no pages of its own, nothing asked of the network
const quiet = { 'browser.shell.checkDefaultBrowser': false, 'browser.startup.homepage_override.mstone': 'ignore', 'datareporting.policy.dataSubmissionEnabled': false, 'app.update.enabled': false,
  'toolkit.telemetry.enabled': false, 'browser.safebrowsing.malware.enabled': false, 'network.captive-portal-service.enabled': false, 'network.connectivity-service.enabled': false,
  'services.settings.server': 'data:,', 'extensions.getAddons.cache.enabled': false, 'intl.accept_languages': 'en-US' };

const patience = 120_000; // milliseconds for an answer of Firefox's

export async function launchFirefox() {
  const profile = mkdtempSync(join(tmpdir(), 'axle-ui-'));
  writeFileSync(join(profile, 'user.js'), Object.entries(quiet).map(([k, v]) => `user_pref(${JSON.stringify(k)}, ${JSON.stringify(v)});\n`).join(''));
  const process_ = spawn(firefox, ['--headless', '--no-remote', '--remote-debugging-port', '0', '--profile', profile, 'about:blank'], { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, HOME: profile, MOZ_HEADLESS: '1' } });
  const endpoint = await new Promise((ok, no) => {
    let err = '';
    process_.stderr.on('data', (d) => {
      err += d;
      const m = err.match(/WebDriver BiDi listening on (ws:\/\/\S+)/);
      if (m) ok(m[1]);
    });
    process_.on('exit', () => no(new Error('Firefox ended: ' + err)));
    setTimeout(() => no(new Error('Firefox does not begin: ' + err)), patience).unref();
  });
  const ws = new WebSocket(endpoint + '/session');
  await new Promise((ok, no) => { ws.addEventListener('open', ok); ws.addEventListener('error', () => no(new Error('Firefox does not answer'))); });
  let id = 0;
  const waiting = new Map(), pages = new Map();
  ws.addEventListener('message', (e) => {
    const m = JSON.parse(e.data);
    if (m.id != null) {
      const w = waiting.get(m.id);
      waiting.delete(m.id);
      m.type === 'error' ? w?.no(new Error(`${w.method}: ${m.error} ${m.message}`)) : w?.ok(m.result);
    } else pages.get(m.params?.context ?? m.params?.source?.context)?.event(m.method, m.params);
  });
  const send = (method, params = {}) => new Promise((ok, no) => {
    const bell = setTimeout(() => no(new Error(`Firefox does not answer ${method}`)), patience);
    waiting.set(++id, { ok: (v) => { clearTimeout(bell); ok(v); }, no: (e) => { clearTimeout(bell); no(e); }, method });
    ws.send(JSON.stringify({ id, method, params }));
  });
  await send('session.new', { capabilities: {} });
  await send('session.subscribe', { events: ['log.entryAdded', 'network.beforeRequestSent', 'browsingContext.userPromptOpened'] });
  const context = async () => {
    const { userContext } = await send('browser.createUserContext');
    return {
      page: async (o = {}) => {
        const { context } = await send('browsingContext.create', { type: 'tab', userContext });
        const p = new FirefoxPage(send, context, o);
        pages.set(context, p);
        await p.begin();
        return p;
      },
      end: () => send('browser.removeUserContext', { userContext }).catch(() => {}),
    };
  };
  const close = async () => {
    ws.close();
    process_.kill('SIGKILL');
    await new Promise((ok) => { process_.exitCode === null && process_.signalCode === null ? process_.once('exit', ok) : ok(); });
    try { rmSync(profile, { recursive: true, force: true, maxRetries: 5 }); } catch { /* it stays, and harms nothing */ }
  };
  return { context, close };
}

// keys as WebDriver names them
const codes = { Enter: '\uE007', Escape: '\uE00C', Tab: '\uE004', Delete: '\uE017', Shift: '\uE008' };

// FirefoxPage differs from Page in what it sends.
class FirefoxPage extends Page {
  async begin() {
    await this.send('browsingContext.setViewport', { context: this.target, viewport: { width: this.wide, height: this.high }, devicePixelRatio: this.ratio });
  }

  event(method, p) {
    if (method === 'log.entryAdded' && p.level === 'error') this.problem(p.text);
    if (method === 'network.beforeRequestSent') this.requests.push(p.request.url);
    if (method === 'browsingContext.userPromptOpened') this.send('browsingContext.handleUserPrompt', { context: this.target, accept: true }).catch(() => {});
  }

  // run's value comes as JSON: BiDi has types of its own.
  async run(expression) {
    const r = await this.send('script.evaluate', { expression: `Promise.resolve(${expression.replace(/;\s*0$/, '')}).then((v) => JSON.stringify(v))`, target: { context: this.target }, awaitPromise: true });
    if (r.type === 'exception') throw new Error(`${expression.slice(0, 120)}: ${r.exceptionDetails.text}`);
    return r.result.value === undefined ? undefined : JSON.parse(r.result.value);
  }

  go(url) { return this.send('browsingContext.navigate', { context: this.target, url, wait: 'none' }).then(() => this.until('the page', `document.readyState === 'complete' && !!document.querySelector('main .bar') && !document.querySelector('nav.side[aria-hidden]')`)); }

  async reload() {
    await this.run('window.before = true');
    await this.send('browsingContext.reload', { context: this.target, wait: 'none' });
    await this.until('the page anew', `!window.before && document.readyState === 'complete' && !document.querySelector('nav.side[aria-hidden]')`);
  }

  keys(actions) { return this.send('input.performActions', { context: this.target, actions: [{ type: 'key', id: 'keyboard', actions }] }); }
  type(text) { return this.keys([...text].flatMap((value) => [{ type: 'keyDown', value }, { type: 'keyUp', value }])); }

  async key(key, { shift = false } = {}) {
    const value = codes[key] ?? key;
    await this.keys([...(shift ? [{ type: 'keyDown', value: codes.Shift }] : []), { type: 'keyDown', value }, { type: 'keyUp', value }, ...(shift ? [{ type: 'keyUp', value: codes.Shift }] : [])]);
  }

  press({ x, y }) {
    const actions = [{ type: 'pointerMove', x: Math.round(x), y: Math.round(y) }, { type: 'pointerDown', button: 0 }, { type: 'pointerUp', button: 0 }];
    return this.send('input.performActions', { context: this.target, actions: [{ type: 'pointer', id: 'mouse', parameters: { pointerType: 'mouse' }, actions }] });
  }

  async shot(file) {
    const { data } = await this.send('browsingContext.captureScreenshot', { context: this.target });
    writeFileSync(file, Buffer.from(data, 'base64'));
  }

  async close() { await this.send('browsingContext.close', { context: this.target }).catch(() => {}); }
}

const text = 'So $x_1$ costs $5:\n\n$$\\sum_{i=1}^n i^2 = \\frac{n(n+1)(2n+1)}{6} + \\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}$$\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```go\nfunc f() {}\n```';

export const firefoxes = {
  // The main path, by keys alone: a question, an answer in pieces, stopping, editing, finding, the views.
  async 'firefox-chat'({ context, url }) {
    const page = await context.page();
    await page.go(url + '/ui');
    await choose(page, 'scripted-chat:latest');
    await page.key('Escape');
    const said = await asked(page, 'Why is the sky blue?', 1);
    holds(`the answer: ${said}`, said.includes('Rayleigh'));
    await page.run(`document.querySelector('${at.text}').focus()`);
    await page.type('[[delay:20]][[say:' + Array.from({ length: 300 }, (_, i) => `w${i} `).join('|') + ']]');
    await page.key('Enter');
    await page.until('a beginning', `(${lastAnswer}).includes('w9')`);
    await page.key('Escape');
    await page.until('the stop', at.idle);
    await page.reload();
    await page.until('the conversation after a reload', `document.querySelectorAll('${at.answers}').length === 2`);
    await page.run(`document.activeElement?.blur()`);
    for (const [key, view] of [['m', 'models'], ['k', 'card'], [',', 'settings'], ['c', 'chat']]) {
      await page.key(key);
      await page.until('the view of ' + key, `location.hash.startsWith('#/${view}')`);
    }
    const reached = new Set();
    for (let i = 0; i < 40; i++) {
      await page.key('Tab');
      reached.add(await page.run(`(() => { const e = document.activeElement; return e.id || e.getAttribute('aria-label') || e.textContent.trim().slice(0, 20); })()`));
    }
    holds(`Tab reaches ${[...reached].join(', ')}`, reached.size > 8 && reached.has('text'));
  },

  'firefox-formulas': formulas.formulas,

  // Each view, wide and narrow, light and dark, in five languages; axe-core finds nothing, and nothing is wider than the page.
  async 'firefox-axe'({ context, url }) {
    const axe = axeCore();
    const found = [];
    let looks = 0;
    for (const [i, lang] of ['en', 'de', 'zh', 'ja', 'ko'].entries()) for (const narrow of [false, true]) {
      const page = await context.page(narrow ? { wide: 390, high: 844 } : {});
      await page.go(url + '/ui');
      const dark = (i + (narrow ? 1 : 0)) % 2 > 0;
      await inPage(page, `(await use('settings')).set({ lang: '${lang}', theme: '${dark ? 'dark' : 'light'}' }); return 0;`);
      await page.until('the language', `document.documentElement.lang === '${lang}'`);
      await choose(page, 'scripted-chat:latest');
      await keepChat(page, [['user', 'A question'], ['assistant', text]]);
      await page.until('formulas', `document.querySelectorAll('.md math').length === 2`);
      if (axe) await page.run(`(() => { ${axe}; return 0; })()`);
      for (const view of ['chat', 'models', 'card', 'connect/codex', 'settings']) {
        if (view !== 'chat') await page.run(`void (location.hash = '#/${view}')`);
        await page.until(view, `!!document.querySelector('${{ chat: '.thread', models: 'li.model', card: '.plots', 'connect/codex': '.connect details[open]', settings: '.settings' }[view]}')`);
        await pause(400);
        equal(`how much wider ${view} is in ${lang}`, await page.run('Math.max(0, document.documentElement.scrollWidth - innerWidth)'), 0);
        looks++;
        if (axe) for (const b of await page.run(`axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
          .map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).join('; ')))`)) found.push(`${view} ${lang} ${dark ? 'dark' : 'light'}${narrow ? ' narrow' : ''}: ${b}`);
      }
      await page.run(`void (location.hash = '#/chat')`);
      await page.shot(`build/ui/firefox-${lang}-${narrow ? 'narrow' : 'wide'}.png`);
      await page.close();
    }
    if (found.length) throw new Error('axe-core finds:\n  ' + found.join('\n  '));
    return `${axe ? 'axe-core finds nothing serious' : 'SKIPPED: axe-core is not here;'} in ${looks} looks: each view, 1280 and 390 pixels, light and dark, in five languages`;
  },
};
