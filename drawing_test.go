package axle

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"html"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
)

var (
	redraw   = flag.Bool("update", false, "draw docs/rooms.svg anew")
	drawRoot = flag.String("draw", "", "draw the rooms of the checkout in this `folder`, to the file -drawto, with the lines of each on "+
		"the test's output")
	drawTo = flag.String("drawto", "", "see -draw")
)

// TestDrawing: docs/rooms.svg is the module's rooms and their imports as they are. `go test . -run
// TestDrawing -update` draws it anew.
func TestDrawing(t *testing.T) {
	if *drawRoot != "" {
		h := readHouse(t, *drawRoot)
		if err := os.WriteFile(*drawTo, []byte(h.svg(t)), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, name := range h.names() {
			fmt.Printf("%-28s %6d\n", name, h.lines[name])
		}
		return
	}
	got := readHouse(t, ".").svg(t)
	if *redraw {
		if err := os.WriteFile("docs/rooms.svg", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("docs/rooms.svg")
	if err != nil || string(want) != got {
		t.Errorf("docs/rooms.svg is not what the imports say (%v): draw it anew with go test . -run TestDrawing -update", err)
	}
}

// house is which rooms there are and which imports which. A room is a package with its folders that
// hold no room of their own.
type house struct {
	imports map[string]map[string]bool
	lines   map[string]int // of Go and C, tests left out
}

// small are packages that everybody may use, which would draw an arrow from everything and explain
// nothing, and one that holds files only.
func small(dir string) bool {
	return slices.Contains([]string{"internal/plain", "internal/ranked", "internal/regular", "internal/folder", "internal/fuzzguard",
		"internal/lane", "packaging"}, dir)
}

// readHouse reads the product's packages below root: no tests, no doubles for them, no module
// within the module.
func readHouse(t *testing.T, root string) *house {
	t.Helper()
	h := &house{map[string]map[string]bool{}, map[string]int{}}
	var cfiles []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			base := d.Name()
			if rel != "." && (base[0] == '.' || slices.Contains([]string{"testdata", "node_modules", "build", "dist", "bin"}, base)) {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && rel != "." {
				return fs.SkipDir
			}
			return nil
		}
		dir := path.Dir(rel)
		switch {
		case strings.HasSuffix(rel, ".c") || strings.HasSuffix(rel, ".h"):
			cfiles = append(cfiles, rel)
			return nil
		case !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") || dir == "." ||
			strings.HasSuffix(path.Base(dir), "test"):
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		if file.Name.Name == "main" && !strings.HasPrefix(dir, "cmd/") {
			return nil // a program that builds something
		}
		h.lines[dir] += strings.Count(string(src), "\n")
		h.add(dir, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cfiles {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if h.imports[dir] != nil {
				src, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					t.Fatal(err)
				}
				h.lines[dir] += strings.Count(string(src), "\n")
				break
			}
		}
	}
	return h
}

func (h *house) add(dir string, file *ast.File) {
	if small(dir) {
		return
	}
	if h.imports[dir] == nil {
		h.imports[dir] = map[string]bool{}
	}
	for _, im := range file.Imports {
		p, _ := strconv.Unquote(im.Path.Value)
		if to, ok := strings.CutPrefix(p, module); ok && !small(to) && !strings.HasSuffix(path.Base(to), "test") {
			h.imports[dir][to] = true
		}
	}
}

func (h *house) names() (out []string) {
	for name := range h.lines {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// height is how many rooms lie below one on the longest way down.
func (h *house) height(t *testing.T, room string, known map[string]int, way []string) int {
	t.Helper()
	if slices.Contains(way, room) {
		t.Fatalf("rooms import each other in a circle: %s", strings.Join(append(way, room), " → "))
	}
	if n, ok := known[room]; ok {
		return n
	}
	n := 0
	for to := range h.imports[room] {
		n = max(n, 1+h.height(t, to, known, append(way, room)))
	}
	known[room] = n
	return n
}

// reaches: there is a way from one room to another, over at least one room between.
func (h *house) reaches(from, to string) bool {
	var down func(string) bool
	seen := map[string]bool{}
	down = func(r string) bool {
		if seen[r] {
			return false
		}
		seen[r] = true
		if h.imports[r][to] {
			return true
		}
		for next := range h.imports[r] {
			if down(next) {
				return true
			}
		}
		return false
	}
	for next := range h.imports[from] {
		if next != to && down(next) {
			return true
		}
	}
	return false
}

const (
	boxHeight, boxGap, rowGap, margin = 30, 14, 62, 16
	letter                            = 7.3 // a letter of the boxes' type is about so wide
)

// svg draws the rooms, each above those that it imports. An arrow that others imply is left out:
// where a room imports two others and one of those imports the other, one arrow says it.
func (h *house) svg(t *testing.T) string {
	t.Helper()
	heights := map[string]int{}
	rows := map[int][]string{}
	top := 0
	var rooms []string
	for r := range h.imports {
		rooms = append(rooms, r)
	}
	sort.Strings(rooms)
	for _, r := range rooms {
		top = max(top, h.height(t, r, heights, nil))
	}
	// Each stands right below the lowest of those that import it; a room that none imports stands
	// at the bottom, except the top one.
	byHeight := slices.Clone(rooms)
	sort.SliceStable(byHeight, func(i, j int) bool { return heights[byHeight[i]] > heights[byHeight[j]] })
	for _, r := range byHeight {
		under := -1
		for _, by := range rooms {
			if h.imports[by][r] && (under < 0 || heights[by]-1 < under) {
				under = heights[by] - 1
			}
		}
		if under >= 0 {
			heights[r] = under
		}
		rows[heights[r]] = append(rows[heights[r]], r)
	}
	for _, row := range rows {
		sort.Strings(row)
	}
	type box struct{ x, y, w float64 }
	boxes := map[string]box{}
	width := func(r string) float64 { return float64(len(r))*letter + 20 }
	place := func(widest float64) {
		for n := range top + 1 {
			all := float64(boxGap * (len(rows[n]) - 1))
			for _, r := range rows[n] {
				all += width(r)
			}
			x := margin + (widest-all)/2
			for _, r := range rows[n] {
				boxes[r] = box{x, float64(margin + (top-n)*(boxHeight+rowGap)), width(r)}
				x += width(r) + boxGap
			}
		}
	}
	widest := 0.0
	for n := range top + 1 {
		all := float64(boxGap * (len(rows[n]) - 1))
		for _, r := range rows[n] {
			all += width(r)
		}
		widest = max(widest, all)
	}
	place(widest)
	arrows := map[string][]string{}
	for _, r := range rooms {
		for to := range h.imports[r] {
			if !h.reaches(r, to) {
				arrows[r] = append(arrows[r], to)
			}
		}
		sort.Strings(arrows[r])
	}
	// Rooms stand near those that they are tied to: a few rounds of the mean of their neighbours'
	// places.
	for round := range 12 {
		for i := range top + 1 {
			n := i
			if round%2 == 1 {
				n = top - i
			}
			mean := map[string]float64{}
			for _, r := range rows[n] {
				sum, count := boxes[r].x+boxes[r].w/2, 1.0
				for _, a := range rooms {
					for _, b := range arrows[a] {
						if a == r {
							sum, count = sum+boxes[b].x+boxes[b].w/2, count+1
						} else if b == r {
							sum, count = sum+boxes[a].x+boxes[a].w/2, count+1
						}
					}
				}
				mean[r] = sum / count
			}
			sort.SliceStable(rows[n], func(i, j int) bool { return mean[rows[n][i]] < mean[rows[n][j]] })
			place(widest)
		}
	}
	var s strings.Builder
	w, ht := widest+2*margin, float64(2*margin+(top+1)*boxHeight+top*rowGap)
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="axle's rooms and their imports">`+
		"\n", w, ht)
	s.WriteString(`<title>axle's rooms and their imports: arrows point downward only</title>
<style>
:root{--ink:#1f2430;--paper:#fff;--line:#5b6472;--cmd:#e8eefc;--server:#e3f4ea;--engine:#fdf0dc;
--axcl:#fbe4e4;--models:#f1e8fb;--text:#e2f3f5;--rest:#eef0f3}
@media (prefers-color-scheme:dark){:root{--ink:#e8eaf0;--paper:#12151b;--line:#99a3b3;--cmd:#22304f;--server:#1c3b2a;--engine:#463413;` +
		`--axcl:#4a2222;--models:#372550;--text:#173c42;--rest:#2b3039}}
rect{stroke:var(--line)}.paper{fill:var(--paper);stroke:none}text{fill:var(--ink);font:12px ui-monospace,monospace;text-anchor:middle}
path{fill:none;stroke:var(--line);stroke-opacity:.75}marker path{fill:var(--line);stroke:none}
.cmd{fill:var(--cmd)}.server{fill:var(--server)}.engine{fill:var(--engine)}
.axcl{fill:var(--axcl)}.models{fill:var(--models)}.text{fill:var(--text)}.rest{fill:var(--rest)}
</style>
<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 8 4 0 8z"/></marker></defs>
`)
	fmt.Fprintf(&s, `<rect class="paper" width="%.0f" height="%.0f"/>`+"\n", w, ht)
	for _, r := range rooms {
		for i, to := range arrows[r] {
			a, b := boxes[r], boxes[to]
			x1 := a.x + a.w*float64(i+1)/float64(len(arrows[r])+1)
			x2, y1, y2 := b.x+b.w/2, a.y+boxHeight, b.y
			fmt.Fprintf(&s, `<path marker-end="url(#a)" d="M%.0f %.0fC%.0f %.0f %.0f %.0f %.0f %.0f"><title>%s imports %s</title></path>`+
				"\n",
				x1, y1, x1, y1+rowGap*0.6, x2, y2-rowGap*0.6, x2, y2, html.EscapeString(r), html.EscapeString(to))
		}
	}
	for _, r := range rooms {
		b := boxes[r]
		fmt.Fprintf(&s, `<rect class="%s" x="%.0f" y="%.0f" width="%.0f" height="%d" rx="5"/><text x="%.0f" y="%.0f">%s</text>`+"\n",
			wing(r), b.x, b.y, b.w, boxHeight, b.x+b.w/2, b.y+boxHeight/2+4, html.EscapeString(r))
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// wing is the colour of a room.
func wing(room string) string {
	switch first, _, _ := strings.Cut(room, "/"); first {
	case "cmd", "server", "engine", "axcl", "models":
		return first
	case "axmodel":
		return "axcl"
	case "tokenizer", "sampler", "vision", "audio":
		return "text"
	}
	return "rest"
}
