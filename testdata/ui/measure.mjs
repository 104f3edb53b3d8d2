// What the page costs, measured: told, and never a reason to fail but for what no machine may be too busy for. And axe-core, where it is there.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { cpus, loadavg, tmpdir } from 'node:os';
import { pause } from './browser.mjs';
import { ask, asked, at, choose, dearTexts, inPage, keepChat, lastAnswer } from './views.mjs';
import { collected } from './documents.mjs';
import { dropped, placed, tried } from './places.mjs';
import { permit } from './voice.mjs';

const throttle = 6; // to about the speed of a Raspberry Pi 5

// own makes a page's figures those of its thread alone: what others on this machine do is not in them. load says how much that is.
const own = async (page) => {
  await page.send('Performance.disable');
  await page.send('Performance.enable', { timeDomain: 'threadTicks' });
};
const load = () => `load ${loadavg()[0].toFixed(1)} on ${cpus().length} cores`;

const slowly = (page) => page.send('Emulation.setCPUThrottlingRate', { rate: throttle });

// streamed is an answer of words at a rate, for some seconds, as the body that a page's prompt asks for.
const streamed = (seconds, rate) => `[[delay:${Math.round(1000 / rate)}]][[say:${Array.from({ length: Math.round(seconds * rate) }, (_, i) => (i % 40 === 39 ? '\n\n' : i % 13 === 0 ? '**word** ' : `word${i} `)).join('|')}]]`;

async function paint({ context, url }) {
  const times = [], empty = [], more = [], rest = [], work = [];
  const first = async (to, at) => {
    const page = await context.page({ excuse: /favicon/ });
    await own(page);
    await slowly(page);
    await page.send('Page.navigate', { url: url + at });
    await page.until('a paint', `performance.getEntriesByName('first-contentful-paint').length > 0`);
    to.push(await page.run(`performance.getEntriesByName('first-contentful-paint')[0].startTime`));
    return page;
  };
  for (let i = 0; i < 5; i++) {
    await (await first(empty, '/health')).close(); // a line of text: what the browser itself takes
    const page = await first(times, '/ui');
    more.push(times[i] - empty[i]);
    await page.until('the page', `!document.querySelector('nav.side[aria-hidden]')`);
    rest.push(await page.run(`performance.getEntriesByType('resource').find((e) => e.name.endsWith('/base.css')).startTime`) - times[i]);
    work.push(1000 * await page.metric('TaskDuration'));
    await page.close();
  }
  const list = (l) => [...l].sort((a, b) => a - b).map((t) => t.toFixed(0)).join(', ');
  return `first paint ${list(times)} ms, a line of text just before ${list(empty)}, so ${list(more)} of its own, ${throttle} times slower than this machine (the aim is 100); the rest of it is asked for ${list(rest)} ms after; the page's thread worked ${list(work)} ms until it stood; ${load()}`;
}

// freezes shows texts that take a reader long, as they come and whole, and tells the longest task and the longest time between two frames.
async function freezes({ context, url, lane }) {
  const page = await context.page();
  await page.go(url + '/ui');
  const texts = Object.entries(dearTexts()).filter((_, i) => lane !== 'quick' || i % 8 === 0);
  const found = await inPage(page, `
    const { Flow } = await use('markdown');
    const box = document.body.appendChild(document.createElement('div'));
    box.className = 'md';
    box.style = 'position: absolute; inset: 0; overflow: auto';
    const frame = () => new Promise((ok) => requestAnimationFrame(() => setTimeout(ok)));
    const out = [];
    for (const [name, text] of ${JSON.stringify(texts)}) {
      let longest = 0, tasks = 0, on = true, last = performance.now();
      const watch = new PerformanceObserver((l) => { for (const e of l.getEntries()) tasks = Math.max(tasks, e.duration); });
      watch.observe({ type: 'longtask' });
      const tick = (now) => { longest = Math.max(longest, now - last); last = now; if (on) requestAnimationFrame(tick); };
      requestAnimationFrame(tick);
      const flow = new Flow(box);
      for (let n = 3000; n < text.length; n += 3000) { flow.set(text.slice(0, n), false); await frame(); }
      flow.set(text, true);
      await flow.all();
      for (let i = 0; i < 8; i++) await frame();
      on = false;
      for (const e of watch.takeRecords()) tasks = Math.max(tasks, e.duration);
      watch.disconnect();
      const shown = box.textContent.length;
      out.push({ name, tasks: Math.round(tasks), longest: Math.round(longest), shown });
      box.replaceChildren();
      await frame();
    }
    box.remove();
    return out;`);
  for (const { name, shown } of found) if (!shown && !name.includes('[a]: b')) throw new Error(`nothing is shown of ${name}`);
  const worst = [...found].sort((a, b) => b.tasks - a.tasks).slice(0, lane === 'quick' ? 3 : 12);
  return `of ${found.length} texts that are dear to read, the longest tasks took ${worst.map((x) => `${x.tasks} ms (${x.name}; ${x.longest} ms between two frames)`).join(', ')}; the aim is 100; ${load()}`;
}

