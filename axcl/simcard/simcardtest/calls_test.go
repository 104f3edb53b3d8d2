//go:build cgo && !fake && linux

package simcardtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCallsCanonical: two traces of one program at other addresses, times and threads are one; what
// a call was given and what came of it is not lost.
func TestCallsCanonical(t *testing.T) {
	const program = `# axsim profile=pi5 clock=virtual devices=1
# number time_us thread call(operands) = code cost_us
1 0.000 T axclrtGetDeviceProperties(id=1) = 0x00000000 150.000
2 1.000 T axclrtEngineLoadFromFile(path=FOLDER/a (b) = 1.axmodel) = 0x00000000 2.500
3 1.000 T axclrtEngineGetIOInfo(id=MODEL) = 0x00000000 3.000
4 2.000 T axclrtMalloc(size=100 policy=2 made=CARD00) = 0x00000000 3.000
5 2.000 T axclrtMallocHost(size=64 made=HOST00) = 0x00000000 3.000
6 3.000 T axclrtMemcpyAsync(dst=CARD10 src=HOST00 count=8 kind=1 stream=STREAM) = 0x00000000 3.000
7 3.000 T axclrtMemcpy(dst=CARD00 src=0xc000GO count=8 kind=1) = 0x80300601 3.000
8 3.000 T axclrtMemcpy(dst=CARD64 src=HOST3f count=8 kind=1) = 0x00000000 3.000
9 4.000 T axclrtFree(p=CARD00) = 0x00000000 3.000
10 4.000 T axclrtMalloc(size=100 policy=2 made=CARD00) = 0x00000000 3.000
11 5.000 T axclrtMemset(p=CARD10 value=0 count=4) = 0x00000000 3.000
12 5.000 T axclrtGetDeviceProperties(id=1) = 0x80300181 150.000
13 6.000 T axclrtEngineExecuteAsync(model=MODEL ctx=CTX group=2 io=IO stream=STREAM) = 0x00000000 3.000
# summary
# calls axclInit 1 cost_us 1.000
`
	want := []string{
		"LoadFromFile path=a (b) = 1.axmodel",
		"GetIOInfo id=0",
		"Malloc size=100 policy=2 made=card0",
		"MallocHost size=64 made=pinned0",
		"MemcpyAsync dst=card0+16 src=pinned0 count=8 kind=1 stream=0",
		"Memcpy dst=card0 src=host count=8 kind=1 = 0x80300601",
		"Memcpy dst=host src=pinned0+63 count=8 kind=1",
		"Free p=card0",
		"Malloc size=100 policy=2 made=card1",
		"Memset p=card1+16 value=0 count=4",
		"GetDeviceProperties id=1 = 0x80300181",
		"ExecuteAsync model=0 ctx=0 group=2 io=0 stream=0",
	}
	for i, at := range [][]string{
		{"FOLDER", "/tmp/1", "CARD", "0x7f00", "HOST", "0x2fe0", "GO", "11", "STREAM", "0x5a0001", "IO", "0x5a01",
			"CTX", "2", "MODEL", "1001", " T ", " 77 "},
		{"FOLDER", "/a/b/c", "CARD", "0x1200", "HOST", "0x9900", "GO", "22", "STREAM", "0x5a0007", "IO", "0x5a02",
			"CTX", "5", "MODEL", "2004", " T ", " 5 "},
	} {
		file := filepath.Join(t.TempDir(), "trace")
		text := strings.ReplaceAll(program, "GetIOInfo", "GetXInfo") // IO is a part of it
		text = strings.ReplaceAll(strings.NewReplacer(at...).Replace(text), "GetXInfo", "GetIOInfo")
		half := len(text) / 2
		half += strings.IndexByte(text[half:], '\n') + 1
		if err := os.WriteFile(file, []byte(text[:half]), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := ReadCalls(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text[half:] + "14 7.0"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		rest, err := c.Next()
		if err == nil {
			t.Error("a line that is not whole is no error")
		}
		if got = append(got, rest...); !slices.Equal(got, want) {
			t.Errorf("trace %d:\n%s\nwant\n%s", i, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
