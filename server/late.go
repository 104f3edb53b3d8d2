package server

import (
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/pool"
)

const (
	detectWithin = 100 * time.Millisecond // that Frigate waits for an answer, unless it is told otherwise
	detectDecode = 5 * time.Millisecond   // for decoding a small jpeg and reading the boxes
)

// lookPieces says in the log, once for a detector and another model, that a picture takes longer
// than Frigate waits if it comes while the other's longest piece runs.
func (s *Server) lookPieces(models []pool.Running) {
	for _, d := range models {
		if !d.Entry.Caps.Detection {
			continue
		}
		var longest time.Duration
		var of string
		for _, r := range models {
			if t := piece(r.Stats); r.Entry.Key != d.Entry.Key && r.Device == d.Device && t > longest {
				longest, of = t, r.Entry.Name.String()
			}
		}
		name, within := d.Entry.Name.String(), piece(d.Stats)+detectDecode+longest
		if of == "" || within <= detectWithin {
			continue
		}
		if _, told := s.late.LoadOrStore([2]string{name, of}, true); !told {
			s.log.Warn("pictures may be answered later than Frigate waits (100 ms): set its api_timeout, or stop the other model",
				zap.String("detector", name), zap.String("beside", of), zap.Duration("longest_piece", longest.Round(time.Millisecond)),
				zap.Duration("answered_within", within.Round(time.Millisecond)))
		}
	}
}

// piece is the longest piece of a model's work that is known; a picture's encoder is one.
func piece(st ask.Stats) time.Duration {
	if st.Encoded > 0 {
		return max(st.Piece, st.Encoding/time.Duration(st.Encoded))
	}
	return st.Piece
}
