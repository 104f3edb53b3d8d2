// Headless Chromium over its debugging protocol, without any package. A Browser has contexts, each with storage of its own; a Page says what
// went wrong in it and what it asked the network for.
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';

export const chromium = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((p) => p && existsSync(p));
export const pause = (ms) => new Promise((ok) => setTimeout(ok, ms));

const patience = 30000; // when a test gives up on what never comes; it decides nothing else

// launch starts Chromium with a microphone of its own, which beeps unless more says what it plays.
export async function launch(more = []) {
  const profile = mkdtempSync(join(tmpdir(), 'axle-ui-'));
  const process_ = spawn(chromium, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--lang=en-US', '--hide-scrollbars',
    '--disable-background-networking', '--disable-component-update', '--disable-sync', '--use-fake-device-for-media-stream', ...more, '--remote-debugging-port=0', '--user-data-dir=' + profile, 'about:blank']);
  const endpoint = await new Promise((ok, no) => {
    let err = '';
    process_.stderr.on('data', (d) => {
      err += d;
      const m = err.match(/ws:\/\/\S+/);
      if (m) ok(m[0]);
    });
    process_.on('exit', () => no(new Error('Chromium ended: ' + err)));
  });
  const ws = new WebSocket(endpoint);
  await new Promise((ok) => ws.addEventListener('open', ok));
  let id = 0;
  const waiting = new Map();
  const pages = new Map();
  ws.addEventListener('message', (e) => {
    const m = JSON.parse(e.data);
    if (m.id) {
      const w = waiting.get(m.id);
      waiting.delete(m.id);
      m.error ? w?.no(new Error(w.method + ': ' + m.error.message)) : w?.ok(m.result);
    } else pages.get(m.sessionId)?.event(m.method, m.params);
  });
  const send = (method, params = {}, sessionId = undefined) => new Promise((ok, no) => {
    id++;
    waiting.set(id, { ok, no, method });
    ws.send(JSON.stringify({ id, method, params, sessionId }));
  });
  const close = async () => {
    ws.close();
    process_.kill('SIGKILL');
    await new Promise((ok) => { process_.exitCode === null && process_.signalCode === null ? process_.once('exit', ok) : ok(); });
    try { rmSync(profile, { recursive: true, force: true, maxRetries: 5 }); } catch { /* it stays, and harms nothing */ }
  };
  // context is a browser of its own, as far as a page can tell; pages of one share their storage.
  const context = async () => {
    const { browserContextId } = await send('Target.createBrowserContext');
    return {
      page: async (o = {}) => {
        const { targetId } = await send('Target.createTarget', { url: 'about:blank', browserContextId });
        const { sessionId } = await send('Target.attachToTarget', { targetId, flatten: true });
        const p = new Page((method, params) => send(method, params, sessionId), targetId, o);
        pages.set(sessionId, p);
        await p.begin();
        return p;
      },
      end: () => send('Target.disposeBrowserContext', { browserContextId }).catch(() => {}),
    };
  };
  return { context, close, pid: process_.pid };
}

export class Page {
  constructor(send, target, { wide = 1280, high = 800, phone = false, dark = false, ratio = phone ? 2 : 1, still = true, excuse = null } = {}) {
    Object.assign(this, { send, target, wide, high, phone, dark, ratio, still, excuse }); // excuse is a pattern of problems that a test brings about itself
    this.problems = []; // errors of scripts and of the log
    this.requests = []; // addresses
    this.dialogs = [];
    this.intercept = null;
  }

