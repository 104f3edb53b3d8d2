// What of a text is a formula, what it becomes, and how much work it may be. TestFormulas of server/ui runs it, without a browser.
const exec = RegExp.prototype.exec;
let asked = 0;
RegExp.prototype.exec = function (s) { asked++; return exec.call(this, s); };
const { blocks, html, typesetting } = await import('./app/marking.js');
const { mathml, mostElements } = await import('./app/formula.js');
typesetting(mathml);
let bad = 0;
const say = (...what) => { bad++; console.log(...what.map((w) => (typeof w === 'string' ? w : JSON.stringify(w)))); };

// drawn is all of a text, block by block; found its formulas' sources, those shown as their source begin with a !.
const drawn = (text, grows) => blocks(text, grows).tokens.map((x) => html(x.type, x.raw, {}, grows)).join('');
const undo = (s) => s.replace(/&#(\d+);/g, (_, n) => String.fromCharCode(n));
const found = (made) => [...made.matchAll(/<span class="maths([^"]*)" data-tex="([^"]*)">/g)].map((m) => (m[1].includes('source') ? '!' : '') + undo(m[2]));

const texts = [
  ['so \\(a_b*c*d\\) is', ['\\(a_b*c*d\\)']], ['\\[ x^2 \\]', ['\\[ x^2 \\]']], ['$$\nx = 1\n$$', ['$$\nx = 1\n$$']], ['in $$x^2$$ text', ['$$x^2$$']],
  ['Let $x$, $y_1$ and $2x+1=5$.', ['$x$', '$y_1$', '$2x+1=5$']], ['$n$-th and ($a$)', ['$n$', '$a$']], ['其中$x$是，$y$', ['$x$', '$y$']],
  // lists, headings, quotes and rules are none inside
  ['$$\na\n- b\n= c\n> d\n# e\n$$\n\nend', ['!$$\na\n- b\n= c\n> d\n# e\n$$']], ['\\[\na\n= b\n- c\n\\]', ['\\[\na\n= b\n- c\n\\]']],
  ['1. one:\n   \\[\n   x\n   - y\n   \\]\n2. two $z$', ['\\[\nx\n- y\n\\]', '$z$']], ['> \\(q\\)', ['\\(q\\)']], ['|a|b|\n|-|-|\n|$x$|2|', ['$x$']], ['text\n$$\nx\n$$\nmore', ['$$\nx\n$$']],
  // prices, shells and words
  ['It costs $5 or $10, 5$ or 10$.', []], ['from $5 to $6', []], ['$5-$10', []], ['US$ and A$ are', []], ['$AAPL, $MSFT', []], ['$HOME/bin:$PATH', []], ['$1,000 (US$) b', []], ['$5 and 10$ x', []],
  ['`$x$` and ``\\(y\\)``', []], ['```\n$x$\n```', []], ['\\[1\\] and \\[see there\\](x)', []], ['\\$x\\$', []], ['$ x $', []], ['$$', []], ['$$ is much', []], ['a $', []],
  // what is no TeX, or not allowed, is its source
  ['\\(\\bogus\\)', ['!\\(\\bogus\\)']], ['\\(\\frac{a\\)', ['!\\(\\frac{a\\)']], ['$\\href{javascript:alert(1)}{x}$', ['!$\\href{javascript:alert(1)}{x}$']],
  ['$\\def\\a{x}\\a$', ['!$\\def\\a{x}\\a$']], ['$\\style{color:red}{x}$', ['!$\\style{color:red}{x}$']], ['$x^{<img src=x>}$', ['$x^{<img src=x>}$']],
];
for (const [text, want] of texts) {
  const made = drawn(text, false);
  if (JSON.stringify(found(made)) !== JSON.stringify(want)) say(text, 'has', found(made), 'not', want);
  if (/ style=| on\w+=|<img|<a /.test(made)) say(text, 'becomes', made);
}
// What markup there may be is what the sanitiser lets through; every style became a class or nothing.
for (const tex of ['\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}', '\\begin{array}{c|c}a&b\\\\\\hline c&d\\end{array}', '\\color{red}z\\boxed{y}\\cancel{x}\\vec a\\hat b\\!c', '\\begin{aligned}a&=b\\\\&=c\\end{aligned}',
  '\\sum_{i=1}^n i \\tag{1}', '\\begin{cases}1&x\\\\2&y\\end{cases}', '\\overbrace{a+b}^{n}\\underline{x}\\overrightarrow{AB}\\pmb{x}\\sout{a}', '\\raisebox{3pt}{a}\\smash{b}\\rlap{c}\\phantom{d}\\mathbb R\\mathcal L\\operatorname{f}']) {
  const made = mathml(`$$${tex}$$`);
  if (!made) say(tex, 'is not read');
  else if (/ style=| src=| href=/.test(made.markup)) say(tex, made.markup);
}
if (!/class="[^"]*f-right/.test(mathml('$$\\begin{array}{c|c}a&b\\end{array}$$').markup)) say('the line of a table is lost');

