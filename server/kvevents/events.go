package kvevents

import (
	"encoding/binary"
	"time"
)

// cleared, stored and removed are events as they are sent.
var cleared = appendString(appendArray(nil, 1), "AllBlocksCleared")

func stored(b *block, medium string) (out []byte) {
	out = appendArray(out, 9)
	out = appendString(out, "BlockStored")
	out = appendUint(appendArray(out, 1), b.name)
	if b.first {
		out = appendNil(out)
	} else {
		out = appendUint(out, b.before)
	}
	out = appendArray(out, len(b.tokens))
	for _, id := range b.tokens {
		out = appendUint(out, uint64(id))
	}
	out = appendUint(out, uint64(len(b.tokens)))
	out = appendNil(out) // lora_id
	out = appendString(out, medium)
	out = appendNil(out) // lora_name
	if b.salt == "" {
		return appendNil(out)
	}
	out = appendArray(out, 1)
	if !b.first { // as in vLLM: the names behind it depend on it
		return appendNil(out)
	}
	return appendString(appendArray(out, 1), b.salt)
}

func removed(name uint64, medium string) []byte {
	out := appendString(appendArray(nil, 3), "BlockRemoved")
	return appendString(appendUint(appendArray(out, 1), name), medium)
}

// batch is the payload of a message.
func batch(events [][]byte) []byte {
	out := appendArray(nil, 3)
	out = appendFloat(out, float64(time.Now().UnixMicro())/1e6)
	out = appendArray(out, len(events))
	for _, e := range events {
		out = append(out, e...)
	}
	return appendUint(out, 0) // data_parallel_rank
}

// number is a sequence as it is sent.
func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
