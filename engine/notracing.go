//go:build notrace

package engine

const tracing = false
