package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/prefix"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// replicas is one backend for several that hold the same model on different cards. A sequence goes
// to the replica that last had the most of its beginning, unless that replica has more than busier
// sequences more than another. If its card is lost before the first token, or the queue is full,
// the sequence goes to another replica.
type replicas struct {
	mu  ranked.Mutex[ranked.Replicas]
	all []*replica

	sees   *models.Vision // how pictures are placed in a prompt; nil: the model does not see
	closed func() error   // called after the replicas are closed; may be nil
}

type replica struct {
	Backend
	load int                    // number of its sequences
	seen map[prefix.Name]uint64 // beginnings of prompts, and when they were last seen
	tick uint64
	dead bool
}

const (
	busier     = 2
	mostBlocks = 4096
)

// Replicate returns one backend for several that hold the same model. It owns them from then on.
// There must be at least one.
func Replicate(bs ...Backend) Backend {
	r := &replicas{}
	if b, ok := bs[0].(interface{ sight() *models.Vision }); ok {
		r.sees = b.sight()
	}
	for _, b := range bs {
		r.all = append(r.all, &replica{Backend: b, seen: map[prefix.Name]uint64{}})
	}
	return r
}

// blocks returns names for the beginnings of a prompt, one for each whole block. For the ids that
// stand for pictures' rows, the pictures count: the same words about another picture are another
// beginning.
func (r *replicas) blocks(job *Job) []prefix.Name {
	places := 0
	return prefix.New(nil, prefix.Local, []string{job.Key}).Blocks(job.IDs, func(i int) []byte {
		if r.sees == nil || job.IDs[i] != r.sees.Placeholder {
			return nil
		}
		rows := max(r.sees.Rows, 1)
		at, first := places/rows, places%rows == 0
		if places++; !first || at >= len(job.Images) {
			return nil
		}
		sum := sha256.Sum256(job.Images[at])
		//rule:G19 TestReplicasSee : => :0
		return sum[:]
	})
}

// choose picks the replica for a prompt among those not yet tried, and counts the sequence as its
// load. It returns nil if none is left.
func (r *replicas) choose(bs []prefix.Name, tried map[*replica]bool) *replica {
	r.mu.Lock()
	defer r.mu.Unlock()
	var near, idle *replica
	most := 0
	for _, c := range r.all {
		if c.dead || tried[c] {
			continue
		}
		if idle == nil || c.load < idle.load {
			idle = c
		}
		n := 0
		for n < len(bs) && c.seen[bs[n]] != 0 {
			n++
		}
		if n > most {
			near, most = c, n
		}
	}
	if idle == nil {
		return nil
	}
	if near == nil || near.load > idle.load+busier {
		near = idle
	}
	near.load++
	near.remember(bs)
	return near
}

func (c *replica) remember(bs []prefix.Name) {
	c.tick++
	for _, b := range bs {
		c.seen[b] = c.tick
	}
	if len(c.seen) > mostBlocks {
		// The card has forgotten old beginnings too, so the older half goes.
		first := c.tick
		for _, at := range c.seen {
			first = min(first, at)
		}
		maps.DeleteFunc(c.seen, func(_ prefix.Name, at uint64) bool { return at < first+(c.tick-first+1)/2 })
	}
}

func (r *replicas) done(c *replica, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.load--
	if errors.Is(err, axcl.ErrLost) {
		c.dead = true
	}
}

func (r *replicas) Complete(ctx context.Context, job Job) iter.Seq2[Token, error] {
	return through(r, func() []prefix.Name { return r.blocks(&job) }, nil, func(b Backend) iter.Seq2[Token, error] {
		return b.Complete(ctx, job)
	})
}

// Transcribe has a sound written down by the replica with the least load. Once a part of the sound
// was read, no other replica can do it.
func (r *replicas) Transcribe(ctx context.Context, q TranscribeRequest) iter.Seq2[Segment, error] {
	begun := &begunSound{Sound: q.Sound}
	q.Sound = begun
	return through(r, nil, func() bool { return begun.read }, func(b Backend) iter.Seq2[Segment, error] {
		if b.Stats().State == "lost" { // before it reads
			return func(yield func(Segment, error) bool) { yield(Segment{}, axcl.ErrLost) }
		}
		return transcribe(ctx, b, q, b.Info().Name)
	})
}

