package profiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMeasured(t *testing.T) {
	p, err := Load("pi5")
	if err != nil {
		t.Fatal(err)
	}
	q := Layer{Hidden: 1024, Heads: 16, KVHeads: 8, HeadDim: 128, Intermediate: 3072, Weights: 15_750_000}
	for _, c := range []struct {
		rows, cells int
		want        time.Duration
	}{{1, 2047, 1500 * time.Microsecond}, {128, 0, 2800 * time.Microsecond}, {128, 1024, 5200 * time.Microsecond},
		{128, 512, 4000 * time.Microsecond}} {
		got, measured := p.LayerTime(q, c.rows, c.cells)
		near(t, "layer", got, c.want)
		if !measured {
			t.Errorf("%d rows, %d cells: not taken from the table", c.rows, c.cells)
		}
	}
	near(t, "head", p.HeadTime(151936*1024), 7900*time.Microsecond)
	// on the board itself a run costs its processor a little, and what the card takes is the same
	board, err := Load("onboard")
	if err != nil {
		t.Fatal(err)
	}
	got, _ := board.LayerTime(q, 1, 2047)
	near(t, "layer on the board", got, 1540*time.Microsecond)
	if rate := 1 / (28*got + board.HeadTime(151936*1024)).Seconds(); rate < 15.7 || rate > 20 {
		t.Errorf("Qwen3-0.6B on the board: %.1f tokens/s, 15.7 to 20 are measured", rate)
	}
	// Layers that keep a state have lines of their own, or what the formula says; how far they look
	// back is nothing to them.
	state := Layer{Hidden: 1024, Heads: 16, KVHeads: 16, HeadDim: 128, Intermediate: 3584, Weights: 11_100_000, State: 2 * (18432 + 262144)}
	for _, c := range []struct {
		hidden, rows int
		want         time.Duration
		measured     bool
	}{{1024, 1, 970 * time.Microsecond, true}, {1024, 128, 13900 * time.Microsecond, true}, {1025, 1, 946 * time.Microsecond, false}} {
		state.Hidden = c.hidden
		got, measured := p.LayerTime(state, c.rows, 1024)
		near(t, "layer with a state", got, c.want)
		if measured != c.measured {
			t.Errorf("%+v: taken from the table: %v", c, measured)
		}
	}
	if _, measured := p.LayerTime(Layer{Hidden: 999, Heads: 9, KVHeads: 3, HeadDim: 111, Intermediate: 3000, Weights: 9e6}, 1,
		100); measured {
		t.Error("an unmeasured layer is called measured")
	}
	for _, c := range []struct {
		p            *Profile
		patches, out int
		want         time.Duration
	}{{p, 576, 2048, 192 * time.Millisecond}, {p, 1024, 2048, 774 * time.Millisecond}, {board, 576, 2048, 192040 * time.Microsecond},
		{p, 576, 2049, 0}} {
		if got, ok := c.p.EncoderTime(c.patches, c.out); got != c.want || ok != (c.want > 0) {
			t.Errorf("an encoder of %d patches and rows of %d on %s: %v, measured %v; want %v", c.patches, c.out, c.p.Name, got, ok, c.want)
		}
	}
	for _, n := range Names {
		if _, err := Load(n); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
}

func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if d := float64(got-want) / float64(want); d > 0.01 || d < -0.01 {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestBadProfiles(t *testing.T) {
	for name, text := range map[string]string{"word": "nonsense 1", "table": "table most 1ms", "time": "execute soon",
		"rate": "memory fast", "layer": "layer hidden=1 rows=1 cells=x weights=1 time=1ms",
		"linear": "linear hidden=1 rows=1 cells=1 time=1ms", "like": "like nobody",
		"encoder": "encoder patches=1 rows=1 time=1ms", "encoder's time": "encoder patches=1 out=1 time=soon", "copy": "copy h2d 1us"} {
		f := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(f, []byte("# fine\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(f); err == nil || !strings.Contains(err.Error(), ":2:") {
			t.Errorf("%s: %v, want an error that names line 2", name, err)
		}
	}
	if _, err := Load("/nowhere/at/all"); err == nil || !strings.Contains(err.Error(), "pi5") {
		t.Errorf("no such profile: %v", err)
	}
}
