// What tests may ask of the card beyond the vendor's ABI. Exported by libaxcl_rt.so and
// libax_sys.so alike.
#ifndef AXSIM_H
#define AXSIM_H

#include <stdint.h>

#ifndef AXSIM_API
#define AXSIM_API __attribute__((visibility("default")))
#endif

// Things a program made and has not released yet. A release call that a fault plan fails releases
// all the same, so after a program's clean-up every count must be zero whatever failed. Default
// contexts do not count.
typedef struct {
	uint64_t contexts, streams, events, models, infos, ios, engine_contexts;
	uint64_t device_blocks, device_bytes; // device memory, models' weights not among it
	uint64_t host_blocks, host_bytes;     // pinned host memory
	uint64_t workers;
} axsim_counts;

// axsim_configure sets options as text: lines (or JSON object members) named as the AXSIM_
// variables, without the prefix and in lower case: "fault=Execute:3:lost\nclock=virtual". They hold
// at once, fault counters start again, and they beat the environment until the next axsim_configure
// or axsim_reset. NULL goes back to the environment. Returns 0, or 0x80300603 and a line on stderr.
AXSIM_API int32_t axsim_configure(const char *text);
// axsim_reset takes the card back to the state before the first call: hangs end, everything is
// released, options are forgotten.
AXSIM_API int32_t axsim_reset(void);
// axsim_live counts what is alive now; axsim_left what was still alive when ResetDevice, Finalize
// or Deinit had to clear up (since the last axsim_reset).
AXSIM_API int32_t axsim_live(axsim_counts *counts);
AXSIM_API int32_t axsim_left(axsim_counts *counts);
// axsim_clock_ns reads the modelled clock: virtual nanoseconds, or real ones since Init with
// clock=real and clock=off.
AXSIM_API uint64_t axsim_clock_ns(void);
// axsim_host_ns is what the profile says that the host's processor takes to read this many bytes
// and compute as many products. The virtual clock does not see such work; axsim_until moves it on
// to when that is done.
AXSIM_API uint64_t axsim_host_ns(uint64_t bytes, uint64_t products);
AXSIM_API void axsim_until(uint64_t ns);
// axsim_busy_ns is how long the NPU has been busy, as modelled.
AXSIM_API uint64_t axsim_busy_ns(void);
// axsim_calls counts calls by full or bare name since the last Init with nothing initialised; NULL
// counts all.
AXSIM_API uint64_t axsim_calls(const char *name);
// axsim_crossings counts the copies between host and device memory, which cross PCIe.
AXSIM_API uint64_t axsim_crossings(void);

#endif
