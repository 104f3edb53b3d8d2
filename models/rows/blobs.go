package rows

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/axle-llm/axle/prefix"
)

// Blobs is a place outside this machine that has files of Disks with the same secret: other
// servers, or an object store. A name is "<32 hex>/<64 hex>", with or without ".state", as in the
// folder. The content is sealed: it is held against the secret before it is used, so a place need
// not be trusted with it. The methods may be called from any goroutine, and end when ctx does.
type Blobs interface {
	// Name is what the place is called in metrics and in the log: "peer", "s3".
	Name() string
	// Get returns a file of at most max bytes. It is an error for which errors.Is(err,
	// fs.ErrNotExist) holds where there is none of that name.
	Get(ctx context.Context, name string, max int64) ([]byte, error)
	// Put keeps a file. A place that has it already may do nothing.
	Put(ctx context.Context, name string, data []byte) error
	// Has returns how many of the names, from the first on, seem to be there. Only Get knows.
	Has(ctx context.Context, names []string) (int, error)
}

// MaxSealed is the most bytes that a sealed file has.
const MaxSealed = int64(overhead) + maxBytes

// ErrForged is a file that was not sealed under its name with this disk's secret.
var ErrForged = errors.New("was not sealed with this server's secret, or was changed since: give all servers the same --rows-secret")

// IsName reports whether a file of a block or of a state may have the name.
func IsName(name string) bool {
	dir, base, ok := strings.Cut(name, "/")
	return ok && lowerHex(dir, 32) && lowerHex(strings.TrimSuffix(base, stateEnd), 64)
}

func lowerHex(s string, n int) bool { return isHex(s, n) && strings.ToLower(s) == s }

// named is an error for what is no name.
func named(name string) error {
	if IsName(name) {
		return nil
	}
	if len(name) > 120 {
		name = name[:120] + "…"
	}
	return fmt.Errorf("rows: %q names no block: names are <32 hex>/<64 hex>, with or without %s", name, stateEnd)
}

// Sealed returns a file as it lies in the folder, for another server to [Disk.Accept]. Errors: one
// for which errors.Is(err, fs.ErrNotExist) holds where there is none, ErrOff, ErrSlow, the disk's.
func (d *Disk) Sealed(name string) ([]byte, error) {
	if err := named(name); err != nil {
		return nil, err
	}
	if d.off.Load() {
		return nil, ErrOff
	}
	type result struct {
		data []byte
		err  error
	}
	r, in := within(d, func() result {
		data, err := d.sealedFile(name)
		return result{data, err}
	})
	if !in {
		return nil, ErrSlow
	}
	return r.data, r.err
}

func (d *Disk) sealedFile(name string) ([]byte, error) {
	f, err := d.disk.Open(name)
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	if st.Size() < int64(overhead) || st.Size() > MaxSealed {
		return nil, fmt.Errorf("rows: %s has %d bytes: %w", name, st.Size(), fs.ErrNotExist)
	}
	data := make([]byte, st.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("rows: %s: %w", name, err)
	}
	d.touch(name, Key{}, st.ModTime())
	return data, nil
}

// Has returns how many of the names, from the first on, seem to be in the folder.
func (d *Disk) Has(names []string) int {
	n, _ := within(d, func() int { return d.has(names) })
	return n
}

func (d *Disk) has(names []string) int {
	for i, name := range names {
		if d.off.Load() || !IsName(name) {
			return i
		}
		if st, err := d.stat(name); err != nil || st.Size() < int64(overhead) {
			return i
		}
	}
	return len(names)
}

// Accept keeps a sealed file that came from elsewhere. Errors: ErrForged, those of [Space.Save].
func (d *Disk) Accept(name string, data []byte) error {
	if err := named(name); err != nil {
		return err
	}
	if d.off.Load() {
		return ErrOff
	}
	if !d.sealed(name, data) {
		return fmt.Errorf("rows: %s %w", name, ErrForged)
	}
	return d.keep(name, "", 0, data)
}

// sealed reports whether data was made under this name with this secret.
func (d *Disk) sealed(name string, data []byte) bool {
	if len(data) < overhead || int64(len(data)) > MaxSealed {
		return false
	}
	dir, base, _ := strings.Cut(name, "/")
	head, want := data[:headerSize], magic
	if isState(base) {
		want = stateMagic
	}
	id, err := hex.DecodeString(strings.TrimSuffix(base, stateEnd))
	if err != nil || len(dir) != 32 || len(id) != len(prefix.Name{}) ||
		string(head[:len(magic)]) != want || string(head[len(magic):len(magic)+sha256.Size]) != string(id) {
		return false
	}
	h := hmac.New(sha256.New, d.secret)
	_, _ = h.Write(data[:len(data)-sha256.Size])
	//rule:G28 TestAcceptForged hmac.Equal(data[len(data)-sha256.Size:], h.Sum(nil)) => true
	return hmac.Equal(data[len(data)-sha256.Size:], h.Sum(nil))
}
