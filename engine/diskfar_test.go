package engine

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/prefix"
)

// TestFarInTime: a conversation of 1,500 tokens that another machine has is fetched where that is
// quicker than evaluating it, and else evaluated; and however slow the other machine or the network
// turns out to be, the first token is never later than evaluating × 1.05.
func TestFarInTime(t *testing.T) {
	//proves:G29 first tokens, on a virtual clock
	const gigabit = 117e6
	for _, c := range []struct {
		name   string
		shape  axmodel.Shape
		pi     pi5
		tokens int
		far    *lan
		cached int     // at the least
		most   float64 // the first token's time, as a part of evaluating
		asked  bool
	}{
		{"4B over 1 GbE", axmodel.Qwen3Large(), large, 1500, &lan{rate: gigabit, wait: time.Millisecond}, 1408, 0.3, true},
		{"4B over Wi-Fi", axmodel.Qwen3Large(), large, 1500, &lan{rate: 30e6, wait: 5 * time.Millisecond}, 1408, 0.8, true},
		{"4B, too slow", axmodel.Qwen3Large(), large, 1500, &lan{rate: 4e6, wait: time.Millisecond}, 0, 1.05, true},
		{"4B, never answers", axmodel.Qwen3Large(), large, 1500, &lan{rate: gigabit, wait: time.Hour}, 0, 1.05, true},
		{"4B, gives nothing", axmodel.Qwen3Large(), large, 1500, &lan{rate: gigabit, gone: true}, 0, 1.05, true},
		{"4B, stops in the middle", axmodel.Qwen3Large(), large, 1500, &lan{rate: gigabit, stops: 6}, 256, 1.05, true},
		{"0.6B within its ladder", axmodel.Qwen3Small(), small, 900, &lan{rate: gigabit, wait: time.Millisecond}, 0, 1.001, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job := prompts(1, c.tokens, 2)[0].job
				secret := slices.Repeat([]byte{1, 2}, 16)
				dir := t.TempDir()
				c.far.from = openRows(t, rows.Options{Dir: filepath.Join(dir, "a"), Block: prefix.Shared, Secret: secret})
				var first [2]time.Duration
				for i, disk := range []*rows.Disk{c.far.from, openRows(t, rows.Options{Dir: filepath.Join(dir, "b"), Block: prefix.Shared,
					Secret: secret, Remote: c.far})} {
					b := asleepOn(t, c.shape, c.pi, disk)
					c.far.scale = float64(c.pi.rowBytes) / float64(b.m.shape.RowBytes())
					b.m.diskTier.near.rate.Store(int64(diskRate / c.far.scale))
					if far := b.m.diskTier.far; far != nil {
						far.rate.Store(int64(diskRate / c.far.scale))
					}
					out, end, err := run(b, job)
					if err != nil || !slices.Equal(out, []int32{9, 9}) {
						t.Fatalf("%v, %v", out, err)
					}
					first[i] = end.Usage.FirstToken
					if i == 1 {
						tier := b.Stats().Far
						if end.Usage.Cached < c.cached || c.cached == 0 && end.Usage.Cached > 0 ||
							tier.Hits != uint64(end.Usage.Cached) {
							t.Errorf("%d tokens were cached, want %d: %+v", end.Usage.Cached, c.cached, tier)
						}
						if late := tier.Late > 0; late != (c.most == 1.05 && !c.far.gone) || tier.Name != "lan" {
							t.Errorf("%+v", tier)
						}
						_, again, err := run(b, prompts(2, c.tokens, 2)[1].job)
						if err != nil || again.Usage.FirstToken > first[0]*105/100 {
							t.Errorf("a prompt that nothing has: %v, %v; alone %v", again.Usage.FirstToken, err, first[0])
						}
					}
					restSaved(t, b)
					if err := b.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if asked := c.far.asked.Load() > 0; asked != c.asked {
					t.Errorf("asked: %v", asked)
				}
				share := first[1].Seconds() / first[0].Seconds()
				t.Logf("first token %.2f s, %.2f s evaluated: %.3f", first[1].Seconds(), first[0].Seconds(), share)
				if share > c.most {
					t.Errorf("the first token takes %.3f of evaluating, at most %.2f is promised", share, c.most)
				}
			})
		})
	}
}

// lan is another machine's folder behind a network. It must be used in a bubble.
type lan struct {
	from  *rows.Disk
	rate  float64 // bytes a second, for all together
	wait  time.Duration
	gone  bool    // it says that it has everything, and then has nothing
	stops int     // it answers so often, and then no more; 0: always
	scale float64 // bytes that the network carries for each byte of a file: the shape's rows are small

	mu    sync.Mutex
	asked atomic.Int64
}

func (l *lan) Name() string { return "lan" }

// takes waits as long as the bytes take.
func (l *lan) takes(ctx context.Context, bytes int) error {
	n := l.asked.Add(1)
	wait := l.wait
	if l.stops > 0 && int(n) > l.stops {
		wait = time.Hour
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	timer := time.NewTimer(wait + time.Duration(float64(bytes)*l.scale/l.rate*1e9))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lan) Get(ctx context.Context, name string, most int64) ([]byte, error) {
	data, err := l.from.Sealed(name)
	if err := l.takes(ctx, len(data)); err != nil {
		return nil, err
	}
	if l.gone {
		return nil, fs.ErrNotExist
	}
	if err == nil && int64(len(data)) > most {
		return nil, errors.New("too large")
	}
	return data, err
}

func (l *lan) Put(ctx context.Context, name string, data []byte) error {
	if err := l.takes(ctx, len(data)); err != nil {
		return err
	}
	return l.from.Accept(name, data)
}

func (l *lan) Has(ctx context.Context, names []string) (int, error) {
	if err := l.takes(ctx, 0); err != nil {
		return 0, err
	}
	if l.gone {
		return len(names), nil
	}
	return l.from.Has(names), nil
}
