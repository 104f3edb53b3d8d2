//go:build cgo && !fake && !scripted && linux

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLayerFails (D2): under sixteen streams a layer of another model fails to load. The error
// names the file, the layer and the code, the card's memory is back to where it was, the streams go
// on, and the model loads when asked for again.
func TestLayerFails(t *testing.T) {
	//proves:D2
	unraced(t)
	t.Parallel()
	u := newUnit(t)
	// The head, the largest file, goes first: layer 3 is the fifth.
	p := u.start(fmt.Sprintf("AXSIM_FAULT=EngineLoadFromFile:%d:0x8030070b", pocketFiles+4))
	right := goldens(t, p)
	blobs := p.keep("kept")
	free := p.metric("axle_card_memory_free_bytes")
	p.underStreams(right, func() {
		p.refused("kept", "axclrtEngineLoadFromFile, layer 3", "0x8030070b", blobs["pocket_p64_l3_together.axmodel"])
		p.until("has the memory back", func() bool { return p.metric("axle_card_memory_free_bytes") == free })
		if got := p.loaded(); !slices.Equal(got, []string{"pocket"}) {
			t.Errorf("loaded: %v", got)
		}
		p.says("kept", right)
		if p.until("has less memory", func() bool { return p.metric("axle_card_memory_free_bytes") < free }); t.Failed() {
			return
		}
	})
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
}

// pocketFiles is how many files a load of pocket, or of a model that keep stored, asks the card to
// load.
const pocketFiles = 8

// underStreams runs f while sixteen mixed streams run on pocket, and all must end whole and
// right.
func (p *process) underStreams(right map[string]string, f func()) {
	p.t.Helper()
	stop := make(chan struct{})
	all := make(chan []outcome, 1)
	go func() { all <- streams(p, right, stop) }()
	p.until("answers", func() bool { return p.metric("axle_running") >= 8 })
	f()
	close(stop)
	for _, o := range <-all {
		if o.end != endWhole {
			p.t.Errorf("%+v", o)
		}
	}
}

// refused requires that a model is refused with a text that has all of want.
func (p *process) refused(model string, want ...string) {
	p.t.Helper()
	o := p.say(model)
	if o.end != endRefused || o.code != http.StatusInternalServerError {
		p.t.Errorf("%s: %+v", model, o)
	}
	for _, w := range want {
		if !strings.Contains(o.detail, w) {
			p.t.Errorf("%s: %s; it does not say %q", model, o.detail, w)
		}
	}
}

// says requires that a model gives the right answer to the first prompt.
func (p *process) says(model string, right map[string]string) {
	p.t.Helper()
	if o := p.say(model); o.end != endWhole || o.text != right[prompts[0]] {
		p.t.Errorf("%s: %+v", model, o)
	}
}

// loaded are the models that /api/ps lists.
func (p *process) loaded() (names []string) {
	p.t.Helper()
	resp, err := http.Get(p.url + "/api/ps")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var ps struct{ Models []struct{ Name string } }
	if err := json.NewDecoder(resp.Body).Decode(&ps); err != nil {
		p.t.Fatal(err)
	}
	for _, m := range ps.Models {
		names = append(names, strings.TrimSuffix(m.Name, ":latest"))
	}
	slices.Sort(names)
	return names
}

// TestMemoryRunsOut (D3): under sixteen streams the card says in the middle of a load that its
// memory is full, against all prediction. An idle model goes and the load is tried again; where
// none is idle, the error is clear and nothing is half loaded.
func TestMemoryRunsOut(t *testing.T) {
	//proves:D3
	unraced(t)
	t.Parallel()
	u := newUnit(t)
	p := u.start(fmt.Sprintf("AXSIM_FAULT=EngineLoadFromFile:%d:0x80300707;EngineLoadFromFile:%d:0x80300707:sticky", 2*pocketFiles+3,
		3*pocketFiles+3+1+5))
	right := goldens(t, p)
	for _, name := range []string{"kept", "other", "another"} {
		p.keep(name)
	}
	p.underStreams(right, func() {
		p.says("kept", right)
		p.says("other", right) // fails, and is loaded in kept's place
		if got := p.loaded(); !slices.Equal(got, []string{"other", "pocket"}) {
			t.Errorf("loaded: %v", got)
		}
		if code, answer := p.post("/api/generate", []byte(`{"model":"other","keep_alive":0}`)); code != 200 {
			t.Errorf("unload: %d %s", code, answer)
		}
		free := p.metric("axle_card_memory_free_bytes")
		p.refused("another", "0x80300707")
		if got := p.loaded(); !slices.Equal(got, []string{"pocket"}) {
			t.Errorf("loaded: %v", got)
		}
		p.until("has the memory back", func() bool { return p.metric("axle_card_memory_free_bytes") >= free })
	})
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
}

