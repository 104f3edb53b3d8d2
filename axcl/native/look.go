//go:build cgo && !fake && linux

package native

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/axle-llm/axle/axcl"
)

// Found is what a library says without a card being opened.
type Found struct {
	Kind    Kind
	Library string // path; empty when there is none
	Version string
	Missing []string    // optional calls it lacks
	Devices []axcl.Info // what it lists
	// Simulated: the library is axle's own simulated card, which computes the software card's
	// models.
	Simulated bool
	Err       error // why no device can be opened; nil when one can be tried
}

// Look loads the library and asks what it knows, also of its cards: the library opens one that is
// not open to answer, and closes it again. It leaves the library as it was.
func Look(k Kind) Found {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	libraries.Lock()
	defer libraries.Unlock()
	var f Found
	alone(func() { f = look(k) })
	return f
}

func look(k Kind) Found {
	f := Found{Kind: k}
	l, err := find(k)
	if err != nil {
		f.Err = err
		return f
	}
	f.Library, f.Missing = l.path, l.missing()
	f.Simulated = l.symbol("axsim_reset") != nil
	d := &device{lib: l, c: l.card()}
	defer C.free(unsafe.Pointer(d.c))
	var i C.axn_info
	if C.axn_inform(d.c, -1, &i) == C.AXN_OK {
		f.Version = version(&i)
	}
	if f.Err = l.start(d); f.Err != nil {
		f.Err = explain(k, f.Err)
		return f
	}
	ids, err := l.list(d)
	f.Err = err
	for n, id := range ids {
		d.index = n
		info, err := d.info(id)
		if err != nil {
			f.Err = err
			break
		}
		f.Devices = append(f.Devices, info)
	}
	if f.Err == nil && len(ids) == 0 {
		f.Err = noCard(l)
	}
	if err := l.stop(d); f.Err == nil {
		f.Err = err
	}
	return f
}
