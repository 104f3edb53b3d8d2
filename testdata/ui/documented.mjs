// The pictures of README.md and docs/getting-started.md: the page as it is, with a conversation and figures of a card that are made up, as the
// text beside them says. What the server would say of models and the card is said by a fetch of the picture's own.
import { inPage, keepChat } from './views.mjs';
import { pause } from './browser.mjs';

// standIn answers for the server: one model, and a card that works for three minutes and rests for two.
const standIn = `(() => {
  const real = window.fetch, name = 'qwen3:0.6b', began = Date.now();
  const reply = (o) => new Response(JSON.stringify(o), { headers: { 'Content-Type': 'application/json' } });
  const passes = (from, now) => ({ decode: (now - from) / 70, prefill: 700, verify: (now - from) / 330 });
  const state = () => ({ status: 'ok', uptime_seconds: 850, tokens_per_second: 18.2, first_token_ms: 193, warnings: [], loads: [], streams: [],
    cards: [{ device: 'axcl:0', name: 'AX650N', says: 'an Axera card on the PCIe bus', bus: '0000:01:00.0', driver: 'V3.6.2', state: 'ready', temperature_celsius: 54, npu_load: 67, memory_bytes: 7e9, memory_free_bytes: 5.2e9, memory_of: 'card' }],
    models: [{ name, device: 'axcl:0', state: 'ready', running: 1, queued: 0, busy_seconds: 400 + (Date.now() - began) / 1250, passes: passes(began, Date.now()), memory: { layers: 9e8, head: 3e8, cache: 4e8, buffers: 2e8, total: 1.8e9 } }] });
  window.fetch = async (to, o) => {
    const path = new URL(to, location).pathname;
    if (path === '/api/tags') return reply({ models: [{ name, size: 1.2e9, capabilities: ['completion', 'thinking', 'tools'], details: { parameter_size: '0.6B', quantization_level: 'W8A16' } }] });
    if (path === '/api/axle/state') return reply(state());
    return real(to, o);
  };
})()`;

const script = 'from datetime import datetime\nfrom pathlib import Path\n\nfor photo in sorted(Path("photos").glob("*.jpg")):\n    taken = datetime.fromtimestamp(photo.stat().st_mtime)\n    photo.rename(photo.with_name(f"{taken:%Y-%m-%d %H.%M.%S}.jpg"))';
const talk = [['user', 'Write a Python script that renames photos by the date they were taken.'],
  ['assistant', '`pathlib` and the files’ own times are enough for this:\n\n```python\n' + script + '\n```\n\nKeep a **copy** first: renaming cannot be undone.']];

// past fills the plots' ten minutes.
const past = `const live = await use('live');
  const now = Date.now() / 1000, wave = (i, by) => Math.sin(i / by) + Math.sin(i / 3.1) / 3;
  live.samples.unshift(...Array.from({ length: 292 }, (_, i) => {
    const on = (i + 60) % 150 < 90;
    return { t: now - (292 - i) * 2 - 4, tps: on ? 18 + wave(i, 9) : 0, ttft: on && i % 18 === 0 ? 195 + 9 * wave(i, 5) : null, cards: [{ temp: Math.round(48 + 6 * Math.sin(i / 95)), load: on ? 67 : 0 }],
      passes: { decode: on ? 14 + wave(i, 7) : 0, prefill: on && i % 18 === 0 ? 2 : 0, verify: on ? 3 + wave(i, 4) / 2 : 0 }, busy: { 'qwen3:0.6b': on ? 0.79 + wave(i, 3) / 60 : 0 }, queued: 0, running: on ? 1 : 0 };
  }));
  live.sampled.set(live.sampled.get() + 1);`;

export async function documented({ browser, url }) {
  for (const [file, o, view] of [['ui', {}, 'chat'], ['ui-phone', { wide: 390, high: 780, phone: true, ratio: 1.5 }, 'chat'], ['ui-card', { dark: true }, 'card']]) {
    const context = await browser.context();
    const page = await context.page(o);
    await page.send('Page.addScriptToEvaluateOnNewDocument', { source: standIn });
    await page.go(url + '/ui');
    for (const title of ['Why the moon looks larger near the horizon', '解释一下量化', 'Ein Brief an die Hausverwaltung', 'Bread without a mixer']) await keepChat(page, [['user', title], ['assistant', '…']], title, 'qwen3:0.6b');
    const id = await keepChat(page, talk, 'Rename photos by date', 'qwen3:0.6b');
    await inPage(page, `const S = await use('store'); const x = (await S.turns('${id}'))[1];
      Object.assign(x, { thinking: 'They want the dates in the names.', thinkMs: 2100, firstMs: 171, stats: { prompt: 30, output: 168, rate: 18.2, load: 0, reason: 'stop' } }); await S.saveTurn(x);`);
    await page.reload();
    await page.until('colours', `!!document.querySelector('.code pre span span') && document.querySelectorAll('.chats li').length === 5`);
    await page.until('the status', `/tokens|°C/.test(document.querySelector('.status')?.textContent ?? '')`);
    if (view === 'card') {
      await inPage(page, past);
      await page.run(`location.hash = '#/card'`);
      await page.until('the plots', `document.querySelectorAll('.plots canvas').length >= 5`);
    }
    await pause(1000);
    await page.run(`document.activeElement.blur(); document.querySelector('.scroll')?.scrollTo(0, 0)`);
    await pause(400);
    await page.shot(`docs/${file}.png`);
    await context.end();
  }
}