// TestWrongAtLoad (D6): a card that computes a model otherwise than it did in an earlier life of
// the server is found out at load, under sixteen streams; the model is refused and everything else
// goes on.
func TestWrongAtLoad(t *testing.T) {
	//proves:D6
	unraced(t)
	t.Parallel()
	u := newUnit(t)
	p := u.start()
	right := goldens(t, p)
	p.keep("kept")
	p.says("kept", right)
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p = u.start(fmt.Sprintf("AXSIM_FAULT=EngineLoadFromFile:%d:wrong", pocketFiles+2))
	p.says("pocket", right)
	p.underStreams(right, func() {
		p.refused("kept", "the card gives other answers than it did", "axle verify")
		p.says("kept", right)
	})
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
}

// TestTwoCards (D8, D7): one model with a copy on each of two cards, under sixteen streams. One
// card is lost, or hangs: answers that had begun there end with an error, the others and whatever
// is asked from then on are right, and the process stays. One model in two parts ends with either
// card.
func TestTwoCards(t *testing.T) {
	//proves:D8
	for _, tt := range []struct {
		name, device, fault string
		code                int
		copies              bool
	}{
		{"copies, one lost", "axcl:0,axcl:1", "Execute:4400:lost", 0, true},
		{"copies, one hangs", "axcl:0,axcl:1", "Execute:4400:hang", 0, true},
		{"parts, one lost", "axcl:0+axcl:1", "Execute:4400:lost", 75, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasSuffix(tt.fault, "hang") {
				unraced(t)
			}
			t.Parallel()
			u := newUnit(t, "--device", tt.device)
			u.remember()
			p := u.start("AXSIM_DEVICES=2", "AXSIM_FAULT="+tt.fault)
			right := goldens(t, p)
			p.keep("kept") // one of the store's, whose files lie in no folder
			p.says("kept", right)
			stop := make(chan struct{})
			all := make(chan []outcome, 1)
			go func() { all <- streams(p, right, stop) }()
			if !tt.copies {
				if c := p.code(); c != tt.code {
					t.Errorf("exit code %d, want %d", c, tt.code)
				}
				<-all
				p.quiet()
				return
			}
			if strings.HasSuffix(tt.fault, "hang") { // the other card does the same for all of the watchdog's ten seconds
				p.until("hangs", func() bool { return !u.faulted(p).IsZero() })
				p.pause.Store(int64(time.Second))
			}
			p.until("lost a card", func() bool { return strings.Contains(p.said(), "a card was lost, the others go on") })
			p.pause.Store(0)
			answered := p.metric("axle_output_tokens_total")
			p.until("goes on", func() bool { return p.metric("axle_output_tokens_total") > answered+400 })
			close(stop)
			broken := 0
			for _, o := range <-all {
				switch {
				case (o.end == endFailed || o.end == endRefused && o.code == 503) && strings.Contains(o.detail, "others go on"):
					broken++
				case o.end != endWhole:
					t.Errorf("%+v", o)
				}
			}
			if broken == 0 || broken > 16 {
				t.Errorf("%d answers were broken off", broken)
			}
			for range 4 {
				p.says("pocket", right)
			}
			p.keep("later")
			p.says("later", right)
			if code, status := p.health(); code != 200 || status != "ok" || p.metric("axle_cards_lost") != 1 {
				t.Errorf("health: %d %s, %v cards lost", code, status, p.metric("axle_cards_lost"))
			}
			if c := p.stop(); c != tt.code {
				t.Errorf("exit code %d, want %d", c, tt.code)
			}
			p.quiet()
		})
	}
}
