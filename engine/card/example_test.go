package card_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/engine/card"
)

// A net that doubles its input is a tenant of a card, beside whatever else is there.
func Example() {
	dir, err := os.MkdirTemp("", "doubler")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "double.axmodel") // y = 2x + 0
	if err := axmodel.WriteFile(path, axmodel.Header{Kind: axmodel.Affine, Hidden: 1, Out: 1, Pos: 1, Tool: "example"},
		[]axmodel.SoftGroup{{Rows: 1}}, []axmodel.Tensor{axmodel.Matrix("weight", axmodel.F32, 1, 1, []float32{2}),
			axmodel.Vector("bias", axmodel.F32, []float32{0})}); err != nil {
		log.Fatal(err)
	}
	c, err := card.Open(func() (axcl.Device, string, error) {
		d, err := soft.Open(soft.Options{Threads: 1})
		return d, "an example", err
	}, card.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	d, err := openDoubler(context.Background(), c, path)
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	y, err := d.Double(21)
	fmt.Println(y, err)
	// Output: 42 <nil>
}

// doubler is a tenant: a net that doubles what it is given, one call a piece.
type doubler struct {
	c   *card.Card
	net axcl.Net // the worker's

	mu      sync.Mutex
	waiting []job
	over    error
}

type job struct {
	x    float32
	done chan<- result
}

type result struct {
	y   float32
	err error
}

// openDoubler loads the net, as a piece of a load, and has the card give it turns.
func openDoubler(ctx context.Context, c *card.Card, path string) (*doubler, error) {
	d := &doubler{c: c}
	err := c.InPieces(ctx, func(dev axcl.Device, _ func() error) error {
		if err := c.Watched(card.FileLimit, func() (err error) {
			d.net, err = dev.LoadNet(path)
			return err
		}); err != nil {
			return c.Refused(err)
		}
		c.Attach(d, 1)
		return nil
	})
	return d, err
}

// Double may be called from any goroutine.
func (d *doubler) Double(x float32) (float32, error) {
	done := make(chan result, 1)
	d.mu.Lock()
	if d.over != nil {
		d.mu.Unlock()
		return 0, d.over
	}
	d.waiting = append(d.waiting, job{x, done})
	d.mu.Unlock()
	d.c.Wake()
	r := <-done
	return r.y, r.err
}

// Offer implements card.Tenant.
func (d *doubler) Offer(k card.Kind) (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Millisecond, k == card.Turn && len(d.waiting) > 0
}

// Step implements card.Tenant.
func (d *doubler) Step(card.Kind) (bool, error) {
	d.mu.Lock()
	if len(d.waiting) == 0 {
		d.mu.Unlock()
		return false, nil
	}
	j := d.waiting[0]
	d.waiting = d.waiting[1:]
	d.mu.Unlock()
	in, out := make([]byte, 4), make([]byte, 4)
	binary.LittleEndian.PutUint32(in, math.Float32bits(j.x))
	err := d.c.Watched(0, func() error {
		return d.net.Run(0, map[string][]byte{d.net.Inputs(0)[0].Name: in}, map[string][]byte{d.net.Outputs(0)[0].Name: out})
	})
	j.done <- result{math.Float32frombits(binary.LittleEndian.Uint32(out)), err}
	if err != nil && !axcl.Fatal(err) {
		err = d.c.Strike(err)
	}
	return true, err
}

// Fail implements card.Tenant.
func (d *doubler) Fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = err
	for _, j := range d.waiting {
		j.done <- result{err: err}
	}
	d.waiting = nil
}

// Close takes the net off the card.
func (d *doubler) Close() error {
	return d.c.Do(context.Background(), func(axcl.Device) error {
		d.c.Detach(d)
		d.Fail(card.ErrClosed)
		return d.c.Unload(d.net)
	})
}