// begunSound notes that something was read.
type begunSound struct {
	ask.Sound
	read bool
}

func (s *begunSound) Read(samples []float32) (int, error) {
	s.read = true
	return s.Sound.Read(samples)
}

// Speak has a text spoken by the replica with the least load.
func (r *replicas) Speak(ctx context.Context, q SpeakRequest) iter.Seq2[Speech, error] {
	return through(r, nil, nil, func(b Backend) iter.Seq2[Speech, error] { return speak(ctx, b, q, b.Info().Name) })
}

// Draw has a picture drawn by the replica with the least load.
func (r *replicas) Draw(ctx context.Context, q DrawRequest) iter.Seq2[Drawing, error] {
	return through(r, nil, nil, func(b Backend) iter.Seq2[Drawing, error] { return drawWith(ctx, b, q, b.Info().Name) })
}

// Detect has the replica with the least load find things in a picture.
func (r *replicas) Detect(ctx context.Context, q DetectRequest) (found []Detection, err error) {
	for v, e := range through(r, nil, nil, func(b Backend) iter.Seq2[[]Detection, error] {
		return func(yield func([]Detection, error) bool) { yield(find(ctx, b, q, b.Info().Name)) }
	}) {
		found, err = v, e
	}
	return found, err
}

// Faces has the replica with the least load find the faces in a picture.
func (r *replicas) Faces(ctx context.Context, q FaceRequest) (found []Face, err error) {
	for v, e := range through(r, nil, nil, func(b Backend) iter.Seq2[[]Face, error] {
		return func(yield func([]Face, error) bool) { yield(findFaces(ctx, b, q, b.Info().Name)) }
	}) {
		found, err = v, e
	}
	return found, err
}

// through yields what a replica does, for a prompt that begins so, if any. After an error that
// another replica may not have, the next one is asked, unless something was yielded, or begun says
// that it is too late.
func through[T any](r *replicas, blocks func() []prefix.Name, begun func() bool, do func(b Backend) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var bs []prefix.Name
		if blocks != nil {
			bs = blocks()
		}
		tried := map[*replica]bool{}
		var last error
		for {
			c := r.choose(bs, tried)
			if c == nil {
				yield(*new(T), cmp.Or(last, error(axcl.ErrLost)))
				return
			}
			tried[c] = true
			again, err := pass(do(c.Backend), begun, func(v T, err error) bool {
				if errors.Is(err, axcl.ErrLost) && r.others(c) {
					err = &FewerError{Cause: err}
				}
				return yield(v, err)
			})
			r.done(c, err)
			if !again {
				return
			}
			if last == nil || !errors.Is(err, axcl.ErrLost) { // a full queue says more than a lost card that others replace
				last = err
			}
		}
	}
}

// others reports whether a replica other than c works, as far as is known.
func (r *replicas) others(c *replica) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(o *replica) bool { return o != c && !o.dead })
}

// pass passes a sequence on. It returns true, having passed nothing on, for an error that another
// replica may not have, unless begun says that it is too late for another one.
func pass[T any](seq iter.Seq2[T, error], begun func() bool, yield func(T, error) bool) (again bool, last error) {
	said := false
	for v, err := range seq {
		if err != nil && !said && (errors.Is(err, axcl.ErrLost) || errors.Is(err, ErrBusy)) && (begun == nil || !begun()) {
			return true, err
		}
		said, last = true, err
		if !yield(v, err) {
			return false, err
		}
	}
	return false, last
}

func (r *replicas) Embed(ctx context.Context, inputs [][]int32, key string) ([][]float32, error) {
	out := make([][]float32, len(inputs))
	err := r.share(len(inputs), func(b Backend, lo, hi int) error {
		part, err := b.Embed(ctx, inputs[lo:hi], key)
		copy(out[lo:hi], part)
		return err
	})
	return out, err
}

// EmbedPictures implements the optional interface behind [Model.Embed].
func (r *replicas) EmbedPictures(ctx context.Context, pictures [][]byte, texts []string, key string) ([][]float32, error) {
	out := make([][]float32, len(pictures))
	err := r.share(len(pictures), func(b Backend, lo, hi int) error {
		part, err := embedPictures(ctx, b, pictures[lo:hi], texts[lo:hi], key)
		copy(out[lo:hi], part)
		return err
	})
	return out, err
}