// a long conversation with formulas, and an answer with one every dozen words
const formula = (i) => `$x_{${i}}^2 = \\frac{a_{${i}}}{\\sqrt{b}}$`;
const reckoned = Array.from({ length: 40 }, (_, i) => [i % 2 ? 'assistant' : 'user', i % 2 ? Array.from({ length: 12 }, (_, j) => `Line ${j} has ${formula(50 * i + j)} and more words.\n\n`).join('') : 'And then?']);
const withFormulas = (seconds, rate) => streamed(seconds, rate).replace(/word(\d+) /g, (w, i) => (i % 12 === 0 ? formula(i) + ' ' : w));

async function frames({ context, url }, formulas = false) {
  const page = await context.page({ still: false });
  await page.go(url + '/ui');
  await choose(page, 'scripted-chat:latest');
  if (formulas) {
    await keepChat(page, reckoned);
    await page.until('the formulas', `document.querySelectorAll('.md math').length >= 12`);
  }
  const gaps = (ms) => page.run(`new Promise((ok) => { const out = []; let last = performance.now(); const end = last + ${ms}; const f = (now) => { out.push(now - last); last = now; now < end ? requestAnimationFrame(f) : ok(out); }; requestAnimationFrame(f); })`);
  const long = (list) => (100 * list.filter((g) => g > 33.4).length / list.length).toFixed(1);
  await slowly(page);
  const still = await gaps(4000); // what the browser misses with nothing to draw
  await page.send('Emulation.setCPUThrottlingRate', { rate: 1 });
  await ask(page, (formulas ? withFormulas : streamed)(20, 60));
  await page.until('a beginning', `(${lastAnswer}).length > 20`);
  await own(page);
  const before = await page.metric('TaskDuration');
  await pause(3000);
  const share = 100 * (await page.metric('TaskDuration') - before) / 3;
  await slowly(page);
  const list = await gaps(8000);
  await page.click(at.send);
  return `${list.length} frames of a stream of 60 tokens/s${formulas ? ' with formulas, in a long conversation of them' : ''}, ${long(list)} % over 33 ms (the aim is 5 %), without a stream ${long(still)} %, the longest ${Math.max(...list).toFixed(0)} ms, ${throttle} times slower; unthrottled its thread works ${share.toFixed(1)} % of the time; ${load()}`;
}

const used = async (page) => {
  await page.send('HeapProfiler.collectGarbage');
  return (await page.send('Runtime.getHeapUsage')).usedSize / 1e6; // performance.memory rounds
};

