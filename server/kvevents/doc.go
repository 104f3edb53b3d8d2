// Package kvevents publishes which blocks of texts the caches of this server hold, so that a router
// in front of several servers knows where the beginning of a prompt has been evaluated. The events
// are vLLM's (BlockStored, BlockRemoved, AllBlocksCleared), in msgpack, over ZeroMQ
// (internal/zmtp):
//
//	topic "kv@NODE@MODEL" | sequence, 8 bytes, big-endian | [time, [event…], 0]
//	["BlockStored", [name], name before or nil, [token…], tokens in a block, nil, medium, nil, [[salt] or nil]]
//	["BlockRemoved", [name], medium]
//	["AllBlocksCleared"]
//
// The media are "GPU" (the card), "CPU" (this machine's memory) and "DISK". A name is the first
// eight bytes of a keyed hash of the text up to the block's end. The salt stands for the API key
// whose text it is: other keys' requests do not find the block.
//
// A second socket answers who missed something. It takes the number of the first missing message as
// 8 bytes, and sends it and all that follow, each with its topic, then one with the sequence −1 and
// no payload. The last thousand messages are kept. Who asks for older ones gets every number all
// the same: empty messages, and in the last ones AllBlocksCleared and everything that is there.
//
// The tokens of a block are what somebody wrote, in clear. Options.Allowed says who may connect.
//
// A [Publisher] and its feeds are used from any goroutine. The caches call a [Feed] and never wait
// for a subscriber: a feed only notes what changed, and what came and went between two messages is
// not told. What the caches hold bounds what is noted, so nothing is ever dropped. Close ends the
// sockets.
package kvevents
