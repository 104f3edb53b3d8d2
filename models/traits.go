package models

import "strings"

// traits are what differs between families of text models and stands in none of their files. A
// family that is not in the table has the zero traits.
type traits struct {
	// ends are tokens that end an answer beside those that a package's files name: these families
	// were trained with both, and packages often name only one, so that the other leaks into
	// answers.
	ends     []string
	textEnd  string   // what a text to be embedded ends with, where the tokenizer's file cannot say so
	sampling Sampling // what its makers recommend, for packages that say nothing themselves
	quiet    bool     // it can think, and does not unless it is asked to
	generic  bool     // an architecture that several families share: layers called llama_… may be SmolLM2's
	shares   bool     // layers may use the K and V of earlier ones, and differ in their width by kind
	scaled   bool     // rows of the embedding table are multiplied by √hidden, though no file says so
}

var familyTraits = map[string]traits{
	"gemma3": {ends: []string{"<end_of_turn>", "<eos>"}},
	"gemma4": {ends: []string{"<turn|>", "<eos>", "<|tool_response>"}, quiet: true, shares: true, scaled: true},
	"llama":  {generic: true},
	// Coordinates are single tokens, which a penalty on repetition would move.
	"locateanything": {ends: []string{"<|im_end|>", "<|endoftext|>"},
		sampling: Sampling{Temperature: new(0.0), RepetitionPenalty: new(1.0)}},
	"minicpm5": {ends: []string{"<|im_end|>", "</s>"}, quiet: true},
	"qwen":     {generic: true},
	"qwen2":    {ends: []string{"<|im_end|>", "<|endoftext|>"}, generic: true},
	"qwen3":    {ends: []string{"<|im_end|>", "<|endoftext|>"}, textEnd: "<|endoftext|>"},
	"qwen3vl":  {ends: []string{"<|im_end|>", "<|endoftext|>"}, textEnd: "<|endoftext|>"},
	"qwen35": {ends: []string{"<|im_end|>", "<|endoftext|>"}, quiet: true,
		sampling: Sampling{Temperature: new(0.7), TopK: new(20), TopP: new(0.8), RepetitionPenalty: new(1.0)}},
}

// generic families are architectures that several model families share.
func generic(family string) bool { return familyTraits[family].generic }

// SharesKV says whether the package's family has layers that use the K and V of earlier ones.
func (pkg *Package) SharesKV() bool { return familyTraits[pkg.Family].shares }

// Prompts are the forms that an embedding package's texts have. Qwen3's take a query with its task
// before it, and documents as they are. Qwen3-VL's take a chat's turn, with the task as its system
// text. The packages do not say so.
func (pkg *Package) Prompts() Prompts {
	const represent = "Represent the user's input."
	switch {
	case !pkg.Embedding || !strings.HasPrefix(pkg.Family, "qwen3"):
		return Prompts{}
	case pkg.Family == "qwen3vl":
		return Prompts{Named: map[string]string{QueryPrompt: taskMark, DocumentPrompt: represent}, Default: represent,
			Task: "Retrieve images or text relevant to the user's query.", Turns: true}
	}
	return Prompts{Named: map[string]string{QueryPrompt: "Instruct: " + taskMark + "\nQuery:", DocumentPrompt: ""}, Task: SearchTask}
}
