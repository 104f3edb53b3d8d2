// A worker that colours code. Some texts take a grammar minutes: here nothing waits for them, and code.js ends it after its time.
const needs = { cpp: ['c'], xml: ['css', 'javascript'], php: ['xml', 'css', 'javascript'] }; // languages that are made of others
const mostSpans = 4000; // more than that is not drawn in one frame

let core = null;
const loaded = new Map();
function grammar(name) {
  if (!loaded.has(name)) {
    loaded.set(name, (async () => {
      core ??= (await import('../vendor/highlight.js')).default;
      for (const other of needs[name] ?? []) await grammar(other);
      core.registerLanguage(name, (await import(`../vendor/hl-${name}.js`)).default);
    })());
  }
  return loaded.get(name);
}

const entities = { amp: '&', lt: '<', gt: '>', quot: '"', '#x27': "'" };
const plain = (s) => s.replace(/&(\w+|#x27);/g, (all, name) => entities[name] ?? all);

// parts divides what highlight.js writes: a text, [class] where a span begins, null where it ends.
function parts(html) {
  const out = [];
  let spans = 0;
  for (const [, open, close, text] of html.matchAll(/<span class="([^"]*)">|(<\/span>)|([^<]+)/g)) {
    if (text !== undefined) out.push(plain(text));
    else out.push(close ? null : [open]);
    if (open !== undefined && ++spans > mostSpans) return null;
  }
  return out;
}

addEventListener('message', async ({ data: { text, name } }) => {
  try {
    await grammar(name);
    postMessage('begun');
    postMessage(parts(core.highlight(text, { language: name, ignoreIllegals: true }).value));
  } catch {
    postMessage(null); // the server is gone, or a grammar gave up
  }
});
