// Drives the page in headless Chromium, and its main paths in Firefox. Usage: node --experimental-websocket testdata/ui/all.mjs quick|whole|soak|docs [NAME…]
// quick is what CI runs; whole adds pocket, pictures (build/ui), axe-core and measurements; soak streams for an hour and looks at the memory; docs makes the
// pictures of README and docs.
import { mkdirSync } from 'node:fs';
import { chromium, launch } from './browser.mjs';
import { connects } from './connects.mjs';
import { documents } from './documents.mjs';
import { documented } from './documented.mjs';
import { draws } from './draws.mjs';
import { firefox, firefoxes, launchFirefox } from './firefox.mjs';
import { formulas } from './formulas.mjs';
import { goes } from './goes.mjs';
import { measures } from './measure.mjs';
import { places } from './places.mjs';
import { sees } from './sees.mjs';
import { shares } from './shares.mjs';
import { Server, product, scripted } from './servers.mjs';
import { tools } from './tools.mjs';
import { pictures, pocket, pull, views } from './views.mjs';
import { hears, voices } from './voice.mjs';

const [lane = 'quick', ...only] = process.argv.slice(2);
if (!chromium) { console.log('SKIPPED: there is no Chromium here (Debian: apt-get install chromium)'); process.exit(0); }
if (typeof WebSocket === 'undefined') { console.log('SKIPPED: this node has no WebSocket: node 22, or --experimental-websocket'); process.exit(0); }
const out = 'build/ui';
mkdirSync(out, { recursive: true });
const wanted = (name) => !only.length || only.includes(name);
const chrome = await launch();
let other = null; // Firefox, once it is asked for
const servers = {};
const server = async (binary) => (servers[binary] ??= await new Server(binary).start());
let failed = 0;
const long = new Set(['turns', 'reload', 'long', 'many', 'compare', 'code', 'crowd', 'keyboard', 'models', 'gone', 'files', 'pieces', 'proxy', 'room', 'figures', 'unreached', 'microphone', 'aloud', 'shelf', 'tools']); // what quick leaves out: it is told at the end

async function test(name, binary, f, browser = chrome) {
  if (!wanted(name)) return;
  const began = performance.now();
  const context = await browser.context();
  const pages = [];
  const watched = { ...context, page: async (o) => { const p = await context.page(o); pages.push(p); return p; } };
  try {
    const s = await server(binary);
    const said = await f({ context: watched, browser, server: s, url: s.url, lane });
    const problems = pages.flatMap((p) => p.problems);
    if (problems.length) throw new Error('the page complains: ' + [...new Set(problems)].slice(0, 5).join('; '));
    console.log(`ok ${name} ${((performance.now() - began) / 1000).toFixed(1)} s${said ? ': ' + said : ''}`);
  } catch (e) {
    failed++;
    console.error(`FAILED ${name}: ${e.message}`);
    for (const [i, p] of pages.entries()) {
      await p.shot(`${out}/failed-${name}-${i}.png`).catch(() => {});
      if (p.problems.length) console.error(`  it complains: ${[...new Set(p.problems)].slice(0, 5).join('; ')}`);
    }
  }
  await context.end();
}

try {
  if (lane === 'docs') await test('docs', scripted, documented);
  else if (lane !== 'soak') for (const [name, f] of Object.entries({ ...views, draws, ...voices, ...places, ...goes, ...formulas, ...connects, ...shares, ...documents, ...tools })) if (lane === 'whole' || only.length || !long.has(name)) await test(name, scripted, f);
  if (lane === 'whole') {
    await test('pocket', product, pocket);
    await test('sees', product, sees);
    await test('hears', product, hears);
    await test('pull', product, pull);
    await test('pictures', product, (t) => pictures(t, out));
  }
  if (lane !== 'soak' && lane !== 'docs') for (const [name, f] of Object.entries(firefoxes)) {
    if (!wanted(name) || (lane === 'quick' && !only.length)) continue;
    if (!firefox) { console.log(`SKIPPED ${name}: there is no Firefox here (Debian: apt-get install firefox-esr)`); continue; }
    other ??= await launchFirefox();
    await test(name, scripted, f, other);
  }
  for (const [name, { lanes, binary, run }] of Object.entries(measures)) if (lanes.includes(lane)) await test(name, binary === 'product' ? product : scripted, run);
} finally {
  await chrome.close();
  await other?.close();
  for (const s of Object.values(servers)) await s.end();
}
if (lane === 'quick' && !only.length) console.log(`left to make ui: ${[...long].join(', ')}, pocket, sees, hears, pull, pictures, Firefox, axe-core, what it costs`);
process.exit(failed ? 1 : 0);
