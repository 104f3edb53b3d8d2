package engine

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/card"
	"github.com/axle-llm/axle/engine/pictures"
	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/vision"
)

// This file handles the pictures of prompts. The pictures of a request are read and prepared for
// the encoder on a goroutine of their own. The worker calls the encoder between passes. The encoded
// rows are cached in this machine's memory.
//
// Each row of a picture has a number below −1 in the place of a token's id. The first row of a
// picture gets a number that no row had before, and the rows after it get the next lower ones. So
// code that compares texts by their ids (the tree of cells, the RAM tier) tells pictures apart and
// finds them again without knowing about pictures. A number never stands for two rows: when numbers
// run out, everything cached is dropped first. Numbers mean nothing outside this process, so a text
// is saved to disk only up to its first picture.
//
// A recogniser's pieces of sound take the same way as pictures. What is said of pictures here is
// true of them too.

// picturesNamed is the number of pictures whose row numbers are remembered.
const picturesNamed = 1 << 14

// onTheirWay is the memory for the pictures of all running requests: the encoder's inputs until
// they are encoded, and the encoded rows. A request that needs more waits for its key's turn. The
// whole process shares it.
var onTheirWay = sync.OnceValue(func() *fair.Line { return fair.New(0, budget.Get().Pictures) })

// rowEncoder makes rows of a prompt from pictures (a *pictures.Encoder) or from sound (a
// *pictures.Sound). Step and Close are the worker's.
type rowEncoder interface {
	Name(data []byte) pictures.ID
	Step(*pictures.Picture) error
	Close() error
}

// encoderCache is a model's encoder with the pictures that it has encoded or will encode.
type encoderCache struct {
	enc     rowEncoder
	sees    *models.Vision // nil: it hears
	prepare func(data []byte) (*pictures.Picture, error)
	place   int32         // the token that stands for a row in a prompt
	longest int           // the most rows of a picture
	took    time.Duration // the worker's: the time of a call at load
	room    *fair.Line
	most    int64 // bytes of room
	each    int64 // bytes of a picture before it is encoded
	rows    int64 // bytes of its rows, at most
	reading *reading

	mu    ranked.Mutex[ranked.Pictures] // guards what follows
	cache *pictures.Cache
	held  map[pictures.ID]*picture      // pictures of running requests
	named map[pictures.ID]*list.Element // the elements of order, by picture
	order list.List                     // of *numbered, the most recently used first
	last  int32                         // the number given last
	full  bool                          // numbers ran out: the worker must drop everything cached
}

// cacheRoom is the memory for the encoded pictures of all models.
var cacheRoom = sync.OnceValue(func() *pictures.Room { return pictures.NewRoom(budget.Get().Kept) })

// numbered has the number of a picture's first row.
type numbered struct {
	id    pictures.ID
	first int32
}

// picture is a picture of running requests.
type picture struct {
	id    pictures.ID
	first int32             // row n has the number first − n
	n     int               // how many rows it has
	made  *pictures.Picture // the worker's once a sequence has the picture, like rows
	rows  *pictures.Rows    // nil: it is not encoded yet
	users int
	room  int64 // bytes that it takes of the encoder cache's room
}

// pictureRows says that n rows of a sequence, beginning at row at, are a picture's rows, beginning
// at its row from.
type pictureRows struct {
	at, n, from int
	nth         int // of the prompt's pictures
	of          *picture
}

// pictureInputs is the part of a model that handles pictures.
type pictureInputs struct {
	*core
	encoder *encoderCache // nil: the model takes no pictures
	blind   error         // why not, if its package has an encoder
}

// sees returns an error if the model takes no pictures.
func (m *pictureInputs) sees(name string) error {
	switch {
	case m.encoder != nil:
		return nil
	case m.blind != nil:
		return fmt.Errorf("%w: %s cannot see: %w", ErrUnsupported, name, m.blind)
	}
	return fmt.Errorf("%w: %s takes no images", ErrUnsupported, name)
}

