//go:build asan

package native

const asanEnabled = true
