# The NPU on the board itself: no link. Memory is shared, so a "copy" is a cache maintenance call.
like pi5
# The fixed part of an execute is the card's own: what PCIe adds, a queued call does not feel. The board's A55 cores take a while for each
# run, which is waited for. Measured: Qwen3-0.6B 15.7-20 tokens/s, Qwen3-4B 4.22; with these two lines 19.5 and 4.2.
table more 40us                     # assumption: the processor's part of a run
execute 497us                       # the Pi's 457 us, and that
load 96MB/s                         # measured: 4.6 GB in 48 s
call MflushCache 3us
call MinvalidateCache 3us
call MemAlloc 50us
call MemAllocCached 50us
copy h2d-pinned 2us 4GB/s
copy h2d-pageable 2us 4GB/s
copy d2h-pinned 2us 4GB/s
copy d2h-pageable 2us 4GB/s
copy d2d 20us 10GB/s
copy set 20us 10GB/s
host-memory 5GB/s                   # assumption: A55 cores, while the NPU reads from the same memory
host-products 40G/s                 # assumption: eight A55 cores, a third of what an A76 computes