// While a text grows, a formula that is open is what was written; once it is closed it stays, and what is drawn at the end is the same.
for (const [text] of texts) for (let n = 1; n <= text.length; n++) {
  const part = text.slice(0, n), made = drawn(part, true);
  if (/<em>|<ul>|<h\d|<blockquote>|<hr>/.test(made) && /^(?:\$\$\n|\\\[\n|so \\\()/.test(text)) say(part, 'is drawn as', made);
  if (n === text.length && JSON.stringify(found(made)) !== JSON.stringify(found(drawn(text, false))) && !/^\$\$/.test(text)) say(text, 'ends as', found(made));
}

// Bombs: what they may ask, and what may come of them.
const nest = (n, open, close, in_ = 'x') => open.repeat(n) + in_ + close.repeat(n);
const bombs = ['\\def\\a{xx}\\def\\b{\\a\\a\\a\\a}\\def\\c{\\b\\b\\b\\b}\\c\\c\\c', '\\newcommand{\\a}[1]{#1#1}\\a{\\a{\\a{\\a{x}}}}', '\\let\\a\\b', nest(200, '{', '}'), nest(300, '\\sqrt{', '}'), '\\sqrt'.repeat(700) + 'x', nest(39, 'x^{', '}'),
  nest(130, '\\left(', '\\right)'), nest(60, '\\begin{matrix}', '\\end{matrix}'), '\\begin{matrix}' + '&'.repeat(3500) + '\\end{matrix}', '\\begin{matrix}' + '\\\\'.repeat(1700) + '\\end{matrix}', 'x'.repeat(3900), 'x'.repeat(4001), '\\frac'.repeat(700),
  '\\overbrace'.repeat(390), '{'.repeat(3900), '\\text{' + 'a'.repeat(3900) + '}', '\\kern 99999em x', '\\rule{9999em}{9999em}', '\\dots'.repeat(700), '\\boldsymbol'.repeat(350) + 'x', '\\cfrac1'.repeat(500) + 'x', '\\bra'.repeat(900), '\\mathchoice'.repeat(300), '_'.repeat(3000), '\\\\'.repeat(1900),
  '\\binom'.repeat(600) + '12', '\\mathrm\\mathbf'.repeat(200) + 'x', '\\%\n'.repeat(1200), '\\verb|' + 'a'.repeat(3000) + '|', '\\unicode{x41}'.repeat(300), '\\char"41'.repeat(500), '\\ce{H2O}'];
for (const tex of bombs) {
  asked = 0;
  const made = mathml('\\(' + tex + '\\)');
  let depth = 0, most = 0, n = 0;
  for (const [tag] of made?.markup.matchAll(/<\/?/g) ?? []) if (tag === '</') depth--; else { n++; most = Math.max(most, ++depth); }
  if (asked > 250000 || n > mostElements || most > 120 || /\d{4,}(?:em|pt)/.test(made?.markup)) say(tex.slice(0, 60), asked, 'times', n, 'elements', most, 'deep');
}
for (const unit of ['\\(', '\\(a', '\\[', '$$', '$$a', '$', '$a', '\\(a\\)', '$a$ ', '$$a$$\n', '\\[\n', '$$\n', '\\(\\', '\n$$ a']) for (const grows of [false, true]) {
  asked = 0;
  const text = 'a' + unit.repeat(12000 / unit.length);
  html('paragraph', text, {}, grows);
  if (asked > 300000) say(unit, asked, 'times');
}
// A block of many formulas shows the first ones, and the rest as they were written.
const many = found(html('list', '- $x_1$\n'.repeat(1500), {}) ?? '');
if (many.length !== 1500 && many.length !== 0) say(many.length, 'of many');
const page = html('paragraph', 'Let $x_1$ be \\(\\frac{a}{b}\\) there. '.repeat(120), {});
if (page === null || found(page).some((x) => x[0] === '!')) say('a page of formulas is not read');
if (!bad) console.log('ok');
