//go:build !linux

package server_test

// Namespaces are Linux's.
const asHost, asContainer = "host", "container"

func netHost() error      { return child() }
func netContainer() error { return child() }
