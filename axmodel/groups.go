package axmodel

import (
	"encoding/binary"
	"math"

	"github.com/axle-llm/axle/axcl"
)

// clear makes the values of rows that lie together zeros.
func (t DType) clear(dst []byte) {
	for i := range dst {
		dst[i] = 0
		if t == Int4Groups {
			dst[i] = 0x88
		}
	}
}

// writeGroups writes row r of eight in groups of n values, which have a scale each.
func writeGroups(dst, scales []byte, row []float32, r int, t DType, n int) error {
	for at := 0; at < len(row); at += n {
		part := row[at:min(at+n, len(row))]
		scale, err := groupScale(part, t)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint16(scales[2*(at/n*8+r):], scale)
		inverse := over(scale)
		for i, v := range part {
			put(dst, r, at+i, level(v, inverse, t), t)
		}
	}
	return nil
}

// Round replaces a row's values by what a tensor of type t, [Int8Groups] or [Int4Groups] with
// groups of n values, keeps of them. It fails where one cannot be kept.
func (t DType) Round(row []float32, n int) error {
	for len(row) > 0 {
		part := row[:min(n, len(row))]
		row = row[len(part):]
		scale, err := groupScale(part, t)
		if err != nil {
			return err
		}
		inverse := over(scale)
		for i, v := range part {
			part[i] = float32(level(v, inverse, t)) * axcl.Float32(scale)
		}
	}
	return nil
}

// put writes value i of row r of eight.
func put(dst []byte, r, i, v int, t DType) {
	b, i := i/blockValues, i%blockValues
	if t == Int8Groups {
		dst[8*blockValues*b+i/4*32+4*r+i%4] = byte(int8(v))
		return
	}
	at, shift := 4*blockValues*b+i%16/4*32+4*r+i%4, i/16*4
	dst[at] = dst[at]&^(15<<shift) | byte(v+8)<<shift
}

// over is 1 / scale, and 0 where there is none.
func over(scale uint16) float64 {
	if f := axcl.Float32(scale); f != 0 {
		return 1 / float64(f)
	}
	return 0
}

// level is the integer that stands for v.
func level(v float32, inverse float64, t DType) int {
	low, high := -127, 127
	if t == Int4Groups {
		low, high = -8, 7
	}
	return max(low, min(high, int(math.RoundToEven(float64(v)*inverse))))
}

// groupScale is the scale, as bf16, that keeps a group's values best. Eight bits reach from the
// largest value to its opposite. Of four bits there is one level more below zero than above: the
// largest value may take it, or scales be somewhat smaller, whatever errs least.
func groupScale(x []float32, t DType) (uint16, error) {
	var top float32
	for _, v := range x {
		a := float32(math.Abs(float64(v)))
		if !(a <= math.MaxFloat32/2) {
			return 0, errorf("holds %v, which %v cannot", v, t)
		}
		if a > float32(math.Abs(float64(top))) {
			top = v
		}
	}
	if t == Int8Groups {
		return axcl.BFloat16(float32(math.Abs(float64(top))) / 127), nil
	}
	best, least := uint16(0), math.Inf(1)
	for _, part := range [...]float32{-8.3, -8, -7.5, 7} {
		scale := axcl.BFloat16(top / part)
		sum, inverse, step := 0.0, over(scale), float64(axcl.Float32(scale))
		for _, v := range x {
			d := float64(v) - float64(level(v, inverse, t))*step
			sum += d * d
		}
		if sum < least {
			best, least = scale, sum
		}
	}
	return best, nil
}
