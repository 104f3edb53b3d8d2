package ollama

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/ollama/ollama/api"
)

// own are the options that Ollama has not. All are switches.
var own = []string{"speculate", "repeatable"}

// Param reads an option as a Modelfile has it, a text for each PARAMETER line of its name, into
// what a request would hold. Errors: a name that is none, a value that is not of the option's type.
func Param(name string, vals []string) (any, error) {
	if slices.Contains(own, name) {
		b, err := strconv.ParseBool(vals[0])
		if err != nil {
			return nil, fmt.Errorf("parameter %q must be true or false, got %q", name, vals[0])
		}
		return b, nil
	}
	typed, err := api.FormatParams(map[string][]string{name: vals})
	return typed[name], err
}
