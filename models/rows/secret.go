package rows

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"syscall"

	"github.com/axle-llm/axle/internal/regular"
)

const (
	leastSecret = 32 // bytes
	mostSecret  = 4 << 10
)

// ReadSecret reads a secret for [Options].Secret from a file: at least 32 random bytes, or a line
// of at least 64 hexadecimal digits. The file is its owner's alone, who is this process's user or
// root (regular.Private). Each error names the file, and what helps.
func ReadSecret(path string) ([]byte, error) {
	const makes = "openssl rand -hex 32 makes one"
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	//rule:T18 TestReadSecret false
	if err := regular.Private(path, st); st.Mode().IsRegular() && err != nil {
		return nil, fmt.Errorf("%w if no other did; else make a new secret", err)
	}
	if own, ok := st.Sys().(*syscall.Stat_t); ok && own.Uid != 0 && int(own.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to user %d, this server runs as user %d: chown it", path, own.Uid, os.Geteuid())
	}
	b, err := regular.ReadPath(path, mostSecret)
	if err != nil {
		return nil, err
	}
	if line := bytes.TrimSpace(b); isText(line) { // a line end is no part of it
		b = line
		if raw, err := hex.DecodeString(string(line)); err == nil {
			b = raw
		}
	}
	switch {
	case len(b) < leastSecret:
		return nil, fmt.Errorf("%s holds a secret of %d bytes; it has at least %d: %s", path, len(b), leastSecret, makes)
	case bytes.Count(b, b[:1]) == len(b):
		return nil, fmt.Errorf("%s holds the same byte again and again, which is no secret: %s", path, makes)
	}
	return b, nil
}

func isText(b []byte) bool {
	return bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
