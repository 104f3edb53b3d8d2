package axcl

// HeadRows is how many rows one [Model.Head] takes at most: who has more makes several calls.
const HeadRows = 64

// CheckHead reports what keeps this many values from going through the head alone, into room for
// this many logits, wrapping ErrPass: a model whose head cannot be run alone or that has none, no
// rows or more than HeadRows, values or room that are not those of whole rows.
func (s Shape) CheckHead(rows, logits int) error {
	switch {
	case s.Whole:
		return badPass("the model is a whole decoder in one file: its head cannot be run alone")
	case s.Out == 0:
		return badPass("rows for the head of a model that has no head")
	case rows == 0:
		return badPass("no rows for the head")
	case rows%s.Hidden != 0:
		return badPass("%d hidden values for the head, a row has %d", rows, s.Hidden)
	case rows/s.Hidden > HeadRows:
		return badPass("%d rows for the head, it takes at most %d at once", rows/s.Hidden, HeadRows)
	case logits != rows/s.Hidden*s.Out:
		return badPass("room for %d logits, %d rows of %d go through the head", logits, rows/s.Hidden, s.Out)
	}
	return nil
}
