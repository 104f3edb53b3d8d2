// The main path of each view, and what must hold whatever a server or a conversation does. Each test has a browser context of its own, is given
// {context, server, url, page}, and throws where something is wrong.
import { join } from 'node:path';
import { pause } from './browser.mjs';
import { Hub, Proxy, Server, product, scripted } from './servers.mjs';

export const equal = (what, got, want) => { if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`); };
export const holds = (what, v) => { if (!v) throw new Error(what); };

// what the page looks like from outside: one place for what a change of its markup would move
export const at = {
  text: '#text', send: '#send', turns: '.turn', answers: '.turn.answer', said: '.turn.answer .md',
  idle: `!document.querySelector('#send.stop')`, busy: `!!document.querySelector('#send.stop')`,
};

export const lastAnswer = `[...document.querySelectorAll('${at.said}')].pop()?.textContent.trim() ?? ''`;
// inSight: something is there, and between the bar and the place to write.
const inSight = (selector) => `(() => { const e = document.querySelector('${selector}')?.getBoundingClientRect(), s = document.querySelector('.scroll').getBoundingClientRect(); return !!e && e.height > 0 && e.top >= s.top && e.bottom <= s.bottom; })()`;
const atEnd = `(() => { const e = document.querySelector('.scroll'); return e.scrollHeight - e.scrollTop - e.clientHeight < 1; })()`;
const still = `new Promise((ok) => { // where the page stands once a wheel's movement is over
  const e = document.querySelector('.scroll'); let last = -1, same = 0;
  const look = () => { same = e.scrollTop === last ? same + 1 : 0; last = e.scrollTop; if (same > 15) ok(last); else requestAnimationFrame(look); };
  look(); })`;
const frames = `new Promise((ok) => requestAnimationFrame(() => requestAnimationFrame(() => ok(true))))`;
const finished = (n) => `document.querySelectorAll('${at.answers}:not(.live)').length === ${n}`;

export async function choose(page, model) {
  await page.until('the models', `[...document.querySelectorAll('#model option')].some((o) => o.value === ${JSON.stringify(model)})`);
  await page.run(`(() => { const s = document.querySelector('#model'); s.value = ${JSON.stringify(model)}; s.dispatchEvent(new Event('change', { bubbles: true })); })()`);
  await page.until('the choice', `document.querySelector('#model')?.value === ${JSON.stringify(model)}`);
}

export async function ask(page, text) {
  await page.until('where one writes', `!!document.querySelector('${at.text}')`);
  for (let i = 0; i < 20; i++) { // a conversation that is opened just now has another place to write
    await page.run(`document.querySelector('${at.text}').focus()`);
    await page.type(text);
    await pause(30);
    if (await page.run(`document.querySelector('${at.text}').value.length > 0`)) break;
  }
  await page.until('the text', `!document.querySelector('${at.send}').disabled`);
  if (page.phone) await page.click(at.send);
  else await page.key('Enter');
  await page.until('the question', `document.querySelector('${at.text}').value === ''`);
}

export async function asked(page, text, n = 1) {
  await ask(page, text);
  await page.until(`answer ${n}`, finished(n), `(${lastAnswer}).length`); // however slow this machine is: an answer that grows is one that comes
  return page.run(lastAnswer);
}

// inPage runs a function's text with the page's own modules at hand. The page holds its promise, which else is collected where much is.
export const inPage = (page, body) => page.run(`window.doing = (async () => { const root = new URL('../', document.querySelector('script[type=module]').src); const use = (n) => import(new URL('app/' + n + '.js', root)); ${body} })()`);

const inPageValue = (value) => `(async () => { const root = new URL('../', document.querySelector('script[type=module]').src); const use = (n) => import(new URL('app/' + n + '.js', root)); return ${value}; })()`;

// keepChat puts a conversation into the page's store, and shows it.
export async function keepChat(page, turns, title = 'kept', model = 'scripted-chat:latest') {
  const id = await inPage(page, `
    const store = await use('store');
    const chat = store.newChat({ title: ${JSON.stringify(title)}, named: true, model: ${JSON.stringify(model)} });
    let parent = null;
    for (const [role, text] of ${JSON.stringify(turns)}) {
      const x = store.newTurn(chat.id, parent, role, { text, ...(role === 'assistant' ? { state: 'done', model: chat.model } : {}) });
      await store.saveTurn(x);
      parent = x.id;
    }
    chat.head = parent;
    await store.saveChat(chat);
    return chat.id;`);
  await page.run(`location.hash = '#/chat/${id}'`);
  await page.until('the conversation', `document.querySelectorAll('${at.turns}').length > 0 && location.hash.endsWith('${id}')`);
  return id;
}

const open = async ({ context, url }, o) => {
  const page = await context.page(o);
  await page.go(url + '/ui');
  return page;
};

const say = (tokens, delay = 0) => `[[delay:${delay}]][[say:${tokens.join('|')}]]`;
const words = (n) => Array.from({ length: n }, (_, i) => `word${i} `);

export const views = {
  // A question, an answer that comes in pieces, the facts beneath it; the conversation is there after a reload, found by what was said in it.
  async chat(t) {
    const page = await open(t);
    await choose(page, 'scripted-chat:latest');
    await ask(page, 'Why is the sky blue? [[delay:15]]');
    await page.until('a beginning', `(${lastAnswer}).length > 10`);
    holds('the button says stop while the answer comes', await page.run(at.busy));
    const part = (await page.run(lastAnswer)).length;
    await page.until('the end', finished(1));
    const whole = await page.run(lastAnswer);
    holds(`the answer did not stream: ${part} of ${whole.length}`, whole.length > part && whole.includes('Rayleigh'));
    holds('the facts', await page.run(`/token/.test(document.querySelector('${at.answers} .facts').textContent)`));
    holds('thinking is folded, and says how long', await page.run(`!document.querySelector('.thinking').open && /\\d/.test(document.querySelector('.thinking summary').textContent)`));
    await asked(page, say(['Long\n\n', ...Array(60).fill('line\n\n')]), 2);
    await page.until('what stands beneath a long answer', inSight(`${at.answers}:last-child .facts`));
    // The page stays at the end, whatever moves it; who scrolls up stays there, until the end is asked for.
    await page.until('the end of a long answer', atEnd);
    const grown = (px) => page.run(`document.querySelector('${at.turns}:last-child').style.minHeight = '${px}px'`);
    await grown(5000);
    await page.until('the end of what grew by itself', atEnd);
    await page.send('Input.dispatchMouseEvent', { type: 'mouseWheel', x: 700, y: 300, deltaX: 0, deltaY: -900 });
    await page.until('the way back to the end', `!!document.querySelector('.newest')`);
    await grown(9000);
    await page.run(frames);
    holds('who has scrolled up is taken to the end', !(await page.run(atEnd)));
    await page.click('.newest');
    await page.until('the end that was asked for', `${atEnd} && !document.querySelector('.newest')`);
    await grown(0);
    await page.until('the end of what shrank', atEnd);
    await ask(page, say(Array(600).fill('line\n\n'), 20)); // twelve seconds of it: it is stopped long before
    await page.until('the end of an answer that is being written', `${at.busy} && ${atEnd} && (${lastAnswer}).length > 300`);
    await page.send('Input.dispatchMouseEvent', { type: 'mouseWheel', x: 700, y: 300, deltaX: 0, deltaY: -900 });
    await page.until('the way back while it is written', `!!document.querySelector('.newest')`);
    const stood = await page.run(still);
    await page.until('more of it', `(${lastAnswer}).length > ${(await page.run(lastAnswer)).length} + 200`);
    equal('where the page stands', await page.run(`document.querySelector('.scroll').scrollTop`), stood);
    await page.click(at.send);
    await page.until('the stop of it', at.idle);
    await page.click('.newest');
    equal('a third answer', await asked(page, say(['Second', ' answer']), 4), 'Second answer');
    await page.reload();
    await page.until('the conversation after a reload', `document.querySelectorAll('${at.answers}').length === 4`);
    equal('what was said after a reload', await page.run(lastAnswer), 'Second answer');
    await page.run(`(() => { const f = document.querySelector('#find'); f.value = 'rayleigh'; f.dispatchEvent(new Event('input', { bubbles: true })); })()`);
    await page.until('what was searched', `document.querySelectorAll('.chats li').length === 1 && /Rayleigh/i.test(document.querySelector('.chats small')?.textContent ?? '')`);
  },

  // Stop keeps what was said; asking again puts a version beside; editing asks anew; a turn that is deleted is gone.
  async turns(t) {
    const page = await open(t);
    await choose(page, 'scripted-chat:latest');
    await ask(page, say(words(1500), 5));
    await page.until('a beginning', `(${lastAnswer}).includes('word9')`);
    await page.click(at.send);
    await page.until('the stop', at.idle);
    await page.until('what is announced of it', `/^Stopped/.test(document.querySelector('main > [role=status], main [aria-live]')?.textContent ?? '')`);
    const kept = await page.run(lastAnswer);
    holds('what was said is kept', kept.includes('word9') && !kept.includes('word1499'));
    await page.reload();
    await page.until('it after a reload', `(${lastAnswer}).includes('word9')`);
    await page.run(`location.hash = '#/chat'`);
    await page.click('.new');
    await page.until('an empty conversation', `document.querySelectorAll('${at.turns}').length === 0`);
    await asked(page, say(['one']));
    await page.click('.turn.answer .again');
    await page.until('a version beside', `/2\\s*\\/\\s*2/.test(document.querySelector('.turn.answer .beside')?.textContent ?? '') && ${at.idle}`);
    await page.click('.turn.user .edit');
    await page.until('the edit', `document.querySelector('.turn.editing textarea') === document.activeElement`);
    holds('the whole ring around the field is seen', await page.run(`(() => { const e = document.activeElement, s = getComputedStyle(e), out = parseFloat(s.outlineOffset) + parseFloat(s.outlineWidth), a = e.getBoundingClientRect(), b = e.closest('.turn').getBoundingClientRect(); return s.outlineStyle !== 'none' && a.left - out >= b.left && a.right + out <= b.right && a.top - out >= b.top && a.bottom + out <= b.bottom; })()`));
    await page.run(`document.activeElement.select()`);
    await page.type(say(['changed']));
    await page.key('Enter');
    await page.until('the answer to what was changed', `(${lastAnswer}) === 'changed' && ${at.idle}`);
  },

  // A page that is loaded anew in the middle of an answer has what was said until then, says that it broke off, and can go on.
  async reload(t) {
    const page = await open(t);
    await choose(page, 'scripted-chat:latest');
    await ask(page, say(words(2000), 5));
    await page.until('some of it', `(${lastAnswer}).includes('word600')`, `(${lastAnswer}).length`);
    await page.reload();
    await page.until('what was said', `(${lastAnswer}).includes('word100')`);
    await page.until('an end', `document.querySelectorAll('${at.answers}.live').length === 0 && ${at.idle}`);
    await page.until('that the server gives it up', `fetch('api/axle/state').then((r) => r.json()).then((s) => s.streams.length === 0)`); // it learns that the reader is gone
    equal('the next answer', await asked(page, say(['on']), 2), 'on');
  },

  // Two hundred turns: shown at once from the end, scrolled to the first, and the next one costs no more than any.
  async long(t) {
    const page = await open(t);
    await keepChat(page, Array.from({ length: 200 }, (_, i) => (i % 2 ? ['assistant', `Answer ${i}: **bold**, \`code\`.\n\n- a\n- b\n\n\`\`\`go\nfunc f${i}() {}\n\`\`\`\n`] : ['user', `Question ${i}`])));
    await page.until('the last turn', `(${lastAnswer}).includes('Answer 199')`);
    for (let i = 0; i < 20 && !(await page.run(`document.querySelector('.thread').textContent.includes('Question 0')`)); i++) {
      await page.run(`document.querySelector('.scroll').scrollTop = 0`);
      await pause(60);
    }
    await page.until('the first turn', `document.querySelector('.turn')?.textContent.includes('Question 0')`);
    equal('turns', await page.run(`document.querySelectorAll('${at.turns}').length`), 200);
    await ask(page, say(['fine']));
    await page.until('the answer to a long conversation', `(${lastAnswer}) === 'fine' && ${at.idle}`);
  },

  // Many conversations: the newest are listed, older ones when asked for; what was written in one cannot be undone into another.
  async many(t) {
    const page = await open(t);
    await inPage(page, `const store = await use('store'); for (let i = 0; i < 70; i++) await store.saveChat(store.newChat({ title: 'Talk ' + i, named: true }));`);
    await page.until('the newest', `document.querySelectorAll('.chats li').length === 60`);
    await page.click('.older');
    await page.until('all', `document.querySelectorAll('.chats li').length === 70 && !document.querySelector('.older')`);
    await page.run(`(() => { const f = document.querySelector('#find'); f.value = 'Talk 1'; f.dispatchEvent(new Event('input', { bubbles: true })); })()`);
    await page.until('what was searched', `document.querySelectorAll('.chats li').length === 11`);
    await page.run(`(() => { const f = document.querySelector('#find'); f.value = ''; f.dispatchEvent(new Event('input', { bubbles: true })); })()`);
    await page.until('all again', `document.querySelectorAll('.chats li').length === 70`);
    const named = `document.activeElement.closest('.chats a')?.textContent`;
    const rename = async (name, end) => {
      await page.key('F2');
      await page.until('the field', `!!document.activeElement.closest('.chats form')`);
      await page.type(name);
      await page.key(end);
      await page.until('the name, with the focus on it', `${named} === 'Renamed'`);
    };
    await page.run(`document.querySelector('.chats li a').focus()`);
    await rename('Renamed', 'Enter');
    await rename('Another', 'Escape');
    equal('a name that was not taken', await page.run(`document.querySelector('.chats').textContent.includes('Another')`), false);
    await page.key('Delete');
    await page.click('dialog .danger');
    await page.until('the next one has the focus', `/^Talk/.test(${named}) && !document.querySelector('.chats').textContent.includes('Renamed')`);
    await keepChat(page, [['user', 'x'], ['assistant', 'y']]);
    await page.run(`document.querySelector('${at.text}').focus()`);
    await page.type('a secret');
    await keepChat(page, [['user', 'v'], ['assistant', 'w']], 'another');
    await page.until('an empty field', `document.querySelector('${at.text}').value === ''`);
    await page.run(`document.querySelector('${at.text}').focus(); document.execCommand('undo')`);
    equal('what undoing brings back', await page.run(`document.querySelector('${at.text}').value`), '');
    equal('conversations that asking for a new one makes, however often', await inPage(page, `
      const it = await use('open');
      const seen = new Set();
      const end = it.open.follow((now) => { if (now) seen.add(now.chat.id); });
      await Promise.all([it.go(null), it.go(null)]);
      await it.go(null);
      end();
      return seen.size;`), 1);
  },

  // Two models answer one question side by side, and a conversation goes on with one of them.
  async compare(t) {
    const page = await open(t);
    await page.run(`location.hash = '#/models'`);
    await page.click('.models button', 'Compare two');
    await page.until('the question', `document.activeElement?.closest('dialog') && document.activeElement.localName === 'textarea'`);
    await page.type('Why? ' + say(['both', ' say', ' this']));
    await page.key('Enter');
    await page.until('two answers', `document.querySelectorAll('.two section[aria-busy=false]').length === 2`);
    equal('the answers', await page.run(`[...document.querySelectorAll('.two .md')].map((e) => e.textContent.trim())`), ['both say this', 'both say this']);
    const second = await page.run(`document.querySelectorAll('.two h3')[1].textContent`);
    await page.run(`[...document.querySelectorAll('.two button')].pop().click()`);
    await page.until('the conversation', `location.hash.startsWith('#/chat/') && (${lastAnswer}) === 'both say this'`);
    equal('its model', await page.run(`document.querySelector('#model').selectedOptions[0].textContent`), second);
    equal('going on', await asked(page, say(['on']), 2), 'on');
  },

  // An answer of 100 KB in one code block is there whole, copies whole, and does not make the page wider than the screen.
  async code(t) {
    const page = await open(t);
    const line = 'const answer = compute(41) + 1; // a line of an ordinary length, more or less';
    const body = Array.from({ length: 1300 }, (_, i) => line + ' ' + i).join('\n');
    await choose(page, 'scripted-chat:latest');
    const parts = ('```js\n' + body + '\n```\n').match(/[^]{1,97}/g);
    await page.answers('*/api/chat', () => [...parts.map((content) => ({ message: { role: 'assistant', content }, done: false })), { message: { role: 'assistant', content: '' }, done: true, done_reason: 'stop', eval_count: parts.length, eval_duration: 1e9 }]
      .map((o) => JSON.stringify(o) + '\n').join(''));
    await asked(page, 'write much');
    holds('100 KB', body.length > 100000);
    equal('the code', await page.run(`document.querySelector('.code pre').textContent.trimEnd() === ${JSON.stringify(body)} && document.querySelector('.code').source().trimEnd().length`), body.length);
    equal('what is between the head of the code and the code', await page.run(`Math.round(document.querySelector('.code pre').getBoundingClientRect().top - document.querySelector('.code .head').getBoundingClientRect().bottom)`), 0);
    holds('the page is as wide as the screen', await page.run('document.documentElement.scrollWidth <= innerWidth'));
  },

  // An answer that grows shows at each moment what reading all of it anew would show, and what has been drawn of it stays where it is.
  async grows(t) {
    const page = await open(t);
    const got = await inPage(page, String.raw`
      const { Flow } = await use('markdown');
      const texts = ['In short: the **cache** keeps rows (see *there*), and ${'`'}a.b(c)${'`'} a pass. It is "so", isn\'t it? www.example.com and https://example.com/a.b, a@b.com.\n\nNext **one two** three.',
        '- **Rows**: what is left, some ${'`'}768${'`'} wide.\n- **Cells**: *places*\n- Nothing\n  - **deeper** still\n\n1. **a**\n2. b',
        '### A **bold** head\n\n> quoted **words** here. And *so* on\n\n| a | **b** |\n|---|---|\n| 1 | *2* |\n',
        '2 * 3 is 6, a*b*c, **not closed\n\n*never, ${'`'}open\n\nsnake_case_name and _this_ [a link](https://example.com) [not one] \\*no\\* $5 and $x$ end. &amp; so **a**b, ***both*** ** x **',
        '这是**重点**。还有*一个*和${'`'}码${'`'}。\n\n**Note:** x. **A b.** c **(d)** e, **f**, "**g**" and **h!**i',
        '**a ${'`'}b${'`'} c** d, *e **f** g* ${'`'}*x*${'`'} ${'`'}y${'`'}${'`'}z <b>bold</b> text **d**\nsecond line **e** f\n' ];
      const parts = (el) => { el.normalize(); return [...el.childNodes].map((n) => (n.nodeType === 3 ? n.data : '<' + n.localName + '>' + parts(n) + '</>')).join('').replace(/\s+/g, ' ').replace(/ (?=<\/>|$)/g, ''); };
      const wrong = [];
      let kept = 0;
      for (const text of texts) for (const step of [1, 3, 8]) {
        const grown = document.createElement('div'), flow = new Flow(grown);
        let first = null;
        for (let n = step; ; n += step) {
          flow.due = 0;
          flow.set(text.slice(0, n), false);
          await flow.all();
          const anew = document.createElement('div'), other = new Flow(anew);
          other.set(text.slice(0, n), false);
          await other.all();
          const a = parts(grown.cloneNode(true)), b = parts(anew);
          if (a !== b && !/[*${'`'}]$/.test(text.slice(0, n))) wrong.push([text.slice(0, n).slice(-30), a.slice(-60), b.slice(-60)]);
          first ??= grown.querySelector('strong, em');
          if (n >= text.length) break;
        }
        flow.set(text, true);
        await flow.all();
        if (first && grown.contains(first)) kept++;
        const anew = document.createElement('div'), other = new Flow(anew);
        other.set(text, true);
        await other.all();
        if (parts(grown) !== parts(anew)) wrong.push(['the end', parts(grown), parts(anew)]);
      }
      return { wrong: wrong.slice(0, 6), n: wrong.length, kept };`);
    equal('what was drawn otherwise', got.wrong, []);
    holds(`first pieces that stayed where they were: ${got.kept} of 18`, got.kept >= 15);
  },

  // What is read keeps up with what is sent: three hundred tokens that have come are read without waiting between them.
  async catches(t) {
    const page = await open(t);
    const late = await inPage(page, `
      const { lines } = await use('server');
      const one = new TextEncoder().encode('{"message":{"content":"x"}}\\n');
      const body = new ReadableStream({ start(c) { for (let i = 0; i < 300; i++) c.enqueue(one); c.close(); } });
      let frames = 0, over = false;
      const count = () => { frames++; if (!over) setTimeout(count); };
      setTimeout(count);
      let n = 0;
      for await (const o of lines(new Response(body))) n += o.message.content.length;
      over = true;
      return [n, frames];`);
    equal('tokens', late[0], 300);
    holds(`turns of the page's loop for tokens that were there: ${late[1]}`, late[1] < 30);
  },

  // Whatever Markdown an answer holds, nothing of it runs and nothing is fetched: as it streams, and as it is read from the store.
  async hostile(t) {
    const page = await open(t);
    const texts = hostileTexts();
    await choose(page, 'scripted-chat:latest');
    page.requests.length = 0;
    let n = 0;
    for (const text of texts) {
      const parts = text.match(/[^]{1,1009}/g);
      await page.answers('*/api/chat', () => parts.map((content) => JSON.stringify({ message: { role: 'assistant', content }, done: false }) + '\n').join('') + '{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n');
      await asked(page, 'go on ' + n, ++n);
    }
    await clickLinks(page);
    await noHarm(page, t.url);
    if (t.lane === 'quick') return;
    const id = await keepChat(page, texts.flatMap((x) => [['user', x.slice(0, 5000)], ['assistant', x]]));
    await page.until('all of it', `document.querySelectorAll('${at.answers}').length === ${texts.length}`);
    await noHarm(page, t.url);
    holds('a conversation of that title', id);
    await keepChat(page, [['user', 'x'], ['assistant', 'y']], '<img src=x onerror="window.pwned=6"><script>window.pwned=7</script>');
    await noHarm(page, t.url);
  },

  // A server that dies is told of, and the page goes on by itself when it is back.
  async dies(t) {
    const server = await new Server(scripted).start();
    try {
      const page = await open({ ...t, url: server.url }, { excuse: /ERR_|Failed to fetch|net::/ });
      await choose(page, 'scripted-chat:latest');
      await ask(page, say(words(1500), 8));
      await page.until('some of it', `(${lastAnswer}).includes('word5')`);
      await server.kill();
      await page.until('a word about it', `[...document.querySelectorAll('[role=alert]')].some((e) => e.className.includes('banner'))`);
      holds('what was said is kept', (await page.run(lastAnswer)).includes('word5'));
      await page.until('in sight, that the answer broke off', inSight('.turn.answer:last-child .failed'));
      await server.start();
      await page.until('that it is back', `!document.querySelector('.banner')`);
      equal('the next answer', await asked(page, say(['back']), 2), 'back');
    } finally {
      await server.end();
    }
  },

  // A key is asked for once, kept for the tab or for ever as one says, and is in no address; a wrong one is asked for again.
  async keys(t) {
    const key = 'a-key-of-ann';
    const server = await new Server(scripted, { keys: [['ann', key], ['bob', 'a-key-of-bob', 'role=ask']] }).start();
    try {
      const page = await open({ ...t, url: server.url }, { excuse: /401/ });
      const give = async (k, always) => {
        await page.until('the question', `!!document.querySelector('dialog input[type=password]')`);
        await page.run(`document.querySelector('dialog input[type=password]').focus()`);
        await page.type(k);
        if (always) await page.click('dialog input[type=checkbox]');
        await page.click('dialog button.primary');
      };
      await give('a-wrong-key');
      await page.until('the question again', `/wrong|not/i.test(document.querySelector('dialog')?.textContent ?? '')`);
      await page.run(`(() => { const i = document.querySelector('dialog input[type=password]'); i.value = ''; i.dispatchEvent(new Event('input', { bubbles: true })); })()`);
      await page.click('dialog header button');
      await page.until('that the status says so', `/key wanted/.test(document.querySelector('.status').textContent) && !!document.querySelector('.banner button')`);
      await page.click('.banner button');
      await give(key);
      await choose(page, 'scripted-chat:latest');
      equal('an answer with the key', await asked(page, say(['yes'])), 'yes');
      equal('kept in this tab alone', await page.run(`[...Object.values(localStorage)].some((v) => v.includes(${JSON.stringify(key)}))`), false);
      await page.reload();
      await page.until('the models without a question', `document.querySelectorAll('#model option').length > 0`);
      await page.run(`location.hash = '#/models'`);
      await page.until('what ann may do', `!!document.querySelector('li.model .does [aria-label^="Delete"]')`);
      // A key that may only ask is offered nothing else, and is told why.
      await inPage(page, `(await use('server')).keep('a-key-of-bob'); (await use('live')).hurry();`);
      await page.until('what bob may do', `/for keys of the role admin/.test(document.querySelector('.models .role')?.textContent ?? '')`);
      equal('what bob is offered', await page.run(`[...document.querySelectorAll('.models button')].map((b) => b.ariaLabel || b.textContent.trim()).filter((w) => /^(Delete|Unload|Keep|Fetch)/.test(w))`), []);
      await page.run(`location.hash = '#/chat'`);
      await choose(page, 'scripted-chat:latest');
      holds('the key is in no address', !page.requests.some((u) => u.includes(key)) && !(await page.run('location.href')).includes(key));
    } finally {
      await server.end();
    }
  },

  // Two tabs agree: what one begins, renames and deletes, the other shows.
  async tabs(t) {
    const one = await open(t), two = await open(t);
    await choose(one, 'scripted-chat:latest');
    await asked(one, 'A tab ' + say(['tells']));
    await two.until('the conversation in the other tab', `document.querySelectorAll('.chats li').length === 1`);
    await two.run(`document.querySelector('.chats li a').click()`);
    await two.until('its answer', `(${lastAnswer}) === 'tells'`);
    equal('asked in the other tab', await asked(two, say(['again']), 2), 'again');
    await one.until('the answer here', `(${lastAnswer}) === 'again'`);
    await one.until('the conversation in this tab', `!!document.querySelector('.chats li [aria-label=Delete]')`); // a tab behind has a slow clock
    await one.run(`document.querySelector('.chats li [aria-label=Delete]').click()`);
    await one.click('dialog .danger');
    await two.until('that it is gone', `document.querySelectorAll('.chats li').length === 0`);
  },

  // What one tab answers, the other shows as being written, and as one paragraph; it stops there from here.
  async beside(t) {
    const one = await open(t), two = await open(t);
    await choose(one, 'scripted-chat:latest');
    await ask(one, say(words(3000), 20));
    await one.until('some of it', `(${lastAnswer}).includes('word5')`);
    await two.until('the conversation in the other tab', `document.querySelectorAll('.chats li').length === 1`);
    await two.run(`document.querySelector('.chats li a').click()`);
    await two.until('what is said so far', `(${lastAnswer}).includes('word5')`);
    equal('the sign of writing', await two.run(`document.querySelectorAll('${at.answers}.live').length`), 1);
    const had = await two.run(`(${lastAnswer}).length`);
    await two.until('more of it', `(${lastAnswer}).length > ${had} + 200`);
    equal('paragraphs', await two.run(`document.querySelectorAll('${at.said} p').length`), 1);
    await two.until('Stop', at.busy);
    await two.click(at.send);
    await one.until('the end of its answer', inPageValue(`(await use('talk')).runs.size === 0`));
    await two.until('the end here', `document.querySelectorAll('${at.answers}.live').length === 0`);
    await two.until('a place to ask', at.idle);
  },

  // What one tab deletes, the other stops writing: nothing of it comes back. Both may have asked in it.
  async gone(t) {
    const one = await open(t), two = await open(t);
    await choose(one, 'scripted-chat:latest');
    await ask(one, say(words(3000), 20));
    await one.until('some of it', `(${lastAnswer}).includes('word5')`);
    await two.until('the conversation in the other tab', `document.querySelectorAll('.chats li').length === 1`);
    await two.run(`document.querySelector('.chats li a').click()`);
    await two.until('what is said so far', `(${lastAnswer}).includes('word5')`);
    await ask(two, say(['from two']));
    await two.until('its own answer', `(${lastAnswer}) === 'from two'`);
    await one.until('that answer in the first', `(${lastAnswer}) === 'from two'`);
    await two.run(`document.querySelector('.chats li [aria-label=Delete]').click()`);
    await two.click('dialog .danger');
    await one.until('that it is gone', `document.querySelectorAll('.turn, .chats li').length === 0`);
    await one.until('the end of its answer', inPageValue(`(await use('talk')).runs.size === 0`));
    equal('turns that are left', await inPage(one, `return (await (await use('store')).everyTurn()).length;`), 0);
  },

  // Files: what goes out comes in again as it was, words that look like the file's own lines included; of a file with a fault, or of another
  // program's, nothing is taken, and one sentence says so.
  async files(t) {
    const page = await open(t);
    const got = await inPage(page, String.raw`
      const T = await use('transfer'), S = await use('store');
      const take = (name, text) => T.importFile(new File([text], name)).catch((e) => e.message);
      const chat = S.newChat({ title: 'Round', named: true, model: 'm', system: 'be\n## User\nterse', options: { temperature: 0.5, stop: ['a'] }, think: true, format: 'json', tools: '[]' });
      chat.created = chat.updated = 1700000000000;
      const list = [];
      for (const [role, more] of [['user', { text: '## User\n\\## Tool\nhello' }], ['assistant', { text: '> quoted\n\n## System\n\ntext', state: 'done', thinking: 'one\n\ntwo' }], ['tool', { text: 'r', tool: 'f' }], ['assistant', { text: '> only\n> a quote', state: 'done' }]]) list.push(S.newTurn(chat.id, list.at(-1)?.id ?? null, role, more));
      chat.head = list.at(-1).id;
      await S.saveMany([chat], list);
      const plain = (o) => JSON.stringify(o, (k, v) => (['id', 'chat', 'parent', 'head', 'at', 'session'].includes(k) && !Array.isArray(v) ? undefined : v && typeof v === 'object' && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort()) : v));
      const of = async (id) => [plain(await S.chat(id)), plain(await S.turns(id))];
      const json = await T.asJSON(chat.id), md = T.asMarkdown(chat, list);
      const back = await take('a.json', json), read = await take('a.md', md);
      const bad = [];
      for (const [name, text] of [['broken', json.slice(0, 300)], ['chatgpt', '[{"title":"x","mapping":{"a":{"message":{"author":{"role":"user"},"content":{"parts":["hi"]}}}}}]'], ['open-webui', '[{"id":"1","title":"t","chat":{"messages":[{"role":"user","content":"x"}]}}]'],
        ['null', '{"kind":"axle-chats","version":1,"chats":[null]}'], ['turns', '{"kind":"axle-chats","version":1,"chats":[{"chat":{"title":"x"},"turns":[5]}]}'], ['prose', '# hello']]) if (!(await take(name, text)).startsWith(name + ' holds no conversations')) bad.push(name);
      const m = await S.turns(read);
      return { same: JSON.stringify(await of(back)) === JSON.stringify(await of(chat.id)), read: JSON.stringify(m.map((x) => [x.role, x.text, x.thinking])) === JSON.stringify(list.map((x) => [x.role, x.text, x.thinking])), system: (await S.chat(read)).system === chat.system, bad, count: (await S.chats()).length };`);
    equal('files', got, { same: true, read: true, system: true, bad: [], count: 3 });
  },

  // A long text that is pasted, and a file of text, become a piece beside the field: looked at, taken out, put into the field; it goes with the
  // question, and stays with it when it is asked again, branched, exported and found. What is more than the server takes is told before.
  async pieces(t) {
    const page = await open(t, { excuse: /favicon/ });
    await choose(page, 'scripted-chat:latest');
    await page.until('where one writes', `!!document.querySelector('${at.text}')`);
    const give = (kind, body) => page.run(`(() => { const data = new DataTransfer(); ${body}; const area = document.querySelector('${at.text}'); area.focus();
      area.dispatchEvent(${kind === 'paste' ? `new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })` : `new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })`}); })()`);
    const names = (where) => `[...document.querySelectorAll('${where} .piece b')].map((e) => e.textContent).join()`;
    const beside = names('.composer');
    await give('paste', `data.setData('text/plain', 'First line of a log\\n' + 'a line of the log, of an ordinary length\\n'.repeat(26000))`);
    await page.until('the piece', `${beside} === 'Pasted text'`);
    equal('the field', await page.run(`document.querySelector('${at.text}').value`), '');
    holds('its size, lines and first line', await page.run(`/1\\.1\\sMB · 26,001 lines/.test(document.querySelector('.composer .piece').innerText) && /First line of a log/.test(document.querySelector('.composer .piece').innerText)`));
    holds('what it is called', await page.run(`/^Look at Pasted text, 1\\.1/.test(document.querySelector('.composer .piece').getAttribute('aria-label'))`));
    holds('that the model reads less', await page.run(`/about 2\\d\\d,\\d{3} tokens/.test(document.querySelector('.composer .note').textContent)`));
    await page.click('.composer .piece');
    await page.until('what is in it', `/First line of a log/.test(document.querySelector('dialog .code')?.textContent ?? '')`);
    await page.key('Escape');
    await page.until('its end', `!document.querySelector('dialog')`);
    await give('paste', `data.setData('text/plain', 'short enough to edit '.repeat(1000))`);
    await page.until('a second', `${beside} === 'Pasted text,Pasted text 2'`);
    await page.click('.composer .into', 'Put Pasted text 2 into the field as text');
    await page.until('it in the field', `document.querySelector('${at.text}').value.length === 21000 && ${beside} === 'Pasted text'`);
    await page.run(`(() => { const e = document.querySelector('${at.text}'); e.value = ''; e.dispatchEvent(new Event('input', { bubbles: true })); })()`);
    await page.click('.composer .drop');
    await page.until('none', `${beside} === ''`);
    await give('drop', `data.items.add(new File(['a,b\\r\\n1,2\\r\\n'], 'table.csv', { type: 'text/csv' })); data.items.add(new File([new Uint8Array([0xff, 0xfe, 0x68, 0, 0x69, 0])], 'wide.log')); data.items.add(new File([new Uint8Array([1, 0, 2, 0, 255])], 'program.bin'))`);
    await page.until('the files', `${beside} === 'table.csv,wide.log'`);
    await page.until('what is said of the other', `/program\\.bin is neither/.test(document.body.innerText)`);
    const sent = [];
    await page.answers('*/api/chat', (r) => { sent.push(JSON.parse(r.postData).messages); return '{"message":{"role":"assistant","content":"fine"},"done":false}\n{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n'; });
    await asked(page, 'What is in it?');
    const whole = 'table.csv:\n```csv\na,b\n1,2\n```\n\nwide.log:\n```log\nhi\n```\n\nWhat is in it?';
    equal('what was sent', sent[0], [{ role: 'user', content: whole }]);
    equal('pieces left for the next question', await page.run(beside), '');
    await page.reload();
    await page.until('them in the turn after a reload', `${names('.turn.user')} === 'table.csv,wide.log'`);
    await page.answers('*/api/chat', (r) => { sent.push(JSON.parse(r.postData).messages); return '{"message":{"role":"assistant","content":"again"},"done":true,"done_reason":"stop"}\n'; });
    await page.click('.turn.user .edit');
    await page.click('.turn.editing .drop', 'Remove wide.log');
    await page.click('.turn.editing button.primary');
    await page.until('the other answer', `(${lastAnswer}) === 'again' && ${at.idle}`);
    equal('what was asked again', sent[1], [{ role: 'user', content: 'table.csv:\n```csv\na,b\n1,2\n```\n\nWhat is in it?' }]);
    const kept = await inPage(page, `
      const S = await use('store'), T = await use('transfer'), it = await use('open');
      const { chat, path } = it.open.get();
      const list = async (id) => (await S.turns(id)).filter((x) => x.role === 'user').map((x) => x.pieces?.map((p) => p.name + ' ' + p.size).join() ?? '');
      const back = await T.importFile(new File([await T.asJSON(chat.id)], 'a.json'));
      await it.branch(path[0]);
      const branched = location.hash.split('/').pop();
      return [await list(back), await list(branched), T.asMarkdown(chat, path).includes('1,2'), (await S.search('a,b')).size];`);
    equal('what a file, a branch and the search have', kept, [['table.csv 8,wide.log 2', 'table.csv 8'], ['table.csv 8'], true, 3]);
    await give('paste', `data.setData('text/plain', 'x'.repeat(4200000))`);
    await page.until('what is too much', `${beside} === 'Pasted text'`);
    await page.click(at.send);
    await page.until('a word about it', `/4\\.2 of text|4\\.2\\sMB of text/.test(document.querySelector('.said').innerText)`);
    equal('it is still there, and nothing was sent', [await page.run(beside), sent.length], ['Pasted text', 2]);
    await inPage(page, `(await use('settings')).set({ lang: 'de' });`);
    await page.until('its name in German', `/ansehen/.test(document.querySelector('.composer .piece').getAttribute('aria-label'))`);
    const phone = await open(t, { wide: 390, high: 844, phone: true });
    await phone.until('where one writes', `!!document.querySelector('${at.text}')`);
    await phone.run(`(() => { const data = new DataTransfer(); data.items.add(new File(['x'.repeat(300)], 'a name that is far longer than any phone is wide, without an end.txt')); dispatchEvent(new DragEvent('drop', { dataTransfer: data, cancelable: true })); })()`);
    await phone.until('the piece on a phone', `!!document.querySelector('.composer .piece')`);
    holds('the page is as wide as the phone', await phone.run(`document.documentElement.scrollWidth === ${phone.wide} && document.querySelector('.composer .drop').getBoundingClientRect().right < ${phone.wide}`));
    await phone.shot('build/ui/pieces-phone.png');
    await page.shot('build/ui/pieces.png');
  },

  // What the server warns of is said in the page's language, with its numbers; a kind that the page does not know, or lacks a value of, stays
  // English and says so. The last row of a table has no line beneath.
  async warnings(t) {
    const page = await t.context.page();
    const state = { status: 'ok', uptime_seconds: 5, tokens_per_second: 0, first_token_ms: 0, cards: [{ device: 'axcl:0', kind: 'axcl', name: 'AX650N', says: 'an Axera card on the PCIe bus', state: 'ready', memory_of: 'card' }], loads: [], streams: [],
      models: [{ name: 'm', device: 'axcl:0', memory: {}, tiers: [{ name: 'card', rows: 9, used: 1, hits: 0, in_bytes: 0, out_bytes: 0 }, { name: 'disk', rows: 9, hits: 0, in_bytes: 0, out_bytes: 0 }] }],
      warnings: [{ id: 'queue', about: 'm', text: '1200 answers wait', values: { queued: 1200, running: 3 } }, { id: 'fewer', about: '', text: 'an older server’s words' }, { id: 'newer', about: '', text: 'a newer one’s', values: {} },
        { id: 'lost', about: '', text: 'the card was lost', values: { error: '<b>{running}</b>' } }] };
    await page.answers('*/api/axle/state', () => JSON.stringify(state));
    await page.go(t.url + '/ui#/card');
    const said = `[...document.querySelectorAll('.warning > span')].map((e) => [e.lang, e.textContent])`;
    for (const [lang, queue, lost, kind] of [['en', 'm: 1,200 answers wait for 3 that run', 'the card was lost: <b>{running}</b>; ', 'an Axera card'], ['de', 'm: wartende Antworten: 1.200, laufende: 3; ', 'die Karte ist verloren: <b>{running}</b>; ', 'eine Axera-Karte'],
      ['zh', 'm: 有 1,200 个回答在等待，3 个正在运行', '卡已丢失：<b>{running}</b>', 'Axera 卡']]) {
      await inPage(page, `(await use('settings')).set({ lang: '${lang}' });`);
      await page.until('the words of ' + lang, `document.querySelector('.head p')?.textContent.includes('${kind}') && document.querySelectorAll('.warning').length === 4`);
      const got = await page.run(said);
      equal('in ' + lang, [got[0][0], got[0][1].startsWith(queue), got[1], got[2], got[3][0], got[3][1].startsWith(lost)], [lang, true, ['en', 'an older server’s words'], ['en', 'a newer one’s'], lang, true]);
    }
    equal('lines beneath the last row', await page.run(`[...document.querySelectorAll('.panel table')].flatMap((e) => [...e.rows[e.rows.length - 1].cells]).filter((c) => parseFloat(getComputedStyle(c).borderBottomWidth) > 0).length`), 0);
    equal('a schema that is not enforced', await inPage(page, String.raw`const W = await use('words'); return W.unenforced('299 axle "#/properties/a: uniqueItems: is not enforced: x, 299 y", 299 axle "23 more keywords are not enforced", 299 axle "else"').map((w) => [w.lang, w.text]);`),
      [['zh', '回答不受模式中 #/properties/a 处的 uniqueItems 约束。'], ['zh', '模式中还有 23 个关键字未被强制执行。'], ['en', 'else']]);
  },

  // Behind a proxy, below a path: all of the page works there. What the proxy says in the server's place is told in words, never shown as
  // markup, and the page goes on by itself.
  async proxy(t) {
    const proxy = await new Proxy(t.url, '/axle').start();
    try {
      const page = await open({ ...t, url: proxy.url }, { excuse: /Failed to load resource/ });
      await choose(page, 'scripted-chat:latest');
      equal('an answer through the proxy', await asked(page, say(['through'])), 'through');
      for (const [view, ready] of [['models', `document.querySelectorAll('li.model').length > 1`], ['card', `document.querySelectorAll('.plots canvas').length > 2`], ['settings', `!!document.querySelector('.settings')`]]) {
        await page.run(`location.hash = '#/${view}'`);
        await page.until(view, ready);
      }
      equal('what was asked for beside the path', page.requests.filter((u) => !u.startsWith(proxy.url + '/')), []);
      equal('where an installed page begins', await page.run(`fetch(document.querySelector('link[rel=manifest]').href).then((r) => r.json().then((m) => new URL(m.start_url, r.url).href))`), proxy.url + '/ui');
      await page.run(`location.hash = '#/chat'`);
      const html = { status: 200, body: '<!doctype html><title>Log in</title><p>Please log in' };
      let n = 0;
      for (const [fail, want] of [[{ status: 502 }, /does not reach it \(502\)/], [{ status: 429, headers: { 'Retry-After': '7' } }, /no more requests.*in 7/], [{ status: 413 }, /of this size/], [{ status: 418 }, /refused this \(418\)/], [html, /not axle but a page/]]) {
        await page.click('.new');
        await page.until('an empty conversation', `document.querySelectorAll('${at.turns}').length === 0`);
        proxy.fail = (path) => path === '/api/chat' && fail;
        await ask(page, 'hello ' + n++);
        await page.until('the end', `!!document.querySelector('.turn.answer .failed')`);
        const said = await page.run(`document.querySelector('.turn.answer .failed').textContent`);
        holds(`${fail.status}: ${said}`, want.test(said) && !/[<>]|token/.test(said));
      }
      proxy.fail = (path) => path.startsWith('/api') && { status: 503 };
      await page.until('the banner', `/does not reach it \\(503\\)/.test(document.querySelector('.banner')?.textContent ?? '') && /no server/.test(document.querySelector('.status').textContent)`);
      proxy.fail = () => null;
      await page.until('that it goes on', `!document.querySelector('.banner')`);
      equal('an answer after it', await asked(page, say(['on']), 2), 'on');
      proxy.fail = (path) => path.startsWith('/api') && html;
      const fresh = await open({ ...t, url: proxy.url });
      await fresh.until('what answers instead', `/log in/.test(document.querySelector('.banner')?.textContent ?? '')`);
    } finally {
      proxy.end();
    }
  },

  // Five hundred models, fifty answers under way, names that are long, markup, or turn what stands around them: no view is wider than a phone,
  // nothing runs, and a model is found by its name.
  async crowd(t) {
    for (const o of [{}, { wide: 390, high: 844, phone: true, dark: true }]) {
      const page = await t.context.page(o);
      await page.send('Page.addScriptToEvaluateOnNewDocument', { source: `(() => {
        const real = window.fetch, reply = (o) => new Response(JSON.stringify(o), { headers: { 'Content-Type': 'application/json' } });
        const names = ['<img src=x onerror=window.pwned=1>:latest', '\u202egnp.exe\u202c-model:latest', 'مرحبا/نموذج:latest', '${'a'.repeat(180)}:latest', ...Array.from({ length: 500 }, (_, i) => 'model-' + i + ':latest')];
        const models = names.map((name) => ({ name, size: 1e9, capabilities: ['completion'], details: { context_length: 4096 } }));
        const streams = Array.from({ length: 50 }, (_, i) => ({ id: 's' + i, own: true, model: names[i % 6], state: ['loading', 'waiting', 'answering'][i % 3], age_seconds: i, prompt_tokens: i, tokens: i, tokens_per_second: 17.9, load_seconds: 2, queue_seconds: 3 }));
        const state = { status: 'ok', uptime_seconds: 850, warnings: [{ id: 'queue', about: names[3], text: 'x', values: { queued: 40, running: 10 } }], loads: [{ model: names[3], state: 'loading', bytes: 9, bytes_done: 3, files: 3, files_done: 1, file: names[3] }], streams,
          cards: [{ device: 'axcl:0', name: 'AX650N', temperature_celsius: 54, memory_bytes: 7e9, memory_free_bytes: 5e9, memory_of: 'card' }],
          models: names.slice(0, 6).map((name) => ({ name, device: 'axcl:0', running: 10, queued: 40, busy_seconds: Date.now() / 1500, passes: { decode: 1 }, memory: { layers: 1e8, total: 3e8 }, tiers: [{ name: 'card', rows: 2048, used: 912, hits: 380, in_bytes: 1, out_bytes: 0 }] })) };
        window.fetch = async (to, o) => { const p = new URL(to, location).pathname; return p === '/api/tags' ? reply({ models }) : p === '/api/axle/state' ? reply(state) : p === '/api/axle/bench' ? reply({ allowed: true }) : real(to, o); };
      })()` });
      await page.go(t.url + '/ui');
      await page.until('the models', `document.querySelectorAll('#model option').length === 504`);
      for (const [view, ready] of [['chat', 'true'], ['models', `document.querySelectorAll('li.model').length >= 504`], ['card', `document.querySelectorAll('.panel tbody tr').length >= 62 && document.querySelectorAll('.plots canvas').length > 3 && !!document.querySelector('.panel form select')`]]) {
        await page.run(`location.hash = '#/${view}'`);
        await page.until(view, ready);
        equal(`how much wider than the screen ${view} is`, await page.run('document.documentElement.scrollWidth') - page.wide, 0);
      }
      equal('a name with marks that turn', await page.run(`document.querySelectorAll('.panel tbody th')[1].textContent`), 'gnp.exe-model');
      await page.run(`location.hash = '#/models'`);
      await page.until('where one looks for a model', `!!document.querySelector('input.here')`);
      await page.run(`document.querySelector('input.here').focus()`);
      await page.type('model-49');
      await page.until('what was found', `document.querySelectorAll('section:first-of-type li.model').length === 11`);
      equal('what ran', await page.run('window.pwned ?? null'), null);
    }
  },

  // A browser that refuses to keep anything, and one that has no room: conversations go on, the page says so, and what has room again is kept.
  async room(t) {
    const page = await open(t);
    await choose(page, 'scripted-chat:latest');
    const warned = `document.querySelectorAll('.chats .warn').length`;
    const put = 'IDBObjectStore.prototype.put';
    await page.run(`window.put = ${put}; ${put} = function () { throw new DOMException('no room', 'QuotaExceededError'); }; 0`);
    equal('an answer without room', await asked(page, say(['said'])), 'said');
    await page.until('a word about it', `${warned} === 1`);
    await page.run(`location.hash = '#/models'`);
    await page.run(`document.querySelector('.chats li a').click()`);
    await page.until('it is held', `(${lastAnswer}) === 'said'`);
    await page.run(`${put} = window.put; 0`);
    await inPage(page, `const S = await use('store'); await S.dropChat(S.newChat().id);`);
    await page.until('no word about it', `${warned} === 0`);
    await page.reload();
    await page.until('it was kept after all', `(${lastAnswer}) === 'said'`);
    const refused = await t.context.page();
    await refused.send('Page.addScriptToEvaluateOnNewDocument', { source: `Object.defineProperty(window, 'indexedDB', { get() { throw new DOMException('no', 'SecurityError'); } })` });
    await refused.go(t.url + '/ui');
    await choose(refused, 'scripted-chat:latest');
    equal('an answer that is not kept', await asked(refused, say(['private'])), 'private');
    await refused.until('a word about it', `${warned} === 1 && document.querySelectorAll('.chats li').length === 1`);
  },

  // The models: what is here, loading, unloading, what one is, deleting with a question, two side by side.
  async models(t) {
    await fetch(t.url + '/api/copy', { method: 'POST', body: JSON.stringify({ source: 'scripted-chat', destination: 'to-go' }) });
    await fetch(t.url + '/api/generate', { method: 'POST', body: JSON.stringify({ model: 'scripted-vision', keep_alive: 0 }) }); // another test may have left it loaded
    const page = await open(t);
    await page.run(`location.hash = '#/models'`);
    const row = (name) => `[...document.querySelectorAll('li.model')].find((e) => e.querySelector('h3').textContent.includes(${JSON.stringify(name)}))`;
    await page.until('the models', `!!(${row('scripted-vision')})`);
    const press = (name, label) => page.run(`[...(${row(name)}).querySelectorAll('button')].find((b) => b.textContent.trim() === ${JSON.stringify(label)}).click()`);
    await press('scripted-vision', 'Load');
    await page.until('that it is loaded', `!!(${row('scripted-vision')}).querySelector('.tag.on')`);
    await press('scripted-vision', 'Unload');
    await page.until('that it is not', `!(${row('scripted-vision')}).querySelector('.tag.on')`);
    await page.run(`[...(${row('to-go')}).querySelectorAll('.does button')].pop().click()`);
    await page.click('dialog .danger');
    await page.until('that it is gone', `!(${row('to-go')})`);
    holds('the catalogue', await page.run(`document.body.textContent.includes('qwen3')`));
  },

  // The card: its figures, the cache as a map, one's own answer ended from there, and a benchmark.
  async card(t) {
    const page = await open(t);
    await choose(page, 'scripted-chat:latest');
    await ask(page, say(words(1500), 60));
    await page.until('a beginning', `(${lastAnswer}).includes('word3')`);
    await page.run(`location.hash = '#/card'`);
    await page.until('the temperature', `/°C/.test(document.querySelector('.tiles')?.textContent ?? '')`);
    await page.until('one that can be ended', `[...document.querySelectorAll('.panel td button')].length === 1`);
    await page.until('the map', `!!document.querySelector('.map canvas')?.width && /cells/i.test(document.querySelector('.map canvas').getAttribute('aria-label'))`);
    holds('every word is one', await page.run(`!/\\b(stream|load|plot|cells|mem|fits|bench)\\.[a-z]/.test(document.body.innerText)`));
    await page.until('plots', `document.querySelectorAll('.plots canvas').length >= 4`);
    await page.run(`document.querySelector('.panel td button').click()`);
    await page.run(`location.hash = '#/chat'`);
    await page.run(`document.querySelector('.chats li a').click()`);
    await page.until('that it was ended', `/ended by its owner/.test(document.querySelector('.turn.answer .failed')?.textContent ?? '')`);
    page.problems.splice(0); // the answer's error is told, not logged; what else there is counts below
    await page.run(`location.hash = '#/card'`);
    await page.until('the benchmark', `[...document.querySelectorAll('h2')].some((h) => h.textContent === 'Benchmark')`);
    await page.run(`[...document.querySelectorAll('.panel form button')].pop().click()`);
    await page.until('its results', `document.querySelectorAll('.result tbody tr').length >= 2`);
  },

  // Everything by keys: the list of them, the ways, the place to write; words in another language.
  async keyboard(t) {
    const page = await open(t);
    await page.until('where one writes', `!!document.querySelector('${at.text}')`);
    await page.run('document.activeElement.blur()');
    await page.key('?', { shift: true });
    await page.until('the list of keys', `!!document.querySelector('dialog .keys, dialog dl')`);
    await page.key('Escape');
    await page.until('its end', `!document.querySelector('dialog')`);
    for (const [key, hash] of [['m', '#/models'], ['d', '#/documents'], ['k', '#/card'], [',', '#/settings'], ['c', '#/chat']]) {
      await page.key(key);
      await page.until('the view of ' + key, `location.hash.startsWith('${hash}')`);
    }
    await page.key('/');
    await page.until('the place to write', `document.activeElement === document.querySelector('${at.text}')`);
    for (const [lang, word, theme] of [['de', 'Einstellungen', 'dark'], ['zh', '设置', 'light'], ['ja', '設定', 'dark'], ['ko', '설정', 'light'], ['en', 'Settings', '']]) {
      await inPage(page, `(await use('settings')).set({ lang: '${lang}', theme: '${theme}' });`);
      await page.until('the words of ' + lang, `document.documentElement.lang.startsWith('${lang}') && document.querySelector('.ways').textContent.includes('${word}')`);
      equal('the theme', await page.run(`document.documentElement.dataset.theme ?? ''`), theme);
    }
  },

  // A fetch says at once that it connects, and in words what kept it from it; its buttons are whole on a phone.
  async unreached(t) {
    const page = await open(t, { wide: 390, high: 844, phone: true });
    await page.send('Fetch.enable', { patterns: [{ urlPattern: '*/api/pull', requestStage: 'Request' }] });
    let paused = null;
    page.intercept = (p) => { paused = p; };
    await page.run(`location.hash = '#/models'`);
    await inPage(page, `(await use('pulls')).pull('qwen3:0.6b'); return 0;`);
    await page.until('that it connects', `/qwen3:0.6b: connecting/.test(document.querySelector('.pulls')?.textContent ?? '')`);
    for (let i = 0; !paused && i < 200; i++) await pause(20);
    const body = '{"status":"pulling manifest"}\n{"error":"models: AXERA-TECH/Qwen3-0.6B from huggingface.co: there is no network, or no DNS server that knows huggingface.co; check the network of this machine; where the hub is blocked, as in China, start the server with HF_ENDPOINT=https://hf-mirror.com"}\n';
    await page.send('Fetch.fulfillRequest', { requestId: paused.requestId, responseCode: 200, responseHeaders: [{ name: 'Content-Type', value: 'application/x-ndjson' }], body: Buffer.from(body).toString('base64') });
    await page.until('what went wrong', `/The hub could not be reached/.test(document.querySelector('.pulls .failed')?.textContent ?? '')`);
    holds('a button is a column of letters', await page.run(`(() => { const b = [...document.querySelectorAll('.pulls .failed button')].find((e) => e.textContent === 'Try again'), r = b.getBoundingClientRect(); return r.width > 60 && r.height < 60; })()`));
    equal('how much wider than the screen it is', await page.run('document.documentElement.scrollWidth') - page.wide, 0);
  },

  // The line above says how quick the answer is that runs, one's own before others', and nothing where none runs. A benchmark's table is no
  // wider than what it stands in.
  async figures(t) {
    const state = await (await fetch(t.url + '/api/axle/state')).json();
    const stream = { id: '1', model: 'scripted-chat:latest', route: '/api/chat', state: 'answering', age_seconds: 3, prompt_tokens: 5, cached_tokens: 0, tokens: 9, load_seconds: 0, queue_seconds: 0 };
    for (const [streams, want] of [[[{ ...stream, own: true, tokens_per_second: 12.5 }, { ...stream, id: '2', own: false, tokens_per_second: 50 }], /^12\.5 tokens/],
      [[{ ...stream, own: false, tokens_per_second: 50 }], /^50\.0 tokens/], [[], /^(?!.*tokens)/]]) {
      const page = await t.context.page();
      await page.answers('*/api/axle/state', () => JSON.stringify({ ...state, tokens_per_second: 999, streams }));
      await page.go(t.url + '/ui');
      await page.until('the figure of ' + streams.length, `${want}.test(document.querySelector('.status span')?.textContent ?? '')`);
      await page.close();
    }
    const thought = await open(t), sent = [];
    thought.seen = (q) => { if (q.url.endsWith('/api/chat')) sent.push(q.headers['X-Session-Id']); };
    await choose(thought, 'scripted-chat:latest');
    await thought.answers('*/api/chat', () => '{"message":{"role":"assistant","thinking":"hm","content":"yes"},"done":false}\n{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n');
    await asked(thought, 'quick');
    await asked(thought, 'again', 2);
    await thought.click('.new');
    await thought.until('an empty conversation', `document.querySelectorAll('${at.turns}').length === 0`);
    await asked(thought, 'another');
    holds('the names of conversations: ' + sent, sent.length === 3 && /^[0-9a-f]{32}$/.test(sent[0]) && sent[1] === sent[0] && sent[2] !== sent[0]);
    equal('how long it thought', await thought.run(`document.querySelector('.thinking summary').textContent`), 'Thought briefly');
    const cases = [['1', 1], ['2', 4], ['3', 8]].map(([load, clients]) => ({ load, prompt_tokens: 1512, output_tokens: 1256, clients, decode_tps: 1024.5, prefill_tps: 11024, first_token_ms: 12345, token_p50_ms: 1234.5, token_p95_ms: 1234.5, token_p99_ms: 1234.5, busy_percent: 100 }));
    const last = { when: '2026-01-01T00:00:00Z', cases: cases.map((c) => ({ ...c, decode_tps: 900, prefill_tps: 9000, first_token_ms: 9000, token_p50_ms: 999, token_p95_ms: 999, token_p99_ms: 999 })) };
    for (const wide of [1279, 1100, 1024, 800, 390]) {
      const page = await t.context.page({ wide, phone: wide < 500 });
      await page.answers('*/api/axle/bench', () => JSON.stringify({ allowed: true, results: [{ model: 'scripted-chat:latest', when: '2026-02-01T00:00:00Z', device: 'soft', cases, last }] }));
      await page.go(t.url + '/ui#/card');
      await page.until('the table', `document.querySelectorAll('.result tbody td').length === 21`);
      equal(`how much wider the table is at ${wide}`, await page.run(`(() => { const e = document.querySelector('.result .table'); return e.scrollWidth - e.clientWidth; })()`), 0);
      await page.close();
    }
  },

  // A phone: no view is wider than the screen, Enter makes a line, and the button sends.
  async phone(t) {
    const page = await open(t, { wide: 390, high: 844, phone: true });
    await choose(page, 'scripted-chat:latest');
    await page.run(`document.querySelector('${at.text}').focus()`);
    await page.type('one');
    await page.key('Enter');
    await page.type(say(['ok']));
    holds('Enter made a line', (await page.run(`document.querySelector('${at.text}').value`)).includes('\n'));
    await page.click(at.send);
    await page.until('the answer', `(${lastAnswer}) === 'ok'`);
    await page.click('.bar .menu');
    await page.until('the drawer', `!!document.querySelector('.side.open')`);
    await page.key('Escape');
    await page.until('that Escape closes the drawer', `!document.querySelector('.side.open') && document.activeElement === document.querySelector('.bar .menu')`);
    for (const view of ['chat', 'models', 'documents', 'card', 'settings']) {
      await page.run(`location.hash = '#/${view}'`);
      await page.until(view, `location.hash === '#/${view}' && !!document.querySelector('main .page, main .welcome, main .thread')`);
      await pause(300);
      equal('how much wider than the screen ' + view + ' is', await page.run('document.documentElement.scrollWidth') - page.wide, 0); // innerWidth grows with what is too wide
    }
  },
};

