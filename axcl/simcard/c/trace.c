// The trace. Data flow: call_leave -> one line a call: number, modelled time, thread, call with
// operands, code, modelled cost -> at the end a table by call, and where the time went.
#define _GNU_SOURCE
#include "sim.h"

#include <sys/syscall.h>
#include <unistd.h>

void trace_open(void) {
	if (!sim.cfg.trace[0] || sim.trace) return;
	sim.trace = fopen(sim.cfg.trace, "ae");
	if (!sim.trace) {
		config_complain("AXSIM_TRACE: cannot write %s", sim.cfg.trace);
		return;
	}
	setvbuf(sim.trace, NULL, _IOLBF, 0); // what a crashed process did shall be readable
	static const char *const clocks[] = {"off", "real", "virtual"};
	fprintf(sim.trace, "# axsim profile=%s clock=%s devices=%d\n", sim.cfg.prof.name, clocks[sim.cfg.clock], sim.ndev);
	fprintf(sim.trace, "# number time_us thread call(operands) = code cost_us\n");
}

static double us(uint64_t ns) { return (double)ns / 1e3; }

void trace_line(const call *c, int32_t code) {
	uint64_t cost = c->end > c->start ? c->end - c->start : 0;
	char made[32] = "";
	if (c->made) snprintf(made, sizeof made, " made=%p", c->made);
	fprintf(sim.trace, "%llu %.3f %ld %s(%s%s) = 0x%08x %.3f\n", (unsigned long long)c->number, us(c->start), (long)syscall(SYS_gettid),
	        call_names[c->id], c->args, made, (uint32_t)code, us(cost));
}

void trace_summary(void) {
	if (!sim.trace) return;
	fprintf(sim.trace, "# summary\n");
	for (int i = 0; i < CALLS; i++)
		if (sim.calls[i])
			fprintf(sim.trace, "# calls %s %llu cost_us %.3f\n", call_names[i], (unsigned long long)sim.calls[i], us(sim.spent[i]));
	double total = (double)(sim.inside + sim.outside);
	fprintf(sim.trace, "# total calls %llu, PCIe crossings %llu\n", (unsigned long long)sim.total, (unsigned long long)sim.crossings);
	fprintf(sim.trace, "# in calls %.3f us (modelled), between calls %.3f us (the host's own), host share %.4f\n", us(sim.inside),
		us(sim.outside),
	        total > 0 ? (double)sim.outside / total : 0);
	fprintf(sim.trace, "# NPU busy %.3f us, busy share %.4f\n", us(sim.busy), total > 0 ? (double)sim.busy / total : 0);
	fclose(sim.trace);
	sim.trace = NULL;
}
