//go:build cgo && !fake && linux

package pocket_test

import (
	"path/filepath"
	"testing"

	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/pocket"
)

// TestUnseenNative is TestUnseen through the vendor's ABI, for some of the questions.
func TestUnseenNative(t *testing.T) {
	//proves:G19 pocket's answers about pictures
	simcardtest.Attach(t, "hazards=strict", true)
	dir, err := models.Materialize(pocket.FS(), filepath.Join(t.TempDir(), pocket.Name))
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.Open(t.Context(), dir, engine.OpenOptions{Device: "axcl"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	testUnseen(t, m, unseen(t)[:5])
}
