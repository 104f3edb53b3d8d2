package audio

import (
	"encoding/binary"
	"errors"
	"io"
)

// maxLinks is how many streams may follow each other in one file: each costs tables anew.
const maxLinks = 255

// maxPacket is more than a packet of sound or of tables has. Only comments, which may have
// pictures, are larger, and nobody reads these.
const maxPacket = 256 << 10

// oggCodec is what packets of one stream are for.
type oggCodec interface {
	// header takes a packet and says whether it was the last before sound.
	header(packet []byte) (last bool, err error)
	info() Info
	preSkip() int64
	// decode appends a packet's sound to dst.
	decode(dst []float32, packet []byte) ([]float32, error)
}

// ogg reads pages, and of them the first stream whose codec is known; then the next stream that
// begins when it has ended.
type ogg struct {
	in     *input
	first  Info
	links  int
	page   []byte   // has room for the largest
	codec  oggCodec // nil between streams
	serial uint32
	number uint32 // of the page that must come
	ready  bool   // headers are read
	packet []byte // begun on an earlier page
	part   bool   // one has begun
	others string // a codec that was found and is not read

	out    []float32
	skip   int64 // samples of the stream that are still to be dropped
	done   int64 // that were decoded
	start  int64 // the position of the first
	placed bool  // start is known
}

// A page's flags.
const (
	oggContinued = 1
	oggFirst     = 2
	oggLast      = 4
)

func openOgg(in *input) (source, Info, int64, error) {
	o := &ogg{in: in, page: make([]byte, 255*255)}
	for !o.ready {
		if _, err := o.next(); err != nil {
			switch {
			case !errors.Is(err, io.EOF):
				return nil, Info{}, 0, err
			case o.others != "":
				return nil, Info{}, 0, unsupported("ogg", "%s in Ogg", o.others)
			}
			return nil, Info{}, 0, damaged("ogg", "it ends before its sound")
		}
	}
	return o, o.first, 0, nil
}

// next reads one page.
func (o *ogg) next() ([]float32, error) {
	head, body, lengths, err := o.readPage()
	if err != nil {
		return nil, err
	}
	flags, granule := head[5], int64(binary.LittleEndian.Uint64(head[6:]))
	serial, number := binary.LittleEndian.Uint32(head[14:]), binary.LittleEndian.Uint32(head[18:])
	// Streams that are mixed begin before the sound of any. What begins later follows one that
	// ended, also where it was cut.
	if flags&oggFirst != 0 && (o.codec == nil || o.ready) {
		if err := o.begin(body, serial); err != nil {
			return nil, err
		}
	}
	if o.codec == nil || serial != o.serial {
		return nil, nil
	}
	if number != o.number {
		return nil, damaged("ogg", "page %d follows where %d should", number, o.number)
	}
	o.number++
	if (flags&oggContinued != 0) != o.part {
		return nil, damaged("ogg", "page %d does not go on where the one before ends", number)
	}
	o.out = o.out[:0]
	done := 0 // packets
	for len(lengths) > 0 {
		n, more := 0, true
		for len(lengths) > 0 && more {
			n += int(lengths[0])
			more = lengths[0] == 255
			lengths = lengths[1:]
		}
		o.packet = append(o.packet, body[:n]...)
		body = body[n:]
		if o.part = more; more {
			if !o.ready && len(o.packet) > maxPacket {
				o.packet = o.packet[:maxPacket] // it can only be comments
			}
			break
		}
		if err := o.take(o.packet); err != nil {
			return nil, err
		}
		o.packet = o.packet[:0]
		done++
	}
	if len(o.packet) > maxPacket {
		return nil, damaged("ogg", "a packet of more than %d bytes", maxPacket)
	}
	out := o.place(granule, done > 0, flags&oggLast != 0)
	if flags&oggLast != 0 {
		if !o.ready {
			return nil, damaged("ogg", "a stream ends in its headers")
		}
		o.codec = nil
	}
	return out, nil
}

