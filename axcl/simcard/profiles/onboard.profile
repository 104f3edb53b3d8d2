# The NPU on the board itself: no link. Memory is shared, so a "copy" is a cache maintenance call.
like pi5
table less 277us                    # 457 us less the 180 us below
execute 180us                       # assumption, from 19-20 tokens/s of Qwen3-0.6B with the vendor's own loop
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
