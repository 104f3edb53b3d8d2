package rows

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadSecret: a secret is random bytes or a line of hexadecimal digits, long enough, in a file
// that is its owner's alone; anything else is one error that names the file.
func TestReadSecret(t *testing.T) {
	//proves:T18 the secret of several servers
	raw := make([]byte, 32)
	for i := range raw {
		raw[i] = byte(i * 7)
	}
	digits := hex.EncodeToString(raw)
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		want       []byte
		says       string
	}{
		{"bytes", string(raw), 0o600, raw, ""},
		{"read only", string(raw), 0o400, raw, ""},
		{"hex", digits, 0o600, raw, ""},
		{"hex with a line end", digits + "\r\n", 0o600, raw, ""},
		{"capitals", strings.ToUpper(digits) + "\n", 0o600, raw, ""},
		{"words", strings.Repeat("correct horse ", 3) + "\n", 0o600, bytes.TrimSpace([]byte(strings.Repeat("correct horse ", 3))), ""},
		{"others read it", digits, 0o640, nil, "chmod 600"},
		{"all read it", digits, 0o604, nil, "chmod 600"},
		{"empty", "", 0o600, nil, "at least 32"},
		{"a line end", "\n", 0o600, nil, "at least 32"},
		{"short", string(raw[:31]), 0o600, nil, "at least 32"},
		{"short hex, long enough as text", digits[:62], 0o600, nil, "31 bytes"},
		{"zeros", string(make([]byte, 64)), 0o600, nil, "no secret"},
		{"large", strings.Repeat("ab", 4096), 0o600, nil, "large"},
	} {
		path := filepath.Join(t.TempDir(), "rows-secret")
		if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		got, err := ReadSecret(path)
		if !bytes.Equal(got, tt.want) || (tt.says == "") != (err == nil) {
			t.Errorf("%s: %x, %v", tt.name, got, err)
		}
		if err != nil && (!strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := ReadSecret(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
