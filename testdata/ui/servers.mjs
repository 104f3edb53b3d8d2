// Servers to drive the page against: the scripted build, and the product with the model that ships inside it on the software card. And a hub
// to fetch that model from.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { pause } from './browser.mjs';

export const scripted = process.env.AXLE_SCRIPTED || 'bin/axle-scripted';
export const product = process.env.AXLE || 'bin/axle';

const freePort = () => new Promise((ok) => {
  const s = createServer().listen(0, '127.0.0.1', () => {
    const { port } = s.address();
    s.close(() => ok(port));
  });
});

// Server is a process that can be killed and started again at the same address with the same models.
export class Server {
  constructor(binary, { keys, args = [], env = {} } = {}) {
    Object.assign(this, { binary, args, env });
    this.dir = mkdtempSync(join(tmpdir(), 'axle-ui-'));
    if (keys) {
      this.keys = join(this.dir, 'keys');
      writeFileSync(this.keys, keys.map(([n, k, more = '']) => `${n}: ${k} ${more}\n`).join(''), { mode: 0o600 });
    }
  }

  async start() {
    this.port ??= await freePort();
    this.url = 'http://127.0.0.1:' + this.port;
    this.log = '';
    this.process = spawn(this.binary, ['serve', ...this.args, ...(this.keys ? ['--keys-file', this.keys] : [])],
      { env: { ...process.env, ...this.env, AXLE_HOST: '127.0.0.1:' + this.port, AXLE_MODELS: join(this.dir, 'models'), AXLE_DEVICE: 'soft', AXLE_KEEP_ALIVE: '-1' }, stdio: ['ignore', 'ignore', 'pipe'] });
    this.process.stderr.on('data', (d) => { this.log = (this.log + d).slice(-20000); });
    for (let i = 0; i < 600; i++) {
      if (this.process.exitCode !== null) throw new Error(`${this.binary} ended: ${this.log}`);
      try { if ((await fetch(this.url + '/')).ok) return this; } catch { /* not yet */ }
      await pause(100);
    }
    throw new Error(`${this.binary} does not answer: ${this.log}`);
  }

  async kill(signal = 'SIGKILL') {
    if (!this.process || this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = new Promise((ok) => this.process.once('exit', ok));
    this.process.kill(signal);
    await gone;
  }

  async end() {
    await this.kill();
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }

  // seconds is how much of a processor it has used.
  seconds() {
    const f = readFileSync(`/proc/${this.process.pid}/stat`, 'utf8').replace(/^.*\) /, '').split(' ');
    return (Number(f[11]) + Number(f[12])) / 100;
  }

  // megabytes is how much memory it has.
  megabytes() { return memoryOf(this.process.pid); }
}

export const memoryOf = (pid) => Number(readFileSync(`/proc/${pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

// Proxy stands before a server under a prefix, as nginx does with location /axle/, and answers with a page of its own where fail says so:
// fail(path) gives {status, headers, body}.
export class Proxy {
  constructor(to, prefix = '') {
    Object.assign(this, { to: new URL(to), prefix, fail: () => null });
  }

  async start() {
    this.server = http.createServer((q, r) => {
      const path = q.url.slice(this.prefix.length);
      const bad = q.url.startsWith(this.prefix + '/') ? this.fail(path) : { status: 404 };
      if (bad) {
        q.resume();
        return r.writeHead(bad.status, { 'Content-Type': 'text/html', ...bad.headers }).end(bad.body ?? `<html><head><title>${bad.status} Bad Gateway</title></head><body><center><h1>Bad Gateway</h1></center></body></html>`);
      }
      const up = http.request({ host: this.to.hostname, port: this.to.port, method: q.method, path, headers: q.headers }, (a) => a.pipe(r.writeHead(a.statusCode, a.headers)));
      up.on('error', () => r.destroy());
      r.on('close', () => up.destroy());
      return q.pipe(up);
    });
    await new Promise((ok) => this.server.listen(0, '127.0.0.1', ok));
    this.url = `http://127.0.0.1:${this.server.address().port}${this.prefix}`;
    return this;
  }

  end() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

// Hub serves a folder as the repository axle/shipped, in Hugging Face's way. Of a large file it sends a half, and the rest when it is let go.
export class Hub {
  constructor(dir) {
    this.files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((f) => f.isFile()).map((f) => join(f.parentPath ?? f.path, f.name))
      .map((path) => ({ name: path.slice(join(dir, '/').length), data: readFileSync(path) }));
    this.ranges = []; // what was asked for from the middle on
    this.free = new Promise((ok) => { this.go = ok; });
  }

  async start() {
    const sha = createHash('sha1').update('shipped').digest('hex');
    const list = { sha, siblings: this.files.map(({ name, data }) => ({ rfilename: name, size: data.length, lfs: { oid: createHash('sha256').update(data).digest('hex'), size: data.length } })) };
    this.server = http.createServer(async (q, r) => {
      const path = decodeURIComponent(new URL(q.url, 'http://hub').pathname);
      if (path === '/api/models/axle/shipped/revision/main') return r.setHeader('Content-Type', 'application/json').end(JSON.stringify(list));
      const file = this.files.find((f) => path === `/axle/shipped/resolve/${sha}/${f.name}`);
      if (!file) return r.writeHead(404).end();
      const [, from = 0, to = file.data.length - 1] = (/bytes=(\d+)-(\d+)?/.exec(q.headers.range ?? '') ?? []).map((n) => (n === undefined ? n : Number(n)));
      if (from > 0) this.ranges.push(from);
      const part = file.data.subarray(from, to + 1);
      r.writeHead(q.headers.range ? 206 : 200, { 'Content-Length': part.length, 'Accept-Ranges': 'bytes', ...(q.headers.range ? { 'Content-Range': `bytes ${from}-${from + part.length - 1}/${file.data.length}` } : {}) });
      if (q.method === 'HEAD') return r.end();
      if (file.data.length < 1e6 || from > 0) return r.end(part);
      r.write(part.subarray(0, part.length / 2));
      await this.free;
      return r.end(part.subarray(part.length / 2));
    });
    await new Promise((ok) => this.server.listen(0, '127.0.0.1', ok));
    this.url = 'http://127.0.0.1:' + this.server.address().port;
    return this;
  }

  end() {
    this.go();
    this.server.closeAllConnections();
    this.server.close();
  }
}