// hostileTexts is Markdown that means harm.
export function hostileTexts() {
  const evil = 'https://evil.invalid/';
  return [
    `<script>window.pwned=1</script>\n\n<img src="${evil}a.png" onerror="window.pwned=2">\n\n<svg onload="window.pwned=3"><use href="${evil}b.svg#x"/></svg>\n\n<iframe src="${evil}"></iframe><object data="${evil}c"></object><embed src="${evil}d">` +
      `\n\n<style>@import "${evil}e.css"; body { background: url(${evil}f.png) }</style>\n<link rel="stylesheet" href="${evil}g.css"><base href="${evil}"><meta http-equiv="refresh" content="0;url=${evil}h">\n<form action="${evil}i"><button>x</button></form>`,
    `[a](javascript:window.pwned=4) [b](data:text/html,<script>parent.pwned=5</script>) [c](vbscript:x) [d](JaVaScRiPt&#58;window.pwned=8) [e](&#x6A;avascript:window.pwned=9) <javascript:window.pwned=10>\n\n` +
      `![x](${evil}j.png) ![y](//evil.invalid/k.png) ![z](data:image/svg+xml,<svg onload="window.pwned=11"/>) <a href="javascript:window.pwned=12" onclick="window.pwned=13">k</a> <video src="${evil}l" autoplay></video> <audio src="${evil}m"></audio>`,
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=window.pwned=14&gt;">\n\n<noscript><p title="</noscript><img src=x onerror=window.pwned=15>">\n\n<svg><style><img src=x onerror=window.pwned=16></style></svg>',
    Array.from({ length: 400 }, (_, i) => (i === 1 ? '|' + '-|'.repeat(40) : '|' + `c${i}|`.repeat(40))).join('\n'),
    '> '.repeat(400) + 'deep\n\n' + '- '.repeat(300) + 'deep\n\n' + '*'.repeat(5000) + 'x' + '*'.repeat(5000) + '\n\n' + '['.repeat(3000) + 'x' + ']('.repeat(3000),
    Array.from({ length: 10000 }, (_, i) => `![i](${evil}${i}.png)`).join(' '),
    '```html\n<script>window.pwned=17</script>\n```\n\n```"><img src=x onerror=window.pwned=18>\ncode\n```\n\n`<img src=x onerror=window.pwned=19>`\n\n<div id="app"></div><div id="text" class="turn"></div><a id="send"></a><input name="body">',
  ];
}

