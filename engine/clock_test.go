package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// hostTime are the functions that may ask for the host's time, and why. Everything else that the
// engine does at times goes by the card's clock, which a simulated card moves: what the worker
// decides by another would not be the same from run to run.
var hostTime = map[string]string{
	"Open":             "the beginning of both clocks",
	"Card.host":        "the watchdog's clock",
	"Card.look":        "the watchdog looks so often",
	"Card.work":        "wakes an idle worker, which then looks at the card's clock",
	"Settle":           "a caller that waits",
	"pace.wakeAfter":   "wakes the worker, which then looks at the card's clock",
	"cardBackend.Maps": "says when a map was drawn, and how old it is to who looks",
	"Model.ask":        "how long a caller waited, all in all",
	"asked.result":     "the same",
	"embedTexts":       "the same",
	"embedShown":       "the same",
	"embedTurns":       "the same",
	"Model.Rerank":     "the same",
	"diskTier.close":   "a caller that waits for a disk that may never answer",
}

// TestClocks: nothing in the engine asks for the host's time but what says here why.
func TestClocks(t *testing.T) {
	files, err := filepath.Glob("*.go")
	worker, e := filepath.Glob("card/*.go")
	if err != nil || e != nil || len(worker) == 0 {
		t.Fatal(err, e)
	}
	used := map[string]bool{}
	for _, f := range append(files, worker...) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			name := "a declaration"
			if fn, ok := d.(*ast.FuncDecl); ok {
				name = fn.Name.Name
				if fn.Recv != nil {
					recv := fn.Recv.List[0].Type
					if p, ok := recv.(*ast.StarExpr); ok {
						recv = p.X
					}
					name = recv.(*ast.Ident).Name + "." + name
				}
			}
			ast.Inspect(d, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				pkg, ok := sel.X.(*ast.Ident)
				if !ok || pkg.Name != "time" || !slices.Contains([]string{"Now", "Since", "Until", "After", "AfterFunc", "NewTicker",
					"NewTimer", "Tick", "Sleep"}, sel.Sel.Name) {
					return true
				}
				if used[name] = true; hostTime[name] == "" {
					t.Errorf("%s: %s calls time.%s: the card's clock is Card.now", set.Position(n.Pos()), name, sel.Sel.Name)
				}
				return true
			})
		}
	}
	for name := range hostTime {
		if !used[name] {
			t.Errorf("%s asks for no time: its line can go", name)
		}
	}
}

// TestCardsClock: what the worker does at times it does by the card's clock. While that stands
// still the card's state is read once, however long it lasts for the host, and no model is checked;
// when it has moved, both are done at the worker's next look.
func TestCardsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var clock, asked atomic.Int64
		f.heat = func() float64 { asked.Add(1); return 50 }
		b := onFake(t, f, OpenOptions{CardOptions: CardOptions{Check: 5 * time.Minute,
			Clock: func() time.Duration { return time.Duration(clock.Load()) }}})
		defer b.Close()
		b.m.canary.sample = []int32{1} // it has something to be held against
		rest := func(d time.Duration) (n int64, checked time.Duration) {
			<-time.After(d)
			synctest.Wait()
			return asked.Load(), b.m.canary.checked
		}
		before, _ := rest(0)
		if n, checked := rest(10 * time.Minute); n != before || checked != 0 {
			t.Errorf("by the host's clock: the card was asked %d times more, the model checked at %v", n-before, checked)
		}
		clock.Store(int64(infoWorking))
		if n, _ := rest(2 * infoEvery); n != before+1 {
			t.Errorf("%v later by its own clock the card was asked %d times more, want once", infoWorking, n-before)
		}
		clock.Store(int64(5 * time.Minute))
		if _, checked := rest(2 * infoEvery); checked != 5*time.Minute {
			t.Errorf("the model was checked at %v", checked)
		}
	})
}
