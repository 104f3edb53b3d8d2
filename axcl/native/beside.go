//go:build cgo && !fake && linux

package native

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"
)

// unnamed are libraries that need others without naming them.
var unnamed = map[string][]string{"libaxcl_pcie_dma.so": {"libaxcl_pcie_msg.so"}}

// neighbours are the libraries that files need and that lie beside them, in one folder, those that
// others need first. A file without a folder is looked for by the loader, and so are its
// neighbours.
func neighbours(files ...string) []string {
	dir := filepath.Dir(files[0])
	seen := map[string]bool{}
	var out []string
	var visit func(path string)
	visit = func(path string) {
		f, err := elf.Open(path)
		if err != nil {
			return // the loader says it better
		}
		needed, _ := f.ImportedLibraries()
		_ = f.Close()
		for _, name := range slices.Concat(unnamed[filepath.Base(path)], needed) {
			if seen[name] || strings.Contains(name, "/") {
				continue
			}
			seen[name] = true
			p := filepath.Join(dir, name)
			if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
				visit(p)
				out = append(out, p)
			}
		}
	}
	for _, file := range files {
		if strings.Contains(file, "/") {
			seen[filepath.Base(file)] = true
			visit(file)
		}
	}
	return out
}

// loadNeighbours loads what lies beside a library and is needed by it: the loader looks only where
// the system tells it to, and finds what is loaded already by its name. lacks says what could not
// be loaded, for the error of a library that then cannot be either.
func loadNeighbours(files ...string) (handles []unsafe.Pointer, lacks string) {
	runtime.LockOSThread() // the loader keeps its last error by thread
	defer runtime.UnlockOSThread()
	for _, path := range neighbours(files...) {
		p := C.CString(path)
		n := C.CString(filepath.Base(path))
		h := C.axn_beside(n, p)
		if h != nil {
			handles = append(handles, h)
		} else if lacks == "" {
			lacks = fmt.Sprintf(" (beside it: %s)", C.GoString(C.axn_why()))
		}
		C.free(unsafe.Pointer(p))
		C.free(unsafe.Pointer(n))
	}
	return handles, lacks
}
