// Package fuzzguard finds input for which a parser takes too long or too much memory (promise G5: a
// mebibyte of input takes at most a second and 64 MiB). Only tests import it. [Check] may run in
// one goroutine at a time: it counts what the whole process allocates.
package fuzzguard

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/axle-llm/axle/internal/lane"
)

// The limits. The processor's time is that of the calling thread, which a busy machine does not
// change; the clock is for what a thread's time does not show: waiting, and other goroutines. Every
// machine stalls, so it has ten times as long.
const (
	Processor = time.Second
	Clock     = 10 * time.Second
	Memory    = 64 << 20 // for up to 1 MiB of input; as much again for each further one
	slack     = 2 << 20  // what the runtime and the test itself take
	endless   = time.Minute
)

// T is what [Check] needs of a *testing.T.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Check calls parse, which reads input bytes of somebody else's on the calling goroutine, and fails
// t if it broke a limit. What seems to be over one is called again, up to three times, and the best
// counts: so parse must give the same each time. A parse that has not returned after a minute of
// the machine's ends the process, as a panic that shows where it is.
//
// The race detector makes code up to ten times slower, the fuzzer's and the coverage's counters up
// to four times: the processor's limit is so much higher there.
func Check(t T, input int, parse func()) {
	t.Helper()
	check(t, input, Processor*slower(), Clock, parse)
}

// CheckClock is Check with another limit on the clock.
func CheckClock(t T, input int, clock time.Duration, parse func()) {
	t.Helper()
	check(t, input, Processor*slower(), clock, parse)
}

func check(t T, input int, processor, clock time.Duration, parse func()) {
	t.Helper()
	memory := uint64(Memory * max(1, (input+1<<20-1)>>20))
	before := metric("/gc/heap/allocs:bytes")
	cpu, took := timed(parse)
	spent := metric("/gc/heap/allocs:bytes") - before
	for try := 0; try < 2 && (cpu > processor || took > clock); try++ {
		c, w := timed(parse)
		cpu, took = min(cpu, c), min(took, w)
	}
	if cpu > processor {
		t.Fatalf("%v of the processor's time for %d bytes, the limit is %v", cpu, input, processor)
	}
	if took > clock {
		t.Fatalf("%v for %d bytes, the limit is %v", took, input, clock)
	}
	if lane.Race || spent <= memory+slack {
		return // the race detector takes memory of its own; and what was never allocated was never held
	}
	most := Peak(parse)
	for try := 0; try < 2 && most > memory+slack; try++ { // a collector that came late
		most = min(most, Peak(parse))
	}
	if most > memory+slack {
		t.Fatalf("%d MiB of memory for %d bytes, the limit is %d", most>>20, input, memory>>20)
	}
}

// timed calls f and tells its time on the processor, 0 where the system does not say, and by the
// clock.
func timed(f func()) (cpu, took time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread() // also where f ends its test
	bell := time.AfterFunc(endless, func() {
		debug.SetTraceback("all") // the parser's is another goroutine
		panic(fmt.Sprintf("fuzzguard: a parser has not returned after %v", endless))
	})
	defer bell.Stop()
	start, from := time.Now(), threadTime()
	f()
	return threadTime() - from, time.Since(start)
}

// Busy calls f and tells how long the calling goroutine had a processor meanwhile, which other
// programs do not change; where the system does not say, how long it took by the clock.
func Busy(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, from := time.Now(), threadTime()
	f()
	if now := threadTime(); now > 0 {
		return now - from
	}
	return time.Since(start)
}

func slower() time.Duration {
	factor := time.Duration(1)
	for _, name := range []string{"test.fuzz", "test.coverprofile"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			factor = 4
		}
	}
	if lane.Race {
		factor *= 10
	}
	return factor
}

func metric(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Peak is how much the heap grew at most while f ran, as far as looking often can tell.
func Peak(f func()) (most uint64) {
	old := debug.SetGCPercent(25) // so that the heap is little more than what is held
	defer debug.SetGCPercent(old)
	runtime.GC()
	const objects = "/memory/classes/heap/objects:bytes"
	base := metric(objects)
	stop, done := make(chan bool), make(chan uint64)
	go func() {
		var most uint64
		tick := time.NewTicker(200 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				done <- most
				return
			case <-tick.C:
				most = max(most, metric(objects), base)
			}
		}
	}()
	defer func() {
		close(stop)
		most = max(<-done, base) - base
	}()
	f()
	return 0
}

// Seeds are the files that match pattern, each cut after most bytes. It fails t where none does.
func Seeds(t T, most int, pattern string) (out [][]byte) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no file is called %s: %v", pattern, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("%v", err)
		}
		out = append(out, data[:min(len(data), most)])
	}
	return out
}

// Fill is a mebibyte that begins with pre, ends with post and between them has unit as often as it
// fits. Under the race detector, which looks for other things, it is a sixteenth of that.
func Fill(pre, unit, post string) []byte {
	size := 1 << 20
	if lane.Race {
		size >>= 4
	}
	return []byte(pre + strings.Repeat(unit, (size-len(pre)-len(post))/len(unit)) + post)
}
