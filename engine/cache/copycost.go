package cache

// CopyCost is the cost of a call that copies rows, in seconds for each run of cells and for each
// row. The zero CopyCost means that rows cannot be copied.
type CopyCost struct{ Run, Row float64 }

// Measured returns the CopyCost for a call with one row that took one, and a call with this many
// rows that took all.
func Measured(one, all float64, rows int) (t CopyCost) {
	if rows > 1 {
		t.Row = max((all-one)/float64(rows-1), 0)
	}
	t.Run = max(one-t.Row, 1e-7)
	return t
}

// Cost returns the time for this many rows in as few runs as pieces allow.
func (t CopyCost) Cost(rows, piece int) float64 {
	return float64((rows+piece-1)/piece)*t.Run + float64(rows)*t.Row
}

// settle is how far a single call moves an estimate.
const settle = 0.1

// Observe corrects the costs by a call's time.
func (t *CopyCost) Observe(rows, runs int, took float64) {
	if want := float64(runs)*t.Run + float64(rows)*t.Row; took > 0 && want > 0 {
		f := min(max(1+settle*(took/want-1), 0.8), 1.25)
		t.Run, t.Row = t.Run*f, t.Row*f
	}
}

// Most returns how many of at most n rows can be copied in the time of a full piece in one run,
// because each run of cells is a separate call in every layer. joined reports whether row i
// continues the run of the row before it.
func (t CopyCost) Most(n, piece int, joined func(i int) bool) (most int) {
	budget, took := t.Cost(piece, piece)*1.001, 0.0
	for most < min(n, piece) {
		took += t.Row
		if most == 0 || !joined(most) {
			took += t.Run
		}
		if took > budget && most > 0 {
			break
		}
		most++
	}
	return most
}

// MostOf is Most for the rows in cells.
func (t CopyCost) MostOf(cells []uint32, piece int) int {
	return t.Most(len(cells), piece, func(i int) bool { return cells[i] == cells[i-1]+1 })
}
