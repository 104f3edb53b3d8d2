package journal

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"strconv"
)

// This file is the form of a record: a line of its JSON's CRC-32C, in eight hexadecimal digits, its
// length, and the JSON, with a space between. JSON has no line break inside, so that after a
// damaged line the next one is found.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maxLine is more than any line has: a body, 64 ids and what stands around them.
const maxLine = MaxRecord + 64<<10

// line is a record as a file has it.
func line(r Record) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(b)+24)
	sum := strconv.FormatUint(uint64(crc32.Checksum(b, castagnoli)), 16)
	out = append(append(out, "00000000"[len(sum):]...), sum...)
	out = strconv.AppendInt(append(out, ' '), int64(len(b)), 10)
	return append(append(append(out, ' '), b...), '\n'), nil
}

// parse reads the line at the beginning of b. n is how many bytes it takes; ok: they are a whole
// and sound one.
func parse(b []byte) (r Record, n int, ok bool) {
	if len(b) < 12 || b[8] != ' ' {
		return r, 0, false
	}
	sum, err := strconv.ParseUint(string(b[:8]), 16, 32)
	size, _, more := bytes.Cut(b[9:min(len(b), 9+11)], []byte(" "))
	length, lerr := strconv.Atoi(string(size))
	start := 9 + len(size) + 1
	if err != nil || lerr != nil || !more || length < 2 || length > maxLine || start+length+1 > len(b) {
		return r, 0, false
	}
	body := b[start : start+length]
	//rule:D12 TestDamage crc32.Checksum(body, castagnoli) != uint32(sum) => false
	if crc32.Checksum(body, castagnoli) != uint32(sum) || json.Unmarshal(body, &r) != nil {
		return Record{}, 0, false
	}
	return r, start + length + 1, true
}

// found is a record in a file.
type found struct {
	Record
	off  int64
	size int // of the line
}

// scan reads the lines of a file. whole is where the last sound one ends; damaged are the places of
// lines that are not sound, and do not only lack their end: that is what a write which a power cut
// ended leaves.
func scan(b []byte) (all []found, whole int64, damaged []int64) {
	bad := int64(-1)
	for at := int64(0); at < int64(len(b)); {
		r, n, ok := parse(b[at:])
		if ok {
			if bad >= 0 {
				damaged, bad = append(damaged, bad), -1
			}
			all = append(all, found{r, at, n})
			at += int64(n)
			whole = at
			continue
		}
		if bad < 0 {
			bad = at
		}
		next := bytes.IndexByte(b[at:], '\n')
		if next < 0 {
			break
		}
		at += int64(next) + 1
		if at == int64(len(b)) { // it has its end: no torn write
			damaged, bad = append(damaged, bad), -1
		}
	}
	return all, whole, damaged
}