// open loads the encoder, if the package has one and the card has room for it. A failure of the
// encoder is reported only to requests with pictures, because text needs none. open returns only
// errors that are fatal for the load.
func (m *pictureInputs) open(dev axcl.Device, p *models.Package) error {
	hears, err := p.Hearing()
	if err != nil || hears != nil {
		if err == nil {
			m.encoder, err = m.openSound(dev, hears, p.Digest())
		}
		return err // a recogniser is of no use without its encoder
	}
	sees, err := p.Vision()
	if err == nil && sees != nil {
		if err := m.card.Refresh(); err != nil {
			return err
		}
		// While it loads the file, the library holds the file's bytes too.
		info, need := m.card.Info(), p.Memory().Encoder+sees.Size
		if free := info.FreeCMM; info.TotalCMM > 0 && need > free {
			err = &MemoryError{Name: "the encoder " + sees.File, Need: need, Free: free}
		} else {
			m.encoder, err = m.openEncoder(dev, sees, p.Digest())
		}
	}
	if axcl.Fatal(err) {
		return err
	}
	m.blind = err
	return nil
}

// openEncoder loads the encoder of pictures. It runs on the worker.
func (m *pictureInputs) openEncoder(dev axcl.Device, sees *models.Vision, digest string) (*encoderCache, error) {
	if err := m.wideRows("a picture's rows"); err != nil {
		return nil, err
	}
	var enc *pictures.Encoder
	if err := m.card.Watched(card.FileLimit, func() (err error) {
		enc, err = pictures.Open(dev, sees, digest)
		return err
	}); err != nil {
		return nil, err
	}
	g := newEncoderCache(sees, enc, m.shape.Hidden, decoding())
	grey, err := enc.Blank()
	return m.firstCall(g, grey, err)
}

// openSound loads the encoder of sound. It runs on the worker.
func (m *pictureInputs) openSound(dev axcl.Device, hears *models.Hearing, digest string) (*encoderCache, error) {
	if err := m.wideRows("the rows of sound"); err != nil {
		return nil, err
	}
	var enc *pictures.Sound
	if err := m.card.Watched(card.FileLimit, func() (err error) {
		enc, err = pictures.OpenSound(dev, hears, digest)
		return err
	}); err != nil {
		return nil, err
	}
	g := newCache(enc, hears.Placeholder, hears.Rows, 2*int64(hears.Rows)*int64(m.shape.Hidden))
	g.prepare, g.each = enc.Prepare, int64(hears.Mel.Size)+g.rows
	silence, err := enc.Prepare(make([]byte, 4*features.SampleRate))
	return m.firstCall(g, silence, err)
}

// wideRows returns an error if the card's prefill groups cannot be used for rows that come from
// elsewhere than the table.
func (m *pictureInputs) wideRows(rows string) error {
	switch {
	case m.proven.Narrow:
		return fmt.Errorf("%w: %s go through prefill groups, and this card gives wrong rows for wide passes", ErrUnsupported, rows)
	case !m.proven.Chunk:
		return fmt.Errorf("%w: %s go through prefill groups, and this card gives wrong rows for chunks that are not full", ErrUnsupported,
			rows)
	}
	return nil
}

// firstCall calls the encoder once. This allocates all memory that the encoder needs, and measures
// how long a call holds the card. err is that of making blank.
func (m *pictureInputs) firstCall(g *encoderCache, blank *pictures.Picture, err error) (*encoderCache, error) {
	if err == nil {
		t0 := m.card.Now()
		err = m.card.Watched(card.FileLimit, func() error { return g.enc.Step(blank) })
		g.took = m.card.Now() - t0
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("engine: the encoder's first call: %w", err), m.card.Unload(g.enc))
	}
	return g, nil
}

func newEncoderCache(sees *models.Vision, enc *pictures.Encoder, hidden int, from *reading) *encoderCache {
	g := newCache(enc, sees.Placeholder, sees.Rows, 2*int64(sees.Rows)*int64(hidden)*int64(1+len(sees.Deep)))
	g.sees, g.reading, g.each = sees, from, onItsWay(sees)+g.rows
	g.prepare = func(data []byte) (*pictures.Picture, error) {
		return enc.Prepare(data, vision.Limits{Memory: from.most})
	}
	return g
}

