package plan

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestPlanLoading: whether a model fits is a matter of what loading it takes: the largest file
// still to come lies beside what is loaded.
func TestPlanLoading(t *testing.T) {
	m, ok := Shape("qwen3-4b")
	if !ok {
		t.Fatal("no shape")
	}
	m.Most = m.Card + 100<<20 // a shape with long caches needs no more for loading; this one is to
	for limit, fits := range map[int64]bool{m.Card: false, m.Most - 1: false, m.Most: true} {
		r := Make(m, mustProfile(t), limit, 256, Keep{})
		var b strings.Builder
		if err := r.Text(&b); err != nil || r.Fits != fits || strings.Contains(b.String(), "DOES NOT FIT") == fits ||
			!strings.Contains(b.String(), "while it is loaded") {
			t.Errorf("with %d bytes it fits: %v, want %v\n%s", limit, r.Fits, fits, b.String())
		}
		var back struct {
			Most int64 `json:"card_memory_loading_bytes"`
		}
		if raw, err := json.Marshal(r); err != nil || json.Unmarshal(raw, &back) != nil || back.Most != m.Most {
			t.Errorf("JSON tells %d, want %d", back.Most, m.Most)
		}
	}
	whole, _ := Shape("qwen3-0.6b")
	if whole.Most < max(whole.Card, 2*whole.HeadBytes) {
		t.Errorf("%d bytes while loading, %d loaded", whole.Most, whole.Card)
	}
}

// TestPlanCacheTiers: what stays on the card, in memory and on disk is counted by the row, and
// shown with what it saves.
func TestPlanCacheTiers(t *testing.T) {
	m, _ := Shape("qwen3-4b")
	p := mustProfile(t)
	r := Make(m, p, 1<<40, 256, Keep{Memory: 1 << 30, Disk: 20e9, Tokens: 1500})
	if len(r.Kept) != 3 || r.Row != 36*8*128*4 || r.Conversation != 1500 {
		t.Fatalf("%+v", r)
	}
	card, memory, disk := r.Kept[0], r.Kept[1], r.Kept[2]
	// A piece that is on its way takes memory too.
	if most := int64(1<<30) / int64(r.Row); memory.Rows >= most || memory.Rows < most*9/10 || memory.Conversations != memory.Rows/1500 {
		t.Errorf("memory: %+v of at most %d rows", memory, most)
	}
	if most := int64(20e9) / int64(r.Row); disk.Rows >= most || disk.Rows < most*9/10 || disk.Rows%64 != 0 {
		t.Errorf("disk: %+v of at most %d rows", disk, most)
	}
	if card.Rows != int64(m.Context) || card.Conversations != 1 || card.Back != 0 || memory.Back <= 0 || 10*memory.Back > r.Evaluate ||
		disk.Back <= memory.Back || disk.Back >= r.Evaluate {
		t.Errorf("%+v %+v %+v, evaluating takes %v", card, memory, disk, r.Evaluate)
	}
	var b strings.Builder
	if err := r.Text(&b); err != nil || !strings.Contains(b.String(), "conversations of 1500") ||
		!strings.Contains(b.String(), "40 MB/s") || !strings.Contains(b.String(), " instead of ") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if none := Make(m, p, 1<<40, 256, Keep{}); len(none.Kept) != 1 || none.Conversation != 1024 {
		t.Errorf("nothing but the card: %+v", none.Kept)
	}
	m.State, m.Slots, m.Cached, m.Row = 1<<20, 1, 9, m.Row/4
	r = Make(m, p, 1<<40, 256, Keep{Memory: 1 << 30, Disk: 20e9})
	each := int64(1024*m.Row) + m.State // a state goes with its rows
	if len(r.Kept) != 3 || r.Kept[0].Conversations != 1 || r.Kept[1].Conversations != (1<<30)/each ||
		r.Kept[2].Conversations != 20e9/each || r.Kept[1].Back <= 0 || r.Kept[2].Back <= r.Kept[1].Back {
		t.Errorf("layers with a state: %+v", r.Kept)
	}
}

