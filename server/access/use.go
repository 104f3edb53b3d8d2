package access

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
)

// Limits are what a key may use. A limit of 0 is none.
type Limits struct {
	Requests int64 // at once
	Tokens   int64 // a day, from midnight on: those that were evaluated, and those that were written
	Pictures int64 // a minute
	Sessions int64 // of the Realtime API, at once
}

// LimitError is a request beyond one of its key's limits.
type LimitError struct {
	Text  string
	After time.Duration // when it may come again; 0: never, as it is
}

func (e *LimitError) Error() string { return e.Text }

// use is what the requests of an owner have used.
type use struct {
	mu       ranked.Mutex[ranked.Use]
	running  int64
	sessions int64
	day      time.Time // the midnight that today's count began with
	today    int64     // tokens
	pictures float64   // that may be sent at once, as of at
	at       time.Time
	total    Tokens
	refused  uint64
}

// Tokens are counts of tokens.
type Tokens struct {
	Prompt uint64 // of prompts
	Cached uint64 // of those, the ones that were found in the cache
	Output uint64 // written
}

// Begin begins a request of the key's. It is refused with a LimitError where as many run as may, or
// today's tokens are used; else end ends it, once.
func (k *Key) Begin() (end func(), err error) {
	if k == nil {
		return func() {}, nil
	}
	u, now := k.use, time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(now)
	switch {
	//rule:T6 ./server TestKeyRequests false
	case k.Limits.Requests > 0 && u.running >= k.Limits.Requests:
		u.refused++
		return nil, &LimitError{fmt.Sprintf("this key has %d requests at work, and may have no more at once: wait for one to end",
			u.running), time.Second}
	//rule:T6 ./server TestKeyTokens false
	case k.Limits.Tokens > 0 && u.today >= k.Limits.Tokens:
		u.refused++
		next := u.day.AddDate(0, 0, 1)
		return nil, &LimitError{fmt.Sprintf("this key has used today's %d tokens: there are more from %s on", k.Limits.Tokens,
			next.Format("2006-01-02 15:04 MST")), next.Sub(now)}
	}
	u.running++
	return u.end, nil
}

// Beside takes a place of a request's for more work of one that runs already, where the key has one
// free; end gives it back, once. Nothing is refused by it: without ok the work is done later.
func (k *Key) Beside() (end func(), ok bool) {
	if k == nil {
		return func() {}, true
	}
	u := k.use
	u.mu.Lock()
	defer u.mu.Unlock()
	if k.Limits.Requests > 0 && u.running >= k.Limits.Requests {
		return nil, false
	}
	u.running++
	return u.end, true
}

// Session begins a session of the Realtime API. It is refused with a LimitError where the key has
// as many as it may, or without a limit of its own as many as most; else end ends it, once.
func (k *Key) Session(most int64) (end func(), err error) {
	if k == nil {
		return func() {}, nil
	}
	u := k.use
	u.mu.Lock()
	defer u.mu.Unlock()
	//rule:T6 ./server TestRealtimeOfKey false
	if u.sessions >= cmp.Or(k.Limits.Sessions, most) {
		u.refused++
		return nil, &LimitError{fmt.Sprintf("this key has %d sessions of the Realtime API open, and may have no more at once: close one",
			u.sessions), time.Second}
	}
	u.sessions++
	return func() {
		u.mu.Lock()
		u.sessions--
		u.mu.Unlock()
	}, nil
}

// end is the end of a request, or of work beside one.
func (u *use) end() {
	u.mu.Lock()
	u.running--
	u.mu.Unlock()
}

// turn begins the count of a new day.
func (u *use) turn(now time.Time) {
	if day := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location()); !day.Equal(u.day) {
		u.day, u.today = day, 0
	}
}

// Count adds tokens to what the key has used.
func (k *Key) Count(t Tokens) {
	if k == nil {
		return
	}
	u := k.use
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(time.Now())
	u.today += int64(t.Prompt - min(t.Cached, t.Prompt) + t.Output)
	u.total.Prompt += t.Prompt
	u.total.Cached += t.Cached
	u.total.Output += t.Output
}

// Room fails with a LimitError where n more tokens are more than the key has left today. Nothing is
// taken: it keeps the answers of one request from passing the limit by more than one answer does.
func (k *Key) Room(n int64) error {
	if k == nil || k.Limits.Tokens == 0 {
		return nil
	}
	u, now := k.use, time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turn(now)
	left := max(k.Limits.Tokens-u.today, 0)
	//rule:T6 ./server TestKeyTokensOfSeveral false
	if n > left {
		u.refused++
		return &LimitError{fmt.Sprintf("the answers may take %d tokens more than one of them, and this key has %d left today: "+
			"set a lower max_tokens, or ask for fewer answers", n, left), u.day.AddDate(0, 0, 1).Sub(now)}
	}
	return nil
}

// Pictures takes n pictures of what the key may send, and have drawn, a minute, or none of them:
// then the error is a LimitError.
func (k *Key) Pictures(n int) error {
	if k == nil || n == 0 || k.Limits.Pictures == 0 {
		return nil
	}
	u, now, most := k.use, time.Now(), float64(k.Limits.Pictures)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.at.IsZero() {
		u.pictures = most
	}
	u.pictures, u.at = min(most, u.pictures+now.Sub(u.at).Minutes()*most), now
	switch left := float64(n) - u.pictures; {
	case float64(n) > most:
		u.refused++
		return &LimitError{Text: fmt.Sprintf("the request has %d pictures, and this key may have %d a minute: send fewer at "+
			"once, or ask for fewer", n, k.Limits.Pictures)}
	case left > 0:
		u.refused++
		return &LimitError{fmt.Sprintf("this key may have %d pictures a minute, and has: wait a moment", k.Limits.Pictures),
			time.Duration(left / most * float64(time.Minute))}
	}
	u.pictures -= float64(n)
	return nil
}

// PutBack gives back n pictures that Pictures took, for a request that nothing was drawn for.
func (k *Key) PutBack(n int) {
	if k == nil || k.Limits.Pictures == 0 {
		return
	}
	u := k.use
	u.mu.Lock()
	u.pictures = min(float64(k.Limits.Pictures), u.pictures+float64(n))
	u.mu.Unlock()
}

// Used is what a key has used since the server started.
type Used struct {
	Name    string
	Total   Tokens
	Today   int64 // tokens that count against the limit of a day
	Running int64
	Refused uint64 // requests beyond a limit
}

// Used tells of what each key has used, by name: of all keys to one that may see all, else of its
// own.
func (k *Keys) Used(to *Key) (all []Used) {
	for _, key := range k.ring.Load().keys {
		if !to.May(Admin) && key.Owner != to.Owner {
			continue
		}
		u := key.use
		u.mu.Lock()
		u.turn(time.Now())
		all = append(all, Used{key.Name, u.total, u.today, u.running, u.refused})
		u.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Used) int { return strings.Compare(a.Name, b.Name) })
	return all
}
