package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/axle-llm/axle/internal/regular"
)

// Config is what a package's configuration says about its tokenizer, where the tokenizer's own file
// may not say it. The zero Config leaves everything to the file.
type Config struct {
	// Type is the vendor's tokenizer_type. For files that do not say how they cut words
	// (*_tokenizer.txt, tiktoken) it picks the pattern; where it is empty or unknown, the
	// vocabulary tells.
	Type string
}

// Open reads a tokenizer from a file, or from the best one in a folder: tokenizer.json, then
// *_tokenizer.txt, tokenizer.model, *.tiktoken. The files next to it (tokenizer_config.json,
// generation_config.json) tell BOS and EOS. Lists have to be named: CLIP's vocab.json, with
// merges.txt beside it, and vocab.txt of CLIP or BERT.
func Open(name string) (*Tokenizer, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, &Error{File: name, What: "cannot be read", Err: err}
	}
	dir, base := name, "."
	if !info.IsDir() {
		dir, base = filepath.Split(filepath.Clean(name))
		if dir == "" {
			dir = "."
		}
		// The hub's cache keeps files as links to blobs elsewhere. The caller that names such a
		// file means what it points to.
		if link, err := os.Lstat(name); err == nil && link.Mode()&fs.ModeSymlink != 0 {
			return openIn(dir, os.DirFS(dir), base)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &Error{File: name, What: "cannot be read", Err: err}
	}
	defer root.Close()
	return openIn(dir, regular.FS(root), base)
}

// openIn opens base in the folder dir, whose file system is fsys; errors name files as they were
// named to Open.
func openIn(dir string, fsys fs.FS, base string) (*Tokenizer, error) {
	t, err := OpenFS(fsys, base)
	var e *Error
	if errors.As(err, &e) {
		e.File = filepath.Join(dir, e.File)
	}
	return t, err
}

// OpenFS is Open inside a file system. name may be a file, or a folder such as ".".
func OpenFS(fsys fs.FS, name string) (*Tokenizer, error) { return OpenWith(fsys, name, Config{}) }

// OpenWith is OpenFS with what the package's configuration says.
func OpenWith(fsys fs.FS, name string, c Config) (*Tokenizer, error) {
	name = path.Clean(filepath.ToSlash(name))
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, &Error{File: name, What: "cannot be read", Err: err}
	}
	if info.IsDir() {
		if name, err = pick(fsys, name); err != nil {
			return nil, err
		}
	}
	b, err := readFile(fsys, name, maxFile)
	if err != nil {
		return nil, &Error{File: name, What: "cannot be read", Err: err}
	}
	side := readSide(fsys, path.Dir(name))
	t, err := func() (t *Tokenizer, err error) {
		defer catchHalt(&err) // added tokens are normalized
		if path.Base(name) == "vocab.json" {
			return parseCLIPFiles(fsys, name, b)
		}
		return parse(b, c, side)
	}()
	if err != nil {
		return nil, inFile(name, err)
	}
	t.setEnds(side)
	return t, nil
}

func readFile(fsys fs.FS, name string, most int64) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Size() > most {
		return nil, fmt.Errorf("it has %d bytes, more than the %d allowed", info.Size(), most)
	}
	return regular.Read(fsys, name, most)
}

// pick chooses the tokenizer file of a folder.
func pick(fsys fs.FS, dir string) (string, error) {
	list, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return "", &Error{File: dir, What: "cannot be read", Err: err}
	}
	best := ""
	for _, form := range []string{"tokenizer.json", "*tokenizer.txt", "tokenizer.model", "*.tiktoken", "tiktoken.model",
		"*tokenizer*.model"} {
		at := slices.IndexFunc(list, func(e fs.DirEntry) bool {
			ok, _ := path.Match(form, e.Name())
			return ok && !e.IsDir()
		})
		if at >= 0 {
			best = path.Join(dir, list[at].Name())
			break
		}
	}
	if best == "" {
		return "", &Error{File: dir, What: "no tokenizer is in this folder (looked for tokenizer.json, *_tokenizer.txt, " +
			"tokenizer.model, *.tiktoken)", Err: fs.ErrNotExist}
	}
	return best, nil
}

