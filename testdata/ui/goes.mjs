// Going on with an answer that was stopped, cut or lost in a reload, and editing a model's words; and how full the context is.
import { ask, asked, at, choose, equal, holds, inPage, lastAnswer } from './views.mjs';

const say = (tokens, delay = 0) => `[[delay:${delay}]][[say:${tokens.join('|')}]]`;
const words = (n) => Array.from({ length: n }, (_, i) => `word${i} `);

async function open({ context, url }, o) {
  const page = await context.page(o);
  await page.go(url + '/ui');
  page.sent = [];
  page.seen = (r) => { if (r.url.endsWith('/api/chat')) page.sent.push(JSON.parse(r.postData)); };
  return page;
}

const last = (page) => page.sent[page.sent.length - 1].messages.at(-1);
const said = `[...document.querySelectorAll('${at.answers}')].pop()`;

// goesOn clicks what lets the model go on, and waits for the end. The scripted model says all of its words again.
async function goesOn(page) {
  const n = page.sent.length;
  await page.click('.go-on');
  await page.until('the rest', `${at.idle} && !document.querySelector('.go-on')`, `(${lastAnswer}).length`);
  equal('requests for it', page.sent.length, n + 1);
}

export const goes = {
  // What was stopped, cut at a number of tokens, or lost in a reload goes on from its last word, in its place, and without a new thought.
  async goes(t) {
    const page = await open(t);
    await choose(page, 'scripted-chat:latest');
    const all = words(30).join('').trim();
    await ask(page, say(words(30), 40));
    await page.until('a beginning', `(${lastAnswer}).includes('word5')`);
    await page.click(at.send);
    await page.until('that it can go on', `!!document.querySelector('.go-on') && ${at.idle}`);
    const part = await page.run(lastAnswer);
    holds('a part of it', part.length < all.length);
    await goesOn(page);
    equal('what the model goes on from', last(page), { role: 'assistant', content: part });
    equal('the whole', await page.run(lastAnswer), part + all);
    equal('answers', await page.run(`document.querySelectorAll('${at.answers}').length`), 1);

    const anew = async () => { // the scripted model does what any question of a conversation says
      await page.run(`location.hash = '#/chat'`);
      await page.click('.new');
      await page.until('an empty conversation', `document.querySelectorAll('${at.turns}').length === 0`);
    };
    await anew();
    await ask(page, 'Why is the sky blue? [[delay:12]]');
    await page.until('words after a thought', `(${lastAnswer}).includes('The sky') && ${at.busy}`);
    await page.click(at.send);
    await page.until('that it can go on', `!!document.querySelector('.go-on') && ${at.idle}`);
    await goesOn(page);
    holds('the thought goes with it', /about light/.test(last(page).thinking) && last(page).role === 'assistant');
    equal('thoughts', await page.run(`${said}.querySelectorAll('.thinking').length + ' ' + /<think>/.test(${lastAnswer})`), '1 false');

    await anew();
    await inPage(page, `const it = await use('open'); await it.change({ options: { num_predict: 3 } });`);
    equal('what was cut', await asked(page, say(['a', ' b', ' c', ' d'])), 'a b c');
    holds('that it was cut is told', await page.run(`/limit/.test(${said}.textContent)`));
    await page.click('.go-on');
    await page.until('what follows, which is cut too', `(${lastAnswer}) === 'a b ca b c' && ${at.idle} && !!document.querySelector('.go-on')`);
    equal('tokens of both', await page.run(`/6 tokens/.test(${said}.querySelector('.facts').textContent)`), true);
    await inPage(page, `const it = await use('open'); await it.change({ options: {} });`);

    await ask(page, say(words(60), 25));
    await page.until('some of it', `(${lastAnswer}).includes('word40')`, `(${lastAnswer}).length`);
    await page.reload();
    await page.until('that it can go on after a reload', `(${lastAnswer}).includes('word9') && [...document.querySelectorAll('.go-on')].length === 2`);
    const lost = await page.run(lastAnswer);
    await page.run(`${said}.querySelector('.go-on').click()`);
    await page.until('the rest of what was lost', `(${lastAnswer}) === ${JSON.stringify(lost + words(60).join('').trim())} && ${at.idle}`, `(${lastAnswer}).length`);
    await page.reload();
    await page.until('the whole after a reload', `(${lastAnswer}) === ${JSON.stringify(lost + words(60).join('').trim())}`);

    // An answer that turns follow goes on beside itself, and what followed stays with the first.
    await page.run(`document.querySelector('.go-on').click()`);
    await page.until('another version', `document.querySelectorAll('${at.turns}').length === 2 && ${at.idle} && (${lastAnswer}) === 'a b ca b ca b c d'`);
    await page.run(`${said}.querySelector('.beside button').click()`);
    await page.until('the first version and what followed', `document.querySelectorAll('${at.turns}').length === 4`);
  },

  // A model's words are edited and kept, beside its own, or gone on from; what is asked next follows them.
  async rewrites(t) {
    for (const o of [{}, { wide: 390, high: 800, phone: true, dark: true }]) {
      const page = await open(t, o);
      await inPage(page, `const it = await use('open'); await it.go(null);`);
      await choose(page, 'scripted-chat:latest');
      await asked(page, say(['It', ' is', ' red.']));
      const edit = async (text) => {
        await page.click('.turn.answer:last-child .rewrite');
        await page.until('the words to edit', `document.activeElement.closest('.turn.answer.editing') !== null`);
        await page.run(`document.activeElement.select()`);
        await page.type(text);
      };
      await edit('It is blue.');
      holds('the page is as wide as the screen', await page.run('document.documentElement.scrollWidth <= innerWidth'));
      await page.click('.turn.editing .keep');
      await page.until('the words that were kept', `(${lastAnswer}) === 'It is blue.' && /2\\s*\\/\\s*2/.test(${said}.querySelector('.beside')?.textContent ?? '')`);
      holds('that they are edited', await page.run(`/edited/.test(${said}.querySelector('.facts').textContent)`));
      equal('requests for words that were kept', page.sent.length, 1);
      await edit('It is');
      await page.click('.turn.editing .primary');
      await page.until('what the model makes of it', `(${lastAnswer}) === 'It isIt is red.' && ${at.idle}`);
      equal('what it goes on from', last(page), { role: 'assistant', content: 'It is' });
      await page.run(`${said}.querySelector('.beside button').click()`);
      await page.until('the version before', `(${lastAnswer}) === 'It is blue.'`);
      equal('the next answer', await asked(page, say(['Yes']), 2), 'Yes');
      equal('what it was asked behind', page.sent.at(-1).messages[1], { role: 'assistant', content: 'It is blue.' });
      await page.click('.turn.answer:last-child .rewrite');
      await page.until('the words to edit', `document.activeElement.closest('.turn.answer.editing') !== null`);
      await page.key('Escape');
      await page.until('the words as they were', `(${lastAnswer}) === 'Yes' && !document.querySelector('.editing')`);
      await page.close();
    }
  },

  // How full the context is follows what the server counts, and what is said to go first is what the server cuts, before it does.
  async fills(t) {
    for (const o of [{}, { wide: 390, high: 800, phone: true }]) {
      const page = await open(t, o);
      await inPage(page, `const it = await use('open'); await it.go(null); await it.change({ options: { num_ctx: 100 } });`);
      await choose(page, 'scripted-chat:latest');
      const full = `document.querySelector('.room progress')`;
      const cut = `!!${said}.querySelector('.note.cut')`;
      equal('a bar where nothing was said', await page.run(`!!${full}`), false);
      for (let n = 1, warned = false; ; n++) {
        await asked(page, `Question ${n} ${say(words(15))}`, n);
        await page.until('the bar', `!!${full}`);
        if (await page.run(cut)) {
          holds('what was cut was said before', warned);
          break;
        }
        holds('it fits for long', n < 10);
        const { prompt, output, used } = await inPage(page, `const it = await use('open'); return it.open.get().path.at(-1).stats;`);
        equal('what is used', used, prompt + output);
        equal('what the bar shows', await page.run(`[${full}.max, ${full}.value]`), [100, Math.min(100, used)]);
        await page.run(`document.querySelector('${at.text}').focus()`);
        await page.type(`Question ${n + 1} ${say(words(15))}`);
        await page.until('more with what is typed', `${full}.value > ${used} || ${full}.value === 100`);
        warned = await page.run(`/left out/.test(document.querySelector('.composer .note.cut')?.textContent ?? '')`);
        if (warned) holds('which turn goes', await page.run(`/“(Question 1|word0 word1)/.test(document.querySelector('.composer .note.cut').textContent)`));
        await page.run(`document.querySelector('${at.text}').select(); document.execCommand('delete')`);
      }
      holds('the page is as wide as the screen', await page.run('document.documentElement.scrollWidth <= innerWidth'));
      await page.close();
    }
  },
};
