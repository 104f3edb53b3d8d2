// Runs the page's script without a browser, against a server made here: an answer under way when New chat is pressed, a failed one, two that
// come. Prints what was sent, a line a question. Usage: node chat.mjs index.html
import { readFileSync } from 'node:fs';

const script = readFileSync(process.argv[2], 'utf8').split('<script>')[1].split('</script>')[0];
const element = () => ({ children: [], style: {}, options: [], value: 'm', textContent: '', on: {}, scrollHeight: 0, scrollTop: 0, clientHeight: 0,
  append() {}, prepend() {}, replaceChildren() {}, focus() {}, addEventListener(name, f) { this.on[name] = f; } });
const ids = {};
globalThis.document = { getElementById: (id) => ids[id] ??= element(), createElement: element, hidden: true };
globalThis.localStorage = { getItem: () => null, setItem() {} };
globalThis.Option = function () {};
globalThis.setInterval = () => {};
let next;
globalThis.fetch = async (path, options) => {
  if (path !== '/api/chat') return { status: 200, ok: true, json: async () => ({ models: [], tokens_per_second: 0 }) };
  console.log(JSON.parse(options.body).messages.map((m) => m.role + ' ' + m.content).join(', '));
  const lines = { fails: ['{"error":"busy"}'], comes: ['{"message":{"content":"yes"}}', '{"message":{"content":""},"done":true}'], hangs: ['{"message":{"content":"part"}}'] }[next];
  const hangs = next === 'hangs';
  return { status: 200, ok: true, body: new ReadableStream({ start(c) {
    for (const l of lines) c.enqueue(new TextEncoder().encode(l + '\n'));
    if (hangs) options.signal.addEventListener('abort', () => c.error(new DOMException('', 'AbortError')));
    else c.close();
  } }) };
};
(0, eval)(script);
const ended = async () => { while (ids.send.textContent !== 'Send') await new Promise((ok) => setImmediate(ok)); };
const ask = (content, how) => { next = how; ids.text.value = content; ids.form.on.submit({ preventDefault() {} }); };
ask('one', 'hangs');
ids.fresh.on.click();
await ended();
ask('two', 'fails');
await ended();
ask('three', 'comes');
await ended();
ask('four', 'comes');
await ended();
