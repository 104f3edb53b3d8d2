package tokenizer

import (
	"testing"

	"go.uber.org/goleak"
)

// regexp2's clock for time limits runs on for a while after the last match and then ends by itself.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dlclark/regexp2.runClock"))
}
