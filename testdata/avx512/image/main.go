// Command image writes what the emulated machine finds in its memory when it is switched on: a Linux kernel, the files it begins with, and
// what a boot loader would tell it (Linux' boot protocol, Documentation/x86/boot.rst). rom.s jumps to the kernel.
//
//	image OUT KERNEL COMMAND-LINE FILE=NAME…
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

// Where things lie. rom.s knows the first two, and how much memory there is.
const (
	parameters = 0x10000
	code       = 0x100000
	words      = 0x11000   // the command line
	files      = 0x5000000 // behind what the kernel needs to unpack itself
	memory     = 0x20000000
)

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "image: OUT KERNEL COMMAND-LINE FILE=NAME…")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(out, kernel, line string, list []string) error {
	k, err := os.ReadFile(kernel)
	if err != nil {
		return err
	}
	if len(k) < 0x1000 || string(k[0x202:0x206]) != "HdrS" {
		return fmt.Errorf("%s is no Linux kernel", kernel)
	}
	archive, err := cpio(list)
	if err != nil {
		return err
	}
	if files+len(archive) > memory/2 {
		return fmt.Errorf("%d bytes of files are too many", len(archive))
	}
	// The kernel's own header is the beginning of what it is told.
	p := make([]byte, 4096)
	copy(p[0x1f1:], k[0x1f1:0x202+int(k[0x201])])
	p[0x210] = 0xff // a loader without a number
	little := binary.LittleEndian
	little.PutUint32(p[0x218:], files)
	little.PutUint32(p[0x21c:], uint32(len(archive)))
	little.PutUint32(p[0x228:], words)
	p[0x1e8] = 2 // stretches of memory
	for i, at := range [][2]uint64{{0, 0x9f000}, {code, memory - code}} {
		e := p[0x2d0+20*i:]
		little.PutUint64(e, at[0])
		little.PutUint64(e[8:], at[1])
		little.PutUint32(e[16:], 1)
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		at   int64
		data []byte
	}{{parameters, p}, {words, append([]byte(line), 0)}, {code, k[(int(k[0x1f1])+1)*512:]}, {files, archive}} {
		if _, err := f.WriteAt(part.data, part.at); err != nil {
			f.Close()
			return err
		}
	}
	return f.Close()
}

// cpio is the archive that becomes the machine's files: those of the list, executable, and the devices that they need.
func cpio(list []string) ([]byte, error) {
	var out bytes.Buffer
	number := 0
	add := func(name string, mode int, data []byte, major, minor int) {
		number++
		fmt.Fprintf(&out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00", number, mode, 0, 0, 1, 0, len(data), 0, 0,
			major, minor, len(name)+1, 0, name)
		out.Write(make([]byte, -out.Len()&3))
		out.Write(data)
		out.Write(make([]byte, -out.Len()&3))
	}
	const folder, device, file = 0o40755, 0o20666, 0o100755
	for _, name := range []string{"dev", "tests", "tmp"} {
		add(name, folder, nil, 0, 0)
	}
	add("dev/console", device, nil, 5, 1)
	add("dev/null", device, nil, 1, 3)
	for _, f := range list {
		from, name, ok := strings.Cut(f, "=")
		if !ok {
			return nil, fmt.Errorf("%s: FILE=NAME", f)
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, err
		}
		add(name, file, data, 0, 0)
	}
	add("TRAILER!!!", 0, nil, 0, 0)
	return out.Bytes(), nil
}
