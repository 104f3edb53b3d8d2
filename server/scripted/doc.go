// Package scripted is an engine that does what its prompt says, for testing everything above the
// card: clients, dialects, the guard, load. It is built into bin/axle-scripted only (build tag
// scripted in cmd/axle) and into tests, never into the product.
//
// Models: scripted (completion), scripted-chat (ChatML with tools, thinking and insert),
// scripted-embed (8 dimensions), scripted-search (vectors of pictures too), scripted-vision,
// scripted-hearing (a sentence for each second of a sound), scripted-speaking (a tone for each
// word), scripted-detecting (a person and a cat in each picture), scripted-faces (a face in each
// picture) and scripted-drawing (two colours, made of what was asked for). The prompt directs the
// answer:
//
//	[[say:tok|tok|…]]     these tokens (the last such wins)
//	[[any:text|text|…]]   one of these, by the request's seed, or without one in turn; tokens of the k-th, from 1, have −0.25·k
//	[[delay:ms]]          per token, default 2
//	[[burst:n]]           n tokens at once
//	[[err:STATUS:text]]   fails before the first token
//	[[crash]]             dies after two tokens
//
// Without a directive the answer is a fixed paragraph; with thinking on, a thought before it; and
// "call NAME with KEY set to VALUE" in the prompt of a model that was offered that tool is a call
// of it. A token is a word with the white space before it; where a format binds the answer, words
// and what stands between them are tokens, and from where the answer is no longer in the format it
// ends as soon as it can. A token's log probability is −0.25, its rivals' −0.25−i for alt1…. Stop
// strings, num_predict, formats and templates act as with a real model, since they are the
// engine's.
//
// A [Backend] is safe for concurrent use; its Close ends what runs.
package scripted

// paragraph is what the models say when they are told nothing.
const paragraph = "The sky is blue because molecules of nitrogen and oxygen in the atmosphere scatter sunlight, and short wavelengths " +
	"scatter most: " +
	"this is Rayleigh scattering, and it colours the day from Tokyo to all of Europe, on the fourth of July as on any other. 🌈 " +
	"After rain, droplets of water refract and reflect the light like small prisms, and a rainbow shows its spectrum of colours " +
	"on an arc of up to 180 degrees, opposite the sun. " +
	"Water itself is faintly blue, since it takes a little of the red; in a glass it looks clear, in a deep sea it does not."

// thought comes before it when the model thinks.
const thought = "<think>\nThe question is about light, so I say what air and water do to it.\n</think>\n\n"
