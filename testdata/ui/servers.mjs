// Servers to drive the page against: the scripted build, and the product with the model that ships inside it on the software card.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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
  constructor(binary, { keys, args = [] } = {}) {
    Object.assign(this, { binary, args });
    this.dir = mkdtempSync(join(tmpdir(), 'axle-ui-'));
    if (keys) {
      this.keys = join(this.dir, 'keys');
      writeFileSync(this.keys, keys.map(([n, k]) => `${n}: ${k}\n`).join(''), { mode: 0o600 });
    }
  }

  async start() {
    this.port ??= await freePort();
    this.url = 'http://127.0.0.1:' + this.port;
    this.log = '';
    this.process = spawn(this.binary, ['serve', ...this.args, ...(this.keys ? ['--keys-file', this.keys] : [])],
      { env: { ...process.env, AXLE_HOST: '127.0.0.1:' + this.port, AXLE_MODELS: join(this.dir, 'models'), AXLE_DEVICE: 'soft', AXLE_KEEP_ALIVE: '-1' }, stdio: ['ignore', 'ignore', 'pipe'] });
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
}
