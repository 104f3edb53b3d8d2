package models

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ollama/ollama/types/model"
)

// Name is a valid, fully qualified model name: host/namespace/model:tag, by Ollama's rules. The
// zero Name is no name; every other comes from [ParseName], so that no part of it can hold a
// separator, a leading dot or anything else that means something to a file system.
type Name struct{ n model.Name }

// ParseName reads a name as users write it: model, model:tag, namespace/model:tag or
// host/namespace/model:tag. Missing parts take Ollama's defaults (tag latest, namespace library,
// host registry.ollama.ai). It fails with [ErrName].
func ParseName(s string) (Name, error) {
	// Ollama's parser looks for a scheme too; a name with one would not print as it was written, so
	// it is none of ours.
	if len(s) > 1024 || strings.Contains(s, "://") {
		return Name{}, ErrName
	}
	n := model.ParseName(s)
	//rule:T9 ./models/store TestHostileNames drop
	if !n.IsFullyQualified() {
		return Name{}, ErrName
	}
	// The defaults are left out when a name is printed, whatever their case: they must be the same
	// name when it is read again.
	if def := model.DefaultName(); strings.EqualFold(n.Host, def.Host) {
		n.Host = def.Host
		if strings.EqualFold(n.Namespace, def.Namespace) {
			n.Namespace = def.Namespace
		}
	}
	return Name{n}, nil
}

// NameFromPath reads what [Name.Path] wrote: host/namespace/model/tag.
func NameFromPath(p string) (Name, error) {
	n := model.ParseNameFromFilepath(filepath.FromSlash(p))
	if !n.IsFullyQualified() {
		return Name{}, ErrName
	}
	return Name{n}, nil
}

// String is the shortest form that means the name, always with its tag: qwen3:0.6b,
// axera-tech/qwen3-4b:latest.
func (n Name) String() string {
	if n.IsZero() {
		return ""
	}
	return n.n.DisplayShortest()
}

// Full is the whole name with host and namespace.
func (n Name) Full() string {
	if n.IsZero() {
		return ""
	}
	return n.n.Host + "/" + n.n.Namespace + "/" + n.n.Model + ":" + n.n.Tag
}

// Path is the name as a relative path of four parts, with slashes.
func (n Name) Path() string {
	if n.IsZero() {
		return ""
	}
	return filepath.ToSlash(n.n.Filepath())
}

// IsZero tells the zero Name from all others.
func (n Name) IsZero() bool { return n == Name{} }

// EqualFold compares as Ollama does: letters of either case are the same.
func (n Name) EqualFold(o Name) bool { return n.n.EqualFold(o.n) }

// Host, Namespace, Model and Tag are the four parts, none empty.
func (n Name) Host() string      { return n.n.Host }
func (n Name) Namespace() string { return n.n.Namespace }
func (n Name) Model() string     { return n.n.Model }
func (n Name) Tag() string       { return n.n.Tag }

// Digest is a SHA-256. The zero Digest is no digest.
type Digest [sha256.Size]byte

// ParseDigest reads sha256:<64 hex>, or sha256-<64 hex> as files are called. It fails with
// [ErrDigest].
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != len("sha256:")+2*len(d) || (s[:7] != "sha256:" && s[:7] != "sha256-") {
		return d, fmt.Errorf("%w: %.80q", ErrDigest, s)
	}
	if _, err := hex.Decode(d[:], []byte(s[7:])); err != nil {
		return Digest{}, fmt.Errorf("%w: %.80q", ErrDigest, s)
	}
	return d, nil
}

// String is sha256:<64 hex>, Hex the bare digits, Short the first twelve as status lines show them,
// File the name of the blob.
func (d Digest) String() string { return "sha256:" + d.Hex() }
func (d Digest) Hex() string    { return hex.EncodeToString(d[:]) }
func (d Digest) Short() string  { return d.Hex()[:12] }
func (d Digest) File() string   { return "sha256-" + d.Hex() }

// IsZero tells the zero Digest from all others.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText and UnmarshalText make digests plain strings in JSON.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is the reverse; it fails as [ParseDigest] does.
func (d *Digest) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDigest(string(b))
	return err
}