// dearTexts is Markdown and code that takes a reader long: signs that open what nothing closes, and code that a grammar goes over again and again.
export function dearTexts() {
  const of = (unit, n) => unit.repeat(Math.ceil(n / unit.length)).slice(0, n);
  const texts = Object.fromEntries(['**a*b_', '*a_', '__a', '***a', '![', '[a](<', '~~a~', '`a', '<a b="', '<a ', '$;](>}', 'http://-*', 'a@b.', '> ', '- ', '- a\n', '1. a\n\n', '[a]: b\n', 'a\n', '# a\n', '<!--', ' '].map((u) => [JSON.stringify(u), 'a' + of(u, 11900) + '.']));
  for (const u of ['- a **b** c\n', '|a|b|c|\n', '**a*b_\n\n', '- **a*b_', '`a` ', 'a b\n\n', '```go\nx\n```\n']) texts[JSON.stringify(u) + ', 60 kB'] = u === '|a|b|c|\n' ? of(u + '|-|-|-|\n', 18) + of(u, 60000) : of(u, 60000);
  for (const lang of ['js', 'cpp', 'bash', 'sql', 'php', 'xml', 'css', 'yaml', 'json', 'py', '']) for (const u of ['a', '<a', '({[']) texts[`${lang || 'no language'}, ${u}`] = '```' + lang + '\n' + of(u, 39000) + '\n```\n';
  return texts;
}

