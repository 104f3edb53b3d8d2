package request

import (
	"io"
	"net/http"
	"time"
)

// SlowBody reads a large body that comes no slower than its pace: waiting uses up the time that is
// left, what comes earns some. Time between reads does not count.
type SlowBody struct {
	Err  error // why no more came
	Pace int64 // bytes a second

	x     *Exchange
	left  time.Duration
	limit int64
	n     int64 // how much has come
}

// Slow reads the request's body, up to limit bytes, at 64 KiB a second or more.
func (x *Exchange) Slow(limit int64) *SlowBody {
	return &SlowBody{Pace: 64 << 10, x: x, left: x.shared.ReadTimeout, limit: limit}
}

// Announced is how long the client says that the body is, −1 where it does not say.
func (b *SlowBody) Announced() int64 { return b.x.Request.ContentLength }

func (b *SlowBody) Read(p []byte) (int, error) {
	start := time.Now()
	_ = b.x.response.SetReadDeadline(start.Add(b.left))
	if b.Err = b.x.Ctx().Err(); b.Err != nil { // after the deadline was set: see server.work
		return 0, b.Err
	}
	n, err := b.x.Request.Body.Read(p)
	b.left = min(b.left-time.Since(start)+time.Duration(n)*time.Second/time.Duration(b.Pace), b.x.shared.ReadTimeout)
	switch b.n += int64(n); {
	case b.n > b.limit:
		b.Err = TooLarge(b.limit)
	case err == io.EOF: //nolint:errorlint // as io.Reader has it
		_ = b.x.response.SetReadDeadline(time.Time{}) // what follows may take its time
		return n, err
	case err != nil:
		b.Err = Error(http.StatusBadRequest, err.Error())
	}
	return n, b.Err
}

// ReadPart reads a part of a form into memory, up to limit bytes. It takes room for as much as the
// client announced, so that uploads at the same time do not all run out of it halfway. whole is
// false where more bytes follow. room is why there was none, err the reader's error.
func (x *Exchange) ReadPart(from io.Reader, limit int) (b []byte, whole bool, room, err error) {
	before, taken := x.held.need, int64(0)
	take := func(n int) error {
		if int64(n) <= taken {
			return nil
		}
		taken = int64(n)
		return x.room(before + taken*3/2) // the old half too, while it is copied
	}
	most := limit + 1
	if n := x.Request.ContentLength; n >= 0 {
		most = int(min(n, int64(most)))
		if room := take(most); room != nil {
			return nil, false, room, nil
		}
	}
	for len(b) <= limit {
		if len(b) == cap(b) {
			next := max(min(max(2*cap(b), 64<<10), most), len(b)+1)
			if room := take(next); room != nil {
				return nil, false, room, nil
			}
			b = append(make([]byte, 0, next), b...)
		}
		n, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF { //nolint:errorlint // as io.ReadAll has it
			return b, len(b) <= limit, nil, nil
		}
		if err != nil {
			return nil, false, nil, err
		}
	}
	return b, false, nil, nil
}
