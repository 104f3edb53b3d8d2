package cards

import (
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

func openSoft(string) (axcl.Device, error) {
	return nil, fmt.Errorf("axcl: %w: no software card in this build", axcl.ErrNoDevice)
}
