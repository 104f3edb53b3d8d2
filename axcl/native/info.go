//go:build cgo && !fake && linux

package native

/*
#include "native.h"
*/
import "C"

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unsafe"

	"github.com/axle-llm/axle/axcl"
)

func busAddress(i *C.axn_info) string {
	slot := i.props.device
	if slot > 0x1f { // some versions put the chip's id there
		slot = 0
	}
	return fmt.Sprintf("%04x:%02x:%02x.0", uint32(i.props.domain), uint32(i.props.bus), uint32(slot))
}

// degrees decides by magnitude: some versions report degrees, others thousandths.
func degrees(t int32) float64 {
	if t >= 1000 || t <= -1000 {
		return float64(t) / 1000
	}
	return float64(t)
}

func (d *device) info(id int32) (axcl.Info, error) {
	out := axcl.Info{Kind: string(d.lib.kind), Library: d.lib.path, Missing: d.lib.missing(), ID: string(d.lib.kind),
		Temperature: math.NaN(), NPULoad: math.NaN(), CPULoad: math.NaN()}
	if d.lib.kind == AXCL {
		out.ID = fmt.Sprintf("axcl:%d", d.index)
	}
	var i C.axn_info
	if err := d.inform(id, &i); err != nil {
		return out, err
	}
	out.Version = version(&i)
	if d.lib.kind == Engine {
		board(os.DirFS("/"), &out)
		return out, nil
	}
	if id == d.id && d.sys.Load() == nil {
		d.linkAt(&i)
	}
	p := &i.props
	out.Name = C.GoString(&i.soc[0])
	out.Bus = busAddress(&i)
	out.Firmware = strings.TrimRight(string(unsafe.Slice((*byte)(unsafe.Pointer(&p.version[0])), len(p.version))), "\x00")
	out.Temperature = degrees(int32(p.temperature))
	out.TotalCMM, out.FreeCMM = int64(p.total_cmm)<<10, int64(p.free_cmm)<<10
	out.TotalMem, out.FreeMem = int64(p.total_mem)<<10, int64(p.free_mem)<<10
	out.NPULoad, out.CPULoad = float64(p.npu_load)/100, float64(p.cpu_load)/100
	return out, nil
}

func version(i *C.axn_info) string {
	if s := C.GoString(&i.version[0]); s != "" {
		return s
	}
	return fmt.Sprintf("%d.%d.%d", i.release[0], i.release[1], i.release[2])
}

var cmmLine = regexp.MustCompile(`total size=(\d+)KB.*?remain=(\d+)KB`)

// board fills in what the kernel of an AX650 board says about itself. What is not there stays
// unknown.
func board(root fs.FS, out *axcl.Info) {
	out.Name = "on-board NPU"
	if b, err := fs.ReadFile(root, "proc/ax_proc/uid"); err == nil {
		out.Bus = strings.TrimSpace(string(b))
	}
	if b, err := fs.ReadFile(root, "proc/ax_proc/mem_cmm_info"); err == nil {
		if m := cmmLine.FindSubmatch(b); m != nil {
			total, _ := strconv.ParseInt(string(m[1]), 10, 64)
			free, _ := strconv.ParseInt(string(m[2]), 10, 64)
			out.TotalCMM, out.FreeCMM = total<<10, free<<10
		}
	}
	zones, _ := fs.Glob(root, "sys/class/thermal/thermal_zone*/temp")
	for _, z := range zones {
		b, err := fs.ReadFile(root, z)
		if err != nil {
			continue
		}
		if t, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 32); err == nil && !(degrees(int32(t)) <= out.Temperature) {
			out.Temperature = degrees(int32(t))
		}
	}
}