// EmbedTurns implements the optional interface behind [Model.Embed].
func (r *replicas) EmbedTurns(ctx context.Context, inputs [][]int32, pictures [][]byte, key string) ([][]float32, error) {
	out := make([][]float32, len(inputs))
	err := r.share(len(inputs), func(b Backend, lo, hi int) error {
		part, err := embedTurned(ctx, b, inputs[lo:hi], pictures[lo:hi], key)
		if pe := (*PictureError)(nil); errors.As(err, &pe) {
			pe.Index += lo
		}
		copy(out[lo:hi], part)
		return err
	})
	return out, err
}

// Scores implements the optional interface behind [Model.Rerank].
func (r *replicas) Scores(ctx context.Context, n int, prompt func(int) ([]int32, error), ids []int32, key string) (
	[][]float32, Usage, error,
) {
	out, parts := make([][]float32, n), make([]Usage, n)
	err := r.share(n, func(b Backend, lo, hi int) error {
		s, ok := b.(scorer)
		if !ok {
			return ErrUnsupported
		}
		clear(parts[lo:hi])
		part, u, err := s.Scores(ctx, hi-lo, func(i int) ([]int32, error) { return prompt(lo + i) }, ids, key)
		copy(out[lo:hi], part)
		parts[lo] = u
		return err
	})
	var u Usage
	for _, p := range parts {
		u.Prompt, u.Cached = u.Prompt+p.Prompt, u.Cached+p.Cached
	}
	return out, u, err
}

// share divides n things among the replicas that work, which do their parts at the same time. If
// there are fewer things than replicas, those with the least load do one each. If a card is lost
// meanwhile, the remaining replicas do everything again.
func (r *replicas) share(n int, work func(b Backend, lo, hi int) error) error {
	r.mu.Lock()
	live := slices.DeleteFunc(slices.Clone(r.all), func(c *replica) bool { return c.dead })
	if len(live) == 0 {
		r.mu.Unlock()
		return axcl.ErrLost
	}
	slices.SortStableFunc(live, func(a, b *replica) int { return cmp.Compare(a.load, b.load) })
	live = live[:min(len(live), n)]
	for _, c := range live {
		c.load++
	}
	r.mu.Unlock()
	errs := make([]error, len(live))
	var wg sync.WaitGroup
	for i, c := range live {
		wg.Go(func() {
			errs[i] = work(c.Backend, i*n/len(live), (i+1)*n/len(live))
			r.done(c, errs[i])
		})
	}
	wg.Wait()
	if slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, axcl.ErrLost) }) {
		return r.share(n, work)
	}
	return errors.Join(errs...)
}

func (r *replicas) Encode(ctx context.Context, pieces []chat.Piece, first bool) ([]int32, error) {
	return r.all[0].Encode(ctx, pieces, first)
}

func (r *replicas) Ends() []int32            { return r.all[0].Ends() }
func (r *replicas) Text(ids []int32) string  { return r.all[0].Text(ids) }
func (r *replicas) Sampling() sampler.Params { return r.all[0].Sampling() }

// reached returns the first replica's answer: see cardBackend.
func (r *replicas) reached(end int) bool {
	b, ok := r.all[0].Backend.(interface{ reached(end int) bool })
	return !ok || b.reached(end)
}

// Info returns the first replica's Info, with the devices and the total card memory of all that
// work, as far as is known.
func (r *replicas) Info() Info {
	info := r.all[0].Info()
	var devices []string
	info.CardBytes = 0
	r.mu.Lock()
	live := slices.DeleteFunc(slices.Clone(r.all), func(c *replica) bool { return c.dead })
	r.mu.Unlock()
	for _, c := range live {
		devices = append(devices, c.Info().Device)
		info.CardBytes += c.Info().CardBytes
	}
	info.Device = strings.Join(devices, ",")
	return info
}

