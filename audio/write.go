package audio

import (
	"encoding/binary"
	"fmt"
	"math"
)

// AppendPCM appends samples as raw PCM: 16 bits, signed, little-endian. What is beyond −1…1 becomes
// the nearest value that there is; what is no number becomes 0.
func AppendPCM(dst []byte, samples []float32) []byte {
	for _, x := range samples {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(pcm16(x)))
	}
	return dst
}

func pcm16(x float32) int16 {
	y := math.RoundToEven(float64(x) * (1 << 15))
	switch {
	case y >= math.MaxInt16:
		return math.MaxInt16
	case y <= math.MinInt16:
		return math.MinInt16
	case y != y:
		return 0
	}
	return int16(y)
}

// AppendWAVHeader appends the header of a wav of mono PCM of 16 bits; [AppendPCM] appends what
// follows it. A negative number of samples is one that is not known yet: the header says then what
// programs say that write to a pipe, and readers go on to the end. So it does for more samples than
// a wav can count. It panics if rate is not positive.
func AppendWAVHeader(dst []byte, rate, samples int) []byte {
	if rate < 1 || rate > math.MaxInt32/2 {
		panic(fmt.Sprintf("audio: a wav of %d samples a second", rate))
	}
	riff, data := uint32(math.MaxUint32), uint32(math.MaxUint32)
	if samples >= 0 && samples < wavOpen/2-32 {
		data = uint32(samples) * 2
		riff = data + 36
	}
	le := binary.LittleEndian
	dst = le.AppendUint32(append(dst, "RIFF"...), riff)
	dst = le.AppendUint32(append(dst, "WAVEfmt "...), 16)
	dst = le.AppendUint16(le.AppendUint16(dst, wavPCM), 1)
	dst = le.AppendUint32(le.AppendUint32(dst, uint32(rate)), uint32(rate)*2)
	dst = le.AppendUint16(le.AppendUint16(dst, 2), 16)
	return le.AppendUint32(append(dst, "data"...), data)
}
