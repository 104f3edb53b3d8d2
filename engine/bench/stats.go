package bench

import (
	"fmt"
	"math"
	"slices"
)

// Sample is a figure and how much it varied over the repeats.
type Sample struct {
	Median float64   `json:"median"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	Values []float64 `json:"values"`
}

// NewSample describes values; none give the zero Sample.
func NewSample(v []float64) Sample {
	if len(v) == 0 {
		return Sample{}
	}
	return Sample{Median: Percentile(v, 0.5), Low: slices.Min(v), High: slices.Max(v), Values: v}
}

// Spread is the larger distance of an end from the median, in per cent of it.
func (s Sample) Spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return 100 * max(s.High-s.Median, s.Median-s.Low) / math.Abs(s.Median)
}

// String is the median and the spread: "12.3 ± 1%".
func (s Sample) String() string {
	if len(s.Values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%s ±%2.0f%%", figure(s.Median), s.Spread())
}

// figure has about four digits.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return fmt.Sprintf("%.1f", v)
	case a >= 1 || a == 0:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.4f", v)
}

// Alpha is the chance of calling two equal things different that comparisons accept.
const Alpha = 0.05

// Differ gives the probability that two samples as far apart as these come from the same thing: the
// Mann-Whitney U test, exact by counting all orders for samples up to twenty values without ties,
// by the normal approximation with tie correction for the rest. Fewer than four values a side
// cannot tell anything at Alpha.
func Differ(a, b []float64) float64 {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return 1
	}
	type item struct {
		v     float64
		fromA bool
	}
	var all []item
	for _, v := range a {
		all = append(all, item{v, true})
	}
	for _, v := range b {
		all = append(all, item{v, false})
	}
	slices.SortFunc(all, func(x, y item) int {
		switch {
		case x.v < y.v:
			return -1
		case x.v > y.v:
			return 1
		}
		return 0
	})
	var rank, ties float64
	tied := false
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t
		tied = tied || j-i > 1
		for k := i; k < j; k++ {
			if all[k].fromA {
				rank += float64(i+j+1) / 2
			}
		}
		i = j
	}
	u := rank - float64(n*(n+1))/2
	// The two samples are disjoint: then ties within them do not matter, and the count is exact.
	apart := u == 0 || u == float64(n*m)
	if (!tied || apart) && n <= 20 && m <= 20 {
		return exact(n, m, min(u, float64(n*m)-u))
	}
	N := float64(n + m)
	sigma := math.Sqrt(float64(n*m) / 12 * (N + 1 - ties/(N*(N-1))))
	if sigma == 0 {
		return 1
	}
	z := max(math.Abs(u-float64(n*m)/2)-0.5, 0) / sigma
	return math.Erfc(z / math.Sqrt2)
}

// exact counts the orders in which U is at most u, on both sides.
func exact(n, m int, u float64) float64 {
	// ways[i][k]: orders of i of ours and j of theirs with U = k, built up over j.
	top := n * m
	ways := make([][]float64, n+1)
	for i := range ways {
		ways[i] = make([]float64, top+1)
		ways[i][0] = 1
	}
	for j := 1; j <= m; j++ {
		for i := 1; i <= n; i++ {
			for k := top; k >= 0; k-- {
				// The largest is one of theirs (ways as before, k unchanged) or one of ours, which
				// is above all j of theirs.
				v := ways[i][k]
				if k >= j {
					v += ways[i-1][k-j]
				}
				ways[i][k] = v
			}
		}
	}
	var low, all float64
	for k, w := range ways[n] {
		all += w
		if float64(k) <= u {
			low += w
		}
	}
	return min(2*low/all, 1)
}
