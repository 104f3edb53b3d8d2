//go:build !linux

package hosthead

func lower() {}
