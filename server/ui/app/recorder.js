// Runs on the audio thread: gathers what the microphone gives into pieces of a twentieth of a second, as 16-bit samples, and says how loud each
// is. Any message ends it; the last piece is sent before the answer to that.
class Recorder extends AudioWorkletProcessor {
  constructor() {
    super();
    this.begin();
    this.port.onmessage = () => {
      this.ended = true;
      this.send();
      this.port.postMessage(null);
    };
  }

  begin() {
    this.samples = new Int16Array(Math.round(sampleRate / 20));
    this.n = 0;
    this.power = 0;
  }

  send() {
    if (!this.n) return;
    const samples = this.samples.slice(0, this.n);
    this.port.postMessage({ samples, level: Math.sqrt(this.power / this.n) }, [samples.buffer]);
    this.begin();
  }

  process([[channel]]) {
    for (const x of this.ended ? [] : channel ?? []) {
      this.power += x * x;
      this.samples[this.n++] = Math.max(-32768, Math.min(32767, Math.round(x * 32768)));
      if (this.n === this.samples.length) this.send();
    }
    return !this.ended;
  }
}

registerProcessor('recorder', Recorder);
