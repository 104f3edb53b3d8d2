// What every reader of options needs: times as text, and a line on standard error for what cannot
// be read.
#define _GNU_SOURCE
#include "sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void config_complain(const char *fmt, ...) {
	va_list ap;
	va_start(ap, fmt);
	fputs("axsim: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
}

bool parse_time(const char *s, uint64_t *ns, const char **end) {
	char *e;
	double v = strtod(s, &e);
	if (e == s || !(v >= 0) || v > 1e12) return false;
	double unit = 1;
	if (!strncmp(e, "ns", 2))
		e += 2;
	else if (!strncmp(e, "us", 2))
		unit = 1e3, e += 2;
	else if (!strncmp(e, "ms", 2))
		unit = 1e6, e += 2;
	else if (*e == 's')
		unit = 1e9, e++;
	if (v * unit > 9e18) return false;
	*ns = (uint64_t)(v * unit);
	*end = e;
	return true;
}
