package rows

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"
)

// This file is what lies in the folder, and what goes where room is lacking.

// entry is a file of a package.
type entry struct {
	name string
	size int64
	at   time.Time
}

func (e entry) unfinished() bool { return strings.HasPrefix(path.Base(e.name), ".new-") }
func (e entry) label() bool      { return path.Base(e.name) == "name" }

// list gives all files of all packages.
func list(d disk) (all []entry, err error) {
	dirs, err := d.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		if !dir.IsDir() || !isHex(dir.Name(), 32) {
			continue
		}
		files, err := d.ReadDir(dir.Name())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, f := range files {
			st, err := f.Info() // a call to the system; Stat's way from the root makes three, and there may be thousands of files
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			all = append(all, entry{dir.Name() + "/" + f.Name(), st.Size(), st.ModTime()})
		}
	}
	return all, nil
}

func isHex(s string, n int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == n
}

// room removes what is unfinished, and then what was used longest ago until this many bytes fit
// within the limit, and on the disk. It runs under the lock.
func (d *Disk) room(all []entry, need int64) error {
	total := int64(0)
	for _, e := range all {
		if e.unfinished() {
			if err := remove(d.disk, e.name); err != nil {
				return err
			}
			continue
		}
		total += e.size
	}
	free, err := d.disk.Free()
	if err != nil {
		return err
	}
	if free < 0 {
		free = math.MaxInt64
	}
	full := func() error {
		return fmt.Errorf("%d bytes are free on the disk, %d are to stay free: %w", free, int64(reserve), errFull)
	}
	if need > 0 && free < math.MaxInt64-total && free+total < need+reserve {
		return full() // nothing goes in vain
	}
	fits := func() bool { return total+need <= d.o.Size && (need == 0 || free >= need+reserve) }
	if !fits() {
		slices.SortFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
	}
	for _, e := range all {
		if fits() {
			return nil
		}
		if e.unfinished() || e.label() {
			continue
		}
		if err := remove(d.disk, e.name); err != nil {
			return err
		}
		total -= e.size
		free = min(free, math.MaxInt64-e.size) + e.size
	}
	if need > 0 && free < need+reserve {
		return full()
	}
	return nil
}

// Room is how many bytes may still be kept without anything else having to go.
func (d *Disk) Room() (int64, error) {
	if d.off.Load() {
		return 0, ErrOff
	}
	type result struct {
		room int64
		err  error
	}
	r, in := within(d, func() result {
		room, err := d.left()
		return result{room, err}
	})
	if !in {
		return 0, ErrSlow
	}
	return r.room, r.err
}

func (d *Disk) left() (int64, error) {
	all, err := list(d.disk)
	if err != nil {
		return 0, fmt.Errorf("rows: %w", err)
	}
	room := d.o.Size
	for _, e := range all {
		room -= e.size
	}
	free, err := d.disk.Free()
	if err != nil {
		return 0, fmt.Errorf("rows: %w", err)
	}
	if free >= 0 {
		room = min(room, free-reserve)
	}
	return max(room, 0), nil
}

// Yield makes room for others: it removes what was used longest ago until need bytes are free that
// were not before, and says how many are.
func (d *Disk) Yield(need int64) (freed int64) {
	if d.off.Load() || need <= 0 {
		return 0
	}
	_ = locked(d.disk, func() error {
		all, err := list(d.disk)
		if err != nil {
			return err
		}
		slices.SortFunc(all, func(a, b entry) int { return a.at.Compare(b.at) })
		for _, e := range all {
			if freed >= need {
				break
			}
			if !e.label() && d.disk.Remove(e.name) == nil {
				freed += e.size
			}
		}
		return nil
	})
	return freed
}