// newCache is an encoderCache without what pictures and sounds do not have in common. bytes is what
// the most rows take.
func newCache(enc rowEncoder, place int32, longest int, bytes int64) *encoderCache {
	return &encoderCache{enc: enc, place: place, longest: longest, rows: bytes, room: onTheirWay(), most: budget.Get().Pictures,
		cache: pictures.NewCache(cacheRoom()), held: map[pictures.ID]*picture{}, named: map[pictures.ID]*list.Element{}, last: none}
}

// onItsWay returns how many bytes a picture takes until it is encoded.
func onItsWay(sees *models.Vision) int64 {
	return int64(sees.Layout.Bytes()) * int64(sees.Tiles*sees.Tiles+1)
}

// hold reads a request's pictures, or finds them if they are known. The caller keeps them until it
// calls let. A known picture is found only under the same key, like everything that is cached.
//
// Room is first taken for all pictures of the request. Then it belongs to the pictures: a picture
// that several requests share takes it once, and an encoded picture keeps only the room of its
// rows.
func (g *encoderCache) hold(ctx context.Context, key string, data [][]byte) (ps []*picture, let func(), err error) {
	work := int64(len(data)) * g.each
	if err := g.room.Take(ctx, key, work, work); err != nil {
		return nil, nil, err
	}
	left := min(work, g.most)
	let = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, p := range ps {
			if p.users--; p.users == 0 {
				delete(g.held, p.id)
				left += p.room
				p.room = 0
			}
		}
		g.room.Done(key, work, work)
		g.room.Free(left)
	}
	//rule:T16 TestPictureTurns , key: key =>
	turn := &reader{r: g.reading, key: key}
	defer turn.close()
	for i, d := range data {
		p, err := g.one(ctx, turn, g.id(key, d), d, &left)
		if err != nil {
			let()
			if ctx.Err() == nil && g.sees != nil {
				err = &PictureError{Index: i, WebP: len(d) >= 12 && string(d[:4]) == "RIFF" && string(d[8:12]) == "WEBP", Err: err}
			}
			return nil, nil, err
		}
		ps = append(ps, p)
	}
	//rule:T7 TestPictureRoom drop
	g.room.Free(left)
	left = 0
	return ps, let, nil
}

// one is hold for one picture, which takes its room from *room.
func (g *encoderCache) one(ctx context.Context, turn *reader, id pictures.ID, data []byte, room *int64) (*picture, error) {
	if p := g.find(id, nil, room); p != nil {
		return p, nil
	}
	if g.sees != nil {
		h, err := vision.Look(data, vision.Limits{Memory: g.reading.most})
		if err != nil {
			return nil, err
		}
		done, err := turn.begin(ctx, h)
		if err != nil {
			return nil, err
		}
		defer done()
		if p := g.find(id, nil, room); p != nil { // another request has read it meanwhile
			return p, nil
		}
	}
	made, err := g.prepare(data)
	if err != nil {
		return nil, err
	}
	return g.find(id, made, room), nil
}

// id returns the id of a picture in requests with this key.
func (g *encoderCache) id(key string, data []byte) pictures.ID {
	h, name := sha256.New(), g.enc.Name(data)
	//rule:G19 TestManySee drop
	h.Write(name[:])
	//rule:G19 TestPictureKeys drop
	h.Write([]byte(key))
	return pictures.ID(h.Sum(nil))
}

// find returns the known picture, or one from made; nil if there is neither. A picture that no
// running request holds takes its room from *room.
func (g *encoderCache) find(id pictures.ID, made *pictures.Picture, room *int64) *picture {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.held[id]
	if p == nil {
		rows := g.cache.Get(id)
		if rows == nil && made == nil {
			return nil
		}
		p = &picture{id: id, first: g.number(id), rows: rows, room: min(g.rows, *room)}
		if rows == nil {
			p.made, p.room, p.n = made, min(g.each, *room), made.N()
		} else {
			p.n = rows.N
		}
		*room -= p.room
		g.held[id] = p
	}
	p.users++
	return p
}

