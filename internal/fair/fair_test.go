package fair

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestOthersWait: however much a key has ordered, another key's work ends within twice what it
// takes alone and one piece of the first's. Time here is work: a piece of n takes n seconds of the
// bubble's clock, and nothing else takes any.
func TestOthersWait(t *testing.T) {
	for _, places := range []int{1, 2} {
		for _, tt := range []struct {
			piece, own int64 // of who ordered much; of the other
			pieces     int   // of the other, one after the other
		}{{40, 1, 1}, {40, 1, 10}, {40, 40, 3}, {3, 50, 4}, {1, 1, 100}} {
			t.Run(fmt.Sprintf("%d places, %v", places, tt), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := New(places, 100)
					for range 64 {
						go func() { _ = l.piece(t.Context(), "much", 100/int64(places), tt.piece) }()
					}
					synctest.Wait()
					time.Sleep(time.Second / 2)
					began := time.Now()
					err := l.Take(t.Context(), "other", 1, tt.own)
					for range tt.pieces - 1 {
						time.Sleep(time.Duration(tt.own) * time.Second)
						l.Free(1)
						err = errors.Join(err, l.Next(t.Context(), "other", tt.own, tt.own, 1, tt.own))
					}
					time.Sleep(time.Duration(tt.own) * time.Second)
					l.Done("other", tt.own, tt.own)
					l.Free(1)
					if err != nil {
						t.Error(err)
					}
					alone := time.Duration(tt.own) * time.Duration(tt.pieces) * time.Second
					if took := time.Since(began); took > 2*alone+time.Duration(tt.piece)*time.Second {
						t.Errorf("it took %v beside much, %v alone, and a piece of the other's takes %d s", took, alone, tt.piece)
					}
					time.Sleep(1 << 14 * time.Second)
					if l.Waiting() != 0 || len(l.keys) != 0 || l.running != 0 || l.room != l.all {
						t.Errorf("left: %+v", l)
					}
				})
			})
		}
	}
}

// TestSmallFirst: of one key's pieces the small go first, and a large one has its turn though small
// ones never end.
func TestSmallFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1, 0)
		ended := map[string]time.Duration{}
		var mu sync.Mutex
		began := time.Now()
		order := func(name string, work int64) {
			since := began
			go func() {
				if err := l.piece(t.Context(), "", 0, work); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				ended[name] = time.Since(since)
			}()
			synctest.Wait()
		}
		order("first", 100)
		order("large", 99)
		order("small", 1)
		time.Sleep(300 * time.Second)
		synctest.Wait()
		if ended["first"] != 100*time.Second || ended["small"] != 101*time.Second || ended["large"] != 200*time.Second {
			t.Error(ended)
		}
		began = time.Now()
		order("first", 10)
		order("large", 100)
		for i := range 2000 {
			order(fmt.Sprint("small ", i), 2)
			time.Sleep(time.Second)
		}
		time.Sleep(10_000 * time.Second)
		synctest.Wait()
		if d := ended["large"]; d < 100*time.Second || d > (2*ages+1)*100*time.Second { // they come twice as fast as they are done
			t.Errorf("a large piece among small ones without an end was done after %v", d)
		}
	})
}

// TestLeft: who has left already gets no turn, though there is one.
func TestLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := New(1, 10)
	for range 100 {
		if err := l.Take(ctx, "a", 10, 1); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if l.running != 0 || l.Left() != 10 || len(l.keys) != 0 {
		t.Errorf("left: %+v", l)
	}
}

// TestLeaves: a caller that leaves takes nothing with it, whether it had its turn already or not,
// and room is never given away twice.
func TestLeaves(t *testing.T) {
	//proves:T16
	synctest.Test(t, func(t *testing.T) {
		l := New(2, 10)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 400 {
			takes, work, stays := r.Int64N(20), r.Int64N(30), time.Duration(r.Int64N(200))*time.Second
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), stays)
				defer cancel()
				if err := l.piece(ctx, fmt.Sprint(i%7), takes, work); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}()
			time.Sleep(time.Duration(r.Int64N(10)) * time.Second)
			l.mu.Lock()
			if l.room < 0 || l.running > 2 {
				t.Errorf("%d of room, %d at once", l.room, l.running)
			}
			l.mu.Unlock()
		}
		time.Sleep(1 << 14 * time.Second)
		if l.Waiting() != 0 || len(l.keys) != 0 || l.running != 0 || l.room != l.all {
			t.Errorf("left: %+v", l)
		}
	})
}

// TestSaidLess: who says less work than it was is charged what it was.
func TestSaidLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1, 0)
		turns := map[string]int{}
		var mu sync.Mutex
		for range 100 {
			for key, did := range map[string]int64{"liar": 9, "honest": 1} {
				go func() {
					if l.Take(t.Context(), key, 0, 1) == nil {
						time.Sleep(time.Second)
						mu.Lock()
						turns[key]++
						mu.Unlock()
						l.Done(key, 1, did)
					}
				}()
			}
		}
		time.Sleep(100*time.Second + time.Second/2)
		mu.Lock()
		if turns["liar"] > 12 || turns["honest"] < 88 {
			t.Error(turns)
		}
		mu.Unlock()
		time.Sleep(1000 * time.Second)
	})
}

// TestDebt: who had a large piece, and comes again later, finds that others who wait have had as
// much work by then: between two turns nothing runs, and no account is closed for that.
func TestDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(1, 0)
		var mu sync.Mutex
		var small int
		go func() { _ = l.piece(t.Context(), "large", 0, 40) }()
		synctest.Wait()
		for i := range 4 {
			for range 25 {
				go func() {
					if l.piece(t.Context(), fmt.Sprint("small ", i), 0, 1) == nil {
						mu.Lock()
						defer mu.Unlock()
						small++
					}
				}()
			}
		}
		time.Sleep(42*time.Second + time.Second/2)
		began := time.Now()
		if err := l.piece(t.Context(), "large", 0, 40); err != nil {
			t.Error(err)
		}
		mu.Lock()
		if small != 100 || time.Since(began) < 95*time.Second {
			t.Errorf("a second large piece ended after %v, when %d of 100 small ones had", time.Since(began), small)
		}
		mu.Unlock()
	})
}

// TestAccountsEnd: keys that come once are forgotten while others keep the line busy.
func TestAccountsEnd(t *testing.T) {
	//proves:T16
	synctest.Test(t, func(t *testing.T) {
		l := New(1, 0)
		ctx, leave := context.WithCancel(t.Context())
		for range 2 { // one waits whenever the other ends
			go func() {
				for l.piece(ctx, "always", 0, 10) == nil {
				}
			}()
		}
		for i := range 200 {
			go func() { _ = l.piece(t.Context(), fmt.Sprint("once ", i), 0, 3) }()
			time.Sleep(20 * time.Second)
		}
		l.mu.Lock()
		if n := len(l.keys); n > 4 {
			t.Errorf("%d keys have accounts, two want something", n)
		}
		l.mu.Unlock()
		leave()
		time.Sleep(time.Hour)
	})
}

// piece takes as many seconds as its work is.
func (l *Line) piece(ctx context.Context, key string, takes, work int64) error {
	if err := l.Take(ctx, key, takes, work); err != nil {
		return err
	}
	time.Sleep(time.Duration(work) * time.Second)
	l.Done(key, work, work)
	l.Free(takes)
	return nil
}