// parse reads a tokenizer by what its bytes look like, not by its name.
func parse(b []byte, c Config, side sideFiles) (*Tokenizer, error) {
	head := bytes.TrimLeft(b[:min(len(b), 256)], " \t\r\n\ufeff")
	switch {
	case len(b) == 0:
		return nil, badf("the file is empty")
	case bytes.HasPrefix(b, []byte("version https://git-lfs.github.com/spec")):
		return nil, badf("the file is a Git LFS pointer, not the file itself: fetch it with git lfs pull")
	case b[0] == 0x0A: // the first field of a SentencePiece model
		return parseModelProto(b, c, side)
	case bytes.HasPrefix(head, []byte("{")):
		return parseHF(bytes.TrimPrefix(b, []byte("\ufeff")))
	case bytes.HasPrefix(head, []byte(vendorMagic+" ")):
		return parseVendor(b, c)
	case looksCLIP(head):
		return parseCLIPLines(b)
	case looksBERT(head):
		return parseBERTLines(b)
	case looksTiktoken(head):
		return parseTiktoken(b, c, side)
	}
	return nil, unsupportedf("the file is none of tokenizer.json, *_tokenizer.txt, tokenizer.model and tiktoken")
}

// sideFiles is what the files next to a tokenizer tell about it.
type sideFiles struct {
	eos    string
	eosIDs []int32
	addBOS *bool
	addEOS *bool
	added  []added // tokenizer_config.json's added_tokens_decoder
}

// readSide reads tokenizer_config.json and generation_config.json. They are hints: what is missing
// or odd in them is ignored.
func readSide(fsys fs.FS, dir string) (s sideFiles) {
	var c struct {
		EOS    json.RawMessage     `json:"eos_token"`
		AddBOS *bool               `json:"add_bos_token"`
		AddEOS *bool               `json:"add_eos_token"`
		Added  map[int64]addedJSON `json:"added_tokens_decoder"`
	}
	if b, err := readFile(fsys, path.Join(dir, "tokenizer_config.json"), 16<<20); err == nil {
		if json.Unmarshal(b, &c) == nil {
			s.eos, s.addBOS, s.addEOS = TokenText(c.EOS), c.AddBOS, c.AddEOS
			for id, a := range c.Added {
				if token, err := a.token(id); err == nil && a.Content != "" {
					s.added = append(s.added, token)
				}
			}
			slices.SortFunc(s.added, func(a, b added) int { return int(a.id) - int(b.id) })
		}
	}
	if b, err := readFile(fsys, path.Join(dir, "generation_config.json"), 1<<20); err == nil {
		var g struct {
			EOS json.RawMessage `json:"eos_token_id"`
		}
		if json.Unmarshal(b, &g) == nil {
			var id int32
			if json.Unmarshal(g.EOS, &id) == nil && string(g.EOS) != "null" {
				s.eosIDs = []int32{id}
			} else {
				_ = json.Unmarshal(g.EOS, &s.eosIDs)
			}
		}
	}
	return s
}

// TokenText is a token of tokenizer_config.json, which is a string or an object with its content;
// empty where it is neither.
func TokenText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var o struct{ Content string }
	_ = json.Unmarshal(raw, &o)
	return o.Content
}

// usualEOS end an answer wherever they exist. They are asked only when no file says.
var usualEOS = []string{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<turn|>", "<|end|>", "<|endoftext|>",
	"<|end_of_text|>", "</s>", "<eos>", "<｜end▁of▁sentence｜>"}

// setEnds fills in EOS: from the files next to the tokenizer and from its own, or else by usualEOS.
func (t *Tokenizer) setEnds(side sideFiles) {
	var eos []int32
	put := func(id int32) {
		if id >= 0 && int(id) < t.Vocab() && !slices.Contains(eos, id) {
			eos = append(eos, id)
		}
	}
	if id, ok := t.ID(side.eos); ok && side.eos != "" {
		put(id)
	}
	for _, id := range slices.Concat(side.eosIDs, t.eos) {
		put(id)
	}
	if len(eos) == 0 {
		for _, s := range usualEOS {
			if id, ok := t.added[s]; ok {
				put(id)
			}
		}
	}
	t.eos = eos
}
