//go:build cgo && !fake && linux

package native

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	hf "github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
)

// Pictures: the encoder's rows, and those that are added after layers, are what the formulas give
// on the simulated card too, over both tables, and so is what the layers make of them; a picture
// that was written in another way gives other rows.
func TestOraclePictures(t *testing.T) {
	//proves:G21
	lane.Slow(t)
	for _, a := range axmodeltest.SightArchs() {
		t.Run(a.Name, func(t *testing.T) {
			onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
				d := open(t, k)
				defer closeAll(t, d)
				dir := t.TempDir()
				eyes, r, err := axmodeltest.AgainstPicture(d, dir, a, 0, hf.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if eyes < 0.9999 || r.Cosine < 0.9999 || r.Wrong > 0 || r.Decided < r.Rows/2 {
					t.Errorf("the encoder's lowest cosine is %v; %v", eyes, r)
				}
				c, err := axmodeltest.WriteCheckpoint(t.TempDir(), a, 0)
				if err != nil {
					t.Fatal(err)
				}
				p := axmodeltest.RandomPicture(c, rand.New(rand.NewPCG(1, 1)))
				if err := axmodeltest.Strict(d, filepath.Join(dir, "package", "m_vision.axmodel"), c, p); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
