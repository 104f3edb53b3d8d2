package vision

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// perPixel are the bytes a pixel of a Picture takes.
const perPixel = 3

// small is what decoders take beside pixels: buffers, tables, windows.
const small = 1 << 20

func lookPNG(data []byte, h *Header) error {
	h.Format = "png"
	if len(data) < 33 || string(data[12:16]) != "IHDR" {
		return damaged("png", errors.New("it does not begin with its header"))
	}
	w, hh := binary.BigEndian.Uint32(data[16:]), binary.BigEndian.Uint32(data[20:])
	if w > 1<<31-1 || hh > 1<<31-1 {
		return damaged("png", errors.New("its size is negative"))
	}
	h.Width, h.Height = int(w), int(hh)
	depth, kind, laced := int64(data[24]), data[25], data[28] != 0
	channels, held := int64(1), int64(4) // held: what image/png keeps of a pixel; grey with a transparent level is kept as colour
	palette := kind == 3
	switch kind {
	case 0: // grey
	case 2:
		channels = 3
	case 3:
		held = 1
	case 4:
		channels = 2
	case 6:
		channels = 4
	default:
		return damaged("png", fmt.Errorf("it has colours of kind %d", kind))
	}
	if depth == 16 {
		held = 8
	}
	if laced {
		held *= 2 // each of seven passes is a picture of its own; the largest has half the pixels
	}
	pixels := area(h)
	// Deflate makes at most 1032 bytes of one.
	h.least = pixels / 8 * depth * channels / 1032
	for at := 8; at+12 <= len(data); {
		n := int64(binary.BigEndian.Uint32(data[at:]))
		if n > int64(len(data)-at-12) {
			break // image/png will say so
		}
		if body := data[at+8 : at+8+int(n)]; string(data[at+4:at+8]) == "eXIf" {
			h.Orientation = orientation(body)
		}
		at += 12 + int(n)
	}
	if palette || h.Orientation != 1 { // else they become the picture's where they are
		held += perPixel
	}
	h.Memory = pixels*held + small
	return nil
}

// lzwMost is how many pixels a byte of a gif can stand for: a code of 12 bits says no more than the
// 4,096 that the table may have grown to.
const lzwMost = 4096 * 8 / 12

func lookGIF(data []byte, h *Header) error {
	h.Format = "gif"
	if len(data) < 13 {
		return damaged("gif", io.ErrUnexpectedEOF)
	}
	h.Width, h.Height = int(binary.LittleEndian.Uint16(data[6:])), int(binary.LittleEndian.Uint16(data[8:]))
	h.Memory = area(h)*(2+perPixel) + small // an interlaced frame is unfolded into another
	//rule:T7 TestHostilePictures drop
	h.least = frameArea(data) / lzwMost
	return nil
}

// frameArea is how many pixels a gif's first frame claims; 0 where there is none, which is found
// later.
func frameArea(data []byte) int64 {
	table := func(flags byte) int {
		if flags&0x80 == 0 {
			return 0
		}
		return 3 << (flags&7 + 1)
	}
	for at := 13 + table(data[10]); at+10 <= len(data); {
		switch data[at] {
		case 0x2c:
			return int64(binary.LittleEndian.Uint16(data[at+5:])) * int64(binary.LittleEndian.Uint16(data[at+7:]))
		case 0x21:
			for at += 2; at < len(data) && data[at] != 0; {
				at += 1 + int(data[at])
			}
			at++
		default:
			return 0
		}
	}
	return 0
}

func lookBMP(data []byte, h *Header) error {
	h.Format = "bmp"
	if len(data) < 54 {
		return damaged("bmp", io.ErrUnexpectedEOF)
	}
	switch n := binary.LittleEndian.Uint32(data[14:]); n {
	case 40, 108, 124:
	default:
		return fmt.Errorf("vision: %w: a bmp whose header has %d bytes; save it as png", ErrUnsupported, n)
	}
	h.Width = int(int32(binary.LittleEndian.Uint32(data[18:])))
	h.Height = int(int32(binary.LittleEndian.Uint32(data[22:])))
	if h.Height < 0 {
		h.Height = -h.Height // rows from the top
	}
	h.Memory = area(h)*(4+perPixel) + small
	h.least = area(h) / 8 * int64(binary.LittleEndian.Uint16(data[28:]))
	if c := binary.LittleEndian.Uint32(data[30:]); c != 0 && c != 3 {
		return fmt.Errorf("vision: %w: a compressed bmp; save it as png", ErrUnsupported)
	}
	return nil
}

// area is how many pixels h claims, and far too many where that is no number: the limits of a side
// come after it.
func area(h *Header) int64 {
	if h.Width < 0 || h.Height < 0 || h.Width > 1<<20 || h.Height > 1<<20 {
		return 1 << 50
	}
	return int64(h.Width) * int64(h.Height)
}

// orientation reads EXIF's tag 0x0112 from a TIFF block; 1 where there is none, or none that can be
// believed.
func orientation(b []byte) int {
	if len(b) >= 6 && string(b[:6]) == "Exif\x00\x00" {
		b = b[6:]
	}
	if len(b) < 8 {
		return 1
	}
	var o binary.ByteOrder = binary.LittleEndian
	switch string(b[:4]) {
	case "II*\x00":
	case "MM\x00*":
		o = binary.BigEndian
	default:
		return 1
	}
	at := int64(o.Uint32(b[4:]))
	if at+2 > int64(len(b)) {
		return 1
	}
	n := int64(o.Uint16(b[at:]))
	for i := range n {
		e := at + 2 + i*12
		if e+12 > int64(len(b)) {
			return 1
		}
		if o.Uint16(b[e:]) != 0x0112 {
			continue
		}
		v := uint32(o.Uint16(b[e+8:]))
		if o.Uint16(b[e+2:]) == 4 { // a long, where a short should be
			v = o.Uint32(b[e+8:])
		}
		if v >= 1 && v <= 8 {
			return int(v)
		}
		return 1
	}
	return 1
}
