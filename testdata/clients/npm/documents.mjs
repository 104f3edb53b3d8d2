// npm openai's files and vector stores against a running scripted server (AXLE_TEST_URL).
import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { test } from 'node:test';
import OpenAI, { toFile } from 'openai';

const url = process.env.AXLE_TEST_URL;
if (!url) throw new Error('AXLE_TEST_URL names no server: run make clients-ci');

test('documents', async () => {
  const c = new OpenAI({ baseURL: url + '/v1', apiKey: 'x', maxRetries: 0 });
  const store = await c.vectorStores.create({ name: 'docs', metadata: { of: 'axle' } });
  assert.deepEqual([store.object, store.status, store.file_counts.total], ['vector_store', 'completed', 0]);
  const file = await c.vectorStores.files.uploadAndPoll(store.id, createReadStream('../../../docs/troubleshooting.md'), { pollIntervalMs: 20 });
  assert.deepEqual([file.status, file.last_error], ['completed', null]);
  const picture = await c.vectorStores.files.uploadAndPoll(store.id, await toFile(Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), 'a.png'), { pollIntervalMs: 20 });
  assert.deepEqual([picture.status, picture.last_error.code], ['failed', 'unsupported_file']);

  const found = await c.vectorStores.search(store.id, { query: 'The card is hot', max_num_results: 3 });
  const best = found.data[0];
  assert.equal(best.filename, 'troubleshooting.md');
  assert.match(best.content[0].text, /^### The card is hot/);
  assert.ok(best.score > 0 && best.score <= 1);
  const page = await (await fetch(`${url}/api/axle/documents/files/${best.file_id}/pages/${best.page}`)).json();
  const bytes = Buffer.from(page.text);
  assert.equal(bytes.subarray(best.place.start, best.place.end).toString(), best.content[0].text);

  await c.vectorStores.files.update(file.id, { vector_store_id: store.id, attributes: { lang: 'en' } });
  const none = await c.vectorStores.search(store.id, { query: 'hot card', filters: { type: 'eq', key: 'lang', value: 'de' } });
  assert.equal(none.data.length, 0);
  const listed = [];
  for await (const f of c.vectorStores.files.list(store.id)) listed.push(f.id);
  assert.deepEqual(listed.sort(), [file.id, picture.id].sort());
  assert.match(await (await c.files.content(file.id)).text(), /^# Troubleshooting/);
  assert.equal((await c.vectorStores.update(store.id, { name: 'more' })).name, 'more');
  assert.ok((await c.vectorStores.list()).data.some((s) => s.id === store.id));

  assert.ok((await c.vectorStores.files.delete(file.id, { vector_store_id: store.id })).deleted);
  assert.ok((await c.files.delete(file.id)).deleted);
  assert.ok((await c.files.delete(picture.id)).deleted);
  assert.ok((await c.vectorStores.delete(store.id)).deleted);
  await assert.rejects(c.vectorStores.retrieve(store.id), (e) => e.status === 404 && /No such vector store/.test(e.message));
  await assert.rejects(c.files.create({ file: await toFile(Buffer.from('x'), 'a.txt'), purpose: 'fine-tune' }), (e) => e.status === 400 && /purpose/.test(e.message));
});
