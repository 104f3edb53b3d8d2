package ask

import (
	"fmt"
	"time"
)

// HeadPlace says where LM heads are computed.
type HeadPlace string

// Where heads are computed.
const (
	HeadAuto HeadPlace = "auto" // on the card or on the host, whichever takes less time for a pass
	HeadCard HeadPlace = "card"
	HeadHost HeadPlace = "host" // on the host, if it can
)

// ParseHead returns the place of that name; empty means auto.
func ParseHead(name string) (HeadPlace, error) {
	switch p := HeadPlace(name); p {
	case "":
		return HeadAuto, nil
	case HeadAuto, HeadCard, HeadHost:
		return p, nil
	}
	return "", fmt.Errorf("%q is no place for LM heads: want auto, card or host", name)
}

// HeadStats says what became of the head on the host.
type HeadStats struct {
	Place HeadPlace // as asked
	Ready bool      // passes may use it
	Soon  bool      // it is being made, or compared with the card's
	Why   string    // why not, if not
	// Of a head that was compared with the card's: what is left of the logits' deviation, how many
	// bits the card's weights have by that (0: bf16), and the length of the file.
	Rest  float64
	Bits  int
	Bytes int64
	Rows  uint64        // that the host has taken through the head
	Busy  time.Duration // and how long that took
}

// String says where the head is computed, and why not on the host.
func (h HeadStats) String() string {
	switch {
	case h.Ready && h.Place == HeadHost:
		return "host"
	case h.Ready:
		return "card or host"
	case h.Soon:
		return "card, while the host's is made and compared"
	}
	return "card: " + h.Why
}
