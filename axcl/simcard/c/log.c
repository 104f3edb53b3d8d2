// The library's own log, as the vendor's writes one to the terminal: AXSIM_NOISE says where to. It speaks from the level info on until
// axclSetLogLevel says otherwise, and Init sets the level anew. What Init itself has to say can therefore not be kept quiet.
#define _GNU_SOURCE
#include "sim.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

void noise(int level, const char *fmt, ...) {
	static const char letters[] = "TDIWEC";
	char line[512] = "[axcl][";
	if (level < sim.level || !(sim.cfg.noise[0] || sim.cfg.noise[1])) return;
	size_t n = strlen(line);
	line[n++] = letters[level];
	line[n++] = ']';
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
	va_end(ap);
	strcat(line, "\n");
	for (int i = 0; i < 2; i++)
		if (sim.cfg.noise[i] && write(i + 1, line, strlen(line)) < 0) continue;
}
