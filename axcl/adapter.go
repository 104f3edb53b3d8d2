package axcl

import "fmt"

// CheckAdapter says whether what a LoRA adapter gives a layer has the size that the layer takes.
// For who implements Loader. The error wraps ErrModel.
func CheckAdapter(adapter, layer, got, want int) error {
	switch {
	case want == 0:
		return fmt.Errorf("%w: layer %d takes no adapter", ErrModel, layer)
	case got != want:
		return fmt.Errorf("%w: adapter %d has %d bytes for layer %d, which takes %d", ErrModel, adapter+1, got, layer, want)
	}
	return nil
}
