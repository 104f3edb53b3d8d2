//go:build cgo && !fake && linux

// Package native is a card behind the vendor's libraries: libaxcl_rt.so (PCIe) or libax_engine.so
// with libax_sys.so (the board's own NPU). It is the only package with cgo. Building needs neither
// library: they are opened at run time.
//
// A device, its models and nets belong to the goroutine that opened the device, which holds its OS
// thread from Open to Close; a call from another thread gives axcl.ErrThread and does nothing. Open
// and Probe may be called from any goroutine. The caller closes a device that it opened; that
// closes what is still loaded on it.
//
// Mechanism is C (native.h draws the flow), what fits together is decided here. A pass is one call
// into C. After a fatal error (axcl.Fatal) the card is abandoned: nothing of the library is called
// again, Close frees what is ours and returns at once, and what the library holds stays as it is
// until the process ends; an abandoned library cannot be opened again in the same process.
package native

/*
#cgo CFLAGS: -std=c11 -Wall -Wextra -Wconversion -Werror
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/axcl"
)

// Where to look for the libraries: a file, or a folder that holds it.
const (
	EnvAXCL   = "AXLE_AXCL_LIB"
	EnvEngine = "AXLE_AXENGINE_LIB"
)

// Kind chooses the library.
type Kind string

// The two libraries.
const (
	AXCL   Kind = "axcl"     // a card on PCIe
	Engine Kind = "axengine" // the board's own NPU
)

// library is a loaded library. It stays loaded: the vendor's leaves threads behind.
type library struct {
	c       *C.axn_lib
	kind    Kind
	path    string
	users   int       // open devices; the first initialises the library, the last finalises it
	devices []*device // the open ones, each with an id of its own
	lost    bool      // abandoned by a device
}

// libraries are those loaded by this process, by kind and the name they were asked for.
var libraries struct {
	sync.Mutex
	byName map[string]*library
}

// live counts the handles that have an owner: devices, models, nets.
var live = struct {
	sync.Mutex
	handles map[any]Kind
}{handles: map[any]Kind{}}

func born(h any, k Kind) {
	live.Lock()
	live.handles[h] = k
	live.Unlock()
}

func died(h any) {
	live.Lock()
	delete(live.handles, h)
	live.Unlock()
}

// candidates are the names to try, best first.
func candidates(k Kind) (names []string, env string) {
	file, folders := "libaxcl_rt.so", []string{"/usr/lib/axcl"}
	env = EnvAXCL
	if k == Engine {
		file, folders, env = "libax_engine.so", []string{"/soc/lib", "/opt/lib"}, EnvEngine
	}
	if v := os.Getenv(env); v != "" {
		if st, err := os.Stat(v); err == nil && st.IsDir() {
			v = filepath.Join(v, file)
		}
		return []string{v}, env
	}
	for _, dir := range folders {
		p := filepath.Join(dir, file)
		if _, err := os.Stat(p); err == nil {
			names = append(names, p)
		}
	}
	names = append(names, file)
	if k == AXCL {
		names = append(names, file+".1")
	}
	return names, env
}

// find loads the library, or gives the one that is loaded. The caller holds libraries.
func find(k Kind) (*library, error) {
	names, env := candidates(k)
	var first error
	for _, name := range names {
		if l := libraries.byName[string(k)+name]; l != nil {
			return l, nil
		}
		l, err := load(k, name)
		if err == nil {
			if libraries.byName == nil {
				libraries.byName = map[string]*library{}
			}
			libraries.byName[string(k)+name] = l
			return l, nil
		}
		if errors.Is(err, errBroken) {
			return nil, fmt.Errorf("%w: %w", axcl.ErrNoDevice, err)
		}
		if first == nil {
			first = err
		}
	}
	what, fix := "the AXCL runtime is not installed", "install the vendor's axclhost package"
	if k == Engine {
		what, fix = "no on-board engine library", "this is for boards whose own CPU is the AX650's"
	}
	if os.Getenv(env) != "" {
		what, fix = env+" does not name a library that can be loaded", "correct it or unset it"
	}
	return nil, &LibraryError{Kind: k, Text: fmt.Sprintf("%s (%v): %s", what, first, fix)}
}

// LibraryError says that no library was found. errors.Is(err, axcl.ErrNoDevice) holds.
type LibraryError struct {
	Kind Kind
	Text string
}

func (e *LibraryError) Error() string { return "axcl: " + e.Text }

// Is matches axcl.ErrNoDevice.
func (e *LibraryError) Is(target error) bool { return target == axcl.ErrNoDevice }

// errBroken: the file is there and is not what it should be.
var errBroken = errors.New("unusable library")

func load(k Kind, name string) (*library, error) {
	c := (*C.axn_lib)(zeroed(C.sizeof_axn_lib))
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var missing C.bool
	var why *C.char
	var beside []unsafe.Pointer
	var lacks string
	if k == AXCL {
		beside, lacks = loadNeighbours(name)
		why = C.axn_open_axcl(c, cname, &missing)
	} else {
		sysName := strings.TrimSuffix(name, filepath.Base(name)) + "libax_sys.so"
		beside, lacks = loadNeighbours(sysName, name)
		sys := C.CString(sysName)
		defer C.free(unsafe.Pointer(sys))
		why = C.axn_open_engine(c, sys, cname, &missing)
	}
	if why == nil {
		path := C.GoString(C.axn_library_file(c))
		return &library{c: c, kind: k, path: path}, nil
	}
	text := C.GoString(why)
	if !bool(missing) {
		text += lacks
	}
	for _, h := range slices.Backward(beside) {
		C.axn_unload(h)
	}
	C.free(unsafe.Pointer(c))
	if missing {
		return nil, fmt.Errorf("%w: %s has no function %s: it is not the vendor's, or too old (3.6 and later are known to work)", errBroken,
			name, text)
	}
	if _, err := os.Stat(name); err == nil && strings.Contains(name, "/") {
		return nil, fmt.Errorf("%w: %s", errBroken, text)
	} else if strings.Contains(name, "/") && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", name)
	}
	return nil, errors.New(text)
}

// zeroed is C memory; like Go's, there is always some.
func zeroed(size C.size_t) unsafe.Pointer {
	p := C.malloc(size)
	clear(unsafe.Slice((*byte)(p), size))
	return p
}

func (l *library) missing() []string {
	var out []string
	for i := C.uint32_t(0); ; i++ {
		s := C.axn_absent(l.c, i)
		if s == nil {
			return out
		}
		out = append(out, C.GoString(s))
	}
}

func (l *library) symbol(name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.axn_find(l.c, s)
}

// Open opens device number index in the library's list: 0 is the first card. On board there is only
// 0. An index that is no position in the list but a card's PCIe bus number means that card.
//
// Errors: ErrNoDevice (no library: a *LibraryError; no driver; no such card; the card is open in
// this process), ErrLost, and any *axcl.Error. On error nothing is held.
func Open(k Kind, index int) (axcl.Device, error) {
	libraries.Lock()
	defer libraries.Unlock()
	var d *device
	var err error
	alone(func() {
		var l *library
		if l, err = find(k); err == nil {
			d, err = l.open(index)
		}
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (l *library) card() *C.axn_card {
	c := (*C.axn_card)(zeroed(C.sizeof_axn_card))
	c.lib = l.c
	c.owner = C.axn_thread()
	return c
}

// start initialises the library for its first user. The caller holds libraries.
func (l *library) start(d *device) error {
	if l.lost {
		return fmt.Errorf("axcl: %w: %s was abandoned after a fatal error: restart the program", axcl.ErrLost, l.path)
	}
	if l.users == 0 {
		if rc := C.axn_init(d.c); rc != C.AXN_OK {
			return d.wrap(rc, "")
		}
	}
	l.users++
	return nil
}

// stop finalises the library after its last user. The caller holds libraries.
func (l *library) stop(d *device) error {
	l.users--
	l.lost = l.lost || bool(d.c.lost)
	if l.users > 0 || l.lost {
		return nil
	}
	rc := C.axn_fini(d.c)
	l.lost = bool(d.c.lost)
	return d.wrap(rc, "")
}

func (l *library) list(d *device) ([]int32, error) {
	var list C.axcl_device_list
	if rc := C.axn_list(d.c, &list); rc != C.AXN_OK {
		return nil, d.wrap(rc, "")
	}
	ids := make([]int32, min(int(list.num), len(list.devices)))
	for i := range ids {
		ids[i] = int32(list.devices[i])
	}
	return ids, nil
}

func (l *library) open(index int) (_ *device, err error) {
	d := &device{lib: l, c: l.card(), index: index}
	defer func() {
		if err != nil {
			C.free(unsafe.Pointer(d.c))
		}
	}()
	if err = l.start(d); err != nil {
		return nil, explain(l.kind, err)
	}
	defer func() {
		if err != nil {
			err = worse(err, l.stop(d))
		}
	}()
	ids, err := l.list(d)
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(ids) {
		if d.index = slices.Index(ids, int32(index)); d.index < 0 {
			if len(ids) == 0 {
				return nil, noCard(l)
			}
			return nil, fmt.Errorf("axcl: %w: there is no card %d; the library lists %d, numbered from 0", axcl.ErrNoDevice, index,
				len(ids))
		}
	}
	id, shared := ids[d.index], false
	for _, o := range l.devices {
		if o.id == id {
			return nil, fmt.Errorf("axcl: %w: card %d is already open in this process", axcl.ErrNoDevice, d.index)
		}
		if o.c.owner == d.c.owner { // which only this thread reads
			o.c.switches, shared = true, true
		}
	}
	d.id = id
	if err = d.wrap(C.axn_attach(d.c, C.int32_t(id)), ""); err == nil {
		err = d.findLink()
	}
	if err != nil {
		if d.lost == nil {
			err = worse(err, d.wrap(C.axn_detach(d.c), ""))
		}
		return nil, err
	}
	d.c.switches = C.bool(shared)
	l.devices = append(l.devices, d)
	born(d, l.kind)
	return d, nil
}

func noCard(l *library) error {
	return fmt.Errorf("axcl: %w: %s sees no card: is it seated and powered? `axle doctor` says more", axcl.ErrNoDevice, l.path)
}

// explain adds to a failed initialisation what the machine shows: most often that the driver is not
// there, or not for this user.
func explain(k Kind, err error) error {
	var e *axcl.Error
	if k == AXCL && errors.As(err, &e) {
		switch e.Code {
		case axcl.NoCard:
			e.Note = "the driver is there, and no card is on the bus; `axle doctor` says more"
		case axcl.NoPorts:
			e.Note = "too many processes use the card, or the driver must be loaded anew; `axle doctor` says more"
		}
		if note := unopened("/dev"); note != "" && (errors.Is(err, axcl.ErrNoDevice) || exists("/dev/"+axcl.Nodes()[0].Name)) {
			e.Note = note
		}
	}
	return err
}

// unopened says which node in dev the library cannot open, and why; empty where it can open all
// that it needs.
func unopened(dev string) string {
	for i, n := range axcl.Nodes() {
		p := filepath.Join(dev, n.Name)
		switch err := unix.Access(p, unix.R_OK|unix.W_OK); {
		case err == nil || n.Several && errors.Is(err, fs.ErrNotExist):
		case i == 0 && errors.Is(err, fs.ErrNotExist):
			return p + " is missing: the driver is not loaded, or no card is in the slot; `axle doctor` says more"
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Sprintf("%s is missing, which the library needs %s; `axle doctor` says more", p, n.For)
		default:
			return fmt.Sprintf("%s cannot be opened by this user (%v), and the library needs it %s; `axle doctor` says more", p, err, n.For)
		}
	}
	return ""
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