// memory streams answers one after the other, each in a conversation of its own, for some minutes, and looks at the heap and the elements
// of the page between them, and at the server's memory. It fails where the end has more than a little above what the marks before
// had: what each answer leaves behind adds up, what an engine keeps for later does not. The oldest conversations are deleted, so that
// what is kept on purpose does not grow.
async function memory({ context, server, url }, minutes, marks) {
  const page = await context.page();
  await page.go(url + '/ui');
  await choose(page, 'scripted-chat:latest');
  const began = Date.now();
  const passed = () => (Date.now() - began) / 60000;
  const seen = [];
  let answers = 0, words = 0;
  for (const mark of marks) {
    do {
      await page.run(`location.hash = '#/chat'`);
      await page.click('.new');
      await page.until('an empty conversation', `document.querySelectorAll('.turn').length === 0`);
      words += (await asked(page, streamed(minutes > 10 ? 10 : 5, 120))).split(/\s+/).length; // short ones: whatever else a machine does, one of them ends soon
      answers++;
      await inPage(page, `const store = await use('store'); for (const c of (await store.chats()).slice(${minutes > 10 ? 20 : 2})) await store.dropChat(c.id);`);
    } while (passed() < mark);
    const heap = await used(page), { nodes, jsEventListeners } = await page.send('Memory.getDOMCounters');
    seen.push({ mark, answers, heap, nodes, listeners: jsEventListeners, server: server.megabytes() });
    if (minutes > 10) console.log('  ' + JSON.stringify(seen[seen.length - 1], (_, v) => (typeof v === 'number' ? +v.toFixed(2) : v)));
  }
  const list = (what, digits = 0) => seen.map((s) => s[what].toFixed(digits)).join(', ');
  const said = `after minute ${list('mark', minutes > 10 ? 0 : 1)}: heap ${list('heap', 2)} MB, ${list('nodes')} nodes, ${list('listeners')} listeners, server ${list('server', 1)} MB; ${answers} answers of ${Math.round(words / answers)} words, each in a conversation of its own; ${load()}`;
  const last = seen[seen.length - 1], least = (what) => Math.min(...seen.slice(0, -1).map((s) => s[what]));
  for (const [what, spare] of [['heap', 0.5], ['nodes', 200], ['listeners', 30]]) if (last[what] > 1.15 * least(what) + spare) throw new Error(`its ${what} grow: ${said}`);
  return said;
}

// idle is what an open page costs the server while nothing happens.
async function idle({ context, server, url }) {
  const span = 20;
  const share = async () => {
    const from = server.seconds(), began = performance.now();
    await pause(span * 1000);
    return 100 * (server.seconds() - from) / ((performance.now() - began) / 1000);
  };
  await (await fetch(url + '/api/generate', { method: 'POST', body: '{"model":"pocket","stream":false}' })).text(); // the model is loaded
  await pause(3000);
  const without = await share();
  const page = await context.page();
  await page.go(url + '/ui');
  await pause(3000);
  const chat = await share();
  await page.run(`location.hash = '#/card'`);
  await pause(3000);
  const card = await share();
  return `the server takes ${without.toFixed(2)} % of a core without the page, ${chat.toFixed(2)} % with it, ${card.toFixed(2)} % with the card in view, over ${span} s each (the aim is 0.5 % more); ${load()}`;
}