// TestPlanCard: a model takes no less of a card than somebody has seen it take, nor than compiled
// files hold beside caches.
func TestPlanCard(t *testing.T) {
	for name, seen := range map[string]int64{"qwen3-4b": 6_300_000_000, "qwen3-0.6b": 0, "qwen3-1.7b": 0, "qwen3.5-0.8b": 0,
		"qwen3-vl-2b": 0} {
		m, ok := Shape(name)
		if !ok || m.Card < seen || m.Card < hub.Overhead(m.Files-m.Encoder) || m.Most < m.Card || m.Published != (m.Card == seen) {
			t.Errorf("%s takes %d, %d while it is loaded; files of %d, published %d, %v", name, m.Card, m.Most, m.Files, seen, m.Published)
		}
	}
	listed, larger := 0, 0 // larger: downloads than what goes to the card
	for _, e := range hub.Catalogue {
		m := Listed(e)
		if size, known := e.Size(); m.Net && known && size > m.Card {
			larger++
		}
		if m.Net && (m.Files > m.Card || m.Files == 0) {
			t.Errorf("%s: %d bytes to load for %d on the card", e.Name, m.Files, m.Card)
		}
		need, _ := e.CardMemory()
		r := Make(m, mustProfile(t), 7040<<20, 256, Keep{})
		if m.Card < need || m.Name != e.Name || r.Fits != (m.Most <= 7040<<20) || len(r.Holds) == 0 || !r.Net && r.Context < 1000 ||
			r.Net != (e.Kind == "audio" || e.Kind == "speech") {
			t.Errorf("%s takes %d of %d: %+v", e.Name, m.Card, need, r)
		}
		var b strings.Builder
		if err := r.Text(&b); err != nil || !strings.Contains(b.String(), "axle pull") || !strings.Contains(b.String(), " GB holds it") ||
			strings.Contains(b.String(), "profile says no costs") {
			t.Errorf("%s: %v\n%s", e.Name, err, b.String())
		}
		if r.Alone > 0 {
			listed++
		}
	}
	if larger == 0 {
		t.Error("no net of the catalogue is downloaded with more than goes to the card")
	}
	if listed < len(hub.Catalogue)*3/4 {
		t.Errorf("times of %d models alone can be told", listed)
	}
	dir := t.TempDir()
	if err := modelstest.Write(dir, "A"); err != nil {
		t.Fatal(err)
	}
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	e := hub.Of("axera-tech/qwen3-4b")
	if m := Pulled(p, e); m.Card != e.Card || m.Most < m.Card || !m.Published {
		t.Errorf("%+v", m)
	}
	if m := Pulled(p, nil); m.Card != p.Memory().Card || m.Published {
		t.Errorf("%+v", m)
	}
}