async function clickLinks(page) {
  await page.run(`for (const a of document.querySelectorAll('.md a')) { a.addEventListener('click', (e) => { if (/^https?:/.test(a.href)) e.preventDefault(); }); a.click(); }`);
}

// noHarm: nothing ran, nothing was fetched from elsewhere, no markup that could do either is in the page.
async function noHarm(page, url) {
  await pause(200);
  equal('what ran', await page.run('window.pwned ?? null'), null);
  equal('dialogs', page.dialogs, []);
  equal('what was fetched elsewhere', [...new Set(page.requests.filter((u) => !u.startsWith(url + '/') && !u.startsWith('data:') && !u.startsWith('blob:')))], []);
  equal('markup that could act', await page.run(`[...document.querySelectorAll('.md *, .chats *')].filter((e) => /^(script|style|link|base|meta|iframe|object|embed|form|video|audio|svg|math)$/i.test(e.localName) && !e.closest('button, summary, .code .head, .note, .acts') ||
    [...e.attributes].some((a) => /^on/i.test(a.name) || /^\\s*(javascript|vbscript|data:text)/i.test(a.value))).map((e) => e.outerHTML.slice(0, 200))`), []);
  equal('pictures that point elsewhere', await page.run(`[...document.querySelectorAll('.md img')].filter((i) => !/^(data|blob):/.test(i.src)).length`), 0);
  equal('links that could act', await page.run(`[...document.querySelectorAll('.md a[href]')].filter((a) => !/^(https?|mailto):/.test(a.protocol)).map((a) => a.href)`), []);
  holds('the page is still the page', await page.run(`document.querySelectorAll('#app').length === 1 && document.querySelector('#text').localName === 'textarea'`));
}

