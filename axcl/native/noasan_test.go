//go:build !asan

package native

const asanEnabled = false