// axeCore is axe-core's script; '' where it is not here, and npm cannot fetch it.
export function axeCore() {
  const dir = mkdtempSync(join(tmpdir(), 'axle-axe-')), here = 'node_modules/axe-core/axe.min.js';
  try {
    if (existsSync(here)) return readFileSync(here, 'utf8');
    execFileSync('npm', ['install', '--silent', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', dir, 'axe-core@4.10.3'], { stdio: 'ignore', timeout: 60000 });
    return readFileSync(join(dir, here), 'utf8');
  } catch {
    return '';
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function axe({ context, url }) {
  const source = axeCore();
  if (!source) return 'SKIPPED: axe-core is not here, and npm cannot fetch it';
  const found = [];
  let looks = 0;
  for (const lang of ['en', 'de', 'zh', 'ja', 'ko']) for (const dark of [false, true]) {
    const page = await context.page({ dark });
    await page.send('Page.setBypassCSP', { enabled: true }); // for axe alone: it is put into the page
    await page.go(url + '/ui');
    await choose(page, 'scripted-chat:latest');
    await keepChat(page, [['user', 'A question'], ['assistant', '> An **answer** with `code`, a [link](https://example.com) and\n\n```go\nfunc f() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nso \\(\\frac{a}{b}\\) and\n\n$$\\sum_{i=1}^n i^2$$\n\n```mermaid\ngraph TD; A-->B;\n```']]);
    await asked(page, 'hello', 2);
    await inPage(page, `(await use('settings')).set({ lang: '${lang}' });`);
    await page.until('the language', `document.documentElement.lang === '${lang}'`);
    await page.run(source + '; 0');
    const look = async (view) => {
      looks++;
      const bad = await page.run(`axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
        .map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '')).join('; ')))`);
      for (const b of bad) found.push(`${view} ${lang} ${dark ? 'dark' : 'light'}: ${b}`);
    };
    for (const view of ['chat', 'models', 'card', 'connect/codex', 'settings']) {
      if (view !== 'chat') await page.run(`location.hash = '#/${view}'`);
      await page.until(view, `!!document.querySelector('${{ chat: '.thread', models: 'li.model', card: '.plots', 'connect/codex': '.connect details[open]', settings: '.settings' }[view]}')`);
      await pause(700);
      await look(view);
      if (view !== 'chat') continue;
      await permit(page, url);
      await page.run(`document.querySelector('.composer .mic').click()`);
      await page.until('that it listens', `!!document.querySelector('.composer .wave')`);
      await look('listening');
      await page.key('Escape');
    }
    const dialog = async (name, open) => {
      await page.run(open);
      await page.until(name, `!!document.querySelector('dialog[open]')`);
      await pause(200);
      await look(name);
      await page.key('Escape');
      await page.until('its end', `!document.querySelector('dialog')`);
    };
    if (await page.run(`fetch('api/axle/documents').then((r) => r.json()).then((d) => d.on)`)) {
      rmSync(await collected(page, 'Axe ' + lang + dark, { 'one.md': '# One\n\nA text about rivers.', 'scan.png': '\x89PNG\r\n' }), { recursive: true, force: true });
      await page.until('the documents', `document.querySelectorAll('.kept li').length === 1 && !!document.querySelector('.coming .failed')`);
      await page.run(`document.querySelector('.files input[type=search]').focus()`);
      await page.type('rivers');
      await page.key('Enter');
      await page.until('what was found', `!!document.querySelector('.hits button')`);
      await look('documents');
      await dialog('a passage', `document.querySelector('.hits button').click()`);
      await page.run(`document.querySelector('.collection.opened .does .primary').click()`);
      await page.until('a conversation with documents', `!!document.querySelector('#documents')?.value`);
      await choose(page, 'scripted-chat:latest');
      await ask(page, 'rivers? [[say:Long ones [1].]]');
      await page.until('a quotation', `!!document.querySelector('.cite') && !!document.querySelector('.source')`);
      await look('quoted');
      await page.run(`location.hash = '#/settings'`);
      await page.until('the settings', `!!document.querySelector('.settings kbd')`);
    }
    await dialog('keys', `document.querySelector('.settings kbd').closest('button').click()`);
    await page.run(`document.querySelector('.chats li a').click()`);
    await page.until('the conversation', `!!document.querySelector('.bar .setup')`);
    await dialog('setup', `document.querySelector('.bar .setup').click()`);
    await dialog('a question', `document.querySelector('.turn.user .acts button:last-child').click()`);
    await choose(page, 'scripted-drawing:latest');
    await ask(page, 'A fox [[delay:400]]');
    await page.until('a drawing', `!!document.querySelector('.drawing progress')`);
    await look('drawing');
    await page.until('what is drawn', `!!document.querySelector('.drawing img:not(.partial)') && !document.querySelector('.turn.live')`);
    await look('drawn');
    await dialog('setup of pictures', `document.querySelector('.bar .setup').click()`);
    await placed(page, 1, '<ref>a dog</ref><box><250><500><750><1000></box>\n\n<ref>its nose</ref><box><300><600></box>');
    await page.until('places', `document.querySelectorAll('.ground g').length === 2`);
    await look('places');
    await page.run(`document.querySelector('.place').focus()`);
    await page.until('one of them', `!!document.querySelector('.ground .one')`);
    await look('one place');
    await tried(page);
    await dropped(page);
    await page.until('what a detector finds', `document.querySelectorAll('dialog .ground g').length === 2`);
    await look('found');
    page.problems.length = 0;
    await page.close();
  }
  if (found.length) throw new Error('axe-core finds:\n  ' + found.join('\n  '));
  return `axe-core finds nothing serious in ${looks} looks: each view and dialog, light and dark, in five languages`;
}

export const measures = {
  axe: { lanes: ['whole'], run: axe },
  paint: { lanes: ['whole'], run: paint },
  freezes: { lanes: ['quick', 'whole'], run: freezes },
  frames: { lanes: ['whole'], run: (t) => frames(t) },
  'frames-formulas': { lanes: ['whole'], run: (t) => frames(t, true) },
  memory: { lanes: ['whole'], run: (t) => memory(t, 1, [0.2, 0.4, 0.6, 0.8, 1]) },
  idle: { lanes: ['whole'], binary: 'product', run: idle },
  'memory-hour': { lanes: ['soak'], run: (t) => memory(t, 60, [5, 15, 30, 45, 60]) },
};
