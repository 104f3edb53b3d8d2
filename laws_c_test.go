package axle

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// simcardLayers are the simulated card's C files, from the bottom up. A file calls only into the
// layers below its own, so that each can be read without those above it.
var simcardLayers = []struct {
	why   string
	files string
}{
	{"graphs of operations, as files have them", "graph_read.c"},
	{"words, files and arithmetic: they know nothing of a card", "parse.c log.c model.c arithmetic.c"},
	{"layers that keep a state, encoders of pictures, and products in nets", "linear.c encoder.c graph_conv.c"},
	{"nets of operations", "graph_run.c"},
	{"what any model computes", "compute.c"},
	{"parts of the options", "fault.c profile.c"},
	{"the options as a whole", "config.c"},
	{"time, the trace, what other processes hold, and this one's descriptors", "clock.c trace.c state.c nodes.c"},
	{"the cards, their memory, and what runs on their own Linux", "device.c memory.c worker.c"},
	{"models, which take memory of a card", "card_models.c"},
	{"handles, which keep models alive", "object.c"},
	{"what handles stand for: streams with their tasks, contexts; and running a model", "stream.c context.c exec.c"},
	{"the process's life, which brings all of it up and down", "life.c"},
	{"what happens at the start and the end of every call", "call.c"},
	{"the calls that programs see, a file a subject; none calls another",
		"device_calls.c memory_calls.c stream_calls.c engine_calls.c io_calls.c worker_calls.c firmware.c board.c"},
	{"what tests ask beyond the vendor's calls, and the library that forwards to the board's", "axsim.c engine_so.c"},
}

var (
	cComment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`)
	cDefines = regexp.MustCompile(`(?m)^(?:[A-Za-z_][\w \t*]*[ \t*])([A-Za-z_]\w*)\s*\([^;{}]*\)\s*\{`)
	cMacro   = regexp.MustCompile(`(?m)^#define[ \t]+(\w+)\([^)]*\)((?:[^\n]*\\\n)*[^\n]*)`)
	cName    = regexp.MustCompile(`(?:(?:\.|->)\s*)?[A-Za-z_]\w*`)
)

// TestSimcardLayers: the simulated card's files call downward only.
func TestSimcardLayers(t *testing.T) {
	layer, files := map[string]int{}, map[string]string{}
	for i, l := range simcardLayers {
		for _, f := range strings.Fields(l.files) {
			layer[f] = i
		}
	}
	names, err := filepath.Glob("axcl/simcard/c/*.[ch]")
	if err != nil || len(names) < 20 {
		t.Fatal(len(names), err)
	}
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(name)
		files[base] = string(src)
		if _, ok := layer[base]; !ok && strings.HasSuffix(base, ".c") {
			t.Errorf("%s lies in no layer: say in simcardLayers what it knows of the others", name)
		}
	}
	for base, i := range layer {
		if files[base] == "" {
			t.Errorf("%s, of the layer for %s, is not there", base, simcardLayers[i].why)
		}
	}
	for _, b := range simcardCalls(files, layer) {
		t.Errorf("axcl/simcard/c: %s, which does not lie below it", b)
	}

	// The scanner sees what it is there to see: a call upward, one through a macro, one by a
	// function's name alone.
	up := map[string]string{
		"sim.h": "#define ENTER(x) \\\n\tcall_enter(x)\n",
		"low.c": "int low(int n) { return n; }\nint up(void) { ENTER(1); return s->low + high(1); } // other()\n",
		"top.c": "static int other(void) { return 0; }\nint high(int x)\n{\n\treturn low(x);\n}\nvoid call_enter(int x) { (void)x; run " +
			"= \"up\"; }\n",
	}
	want := []string{"low.c calls call_enter of top.c", "low.c calls high of top.c"}
	if got := simcardCalls(up, map[string]int{"low.c": 0, "top.c": 1}); !slices.Equal(got, want) {
		t.Errorf("the scanner sees %q, want %q", got, want)
	}
}

// cFile is what a C file defines for others, and the names it uses. Fields of structs are no names.
func cFile(src string) (defines, uses []string) {
	src = cComment.ReplaceAllString(src, " ")
	for _, m := range cDefines.FindAllStringSubmatch(src, -1) {
		if !strings.HasPrefix(m[0], "static") {
			defines = append(defines, m[1])
		}
	}
	for _, name := range cName.FindAllString(src, -1) {
		if name[0] != '.' && name[0] != '-' {
			uses = append(uses, name)
		}
	}
	return defines, uses
}

// simcardCalls lists who calls whom among C files: "a.c calls f of b.c" where b.c does not lie
// below a.c.
func simcardCalls(files map[string]string, layer map[string]int) (bad []string) {
	home, uses, macros := map[string]string{}, map[string][]string{}, map[string][]string{}
	for name, src := range files {
		for _, m := range cMacro.FindAllStringSubmatch(src, -1) {
			macros[m[1]] = cName.FindAllString(m[2], -1)
		}
		if !strings.HasSuffix(name, ".c") {
			continue
		}
		var defines []string
		defines, uses[name] = cFile(src)
		for _, f := range defines {
			home[f] = name
		}
	}
	for name, used := range uses {
		for _, f := range slices.Clone(used) {
			used = append(used, macros[f]...)
		}
		for _, f := range used {
			if to := home[f]; to != "" && to != name && layer[to] >= layer[name] {
				bad = append(bad, name+" calls "+f+" of "+to)
			}
		}
	}
	slices.Sort(bad)
	return slices.Compact(bad)
}
