package pool_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is when a test gives up on what will never come. It decides nothing else.
const patience = time.Minute
