# A Raspberry Pi 5 with the M.2 card on PCIe Gen2 x1. "measured": published by someone who ran it; the rest are assumptions, said so.

call * 1us                          # assumption: a call that only touches the host
call axclrtGetDeviceList 1ms        # assumption: a round trip to the driver
call axclrtGetDeviceCount 1ms
call axclrtGetDeviceProperties 150ms # seven commands on the card's own Linux
call axclrtMalloc 300us             # assumption: a round trip to the card
call axclrtMallocCached 300us
call axclrtFree 300us
call axclrtMallocHost 200us
call axclrtFreeHost 200us
call axclrtCreateStream 300us
call axclrtCreateContext 300us
call axclrtCreateEvent 200us        # assumption: round trips to the card, at the floor of one
call axclrtDestroyEvent 200us
call axclrtRecordEvent 12us         # messages without an answer, as `enqueue`
call axclrtStreamWaitEvent 12us
call axclrtStreamWaitEventWithTimeout 12us
call EngineInit 5ms
call Unload 2ms
call GetIOInfo 300us
call axclrtSynchronizeStream 30us
call axclrtSynchronizeStreamWithTimeout 30us

copy h2d-pinned 30us 500MB/s        # measured: tens of us; the link's 500 MB/s
copy h2d-pageable 320us 500MB/s     # from two loops: about 1 ms is told, but at that the vendor's copying loop makes 8.0 tokens/s of
                                    # Qwen3-0.6B where 10.2-12.9 are measured. At this, 11.6; and 13.0 of Qwen3.5-0.8B int4, as measured
copy d2h-pinned 30us 820MB/s        # measured: 304 KB of logits in 0.3-0.5 ms
copy d2h-pageable 320us 820MB/s
copy d2d 200us 10GB/s               # not published: the round-trip floor
copy set 200us 10GB/s               # as d2d
copy compare 200us 10GB/s
copy h2h 1us 5GB/s

enqueue 12us                        # assumption: host's cost of an asynchronous call (1-2 ms a token measured over ~100 calls)
execute 457us                       # measured fit: the fixed part of one execute; part of every layer line below
load 35MB/s                         # measured
memory 25GB/s                       # measured: weights and cache stream at this
head 20.9GB/s                       # from the measured 7.9 ms for 151936 x 1024 int8
host-memory 11.4GB/s                # measured by others: four Cortex-A76 cores read this much
host-products 150G/s                # from the instructions of the kernels for the dot product, 79 % of what the pipes could: not measured
host-call 500us                     # assumption: the norm, the largest of the logits, waking the threads
matrix 2.6TOPS                      # measured: transformer matrix products
attention 0.48TOPS                  # from the measured 128-row prefill, h = 0 against h = 1024

# Qwen3-0.6B: measured. bf16, w8a16, int4.
layer hidden=1024 rows=1 cells=2047 weights=31.5MB time=3.24ms
layer hidden=1024 rows=1 cells=2047 weights=15.75MB time=1.50ms
layer hidden=1024 rows=1 cells=2047 weights=8.3MB time=1.17ms
layer hidden=1024 rows=1 cells=255 weights=8.3MB time=0.77ms
layer hidden=1024 rows=128 cells=0 weights=15.75MB time=2.8ms
layer hidden=1024 rows=128 cells=1024 weights=15.75MB time=5.2ms
layer hidden=1024 rows=64 cells=0 weights=8.3MB time=2.15ms
layer hidden=1024 rows=64 cells=1024 weights=8.3MB time=3.03ms

# Qwen3-4B int8, 36 layers: a wide pass about 1.1 s, a row about 0.24 s with its head (19.1 ms by `head`) and host work, both measured on
# whole passes; per layer by division. The growth with the cache is the formula's attention (8.9 ms at 2048).
layer hidden=2560 rows=1 cells=2559 weights=101MB time=6.0ms
layer hidden=2560 rows=128 cells=0 weights=101MB time=30.5ms
layer hidden=2560 rows=128 cells=2048 weights=101MB time=39.7ms

# Qwen3.5-0.8B int4: 18 layers with a state, 6 with attention, a head of 248320 x 1024 int8 (12.6 ms by `head`). Weights: the parameters at
# 4.125 bits. The fastest known loop makes 27.0 tokens/s, 37.0 ms each: measured. A layer with attention takes 1.04 ms by the formula (half
# the cache of Qwen3-0.6B's), the loop's own work and its logits' way home 0.7 ms, so 0.97 ms are left for each layer with a state. The
# formula gives 0.457 + 11.1 MB and twice the state (bf16) at 25 GB/s = 0.95 ms.
layer hidden=1024 rows=1 cells=2047 weights=9.46MB time=1.04ms
linear hidden=1024 rows=1 weights=11.1MB time=0.97ms

# Prompts: the vendor's runner takes 332 ms to the first token behind 20 tokens, and 690 ms behind 168, a chunk more: measured, w8. Of the
# 332 its head takes 13, its copies 35, six layers with attention 21 by the formula: 14.6 ms for each layer with a state. int4 reads 18 MB
# less.
linear hidden=1024 rows=128 weights=29MB time=14.6ms
linear hidden=1024 rows=128 weights=11.1MB time=13.9ms

# Encoders of pictures: measured calls, of Qwen3-VL-2B, 4B and 8B (384 x 384 pixels) and of Qwen2.5-VL-3B (448 x 448).
encoder patches=576 out=2048 time=192ms
encoder patches=576 out=2560 time=196ms
encoder patches=576 out=4096 time=400ms
encoder patches=1024 out=2048 time=774ms
