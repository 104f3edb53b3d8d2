//go:build !scripted

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/tokenizer"
)

func init() { register(newTokenizeCmd) }

// tokenizeMost is the most text that tokenize takes, and the longest line.
const tokenizeMost = 256 << 20

func newTokenizeCmd() *cobra.Command {
	var jsonl, special, decode bool
	cmd := &cobra.Command{
		Use:   "tokenize MODEL|FILE",
		Short: "Turn text into token ids, or ids into text",
		Long: `Tokenize reads text from standard input and prints its token ids as a JSON
array. It adds no BOS.

MODEL is a name in the store or a package's folder. FILE is a tokenizer.json, a
*_tokenizer.txt, a SentencePiece tokenizer.model, a tiktoken file, or a folder
with one of them.

With --decode each line that is read is an array of ids, and its text is
printed.`,
		Example: `  echo -n 'Hello world' | axle tokenize qwen3:0.6b
  axle tokenize --jsonl tokenizer.json < texts.jsonl > ids.jsonl
  echo '[9707, 1879]' | axle tokenize --decode qwen3:0.6b`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			tok, err := openTokenizer(args[0])
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			switch {
			case decode:
				err = decodeLines(cmd.InOrStdin(), out, tok, special, jsonl)
			case jsonl:
				err = encodeLines(cmd.InOrStdin(), out, tok, special)
			default:
				var text []byte
				if text, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), tokenizeMost+1)); err == nil && len(text) > tokenizeMost {
					err = fmt.Errorf("the text is longer than %d bytes", tokenizeMost)
				}
				if err == nil {
					err = writeIDs(out, tok.Encode(nil, string(text), special))
				}
			}
			return errors.Join(err, out.Flush())
		},
	}
	cmd.Flags().BoolVar(&jsonl, "jsonl", false, `read a text from each line, {"text": "..."}; with --decode, print JSON strings`)
	cmd.Flags().BoolVar(&special, "special", false, "know control tokens in the text; with --decode, print them")
	cmd.Flags().BoolVar(&decode, "decode", false, "read arrays of ids and print text")
	return cmd
}

// openTokenizer opens the tokenizer of a model, of a folder, or of a file.
func openTokenizer(name string) (*tokenizer.Tokenizer, error) {
	st, statErr := os.Stat(name)
	if statErr == nil && !st.IsDir() {
		return tokenizer.Open(name)
	}
	p, err := openPackage(name)
	if err != nil {
		if statErr == nil { // a folder that is no package may hold a tokenizer all the same
			if tok, terr := tokenizer.Open(name); !errors.Is(terr, fs.ErrNotExist) {
				return tok, terr
			}
		}
		return nil, err
	}
	defer p.Close()
	return p.Tokenizer()
}

func encodeLines(r io.Reader, w *bufio.Writer, tok *tokenizer.Tokenizer, special bool) error {
	var ids []int32
	return eachLine(r, func(line []byte) error {
		var in struct {
			Text *string `json:"text"`
		}
		if err := json.Unmarshal(line, &in); err != nil {
			return err
		}
		if in.Text == nil {
			return errors.New(`there is no "text" in it`)
		}
		ids = tok.Encode(ids[:0], *in.Text, special)
		return writeIDs(w, ids)
	})
}

func decodeLines(r io.Reader, w *bufio.Writer, tok *tokenizer.Tokenizer, special, jsonl bool) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return eachLine(r, func(line []byte) error {
		var ids []int64
		if err := json.Unmarshal(line, &ids); err != nil {
			return err
		}
		small := make([]int32, len(ids))
		for i, id := range ids {
			if id < 0 || id >= int64(tok.Vocab()) {
				return fmt.Errorf("id %d is outside the vocabulary of %d", id, tok.Vocab())
			}
			small[i] = int32(id)
		}
		text := tok.Decode(small, special)
		if jsonl {
			return e.Encode(text)
		}
		_, err := w.WriteString(text)
		if err == nil && (text == "" || text[len(text)-1] != '\n') {
			err = w.WriteByte('\n')
		}
		return err
	})
}

// eachLine calls f for each line that is not blank, and names the line in its error.
func eachLine(r io.Reader, f func(line []byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), tokenizeMost)
	n := 0
	for s.Scan() {
		n++
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		if err := f(s.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return nil
}

// writeIDs prints ids as a JSON array on a line.
func writeIDs(w *bufio.Writer, ids []int32) error {
	if ids == nil {
		ids = []int32{}
	}
	b, err := json.Marshal(ids)
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}
