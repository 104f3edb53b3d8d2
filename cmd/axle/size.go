package main

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/internal/ram"
	"github.com/axle-llm/axle/server"
)

// parseSize reads "20GB", "512MiB" or a number of bytes; decimal prefixes count by 1,000, those
// with an i by 1,024.
func parseSize(s string) (int64, error) {
	number := strings.TrimRight(strings.ToLower(strings.TrimSpace(s)), "bikmgt ")
	unit := strings.TrimSpace(strings.ToLower(strings.TrimSpace(s))[len(number):])
	by := map[string]float64{"": 1, "b": 1, "k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9, "t": 1e12, "tb": 1e12,
		"ki": 1 << 10, "kib": 1 << 10, "mi": 1 << 20, "mib": 1 << 20, "gi": 1 << 30, "gib": 1 << 30, "ti": 1 << 40, "tib": 1 << 40}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || by == 0 || !(n >= 0) || n*by > 1<<60 {
		return 0, fmt.Errorf("%q is no size: want a number and kB, MB, GB or TB (20GB), or 0 for none", s)
	}
	return int64(n * by), nil
}

// mostRAM is the most of a machine's memory that rows take unless told otherwise: more memory would
// keep what is not asked for again.
const mostRAM = 4 << 30

// ramSize is how much of this machine's memory may keep rows: what the flag says, else
// AXLE_CACHE_RAM, else an eighth of what there is, or of what the control groups above this process
// leave it.
func ramSize(flag string, getenv func(string) string, root fs.FS) (int64, error) {
	if flag != "" {
		n, err := parseSize(flag)
		if err != nil {
			return 0, usageError("--cache-ram: %w", err)
		}
		return n, nil
	}
	if variable, v := server.Setting(getenv, "CACHE_RAM"); v != "" {
		n, err := parseSize(v)
		if err != nil {
			return 0, usageError("%s: %w", variable, err)
		}
		return n, nil
	}
	total, _ := ram.Of(root)
	return ramShare(total), nil
}

// ramShare is what rows take of a machine's memory unless told otherwise.
func ramShare(total int64) int64 { return min(total/8, mostRAM) }
