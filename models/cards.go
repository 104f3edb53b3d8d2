package models

import "fmt"

// CardSize is a size in which the card is sold, and what of it models may take.
type CardSize struct {
	GB   int
	Room int64 // bytes
}

// CardSizes are the sizes there are. What models may take is measured for 8 and 16 GB: the card
// itself keeps 1152 MiB. For 4 GB it was never published; we take it to be the same.
var CardSizes = []CardSize{{4, 2944 << 20}, {8, 7040 << 20}, {16, 15232 << 20}}

// CardsFor are the sizes, in GB, of the cards that hold need bytes.
func CardsFor(need int64) []int {
	holds := []int{}
	for _, c := range CardSizes {
		if need <= c.Room {
			holds = append(holds, c.GB)
		}
	}
	return holds
}

// CardWords are those of [CardsFor] in words: "8 or 16 GB", or "none".
func CardWords(need int64) string {
	var words []string
	for _, gb := range CardsFor(need) {
		words = append(words, fmt.Sprint(gb))
	}
	if len(words) == 0 {
		return "none"
	}
	return listed(words, " or ") + " GB"
}