// begin takes the first page of a stream, if its codec is one that is read.
func (o *ogg) begin(body []byte, serial uint32) error {
	var c oggCodec
	switch {
	case len(body) >= 8 && string(body[:8]) == "OpusHead":
		c = new(opusStream)
	case len(body) >= 7 && string(body[:7]) == "\x01vorbis":
		c = new(vorbisStream)
	case len(body) >= 8 && string(body[:8]) == "Speex   ":
		o.others = "Speex"
	case len(body) >= 5 && string(body[:5]) == "\x7fFLAC":
		o.others = "FLAC"
	}
	if c == nil {
		return nil // a film, or what describes the others
	}
	if o.links++; o.links > maxLinks {
		return unsupported("ogg", "more than %d streams in a row", maxLinks)
	}
	*o = ogg{in: o.in, page: o.page, first: o.first, links: o.links, out: o.out, codec: c, serial: serial}
	return nil
}

// take hands a packet to the codec.
func (o *ogg) take(packet []byte) (err error) {
	if o.ready {
		o.out, err = o.codec.decode(o.out, packet)
		return err
	}
	if o.ready, err = o.codec.header(packet); err != nil || !o.ready {
		return err
	}
	info := o.codec.info()
	o.skip = o.codec.preSkip()
	if o.first.Rate != 0 && o.first.Rate != info.Rate {
		return unsupported("ogg", "a stream of %d samples a second follows one of %d", info.Rate, o.first.Rate)
	}
	if o.first.Rate == 0 {
		o.first = info
	}
	return nil
}

// place cuts what a page decoded to what the page's position says is sound.
func (o *ogg) place(granule int64, ends, last bool) []float32 {
	out := o.out
	o.done += int64(len(out))
	if granule >= 0 && ends && o.done > 0 && !o.placed {
		// A stream may begin late in time. One whose first samples are before time 0 leaves these
		// out, but if it has one page only, then the end is what is cut.
		o.placed = true
		if o.start = granule - o.done; o.start < 0 {
			if last {
				o.start = 0
			}
			o.skip -= o.start
		}
	}
	if last && o.placed && granule >= 0 {
		extra := o.start + o.done - granule
		out = out[:max(0, int64(len(out))-max(0, extra))]
	}
	drop := min(o.skip, int64(len(out)))
	o.skip -= drop
	return out[drop:]
}

// readPage gives a page's header, its body and the lengths of its segments: io.EOF where there is
// none more.
func (o *ogg) readPage() (head [27]byte, body, lengths []byte, err error) {
	n, err := io.ReadFull(o.in, head[:])
	if n == 0 && errors.Is(err, io.EOF) {
		if o.part || o.codec != nil && !o.ready {
			return head, nil, nil, damaged("ogg", "it ends in a packet")
		}
		return head, nil, nil, io.EOF
	}
	if err != nil {
		return head, nil, nil, damaged("ogg", "it ends in a page")
	}
	if string(head[:4]) != "OggS" && o.codec == nil && o.first.Rate != 0 {
		return head, nil, nil, io.EOF // a tag, behind all streams
	}
	if string(head[:4]) != "OggS" || head[4] != 0 {
		return head, nil, nil, damaged("ogg", "no page where one should be")
	}
	lengths = make([]byte, head[26])
	if _, err := io.ReadFull(o.in, lengths); err != nil {
		return head, nil, nil, damaged("ogg", "it ends in a page")
	}
	size := 0
	for _, l := range lengths {
		size += int(l)
	}
	body = o.page[:size]
	if _, err := io.ReadFull(o.in, body); err != nil {
		return head, nil, nil, damaged("ogg", "it ends in a page")
	}
	want := binary.LittleEndian.Uint32(head[22:])
	clear(head[22:26])
	if crc := oggCRC(oggCRC(oggCRC(0, head[:]), lengths), body); crc != want {
		return head, nil, nil, damaged("ogg", "a page has the wrong checksum")
	}
	return head, body, lengths, nil
}

var oggTable = func() (t [256]uint32) {
	for i := range t {
		c := uint32(i) << 24
		for range 8 {
			c = c<<1 ^ c>>31*0x04c11db7
		}
		t[i] = c
	}
	return t
}()

func oggCRC(c uint32, b []byte) uint32 {
	for _, x := range b {
		c = c<<8 ^ oggTable[byte(c>>24)^x]
	}
	return c
}