// number returns the number of a picture's first row. g.mu is held.
func (g *encoderCache) number(id pictures.ID) int32 {
	if e := g.named[id]; e != nil {
		g.order.MoveToFront(e)
		return e.Value.(*numbered).first
	}
	if int64(g.last)-int64(g.longest) < math.MinInt32 {
		//rule:G19 TestPictureNumbers , g.full = none, true => = none
		g.last, g.full = none, true
		clear(g.named)
		g.order.Init()
	}
	if g.order.Len() == picturesNamed {
		delete(g.named, g.order.Remove(g.order.Back()).(*numbered).id)
	}
	n := &numbered{id, g.last - 1}
	g.last -= int32(g.longest)
	g.named[id] = g.order.PushFront(n)
	return n.first
}

// done stores a picture's encoded rows, and caches them.
func (g *encoderCache) done(p *picture, rows *pictures.Rows) {
	p.rows, p.made = rows, nil
	kept := *rows
	kept.ID = p.id
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cache.Put(&kept)
	//rule:T7 TestPictureRoom g.rows => g.each
	over := max(p.room-g.rows, 0)
	p.room -= over
	g.room.Free(over)
}

// ranOut reports once that the numbers began anew.
func (g *encoderCache) ranOut() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	full := g.full
	g.full = false
	return full
}

// show replaces the placeholders in a sequence's ids with the numbers of its pictures' rows, and
// notes where each picture is.
func (m *pictureInputs) show(s *seq, ps []*picture) error {
	if len(ps) == 0 {
		return nil
	}
	at, from, places, rows := 0, 0, 0, 0 // the next place is for row from of picture at
	for _, p := range ps {
		rows += p.n
	}
	for i, id := range s.ids {
		if id != m.encoder.place {
			continue
		}
		if places++; at == len(ps) {
			continue
		}
		p := ps[at]
		if last := len(s.pictures) - 1; from > 0 && s.pictures[last].at+s.pictures[last].n == i {
			s.pictures[last].n++
		} else {
			s.pictures = append(s.pictures, pictureRows{at: i, n: 1, from: from, nth: at, of: p})
		}
		//rule:G19 TestSight$ p.first => -2
		s.ids[i] = p.first - int32(from)
		if from++; from == p.n {
			at, from = at+1, 0
		}
	}
	if places != rows {
		return fmt.Errorf("%w: the prompt has places for %d rows of pictures, and its %d pictures have %d rows", ErrRequest, places,
			len(ps), rows)
	}
	last := s.pictures[len(s.pictures)-1]
	if s.shown() == len(s.ids) {
		return fmt.Errorf("%w: the prompt ends with a picture; put text behind it", ErrRequest)
	}
	if reach, ok := m.reaches(last.at + last.n); !ok {
		return fmt.Errorf("%w: the prompt's last picture ends at row %d, and the model's prefill groups reach %d rows: ask about fewer "+
			"pictures, or about them earlier", ErrRequest, last.at+last.n, reach)
	}
	return m.assignPositions(s)
}

// reaches reports whether wide passes can evaluate the rows up to end, and how far they get. A wide
// pass must see all rows before its own, so it can begin only within the farthest group's reach.
func (m *pictureInputs) reaches(end int) (reach int, ok bool) {
	for at := 0; at < end; at += m.widest(at) {
		if at > m.wideReach {
			return at, false
		}
	}
	return end, true
}

// assignPositions assigns positions to the rows of a prompt with pictures. If pictures' rows have
// positions on a grid, a row's position differs from its index.
func (m *pictureInputs) assignPositions(s *seq) (err error) {
	s.pos, s.lag = s.pos[:0], 0
	if len(s.pictures) == 0 || m.encoder.sees == nil || !m.encoder.sees.MRope {
		return nil
	}
	v := m.encoder.sees
	var spans []pictures.Span
	for _, l := range s.pictures {
		spans = append(spans, pictures.Span{At: l.at, Rows: &pictures.Rows{N: v.Rows, Across: v.Across, Down: v.Down}})
	}
	var next uint32
	if s.pos, next, err = pictures.Positions(len(s.ids), 0, spans, m.shape.Pos); err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	s.lag = len(s.ids) - int(next)
	return nil
}

// shown returns the number of rows up to the end of the prompt's last picture.
func (s *seq) shown() int {
	if n := len(s.pictures); n > 0 {
		return s.pictures[n-1].at + s.pictures[n-1].n
	}
	return 0
}