// pocket is the main path over the product itself: the model that ships inside, on the software card.
export async function pocket(t) {
  const page = await open(t);
  await choose(page, 'pocket:latest');
  const answer = await asked(page, 'hello');
  holds('pocket said something', answer.trim().length > 0);
  await page.run(`location.hash = '#/card'`);
  await page.until('what it runs on', `/no card|processor/i.test(document.querySelector('.head')?.textContent ?? '')`);
  await page.until('the map', `!!document.querySelector('.map canvas')?.width`);
  await page.until('memory by model', `/pocket/.test(document.querySelector('.stack')?.getAttribute('aria-label') ?? '')`);
  await page.run(`location.hash = '#/models'`);
  await page.until('that it is loaded', `[...document.querySelectorAll('li.model')].some((e) => e.querySelector('h3').textContent.includes('pocket') && e.querySelector('.tag.on'))`);
}

// pull fetches a model with progress, through a reload of the page in the middle, and goes on from what had come.
export async function pull({ context }) {
  const hub = await new Hub('models/pocket/pocket').start();
  const server = await new Server(product, { env: { HF_ENDPOINT: hub.url, HF_TOKEN: '' } }).start();
  try {
    const page = await context.page();
    await page.go(server.url + '/ui#/models');
    const part = `Number(document.querySelector('.pulls progress')?.getAttribute('value') ?? 0)`;
    await page.until('where a name is written', `!!document.querySelector('.fetch input')`);
    await page.run(`document.querySelector('.fetch input').focus()`);
    await page.type('axle/shipped');
    await page.key('Enter');
    await page.until('some of it', `${part} > 0.4`);
    await page.reload();
    await page.until('that it goes on', `${part} > 0.4`);
    hub.go();
    await page.until('the model', `[...document.querySelectorAll('li.model h3')].some((e) => e.textContent.includes('shipped'))`);
    equal('what had come was not asked for again', hub.ranges.every((n) => n > 0) && hub.ranges.length > 0, true);
  } finally {
    hub.end();
    await server.end();
  }
}

