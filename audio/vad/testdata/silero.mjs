// Makes the folder that TestSileroModel reads (AXLE_TEST_SILERO): a copy of the model, the speech, and the probabilities that ONNX Runtime
// gives for each 512 samples of it. The packages are fetched to a folder of their own; neither model nor runtime belong in the tree:
//
//	npm install --prefix FOLDER --ignore-scripts onnxruntime-web @ricky0123/vad-web@0.0.31
//	espeak-ng -v en -w FOLDER/said.wav -f README.md
//	sox FOLDER/said.wav -r 16000 -c 1 -t f32 FOLDER/speech.f32 trim 0 65
//	node audio/vad/testdata/silero.mjs FOLDER FOLDER/node_modules/@ricky0123/vad-web/dist/silero_vad_v5.onnx
import fs from 'fs'
import path from 'path'
import { createRequire } from 'module'

const [folder, model] = process.argv.slice(2)
const ort = createRequire(path.resolve(folder, 'x.js'))('onnxruntime-web')
ort.env.wasm.numThreads = 1
const session = await ort.InferenceSession.create(new Uint8Array(fs.readFileSync(model)))
const bytes = fs.readFileSync(path.join(folder, 'speech.f32'))
const speech = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)
const windows = Math.floor(speech.length / 512)
const probabilities = new Float32Array(windows)
const sr = new ort.Tensor('int64', new BigInt64Array([16000n]), [])
let state = new ort.Tensor('float32', new Float32Array(256), [2, 1, 128])
for (let i = 0; i < windows; i++) {
	const input = new Float32Array(576) // 64 samples of the window before, then the window
	if (i > 0) input.set(speech.subarray(i * 512 - 64, i * 512))
	input.set(speech.subarray(i * 512, i * 512 + 512), 64)
	const out = await session.run({ input: new ort.Tensor('float32', input, [1, 576]), state, sr })
	probabilities[i] = out.output.data[0]
	state = out.stateN
}
fs.copyFileSync(model, path.join(folder, 'silero_vad.onnx'))
fs.writeFileSync(path.join(folder, 'probabilities.f32'), new Uint8Array(probabilities.buffer))
console.log(windows, 'windows,', probabilities.filter(p => p >= 0.5).length, 'of speech')
