package rows

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"
)

// This file is a folder's remote: what is looked for there, and what is sent there.

const (
	sendTime   = time.Minute // for a block to be sent
	sendsAhead = 256         // names of blocks that wait to be sent; of others only a server's end sends them
	tellEvery  = time.Minute // of trouble with the remote
)

// far is a Disk's use of its remote.
type far struct {
	Blobs
	stop  context.CancelFunc
	ctx   context.Context
	sends chan string // nil: blocks are not sent as they are saved
	tasks sync.WaitGroup

	told atomic.Int64 // when trouble was told last, in nanoseconds since 1970; 0: never
}

func (d *Disk) openFar() {
	if d.o.Remote == nil {
		return
	}
	d.far = &far{Blobs: d.o.Remote}
	d.far.ctx, d.far.stop = context.WithCancel(context.Background())
	if !d.o.Mirror {
		return
	}
	d.far.sends = make(chan string, sendsAhead)
	d.far.tasks.Go(func() {
		for {
			select {
			case name := <-d.far.sends:
				ctx, cancel := context.WithTimeout(d.far.ctx, sendTime)
				d.trouble("sending a block", d.send(ctx, name))
				cancel()
			case <-d.far.ctx.Done():
				return
			}
		}
	})
}

func (f *far) close() {
	if f != nil {
		f.stop()
		f.tasks.Wait()
	}
}

// mirror has a block sent soon. It waits for nothing.
func (d *Disk) mirror(name string) {
	if d.far == nil || d.far.sends == nil {
		return
	}
	select {
	case d.far.sends <- name:
	default:
	}
}

// trouble tells of what a remote failed with, now and then.
func (d *Disk) trouble(what string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, context.Canceled) || errors.Is(err, ErrOff) || d.o.Trouble == nil {
		return
	}
	last, now := d.far.told.Load(), d.o.Now().UnixNano()
	if (last == 0 || now-last >= int64(tellEvery)) && d.far.told.CompareAndSwap(last, now) {
		d.o.Trouble(fmt.Errorf("rows: %s: %s: %w", d.far.Name(), what, err))
	}
}

// Far is what the remote is called; empty where there is none.
func (d *Disk) Far() string {
	if d.far == nil {
		return ""
	}
	return d.far.Name()
}

// FindFar is how many of the keys, from the first on, seem to be in the folder or, after the near
// ones that were found in it, at the remote. It ends with ctx.
func (s *Space) FindFar(ctx context.Context, keys []Key, near int) int {
	d := s.d
	if d.far == nil || near >= len(keys) || d.closed.Load() {
		return near
	}
	n, err := d.far.Has(ctx, s.namesOf(keys[near:]))
	d.trouble("asking for blocks", err)
	if err != nil {
		return near
	}
	return near + min(max(n, 0), len(keys)-near)
}

// LoadFar is Load from the remote. It ends with ctx.
func (s *Space) LoadFar(ctx context.Context, k Key, to []byte) bool {
	d := s.d
	if d.far == nil || d.closed.Load() || len(to) != d.o.Block*s.o.Row {
		return false
	}
	size := int64(overhead + len(to))
	data, err := d.far.Get(ctx, s.file(k), size)
	if d.trouble("fetching a block", err); err != nil || ctx.Err() != nil {
		return false
	}
	head, end := s.header(k, len(to)), len(data)-sha256.Size
	sound := int64(len(data)) == size && string(data[:headerSize]) == string(head[:])
	//rule:G28 TestFarForged && hmac.Equal(data[end:], s.sum(head[:], [][]byte{data[headerSize:end]})) =>
	sound = sound && hmac.Equal(data[end:], s.sum(head[:], [][]byte{data[headerSize:end]}))
	if !sound {
		d.damaged.Add(1)
		d.trouble("fetching a block", fmt.Errorf("%s %w", s.file(k), ErrForged))
		return false
	}
	copy(to, data[headerSize:end])
	d.fetched.Add(size)
	return true
}

// Push sends to the remote those of the keys that are in the folder, from the first on, and not
// there yet. It ends with ctx. Without a remote it does nothing.
func (s *Space) Push(ctx context.Context, keys []Key) (sent int, err error) {
	d := s.d
	if d.far == nil {
		return 0, nil
	}
	keys = keys[:s.Find(keys)]
	have, err := d.far.Has(ctx, s.namesOf(keys))
	if err != nil {
		have = 0 // it may take them all the same
	}
	for _, k := range keys[min(max(have, 0), len(keys)):] {
		if err := d.send(ctx, s.file(k)); err != nil {
			d.trouble("sending a block", err)
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// send sends a file of the folder.
func (d *Disk) send(ctx context.Context, name string) error {
	data, err := d.Sealed(name)
	if err != nil {
		return err
	}
	if err := d.far.Put(ctx, name, data); err != nil {
		return err
	}
	d.sent.Add(int64(len(data)))
	return nil
}

func (s *Space) namesOf(keys []Key) []string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = s.file(k)
	}
	return names
}
