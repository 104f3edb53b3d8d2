package rows

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"syscall"
	"time"
)

// This file is what a faulty file system may cost: a server of files that is gone, or was started
// again.

const (
	patience     = 5 * time.Second  // for a call that looks for rows or reads some
	savePatience = 30 * time.Second // for one that keeps some: a slow disk that syncs is not gone
	mostCalls    = 64               // that may hang: each holds a thread
	mostFaults   = 8                // one after the other, before the disk is switched off
	faultEvery   = time.Second      // faults of one moment count once
)

// ErrSlow is what a disk gives while a call to its file system hangs.
var ErrSlow = errors.New("rows: the file system does not answer")

// within runs a call for which somebody waits, on a goroutine of its own, and waits patience for
// it. Once it gives false, f may go on: it touches nothing that is the caller's. While any call
// takes longer than that the disk counts as absent, and none is begun.
func within[T any](d *Disk, f func() T) (got T, ok bool) {
	if d.hung.Load() > 0 {
		return got, false
	}
	if d.calls.Add(1) > mostCalls {
		d.calls.Add(-1)
		return got, false
	}
	done := make(chan T, 1)
	var over atomic.Bool // it ended, or its time did
	go func() {
		defer d.calls.Add(-1)
		done <- f()
		if over.Swap(true) {
			d.hangs(-1)
		}
	}()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case got = <-done:
		return got, true
	case <-t.C:
	}
	if over.Swap(true) {
		return <-done, true
	}
	d.hangs(1)
	return got, false
}

// change runs a change under the lock, on the caller's goroutine. One that takes longer than
// savePatience makes the disk count as absent, as within does.
func (d *Disk) change(f func() error) error {
	if d.hung.Load() > 0 {
		return ErrSlow
	}
	var over atomic.Bool
	t := time.AfterFunc(savePatience, func() {
		if !over.Swap(true) {
			d.hangs(1)
		}
	})
	defer t.Stop()
	err := locked(d.disk, f)
	if over.Swap(true) {
		d.hangs(-1)
	}
	return err
}

// hangs notes that a call hangs, or that one which did has ended.
func (d *Disk) hangs(by int64) {
	n := d.hung.Add(by)
	if d.o.Slow == nil || d.closed.Load() {
		return
	}
	switch {
	case n == 1 && by == 1:
		d.o.Slow(fmt.Errorf("%w: rows in %s count as absent until it does", ErrSlow, d.o.Dir))
	case n == 0 && by == -1:
		d.o.Slow(nil)
	}
}

// stale reports whether an error says that a server of files was started again, or is slow, rather
// than that a disk is broken.
func stale(err error) bool {
	return errors.Is(err, syscall.ESTALE) || errors.Is(err, syscall.ETIMEDOUT)
}

// fault notes an error that may pass: what was asked for counts as absent, and the folder is opened
// anew. It switches the disk off where nothing is read or kept between many of them.
func (d *Disk) fault(what string, err error) error {
	last, now := d.faulted.Load(), d.o.Now().UnixNano()
	if since := now - last; since >= 0 && since < int64(faultEvery) || !d.faulted.CompareAndSwap(last, now) {
		return fmt.Errorf("rows: %s: %w", what, err)
	}
	if d.faults.Add(1) >= mostFaults {
		return d.fail(what, err)
	}
	_ = d.disk.Reopen() // else the next fault tries
	return fmt.Errorf("rows: %s: %w", what, err)
}

// stat is Stat of a file that somebody asks for.
func (d *Disk) stat(name string) (fs.FileInfo, error) {
	st, err := d.disk.Stat(name)
	if err != nil && stale(err) {
		_ = d.fault("looking for "+name, err)
	}
	return st, err
}
