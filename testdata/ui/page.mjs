// Drives the page in headless Chromium over its debugging protocol, without any package: types a message, sees the stream come, and keeps
// screenshots at phone and desktop width. Usage: node --experimental-websocket page.mjs URL OUTDIR
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';

const [url, out] = process.argv.slice(2);
const chromium = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
if (!chromium) { console.log('SKIPPED: there is no Chromium here'); process.exit(0); }
if (typeof WebSocket === 'undefined') { console.log('SKIPPED: this node has no WebSocket'); process.exit(0); }
mkdirSync(out, { recursive: true });
const profile = mkdtempSync(join(tmpdir(), 'axle-ui-'));
const browser = spawn(chromium, ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--remote-debugging-port=0', '--user-data-dir=' + profile, 'about:blank']);
const endpoint = await new Promise((ok, no) => {
  let err = '';
  browser.stderr.on('data', (d) => { err += d; const m = err.match(/ws:\/\/\S+/); if (m) ok(m[0]); });
  browser.on('exit', () => no(new Error('Chromium ended: ' + err)));
});
const ws = new WebSocket(endpoint);
await new Promise((ok) => ws.addEventListener('open', ok));
let id = 0;
const waiting = new Map(), problems = [];
ws.addEventListener('message', (e) => {
  const m = JSON.parse(e.data);
  if (m.id) { const { ok, no } = waiting.get(m.id); waiting.delete(m.id); m.error ? no(new Error(JSON.stringify(m.error))) : ok(m.result); }
  if (m.method === 'Runtime.exceptionThrown') problems.push(m.params.exceptionDetails.exception?.description ?? m.params.exceptionDetails.text);
  if (m.method === 'Log.entryAdded' && m.params.entry.level === 'error') problems.push(m.params.entry.text);
});
let session;
const send = (method, params = {}) => new Promise((ok, no) => { id++; waiting.set(id, { ok, no }); ws.send(JSON.stringify({ id, method, params, sessionId: session })); });
const run = async (expression) => (await send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true })).result.value;
const until = async (what, expression) => {
  for (let i = 0; i < 200; i++) { if (await run(expression)) return; await new Promise((ok) => setTimeout(ok, 100)); }
  throw new Error('never came: ' + what + ' — the page shows: ' + await run('document.body.innerText'));
};
let failed = 0;
try {
  const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
  session = (await send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
  for (const d of ['Page', 'Runtime', 'Log']) await send(d + '.enable');
  for (const [name, width, height, mobile] of [['phone', 390, 844, true], ['desktop', 1280, 800, false]]) {
    await send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 2, mobile });
    await send('Page.navigate', { url: 'about:blank' });
    await send('Page.navigate', { url: url + '/ui' });
    await until('the models', `!!document.querySelector('#model')?.value`);
    await run(`{ const m = document.getElementById('model'); m.value = 'scripted-chat:latest'; m.dispatchEvent(new Event('change', { bubbles: true })); document.getElementById('text').focus() }`);
    await send('Input.insertText', { text: 'Why is the sky blue? [[delay:30]]' });
    await run(`document.getElementById('form').requestSubmit()`);
    await until('a beginning', `document.querySelector('.answer .md')?.textContent.length > 10`);
    const part = await run(`document.querySelector('.answer .md').textContent.length`);
    if (await run(`document.getElementById('send').getAttribute('aria-label')`) !== 'Stop') throw new Error('the button does not say Stop while the answer comes');
    await until('the end', `!document.querySelector('.answer.live') && !!document.querySelector('.answer .facts')?.textContent`);
    const whole = await run(`document.querySelector('.answer .md').textContent`);
    if (whole.length <= part || !whole.includes('Rayleigh')) throw new Error('the answer did not stream: ' + part + ' of ' + whole.length);
    if (await run('document.documentElement.scrollWidth > window.innerWidth')) throw new Error(name + ': the page is wider than the screen');
    const { data } = await send('Page.captureScreenshot', { format: 'png' });
    writeFileSync(join(out, name + '.png'), Buffer.from(data, 'base64'));
    await run(`document.getElementById('text').focus()`);
    await send('Input.insertText', { text: 'Again [[delay:30]]' });
    await run(`document.getElementById('form').requestSubmit()`);
    await until('a second answer', `document.querySelectorAll('.answer .md')[1]?.textContent.length > 0`);
    await run(`document.querySelector('.new').click()`);
    await until('an empty conversation', `!!document.querySelector('.welcome') && !document.querySelector('.turn')`);
    console.log('ok ' + name + ' ' + width + '×' + height);
  }
  if (problems.length) throw new Error('the page complains: ' + problems.join('; '));
} catch (e) {
  console.error('FAILED: ' + e.message);
  failed = 1;
}
ws.close();
browser.kill('SIGKILL');
try { rmSync(profile, { recursive: true, force: true, maxRetries: 5 }); } catch {}
process.exit(failed);
