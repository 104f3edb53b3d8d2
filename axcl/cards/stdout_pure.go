//go:build !(cgo && !fake && linux)

package cards

import "os"

func moveStdout() (*Stdout, error) { return &Stdout{File: os.Stdout}, nil }

func (s *Stdout) giveBack() {}
