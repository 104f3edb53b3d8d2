package kernel

// This file is the gated delta rule, by which a head of a layer with a state goes one row on.

// deltaColumns is how many columns of a state the assembly takes at a time: their sums stay in
// registers.
const deltaColumns = 32

// Delta takes a head one row on. Its state has len(k) rows of len(v) values. All of it fades to
// keep of what it was; what it then recalls by k is corrected towards v, by beta of the difference;
// and dst is what it recalls by q afterwards. Products are rounded before they are added, and each
// column is added from its first row on: every set gives the same bits.
func (s Set) Delta(dst, state, q, k, v []float32, keep, beta float32) {
	dv := len(v)
	if dv == 0 || len(k) == 0 {
		clear(dst)
		return
	}
	_, _, _ = dst[dv-1], q[len(k)-1], state[len(k)*dv-1]
	whole := 0
	if s != Go {
		whole = deltaVector(dst, state, q, k, v, keep, beta)
	}
	for from := whole; from < dv; from += deltaColumns {
		deltaGo(dst, state, q, k, v, keep, beta, from, min(from+deltaColumns, dv))
	}
}

// deltaGo is Delta for columns [from, to), at most deltaColumns.
func deltaGo(dst, state, q, k, v []float32, keep, beta float32, from, to int) {
	var add [deltaColumns]float32
	dv, d, o := len(v), add[:to-from], dst[from:to]
	for i, f := range k {
		for j, old := range state[i*dv+from:][:len(d)] {
			d[j] += float32(f * old)
		}
	}
	for j := range d {
		d[j] = beta * float32(v[from+j]-float32(keep*d[j]))
	}
	clear(o)
	for i, f := range k {
		row, g := state[i*dv+from:][:len(d)], q[i]
		for j, w := range d {
			now := float32(keep*row[j]) + float32(f*w)
			row[j] = now
			o[j] += float32(g * now)
		}
	}
}