// Stats adds up the numbers of the replicas. The state is the best of any. Proven is what all were
// proven to do. Temperature and load are the highest of those that are not lost.
func (r *replicas) Stats() Stats {
	sum := r.all[0].Stats()
	for _, c := range r.all[1:] {
		st := c.Stats()
		dead := sum.State == "lost"
		if dead {
			sum.State = st.State
		}
		for _, f := range []struct{ to, from *int }{{&sum.Cells, &st.Cells}, {&sum.CellsUsed, &st.CellsUsed},
			{&sum.CellsCached, &st.CellsCached}, {&sum.CellsShared, &st.CellsShared},
			{&sum.Running, &st.Running}, {&sum.Queued, &st.Queued},
			{&sum.Slots, &st.Slots}, {&sum.SlotsUsed, &st.SlotsUsed}, {&sum.SlotsKept, &st.SlotsKept},
			{&sum.Memory.Used, &st.Memory.Used}} {
			*f.to += *f.from
		}
		for _, f := range []struct{ to, from *uint64 }{{&sum.Rows, &st.Rows}, {&sum.Encoded, &st.Encoded},
			{&sum.PromptTokens, &st.PromptTokens}, {&sum.CachedTokens, &st.CachedTokens}, {&sum.OutputTokens, &st.OutputTokens},
			{&sum.Drafted, &st.Drafted}, {&sum.Accepted, &st.Accepted},
			{&sum.KeyDrafted, &st.KeyDrafted}, {&sum.KeyAccepted, &st.KeyAccepted},
			{&sum.Cancelled, &st.Cancelled}, {&sum.Failed, &st.Failed},
			{&sum.Done, &st.Done}, {&sum.Rejected, &st.Rejected},
			{&sum.Memory.Hits, &st.Memory.Hits}, {&sum.Memory.Out, &st.Memory.Out}, {&sum.Memory.In, &st.Memory.In},
			{&sum.Disk.Hits, &st.Disk.Hits}, {&sum.Disk.Out, &st.Disk.Out}, {&sum.Disk.In, &st.Disk.In},
			{&sum.Far.Hits, &st.Far.Hits}, {&sum.Far.In, &st.Far.In}, {&sum.Far.Late, &st.Far.Late}} {
			*f.to += *f.from
		}
		for k, n := range st.Passes {
			sum.Passes[k] += n
		}
		for k := range sum.Proven {
			sum.Proven[k] = sum.Proven[k] && st.Proven[k]
		}
		if st.Compared == ComparedNever {
			sum.Compared = st.Compared
		}
		if sum.Head.Rows, sum.Head.Busy = sum.Head.Rows+st.Head.Rows, sum.Head.Busy+st.Head.Busy; sum.Head.Ready {
			sum.Head.Ready, sum.Head.Soon, sum.Head.Why = st.Head.Ready, st.Head.Soon, st.Head.Why
		}
		sum.Busy += st.Busy
		sum.Piece = max(sum.Piece, st.Piece)
		sum.Encoding += st.Encoding
		sum.Memory.Rows, sum.Memory.Bytes = max(sum.Memory.Rows, st.Memory.Rows), max(sum.Memory.Bytes, st.Memory.Bytes) // one limit
		sum.Memory.UsedBytes += st.Memory.UsedBytes
		sum.Memory.Saved += st.Memory.Saved
		sum.Disk.On = sum.Disk.On || st.Disk.On
		sum.Disk.Saved += st.Disk.Saved
		sum.Far.Saved += st.Far.Saved
		sum.Far.Rate, sum.Far.Wait = max(sum.Far.Rate, st.Far.Rate), max(sum.Far.Wait, st.Far.Wait)
		sum.Disk.Rows, sum.Disk.Bytes = max(sum.Disk.Rows, st.Disk.Rows), max(sum.Disk.Bytes, st.Disk.Bytes) // one limit
		sum.CardFree += st.CardFree
		sum.CardTotal += st.CardTotal
		// What a lost card said last is out of date.
		switch {
		case dead:
			sum.Temperature, sum.NPULoad = st.Temperature, st.NPULoad
		case st.State != "lost":
			sum.Temperature, sum.NPULoad = max(sum.Temperature, st.Temperature), max(sum.NPULoad, st.NPULoad)
		}
	}
	return sum
}

func (r *replicas) Close() error {
	var errs []error
	for _, c := range r.all {
		errs = append(errs, c.Backend.Close())
	}
	if r.closed != nil {
		errs = append(errs, r.closed())
	}
	return errors.Join(errs...)
}
