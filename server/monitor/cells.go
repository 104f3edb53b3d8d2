package monitor

import (
	"net/http"
	"time"

	"github.com/axle-llm/axle/server/request"
)

type viewBranch struct {
	ID     int    `json:"id"`
	Own    bool   `json:"own"`
	State  string `json:"state"`
	Tokens int    `json:"tokens"`
	Shared int    `json:"shared_tokens"`
}

type viewTier struct {
	Name  string `json:"name"`
	Cells int    `json:"cells"`
	Used  int    `json:"used"`
	Bytes int64  `json:"bytes"`
}

type viewCopy struct {
	Device   string       `json:"device"`
	Age      int64        `json:"age_ms"`
	Cells    int          `json:"cells"`
	Free     int          `json:"free"`
	Used     int          `json:"used"`
	Cached   int          `json:"cached"`
	Shared   int          `json:"shared"`
	Branches []viewBranch `json:"branches"`
	Map      [][2]int     `json:"map"`
	Tiers    []viewTier   `json:"tiers"`
}

type viewCells struct {
	Model  string     `json:"model"`
	Copies []viewCopy `json:"copies"`
}

// Cells answers GET /api/axle/cells.
func (v *Views) Cells(x *request.Exchange) error {
	name, maps, err := v.o.Loaded.Maps(x.Ctx(), x.Query("model"))
	if err != nil {
		return err
	}
	key, keyed := x.Owner(), v.o.Keys
	out := viewCells{Model: name, Copies: []viewCopy{}}
	for _, m := range maps {
		l := viewCopy{Device: m.Device, Age: time.Since(m.At).Milliseconds(), Cells: m.Cells, Free: m.Free, Used: m.Used,
			Cached: m.Cached, Shared: m.Shared,
			Branches: []viewBranch{}, Map: make([][2]int, 0, len(m.Runs)), Tiers: []viewTier{}}
		for _, b := range m.Branches {
			state := "cached"
			if b.Running {
				state = "running"
			}
			l.Branches = append(l.Branches, viewBranch{ID: b.ID, Own: !keyed || b.Key == key, State: state, Tokens: b.Tokens,
				Shared: b.Shared})
		}
		for _, r := range m.Runs {
			l.Map = append(l.Map, [2]int{r.Cells, r.What})
		}
		for _, t := range m.Tiers {
			l.Tiers = append(l.Tiers, viewTier(t))
		}
		out.Copies = append(out.Copies, l)
	}
	x.Reply().JSON(http.StatusOK, out)
	return nil
}
