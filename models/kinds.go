package models

import (
	"fmt"
	"slices"
	"strings"
)

// This file tells of layers that are not all alike.

// LayerInfo is what a layer has of its own.
type LayerInfo struct {
	Kind   string `json:"kind"`
	KV     int    `json:"kv,omitempty"`     // values of a row of K; 0 where the layer keeps a state
	Window int    `json:"window,omitempty"` // rows that it sees back; 0: all
	Shares bool   `json:"shares,omitempty"` // its K and V are those of layer Source, which is itself for others
	Source int    `json:"source"`
}

// each is Info.Each.
func (p *Package) each() (all []LayerInfo) {
	for _, l := range p.Facts {
		all = append(all, LayerInfo{l.Kind, l.Shape.KV, l.Window, l.Shares, 0})
	}
	if !slices.ContainsFunc(all, func(l LayerInfo) bool { return l != all[0] }) {
		return nil
	}
	for i, l := range p.Facts {
		if all[i].Source = i; l.Shares {
			all[i].Source = l.Source
		}
	}
	return all
}

// kindsOf counts the layers of each kind, where there is more than one kind.
func kindsOf(all []LayerInfo) string {
	n := map[string]int{}
	for _, l := range all {
		n[l.Kind]++
	}
	if len(n) < 2 {
		return ""
	}
	var parts []string
	for _, k := range []string{FullAttention, SlidingAttention, LinearAttention} {
		if n[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[k], strings.TrimSuffix(k, "_attention")))
		}
	}
	return strings.Join(parts, ", ")
}

// caches says how long the rows of K are, in how many layers: 16 in 12 layers and 32 in 3. Where
// all that keep some are alike it is the number alone.
func caches(all []LayerInfo, kv int) string {
	n := map[int]int{}
	var widths []int
	for _, l := range all {
		if l.KV == 0 || l.Shares {
			continue
		}
		if n[l.KV]++; n[l.KV] == 1 {
			widths = append(widths, l.KV)
		}
	}
	if len(widths) < 2 {
		return fmt.Sprint(kv)
	}
	slices.Sort(widths)
	var parts []string
	for i, w := range widths {
		layers := ""
		if i == 0 {
			layers = " layers"
		}
		parts = append(parts, fmt.Sprintf("%d in %d%s", w, n[w], layers))
	}
	return listed(parts, " and ")
}

// windows says what layers see that do not see all: 512 rows, 28 layers.
func windows(all []LayerInfo) string {
	n, of := 0, 0
	for _, l := range all {
		if l.Window > 0 {
			n, of = n+1, l.Window
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("of %d rows, %d layers", of, n)
}

// shared says which layers use the K and V of other layers, and whose.
func shared(all []LayerInfo) string {
	users := map[int][]int{}
	var sources []int
	for i, l := range all {
		if l.Shares {
			if users[l.Source] == nil {
				sources = append(sources, l.Source)
			}
			users[l.Source] = append(users[l.Source], i)
		}
	}
	var parts []string
	for i, s := range sources {
		word, verb, those := "layer", "uses", "those of layer"
		if len(users[s]) > 1 {
			word, verb = "layers", "use"
		}
		if i > 0 {
			verb = ""
		}
		parts = append(parts, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %d", word, spans(users[s]), verb, those, s)), " "))
	}
	return strings.Join(parts, ", ")
}

// spans shortens ascending numbers: 15–18, 20.
func spans(at []int) string {
	var parts []string
	for i := 0; i < len(at); {
		end := i
		for end+1 < len(at) && at[end+1] == at[end]+1 {
			end++
		}
		if end-i < 2 {
			parts = append(parts, fmt.Sprint(at[i]))
			end = i
		} else {
			parts = append(parts, fmt.Sprintf("%d–%d", at[i], at[end]))
		}
		i = end + 1
	}
	return listed(parts, " and ")
}

// listed has commas between the parts, and last before the last one.
func listed(parts []string, last string) string {
	if n := len(parts); n > 1 {
		return strings.Join(parts[:n-1], ", ") + last + parts[n-1]
	}
	return strings.Join(parts, "")
}

// parameters is how many the table, the matrix and the norm have.
func (l *PerLayer) parameters() int64 {
	if l == nil {
		return 0
	}
	return int64(l.table.Rows)*int64(l.Layers*l.Width) + int64(len(l.project)+len(l.norm))
}

// words describes the layer inputs of a token.
func (l *PerLayer) words() string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("%d values a layer and token, which the host makes of a table of %s and a matrix of %s", l.Width,
		HumanBytes(l.table.Bytes()), HumanBytes(4*int64(len(l.project))))
}
