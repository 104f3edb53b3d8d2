// Formulas in answers: what is shown while one comes and after, what is copied, what stands on a narrow page, and that nothing moves that is done.
import { asked, at, choose, equal, holds, inPage, keepChat } from './views.mjs';

const text = 'Let $x_1$ be \\(\\frac{a}{b}\\), which costs $5 to $6.\n\n$$\n\\begin{aligned}\na &= b \\\\\n- c &= d\n\\end{aligned}\n$$\n\nBad: \\(\\bogus{x}\\) and $\\href{javascript:alert(1)}{x}$.\n\n'
  + '$$\\sum_{i=1}^{n} i^2 = \\frac{n(n+1)(2n+1)}{6} + \\int_0^\\infty e^{-x^2}\\,dx + \\prod_{k=1}^{m} \\left(1 + \\frac{1}{k^2}\\right) + \\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix} + \\cancel{y}\\boxed{z}$$\n\n'
  + '1. first $\\sqrt[3]{2}$\n2. second \\(\\vec{v}\\cdot\\hat{n}\\)\n\n```mermaid\ngraph TD; A-->B;\n```\n\nThe end.';

export const formulas = {
  // What is written comes in pieces, cut anywhere: a formula appears when it is closed, once, and what is done is not drawn again.
  async formulas({ context, url }) {
    const page = await context.page();
    await page.go(url + '/ui');
    holds('temml is loaded before there is a formula', !page.requests.some((r) => /temml/.test(r)));
    const said = await inPage(page, `
      const { Flow } = await use('markdown');
      const box = document.body.appendChild(document.createElement('div'));
      box.className = 'md';
      const text = ${JSON.stringify(text)}, states = [];
      const flow = new Flow(box);
      flow.set('$a$', true); // the typesetter comes
      for (let i = 0; i < 400 && !box.querySelector('math'); i++) await new Promise((ok) => setTimeout(ok, 25));
      if (!box.querySelector('math')) return 'the typesetter never came';
      let lost = 0, redrawn = 0;
      const seen = new MutationObserver((list) => { for (const m of list) for (const n of m.removedNodes) {
        if (n.nodeType === 1 && (n.matches('.maths:not(.source)') || n.querySelector('.maths:not(.source)')) && !n.isConnected) lost++; } });
      flow.set('', false);
      box.replaceChildren();
      flow.reset();
      seen.observe(box, { childList: true, subtree: true });
      const first = new Map();
      for (let n = 0; n <= text.length; n += 3) {
        flow.due = 0;
        flow.set(text.slice(0, n), false);
        for (const [i, b] of [...box.children].slice(0, -1).entries()) {
          if (first.has(i) && first.get(i) !== b) redrawn++;
          first.set(i, b);
        }
        const tail = box.lastElementChild;
        if (n % 3 === 0 && tail?.querySelector('em')) states.push(text.slice(Math.max(0, n - 20), n));
      }
      flow.set(text, true);
      await flow.all();
      for (const m of seen.takeRecords()) for (const x of m.removedNodes) if (x.nodeType === 1 && x.matches?.('.maths:not(.source)') && !x.isConnected) lost++;
      seen.disconnect();
      const streamed = box.innerHTML;
      const other = document.body.appendChild(document.createElement('div'));
      other.className = 'md';
      const whole = new Flow(other);
      whole.set(text, true);
      await whole.all();
      const same = [...box.children].length === [...other.children].length && [...box.children].every((b, i) => b.isEqualNode(other.children[i]));
      const out = { lost, redrawn, states, same, maths: box.querySelectorAll('math').length, sources: [...box.querySelectorAll('.maths.source')].map((e) => e.textContent),
        styled: box.querySelectorAll('[style]').length, links: box.querySelectorAll('a, script, img').length, strange: [...box.querySelectorAll('math *')].filter((e) => !/MathML/.test(e.namespaceURI)).length };
      other.remove();
      const range = document.createRange();
      range.selectNodeContents(box);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      const copied = () => { // Firefox makes the data itself
        const e = new ClipboardEvent('copy', { clipboardData: new DataTransfer(), dataType: 'text/plain', data: '', bubbles: true, cancelable: true });
        box.dispatchEvent(e);
        return e.clipboardData.getData('text/plain');
      };
      out.copied = copied();
      // one end within a formula
      range.setStart(box.querySelector('math mi').firstChild, 0);
      range.setEnd(box.querySelector('mfrac mi').firstChild, 1);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      out.part = copied();
      box.remove();
      return out;`);
    equal('the typesetter', typeof said, 'object');
    equal('formulas that were drawn and taken away again', said.lost, 0);
    equal('blocks that were drawn anew', said.redrawn, 0);
    equal('text that was slanted for a moment', said.states, []);
    holds('what came in pieces is not what comes whole', said.same);
    equal('formulas', said.maths, 6);
    equal('what is shown as its source', said.sources, ['\\(\\bogus{x}\\)', '$\\href{javascript:alert(1)}{x}$']);
    equal('style attributes, links, elements of another kind', [said.styled, said.links, said.strange], [0, 0, 0]);
    for (const want of ['Let $x_1$ be \\(\\frac{a}{b}\\), which costs $5 to $6.', '\\begin{aligned}', '\\sqrt[3]{2}', 'graph TD; A-->B;']) holds(`copied without ${want}: ${said.copied}`, said.copied.includes(want));
    equal('a part that is copied', said.part, '$x_1$ be \\(\\frac{a}{b}\\)');
    holds('temml is not loaded', page.requests.some((r) => /temml/.test(r)));
  },

  // In a conversation, wide and narrow: formulas of answers that were kept, of one that comes; nothing stands beyond the page's edge.
  async 'formulas-seen'({ context, url, lane }) {
    for (const phone of [false, true]) for (const dark of [false, true]) {
      const page = await context.page(phone ? { phone, dark, wide: 390, high: 844 } : { dark });
      await page.go(url + '/ui');
      await choose(page, 'scripted-chat:latest');
      await keepChat(page, [['user', 'Formulas?'], ['assistant', text]]);
      await page.until('formulas', `document.querySelectorAll('.md math').length === 6`);
      await page.until('the note beside a drawing', `/text/.test(document.querySelector('.code .note')?.textContent ?? '')`);
      holds('a formula has no size', await page.run(`[...document.querySelectorAll('.md math')].every((m) => m.getBoundingClientRect().height > 5)`));
      holds('the page is wider than it may be', await page.run(`document.documentElement.scrollWidth <= innerWidth && document.querySelector('.scroll').scrollWidth <= document.querySelector('.scroll').clientWidth`));
      holds('what has no room cannot be reached by keys', await page.run(`[...document.querySelectorAll('.maths')].every((m) => m.scrollWidth <= m.clientWidth + 1 || getComputedStyle(m).overflowX !== 'auto' || m.tabIndex === 0)`));
      if (lane === 'whole') await page.shot(`build/ui/formulas-${phone ? 'phone' : 'wide'}-${dark ? 'dark' : 'light'}.png`);
      if (!phone && !dark) {
        const n = await page.run(`document.querySelectorAll('${at.answers}').length`);
        await asked(page, '[[say:It is |\\(a|^2 + b^2|\\)| or |$$c|^2$$|.]]', n + 1);
        await page.until('the formulas of an answer that came', `[...document.querySelectorAll('${at.said}')].pop().querySelectorAll('math').length === 2`);
      }
      await page.close();
    }
  },
};
