package main

import (
	"fmt"
	"strconv"
	"strings"
)

// parseSize reads "20GB", "512MiB" or a number of bytes; decimal prefixes count by 1,000, those with an i by 1,024.
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
