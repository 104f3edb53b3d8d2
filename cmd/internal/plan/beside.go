package plan

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl/simcard/profiles"
)

// This file plans how soon a picture is answered by a detector that has other models beside it. A
// detection is urgent: it waits for the piece of work that the card is at, and for no other.

const (
	// detectWithin is how long Frigate waits for an answer unless it is told otherwise.
	detectWithin = 100 * time.Millisecond
	// detectCompute is a call of YOLO11s, as the vendor's sample measured it on the card. It stands
	// for the nets of other detectors too.
	detectCompute = 3400 * time.Microsecond
	// detectDecode is for decoding a small jpeg and for reading the boxes: an estimate.
	detectDecode = 5 * time.Millisecond
	// beside is how many answers a pass beside detections is taken to carry.
	beside = 4
)

// Detection is how soon a picture is answered in a set of models.
type Detection struct {
	Detector string        `json:"detector"`
	Alone    time.Duration `json:"alone_ns"`
	Of       string        `json:"longest_piece_of,omitempty"` // the model whose piece is the longest; empty: there is none
	What     string        `json:"longest_piece,omitempty"`
	Piece    time.Duration `json:"longest_piece_ns,omitempty"`
	Within   time.Duration `json:"answered_within_ns"`
	Keeps    bool          `json:"keeps_100_ms"`
	// models whose pieces are not published
	Unknown []string `json:"pieces_not_known,omitempty"`
}

// detection plans the first detector among the models; nil: there is none.
func detection(p *profiles.Profile, all []Model) *Detection {
	at := slices.IndexFunc(all, func(m Model) bool { return m.Detects })
	if at < 0 {
		return nil
	}
	d := &Detection{Detector: all[at].Name, Alone: all[at].detection(p)}
	for i, m := range all {
		if i == at {
			continue
		}
		t, what, known := m.longest(p)
		if !known {
			d.Unknown = append(d.Unknown, m.Name)
		}
		if t > d.Piece {
			d.Piece, d.What, d.Of = t, what, m.Name
		}
	}
	d.Within = d.Alone + d.Piece
	d.Keeps = d.Within <= detectWithin && len(d.Unknown) == 0
	return d
}

// detection is how long a picture takes with nothing beside it. The link is taken to be as quick in
// both directions as in the slower one.
func (m Model) detection(p *profiles.Profile) time.Duration {
	return detectCompute + detectDecode + p.Copies["h2d-pinned"].Time(m.IO) + p.Sync
}

// longest is the longest piece of work that the model brings to a card, of those that are known,
// and what that is. known: they all are.
func (m Model) longest(p *profiles.Profile) (longest time.Duration, what string, known bool) {
	if m.Net {
		longest, what = m.called(p)
		return longest, what, longest > 0
	}
	head := p.HeadTime(m.HeadBytes) + p.Copies["d2h-pinned"].Time(int64(m.Out)*2)
	for _, g := range m.Groups {
		t, _ := m.layers(p, g.Rows, g.Cells)
		said, heads := "a token", 1
		if g.Rows > 1 {
			if said = fmt.Sprintf("%d rows of a prompt", g.Rows); m.State == 0 {
				said, heads = fmt.Sprintf("%s with %d answers", said, beside), beside
			}
		}
		t += m.link(p, g.Rows, g.Cells*g.Rows, 0) + time.Duration(heads)*head
		if t > longest {
			longest, what = t, said
		}
	}
	known = longest > 0
	if m.Rows > 0 {
		t, ok := p.EncoderTime(m.Patches, m.Hidden)
		if known = known && ok; t > longest {
			longest, what = t, "a picture's encoder"
		}
	}
	return longest, what, known
}

// called is the longest call of a model of nets that was published, on a card that a Raspberry Pi 5
// or a board of its speed has.
func (m Model) called(p *profiles.Profile) (time.Duration, string) {
	if m.Detects {
		return m.detection(p) - detectDecode, "a detection"
	}
	kind := strings.ToLower(m.Kind + " " + m.Name)
	for _, k := range []struct {
		kind string
		most int64 // bytes of the files up to which it holds
		took time.Duration
		what string
	}{
		{"whisper", 800e6, 190 * time.Millisecond, "Whisper small's encoder"}, // tiny's and base's are shorter
		{"sensevoice", math.MaxInt64, 230 * time.Millisecond, "15 s of sound"},
		{"kokoro", math.MaxInt64, 185 * time.Millisecond, "the last net, for 4.8 s of sound"},
		{"stable diffusion 1.5", math.MaxInt64, 930 * time.Millisecond, "the decoder of a picture (a step takes 435 ms)"},
	} {
		if strings.Contains(kind, k.kind) && m.Files <= k.most {
			return k.took, k.what
		}
	}
	return 0, ""
}

// write prints the plan for people.
func (d *Detection) write(w io.Writer) error {
	round := func(t time.Duration) time.Duration { return t.Round(time.Millisecond) }
	var b strings.Builder
	fmt.Fprintf(&b, "\na detection by %s, alone: about %v\n", d.Detector, round(d.Alone))
	if d.Of != "" {
		fmt.Fprintf(&b, "longest piece beside it: %v, %s of\n  %s\n", round(d.Piece), d.What, d.Of)
	}
	for _, name := range d.Unknown {
		fmt.Fprintf(&b, "not known: the pieces of %s; 'axle bench FILE.axmodel' times a net\n", name)
	}
	switch {
	case d.Within > detectWithin:
		fmt.Fprintf(&b, "answered within %v: does not keep Frigate's %v.\n", round(d.Within), detectWithin)
		fmt.Fprintf(&b, "Set its api_timeout to %.1f, or leave that model out.\n", math.Ceil(10*d.Within.Seconds())/10)
	case !d.Keeps:
		fmt.Fprintf(&b, "Whether it keeps Frigate's %v depends on them.\n", detectWithin)
	default:
		fmt.Fprintf(&b, "answered within %v: keeps Frigate's %v\n", round(d.Within), detectWithin)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
