package axcltest

import (
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
)

func TestSoft(t *testing.T) {
	for _, c := range Checks(Options{Open: func() (axcl.Device, error) { return soft.Open(soft.Options{CMM: 64 << 20}) }}) {
		t.Run(c.Name, func(t *testing.T) { c.Run(t) })
	}
}
