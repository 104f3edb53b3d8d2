package cards

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
)

// openSoft understands "threads=N", "cmm=BYTES" with K, M or G (binary) and "kernels=NAME", joined
// by commas.
func openSoft(arg string) (axcl.Device, error) {
	var o soft.Options
	for part := range strings.SplitSeq(arg, ",") {
		if part == "" {
			continue
		}
		key, val, _ := strings.Cut(part, "=")
		if key == "kernels" {
			o.Kernels = val
			continue
		}
		n, err := size(val)
		switch {
		case err != nil || key == "threads" && n > 1024:
			return nil, fmt.Errorf("cards: soft:%s: %q is no number for %s", arg, val, key)
		case key == "threads":
			o.Threads = int(n)
		case key == "cmm":
			o.CMM = n
		default:
			return nil, fmt.Errorf("cards: soft:%s: unknown option %q: there are threads, cmm and kernels", arg, key)
		}
	}
	d, err := soft.Open(o)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func size(s string) (int64, error) {
	shift := 0
	if i := strings.IndexAny(s, "KMG"); i >= 0 && i == len(s)-1 {
		shift = map[byte]int{'K': 10, 'M': 20, 'G': 30}[s[i]]
		s = s[:i]
	}
	n, err := strconv.ParseUint(s, 10, 62)
	if err != nil || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("bad size %q", s)
	}
	return int64(n) << shift, nil
}