func mustProfile(t *testing.T) *profiles.Profile {
	t.Helper()
	p, err := profiles.Load("pi5")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPlanNames: what help and errors name are the shapes there are; of one with several decode
// groups a token is priced by what it sees.
func TestPlanNames(t *testing.T) {
	named := strings.Split(strings.ReplaceAll(Names, " and ", ", "), ", ")
	if len(named) != len(Shapes) {
		t.Errorf("%d shapes, %q are named", len(Shapes), named)
	}
	for _, name := range named {
		if Shapes[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	m, _ := Shape("qwen3-0.6b-long")
	small, _ := Shape("qwen3-0.6b")
	p := mustProfile(t)
	last := Make(small, p, 1<<40, 256, Keep{}).Token
	if near := Make(m, p, 1<<40, 256, Keep{}); near.Token != last || len(near.Prompts) != 8 || near.Prompts[7].Tokens != 14336 {
		t.Errorf("near, a token takes %v, %v in the small shape; %+v", near.Token, last, near.Prompts)
	}
	for _, used := range []int{2048, 4096, 8192} {
		token := Make(m, p, 1<<40, used, Keep{}).Token
		if token <= last {
			t.Errorf("at %d a token takes %v, nearer %v", used, token, last)
		}
		last = token
	}
}

// TestPlanGroups: a token is priced by the smallest decode group that reaches what it sees.
func TestPlanGroups(t *testing.T) {
	m, _ := Shape("qwen3-0.6b")
	p := mustProfile(t)
	whole := Make(m, p, 1<<40, 256, Keep{}).Token
	m.Groups = append([]axcl.Group{{Rows: 1, Cells: 512}}, m.Groups...)
	near, far := Make(m, p, 1<<40, 256, Keep{}).Token, Make(m, p, 1<<40, 1024, Keep{}).Token
	if near >= whole || far != whole {
		t.Errorf("a token takes %v near, %v far; %v with the larger group alone", near, far, whole)
	}
}

// TestPlanStates: a layer with a state costs the same at any length, and a pass carries rows of one
// sequence: clients add nothing up.
func TestPlanStates(t *testing.T) {
	m, _ := Shape("qwen3-0.6b")
	p := mustProfile(t)
	before := Make(m, p, 1<<40, 256, Keep{})
	m.State, m.Slots, m.Slotted = 27<<20, 18, 18*27<<20
	for i := range m.Layers {
		if i != len(m.Layers)-1 {
			m.Layers[i].State = 1 << 20
		}
	}
	r := Make(m, p, 1<<40, 256, Keep{})
	shape, _ := Shape("qwen3.5-0.8b")
	if known := Make(shape, p, 1<<40, 256, Keep{}); known.Alone < 26.9 || known.Alone > 27.1 || known.State != 10100736 {
		t.Errorf("Qwen3.5-0.8B int4: %+v", known)
	}
	for _, c := range r.Clients {
		if c.Wide {
			t.Errorf("%d clients go together: %+v", c.Clients, c)
		}
	}
	if r.Token >= before.Token || !before.Clients[3].Wide {
		t.Errorf("a token takes %v, with a cache in each layer %v", r.Token, before.Token)
	}
	var b strings.Builder
	if err := r.Text(&b); err != nil || !strings.Contains(b.String(), "28 MB a sequence or snapshot, room for 18: 509 MB of that memory") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestPlanLayerInputs: what layers use of each other is kept once, though each of them reads it;
// layer inputs go over the link, and the table that they are made of is memory of the machine.
func TestPlanLayerInputs(t *testing.T) {
	from, dir := t.TempDir(), filepath.Join(t.TempDir(), "package")
	if _, err := axmodeltest.RandomCheckpoint(from, "gemma4", 5); err != nil {
		t.Fatal(err)
	}
	o := compile.Options{From: from, Out: dir, Context: 95, Chunk: 16, History: []int{0, 16}}
	if _, err := compile.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	pkg, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer pkg.Close()
	m := Package(pkg)
	if m.Row != 4*(16+16+32+16) || m.Cached != 4 || len(m.Layers) != 6 || m.Layers[4].HeadDim != 16 || m.Layers[5].HeadDim != 32 ||
		m.LayerInputs != 6*32 || m.Host != pkg.Embed.Bytes()+pkg.PerLayer.Bytes() {
		t.Errorf("%+v", m)
	}
	p := mustProfile(t)
	r := Make(m, p, 1<<40, 64, Keep{})
	var b strings.Builder
	if err := r.Text(&b); err != nil || !strings.Contains(b.String(), "host memory  213 KB mapped") {
		t.Errorf("%v\n%s", err, b.String())
	}
	without := m
	without.LayerInputs = 0
	if d := r.Token - Make(without, p, 1<<40, 64, Keep{}).Token; d != 6*p.Copies["h2d-pinned"].Time(64) {
		t.Errorf("the inputs of six layers take %v a token", d)
	}
}
