package plan

import (
	"bytes"
	"strings"
	"testing"
)

// TestTogether: models are loaded in the order that takes the least memory, and fit if the most
// that is taken on the way does.
func TestTogether(t *testing.T) {
	a, b, c := Model{Name: "a", Card: 100, Most: 110}, Model{Name: "b", Card: 300, Most: 500}, Model{Name: "c", Card: 50, Most: 50}
	for _, tt := range []struct {
		all   []Model
		limit int64
		order string
		card  int64
		most  int64
		fits  bool
	}{
		{[]Model{a, b, c}, 500, "b,a,c", 450, 500, true},
		{[]Model{a, b, c}, 499, "b,a,c", 450, 500, false},
		{[]Model{a, c}, 150, "a,c", 150, 150, true},
		{[]Model{a, a}, 210, "a,a", 200, 210, true},
		{[]Model{{Name: "d", Card: 90}}, 90, "d", 90, 90, true}, // what is taken while it is loaded is not known
	} {
		s := Together(mustProfile(t), tt.limit, tt.all...)
		var order []string
		for _, m := range s.Models {
			order = append(order, m.Name)
		}
		if strings.Join(order, ",") != tt.order || s.Card != tt.card || s.Most != tt.most || s.Fits != tt.fits {
			t.Errorf("%+v", s)
		}
		var out bytes.Buffer
		if err := s.Text(&out); err != nil || strings.Contains(out.String(), "--preload "+tt.order) != tt.fits {
			t.Errorf("%v\n%s", err, out.String())
		}
	}
}