// pictured returns the picture of row i of the sequence, nil for none, and which of its rows that
// is.
func (s *seq) pictured(i int) (*picture, int) {
	for _, l := range s.pictures {
		if i >= l.at && i < l.at+l.n {
			return l.of, l.from + i - l.at
		}
	}
	return nil, 0
}

// pictureNext reports whether the sequence's next row belongs to a picture. Such rows need a
// prefill group.
func (s *seq) pictureNext() bool {
	p, _ := s.pictured(len(s.Path))
	return p != nil
}

// unseen returns the first picture that is not encoded and whose rows the sequence needs; nil for
// none.
func (s *seq) unseen() *picture {
	for _, l := range s.pictures {
		if l.of.rows == nil && l.at+l.n > len(s.Path) {
			return l.of
		}
	}
	return nil
}

// position returns component k of the position of row i.
func (s *seq) position(i, k, of int) uint32 {
	if at := i*of + k; at < len(s.pos) {
		return s.pos[at]
	}
	return uint32(i - s.lag)
}

// encode calls the encoder once, and reports whether it did. The sequence admitted first among
// those that need it is served. Passes run between two calls, so a decoding sequence waits for one
// call at most. A returned error loses the card.
func (m *lm) encode() (bool, error) {
	var first *seq
	for _, s := range m.running {
		if s.unseen() == nil || s.box.full() || s.RestoreTo > len(s.Path) {
			continue
		}
		if m.planner.adopt(s); s.unseen() != nil && (first == nil || s.admit < first.admit) {
			first = s
		}
	}
	if first == nil {
		return false, nil
	}
	g, p := m.pictures.encoder, first.unseen()
	t0 := m.card.Now()
	err := m.card.Watched(20*g.took, func() error { return g.enc.Step(p.made) })
	took := m.card.Now() - t0
	if axcl.Fatal(err) {
		return true, err
	}
	m.count(func(st *Stats) { st.Encoded++; st.Encoding += took })
	if err != nil {
		if err := m.card.Strike(err); err != nil {
			return true, err
		}
		for _, s := range slices.Clone(m.running) {
			if s.unseen() != p {
				continue
			}
			if s.retried {
				m.end(s, err)
			}
			s.retried = true
		}
		return true, nil
	}
	if rows := p.made.Rows(); rows != nil {
		g.done(p, rows)
	}
	return true, nil
}

// turnsOut extends a cut [keep, keep+cut) of a sequence with pictures to whole turns, as far as the
// text shows where turns begin. It never cuts a picture in half. It updates the places of the
// remaining pictures.
func (m *pictureInputs) turnsOut(s *seq, keep, cut int) (from, n int) {
	from, end := keep, keep+cut
	//rule:G19 TestShiftTurns false
	if _, answer := m.turns(s.ids); answer > 0 {
		opens := s.ids[answer]
		if i := slices.Index(s.ids[end:], opens); i >= 0 {
			end += i
			for i := from; i >= 0; i-- {
				if s.ids[i] == opens {
					from = i
					break
				}
			}
		}
	}
	for i := 0; i < len(s.pictures); {
		first, last := s.pictures[i], s.pictures[i] // of one picture, whose rows may be in several places
		for i++; i < len(s.pictures) && s.pictures[i].nth == first.nth; i++ {
			last = s.pictures[i]
		}
		if first.at < end && last.at+last.n > end {
			end = last.at + last.n
		}
		if first.at < from && last.at+last.n > from {
			from = first.at
		}
	}
	var left []pictureRows
	for _, l := range s.pictures {
		switch {
		case l.at >= end:
			l.at -= end - from
			left = append(left, l)
		case l.at < from:
			left = append(left, l)
		}
	}
	s.pictures = left
	return from, end - from
}

// spelled returns the ids before the first picture's row. The numbers of pictures' rows mean
// something in this process only.
func spelled(ids []int32) []int32 {
	if i := slices.IndexFunc(ids, func(id int32) bool { return id < 0 }); i >= 0 {
		return ids[:i]
	}
	return ids
}

// close unloads the encoder.
func (g *encoderCache) close() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	g.cache.Clear()
	g.mu.Unlock()
	return g.enc.Close()
}
