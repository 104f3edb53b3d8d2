package axcl

import "testing"

func TestCheckHead(t *testing.T) {
	s := testShape()
	s.Hidden, s.Out = 4, 10
	none, whole := s, s
	none.Out, whole.Whole = 0, true
	for _, tt := range []struct {
		name         string
		s            Shape
		rows, logits int
		want         string // empty: good
	}{
		{"one", s, 4, 10, ""},
		{"as many as may be", s, HeadRows * 4, HeadRows * 10, ""},
		{"a row more", s, HeadRows*4 + 4, HeadRows*10 + 10, "65 rows for the head, it takes at most 64 at once"},
		{"none", s, 0, 0, "no rows for the head"},
		{"room for nothing", s, 0, 10, "no rows for the head"},
		{"part of a row", s, 3, 10, "3 hidden values for the head, a row has 4"},
		{"a value more", s, 9, 20, "9 hidden values for the head, a row has 4"},
		{"no room", s, 8, 0, "room for 0 logits, 2 rows of 10 go through the head"},
		{"room for one", s, 8, 10, "room for 10 logits, 2 rows of 10"},
		{"room for three", s, 8, 30, "room for 30 logits, 2 rows of 10"},
		{"no head", none, 4, 0, "a model that has no head"},
		{"a whole decoder", whole, 4, 10, "the model is a whole decoder in one file: its head cannot be run alone"},
	} {
		if err := tt.s.CheckHead(tt.rows, tt.logits); !told(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
