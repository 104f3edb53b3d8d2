//go:build !scripted

package main

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/engine"
)

// TestStatesLogged: a line says what was proven of layers that keep a state and what it means, a
// warning where something is lost.
func TestStatesLogged(t *testing.T) {
	for _, c := range []struct {
		proven map[string]bool
		level  zapcore.Level
		says   []string
	}{
		{map[string]bool{"chunk": true, "kept": true, "stepped": false}, zap.InfoLevel, []string{"in chunks", "go on from snapshots"}},
		{map[string]bool{"chunk": true, "kept": true, "stepped": true}, zap.WarnLevel, []string{"but row by row", "go on from snapshots"}},
		{map[string]bool{"kept": false, "stepped": false}, zap.WarnLevel, []string{"row by row: ", "from the beginning"}},
		{map[string]bool{"chunk": true}, zap.InfoLevel, nil}, // no layer keeps a state
	} {
		core, seen := observer.New(zap.DebugLevel)
		logProven(zap.New(core))("a", engine.Stats{Proven: c.proven, Slots: 7})
		if c.says == nil {
			if seen.Len() > 0 {
				t.Errorf("%v: %v", c.proven, seen.All())
			}
			continue
		}
		line := seen.All()[0]
		fields := line.ContextMap()
		text := fields["prompts_go"].(string) + "; " + fields["turns"].(string)
		if line.Level != c.level || fields["model"] != "a" || fields["states_on_the_card"] != int64(7) {
			t.Errorf("%v: %v %v", c.proven, line, fields)
		}
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%v: %q does not say %q", c.proven, text, want)
			}
		}
	}
}

// TestWideLogged (G23): a card that gets wide passes of a model wrong is a warning in the log; one
// that has them is not, nor a model that has none.
func TestWideLogged(t *testing.T) {
	//proves:G23
	for _, c := range []struct {
		proven map[string]bool
		lines  int
	}{{map[string]bool{"wide": false}, 1}, {map[string]bool{"wide": true}, 0}, {map[string]bool{"chunk": false}, 0}} {
		core, seen := observer.New(zap.WarnLevel)
		logProven(zap.New(core))("a", engine.Stats{Proven: c.proven})
		if seen.FilterMessage(engine.NoWidePasses).FilterField(zap.String("model", "a")).Len() != c.lines || seen.Len() != c.lines {
			t.Errorf("%v: %v", c.proven, seen.All())
		}
	}
}
