# A tuned CM3588 (RK3588) host: the same card, a shorter round trip, PCIe Gen2 x2.
like pi5
table less 257us                    # 457 us less the 200 us below
execute 200us                       # measured: round trip floor 180-220 us
copy h2d-pinned 20us 1GB/s          # x2
copy h2d-pageable 370us 1GB/s       # as pi5
copy d2h-pinned 20us 1GB/s
copy d2h-pageable 370us 1GB/s
copy d2d 200us 10GB/s
host-memory 14GB/s                  # assumption: four A76 cores on LPDDR4X of twice the Pi's width