  async begin() {
    for (const d of ['Page', 'Runtime', 'Log', 'Network', 'DOM', 'Performance']) await this.send(d + '.enable');
    await this.send('Emulation.setDeviceMetricsOverride', { width: this.wide, height: this.high, deviceScaleFactor: this.ratio, mobile: this.phone });
    if (this.phone) await this.send('Emulation.setTouchEmulationEnabled', { enabled: true });
    await this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: this.dark ? 'dark' : 'light' }, ...(this.still ? [{ name: 'prefers-reduced-motion', value: 'reduce' }] : [])] });
  }

  event(method, p) {
    switch (method) {
      case 'Runtime.exceptionThrown': this.problem(p.exceptionDetails.exception?.description ?? p.exceptionDetails.text); break;
      case 'Log.entryAdded': if (p.entry.level === 'error') this.problem(p.entry.text + ' ' + (p.entry.url ?? '')); break;
      case 'Runtime.consoleAPICalled': if (p.type === 'error') this.problem(p.args.map((a) => a.value ?? a.description).join(' ')); break;
      case 'Network.requestWillBeSent': this.requests.push(p.request.url); this.seen?.(p.request); break;
      case 'Page.javascriptDialogOpening':
        this.dialogs.push(p.message);
        this.send('Page.handleJavaScriptDialog', { accept: true }).catch(() => {});
        break;
      case 'Fetch.requestPaused': this.intercept?.(p); break;
    }
  }

  problem(text) { if (!this.excuse?.test(text)) this.problems.push(text); }

  async run(expression) {
    const r = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (r.exceptionDetails) throw new Error(`${expression.slice(0, 120)}: ${r.exceptionDetails.exception?.description ?? r.exceptionDetails.text}`);
    return r.result.value;
  }

  // until waits for an expression to be true. Where another one, grows, is given, it waits for as long as that one's value changes.
  async until(what, expression, grows = '0') {
    let end = Date.now() + patience, last;
    for (;;) {
      let v, now = last;
      try { [v, now] = await this.run(`Promise.all([${expression}, ${grows}])`); } catch (e) { if (!/navigat|context|Inspected|collected/i.test(e.message)) throw e; }
      if (v) return v;
      if (now !== last) [end, last] = [Date.now() + patience, now];
      if (Date.now() > end) throw new Error(`never came: ${what}. The page shows: ${String(await this.run('document.body.innerText').catch(() => '?')).slice(0, 600)}`);
      await pause(40);
    }
  }

  async go(url) {
    await this.send('Page.navigate', { url });
    await this.until('the page', `document.readyState === 'complete' && !!document.querySelector('main .bar') && !document.querySelector('nav.side[aria-hidden]')`);
  }

  async reload() {
    await this.run('window.before = true');
    await this.send('Page.reload');
    await this.until('the page anew', `!window.before && document.readyState === 'complete' && !document.querySelector('nav.side[aria-hidden]')`);
  }

  // click clicks the middle of the first element that a selector finds, which must be seen; text chooses by what is written on it.
  async click(selector, text) {
    const find = `[...document.querySelectorAll(${JSON.stringify(selector)})].find((e) => ${text ? `(e.textContent.trim() === ${JSON.stringify(text)} || e.getAttribute('aria-label') === ${JSON.stringify(text)})` : 'true'} && e.getClientRects().length)`;
    await this.until(`something to click: ${selector} ${text ?? ''}`, `!!(${find}) && !(${find}).disabled`);
    const at = await this.run(`(() => { const e = ${find}; e.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' }); const r = e.getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 }; })()`);
    await this.press(at);
  }

  async press(at) {
    if (this.phone) {
      await this.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: [at] });
      await this.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
      return;
    }
    for (const type of ['mouseMoved', 'mousePressed', 'mouseReleased']) await this.send('Input.dispatchMouseEvent', { type, ...at, button: type === 'mouseMoved' ? 'none' : 'left', clickCount: 1 });
  }

  type(text) { return this.send('Input.insertText', { text }); }

  async key(key, { shift = false } = {}) {
    const code = { Enter: 13, Escape: 27, Tab: 9, Delete: 46, F2: 113 }[key] ?? key.toUpperCase().charCodeAt(0);
    const text = key === 'Enter' ? '\r' : key.length === 1 ? key : undefined;
    const o = { key, code: key.length === 1 ? undefined : key, windowsVirtualKeyCode: code, modifiers: shift ? 8 : 0 };
    await this.send('Input.dispatchKeyEvent', { type: text ? 'keyDown' : 'rawKeyDown', text, ...o });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', ...o });
  }

  async shot(file) {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    writeFileSync(file, Buffer.from(data, 'base64'));
  }

  // answers stands in for the server at one address: with a whole body, so that a test can say what no model says.
  async answers(pattern, f) {
    await this.send('Fetch.enable', { patterns: [{ urlPattern: pattern, requestStage: 'Request' }] });
    this.intercept = (p) => this.send('Fetch.fulfillRequest', { requestId: p.requestId, responseCode: 200, responseHeaders: [{ name: 'Content-Type', value: 'application/x-ndjson' }],
      body: Buffer.from(f(p.request)).toString('base64') }).catch(() => {});
  }

  async metric(name) { return (await this.send('Performance.getMetrics')).metrics.find((m) => m.name === name)?.value; }
  async close() { await this.send('Page.close').catch(() => {}); }
}
