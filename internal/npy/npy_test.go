package npy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestWrite: what is written is read again, begins its values where NumPy does, and NumPy itself
// reads it where it is installed.
func TestWrite(t *testing.T) {
	for _, a := range []*Array{
		{"<f4", []int{2, 3}, bytes.Repeat([]byte{0, 0, 128, 63}, 6)}, {"|u1", []int{4}, []byte{1, 2, 3, 4}}, {"<i8", nil, make([]byte, 8)},
		{"<f2", []int{0, 7}, nil}, {"<i4", []int{1, 1, 1, 1, 1, 1, 1, 2}, make([]byte, 8)},
	} {
		var b bytes.Buffer
		if err := Write(&b, a); err != nil {
			t.Fatal(err)
		}
		if at := b.Len() - len(a.Data); at%64 != 0 || b.Bytes()[at-1] != '\n' {
			t.Errorf("%v: the values begin at byte %d", a.Dims, at)
		}
		got, err := Read(bytes.NewReader(b.Bytes()), int64(len(a.Data)))
		if err != nil || got.Type != a.Type || !reflect.DeepEqual(got.Dims, a.Dims) || !bytes.Equal(got.Data, a.Data) {
			t.Errorf("%+v: %+v %v", a, got, err)
		}
		for n := range b.Len() { // cut off anywhere
			if _, err := Read(bytes.NewReader(b.Bytes()[:n]), 1000); err == nil {
				t.Errorf("%v: %d of %d bytes are taken", a.Dims, n, b.Len())
			}
		}
		numpy(t, b.Bytes(), fmt.Sprint(tuple(a.Dims), " ", a.Type))
	}
	for _, a := range []*Array{{"<f4", []int{2}, make([]byte, 7)}, {"f", []int{1}, make([]byte, 4)}, {"|u1", []int{-1}, nil},
		{"|u1", make([]int, 9), nil}} {
		if err := Write(new(bytes.Buffer), a); err == nil {
			t.Errorf("%+v is written", a)
		}
	}
}

func tuple(dims []int) string {
	s := strings.Trim(strings.ReplaceAll(fmt.Sprint(dims), " ", ", "), "[]")
	if len(dims) == 1 {
		s += ","
	}
	return "(" + s + ")"
}

// numpy has NumPy read a file.
func numpy(t *testing.T, b []byte, want string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "a.npy")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	const program = "import sys, numpy; a = numpy.load(sys.argv[1]); print(a.shape, a.dtype.str)"
	out, err := exec.Command("python3", "-c", program, name).CombinedOutput()
	switch {
	case err != nil && !strings.Contains(string(out), "Error: ") || strings.Contains(string(out), "No module"):
		t.Log("SKIPPED, not tested: NumPy is not installed")
	case err != nil || strings.TrimSpace(string(out)) != want:
		t.Errorf("NumPy reads %s, want %s, %v", out, want, err)
	}
}

// TestRead: files as NumPy writes them, and what is wrong with others.
func TestRead(t *testing.T) {
	file := func(version byte, dict string, data int) []byte {
		head := append([]byte(magic), version, 0, byte(len(dict)), byte(len(dict)>>8))
		if version > 1 {
			head = append(head, 0, 0)
		}
		return append(append(head, dict...), make([]byte, data)...)
	}
	for _, dict := range []string{`{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          ` + "\n",
		`{"shape": (3L, 4L), "descr": "<f4", "fortran_order": False}`} {
		for _, version := range []byte{1, 2, 3} {
			if a, err := Read(bytes.NewReader(file(version, dict, 48)), 48); err != nil || a.Len() != 12 {
				t.Errorf("%s: %+v %v", dict, a, err)
			}
		}
	}
	for want, b := range map[string][]byte{
		"not a .npy": []byte("PK\x03\x04 something else"), "version 9": file(9, "{}", 0), "no type": file(1, "{}", 0),
		"little-endian": file(1, `{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}`, 4),
		"C order":       file(1, `{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}`, 4),
		"no shape":      file(1, `{'descr': '<f4', 'fortran_order': False}`, 4),
		"a shape of":    file(1, `{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}`, 4),
		"allowed":       file(1, `{'descr': '<f4', 'fortran_order': False, 'shape': (2000000000, 2000000000, 2000000000)}`, 4),
		"or more":       file(1, `{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}`, 9),
		"records":       file(1, `{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}`, 4),
	} {
		if a, err := Read(bytes.NewReader(b), 1<<20); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v %v", want, a, err)
		}
	}
}

// FuzzRead: no file makes it panic or take more memory than there are bytes.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, &Array{"<f4", []int{2, 2}, make([]byte, 16)}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(magic + "\x02\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := Read(bytes.NewReader(b), 1<<16); err == nil && (len(a.Data) > len(b) || len(a.Data) != a.Len()*widths[a.Type]) {
			t.Errorf("%+v", a)
		}
	})
}
