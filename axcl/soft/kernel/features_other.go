//go:build arm64 && !unix && !purego

package kernel

func hasBF16() bool { return false }