// pictures keeps a screenshot of each view in light, dark and on a phone, over the product at work: three conversations that begin alike.
export async function pictures(t, out) {
  const chat = [['user', 'Write a function that reverses a string in Go, and say what it costs.'], ['assistant', 'Reverse the **runes**, not the bytes:\n\n```go\nfunc reverse(s string) string {\n\tr := []rune(s)\n\tslices.Reverse(r)\n\treturn string(r)\n}\n```\n\n| step | cost |\n|---|---|\n| to runes | O(n), one allocation |\n| reverse | O(n) |\n| to a string | O(n), another |\n\nSo it is *linear*, and takes four bytes for each character while it runs.'], ['user', 'And in place?'], ['assistant', 'A Go string cannot be changed: what is reversed **in place** is a slice. Keep `[]rune` where you go on working with it.']];
  let over = false;
  const busy = [0, 1, 2].map(async (i) => {
    for (let n = 0; !over; n++) {
      const messages = [{ role: 'system', content: 'You tell stories to children, short and kind ones, in plain words. '.repeat(2) }, { role: 'user', content: `Tell story ${n} of ${['the fox', 'the boat', 'the lamp'][i]}` }];
      await fetch(t.url + '/api/chat', { method: 'POST', body: JSON.stringify({ model: 'pocket', messages, stream: false, options: { num_predict: 40 + 30 * i, temperature: 0.8 } }) }).then((r) => r.text()).catch(() => {});
      await pause(700 * (i + 1));
    }
  });
  for (const [name, o] of [['light', {}], ['dark', { dark: true }], ['phone', { wide: 390, high: 844, phone: true }]]) {
    const context = await t.browser.context();
    const page = await context.page({ wide: 1280, high: 800, ...o });
    await page.go(t.url + '/ui');
    await keepChat(page, [['user', 'Which mushrooms can be eaten raw?'], ['assistant', 'Few.']], 'Mushrooms', 'pocket:latest');
    await keepChat(page, chat, 'Reversing strings', 'pocket:latest');
    await page.until('colours', `!!document.querySelector('.code pre span span')`);
    await pause(500);
    await page.shot(join(out, `chat-${name}.png`));
    for (const [view, ready] of [['card', `document.querySelectorAll('.plots canvas').length >= 3 && !!document.querySelector('.map canvas')`], ['models', `document.querySelectorAll('li.model').length > 3`], ['settings', `!!document.querySelector('main .page')`]]) {
      await page.run(`location.hash = '#/${view}'`);
      await page.until(view, ready);
      await pause(view === 'card' ? 20000 : 500);
      await page.shot(join(out, `${view}-${name}.png`));
      if (view !== 'card') continue;
      await page.run(`(() => { const m = document.querySelector('.map'); let s = m; while (s && !(s.scrollHeight > s.clientHeight && /auto|scroll/.test(getComputedStyle(s).overflowY))) s = s.parentElement; s.scrollTop += m.getBoundingClientRect().top - 240; })()`);
      await pause(500);
      await page.shot(join(out, `cells-${name}.png`));
    }
    await context.end();
  }
  over = true;
  await Promise.all(busy);
}
