package audio

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// input is a file that is read once, from its beginning, within a limit.
type input struct {
	*bufio.Reader
	from *counted
}

// window is how far ahead a decoder may look. Two frames of an mp3 and the search for the next fit.
const window = 64 << 10

func newInput(r io.Reader, limit int64) *input {
	c := &counted{r: r, left: limit, limit: limit}
	return &input{Reader: bufio.NewReaderSize(c, window), from: c}
}

// err is what reading failed with, other than the file's end.
func (in *input) err() error { return in.from.err }

// rest is how many bytes of the file are left; −1 where that cannot be told. A Len of another type
// may be what has come by now.
func (in *input) rest() int64 {
	if b, ok := in.from.r.(*bytes.Reader); ok {
		return int64(b.Len() + in.Buffered())
	}
	return -1
}

// skip passes over n bytes: io.ErrUnexpectedEOF where there are fewer.
func (in *input) skip(n int64) error {
	for n > 0 {
		k, err := in.Discard(int(min(n, 1<<30)))
		if n -= int64(k); err != nil {
			return noEOF(err)
		}
	}
	return nil
}

// noEOF is err, where the end of the file comes too early.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type counted struct {
	r           io.Reader
	left, limit int64
	err         error
}

func (c *counted) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		n, err = 0, fmt.Errorf("%w: more than %d bytes, the limit is %d", ErrLimit, c.limit, c.limit)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// open reads what stands before the sound. claim is how many samples there will be, as far as the
// file says so.
func open(in *input) (src source, info Info, claim int64, err error) {
	tagged, err := skipID3(in)
	if err != nil {
		return nil, Info{}, 0, damaged("mp3", "its ID3 tag is larger than the file")
	}
	head, _ := in.Peek(16)
	switch format := sniff(head); {
	case format == "wav":
		return openWAV(in)
	case format == "flac":
		return openFLAC(in)
	case format == "ogg":
		return openOgg(in)
	case format != "" && format != "mp3":
		return nil, Info{}, 0, fmt.Errorf("audio: %w: this is %s; %s", ErrFormat, format, wayOut)
	case in.err() != nil:
		return nil, Info{}, 0, in.err()
	case format == "mp3" || tagged:
		return openMP3(in, tagged)
	}
	return nil, Info{}, 0, fmt.Errorf("audio: %w", ErrFormat)
}

// skipID3 passes over the tags that stand before mp3 and, in some files, before others.
func skipID3(in *input) (found bool, err error) {
	for {
		b, _ := in.Peek(10)
		if len(b) < 10 || string(b[:3]) != "ID3" || b[6]|b[7]|b[8]|b[9] >= 0x80 {
			return found, nil
		}
		n := int64(b[6])<<21 | int64(b[7])<<14 | int64(b[8])<<7 | int64(b[9])
		if b[5]&0x10 != 0 { // a footer
			n += 10
		}
		if err := in.skip(10 + n); err != nil {
			return false, err
		}
		found = true
	}
}

// beginnings are what files begin with, and what they are then: a format that is read, or a
// sentence's noun for one that is not.
var beginnings = []struct {
	at          int
	magic, name string
}{
	{0, "fLaC", "flac"},
	{0, "OggS", "ogg"},
	{0, "RIFX", "a wav of another byte order (RIFX)"},
	{8, "AIFF", "an aiff file"},
	{8, "AIFC", "an aiff file"},
	{4, "ftyp", "an m4a, mp4 or another file of that family (AAC)"},
	{0, "\x1a\x45\xdf\xa3", "a webm or matroska file"},
	{0, "#!AMR", "an AMR file"},
	{0, "\x30\x26\xb2\x75\x8e\x66\xcf\x11", "a wma, wmv or asf file"},
	{0, ".snd", "an au file"},
	{0, "caff", "a caf file"},
	{0, "wvpk", "a wavpack file"},
	{0, "MAC ", "an ape file"},
	{0, "FLV\x01", "a flash video"},
	{0, "MThd", "a midi file, which has notes and no sound"},
	{0, "ADIF", "an AAC file"},
}

// sniff names what a file begins like, as beginnings do; "" if that is nothing known.
func sniff(b []byte) string {
	has := func(at int, s string) bool { return len(b) >= at+len(s) && string(b[at:at+len(s)]) == s }
	if has(0, "RIFF") || has(0, "RF64") || has(0, "BW64") {
		if has(8, "WAVE") {
			return "wav"
		}
		return "a RIFF file without sound, or a video"
	}
	for _, x := range beginnings {
		if has(x.at, x.magic) {
			return x.name
		}
	}
	if len(b) < 4 {
		return ""
	}
	if b[0] == 0xff && b[1]&0xf6 == 0xf0 {
		return "an AAC file (ADTS)"
	}
	h, ok := readMP3Header(b)
	switch {
	case !ok:
		return ""
	case h.layer == 3:
		return "mp3"
	}
	return fmt.Sprintf("an mp%d file (MPEG layer %d)", h.layer, h.layer)
}
