// The library's own log, as the vendor's writes one to the terminal: AXSIM_NOISE says where to. It
// speaks from the level info on until axclSetLogLevel says otherwise, and Init sets the level anew.
// What Init itself has to say is kept quiet by its configuration only: a file's name or the text
// itself, {"log":{"host":{"level":6}}}. One that is missing or cannot be read means the defaults
// and is no error.
#define _GNU_SOURCE
#include "sim.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void noise(int level, const char *fmt, ...) {
	static const char letters[] = "TDIWEC";
	char line[1536] = "[axcl][";
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

// ---- the configuration; only the level matters here

static const char *const wanted[] = {"log", "host", "level"};
enum { WANTED = sizeof wanted / sizeof *wanted, DEPTH = 64 };

typedef struct {
	const char *p;
	int level;
} reader;

static void skip(reader *r) {
	while (isspace((unsigned char)*r->p)) r->p++;
}

// A string, and whether it is `is` (NULL: not asked).
static bool json_string(reader *r, const char *is, bool *same) {
	const char *at = r->p + 1;
	if (*r->p++ != '"') return false;
	for (; *r->p && *r->p != '"'; r->p++)
		if (*r->p == '\\' && !*++r->p) return false;
	if (!*r->p) return false;
	if (is) *same = (size_t)(r->p - at) == strlen(is) && !strncmp(at, is, strlen(is));
	r->p++;
	return true;
}

// A JSON value stands at r->p; found says how many of the wanted names lead here, all there could
// be or -1.
static bool json_value(reader *r, int depth, int found);

static bool json_list(reader *r, int depth, int found, char close) {
	r->p++;
	skip(r);
	for (bool first = true; *r->p != close || !first; first = false) {
		int next = -1;
		skip(r);
		if (close == '}') {
			bool same = false;
			if (!json_string(r, found >= 0 && found < WANTED ? wanted[found] : NULL, &same)) return false;
			if (same) next = found + 1;
			skip(r);
			if (*r->p++ != ':') return false;
		}
		if (!json_value(r, depth + 1, next)) return false;
		skip(r);
		if (*r->p == close) break;
		if (*r->p++ != ',') return false;
	}
	r->p++;
	return true;
}

static bool json_value(reader *r, int depth, int found) {
	skip(r);
	if (depth > DEPTH) return false;
	if (*r->p == '{') return json_list(r, depth, found, '}');
	if (*r->p == '[') return json_list(r, depth, found, ']');
	if (*r->p == '"') return json_string(r, NULL, NULL);
	const char *at = r->p;
	while (*r->p && strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *r->p)) r->p++;
	size_t n = (size_t)(r->p - at);
	if ((n == 4 && (!strncmp(at, "true", 4) || !strncmp(at, "null", 4))) || (n == 5 && !strncmp(at, "false", 5))) return true;
	char *end;
	if (n == 0 || isalpha((unsigned char)*at)) return false;
	double v = strtod(at, &end);
	if (end != r->p) return false;
	if (found == WANTED && v >= LOG_TRACE && v <= LOG_OFF) r->level = (int)v;
	return true;
}

static int level_of(const char *text) {
	reader r = {text, LOG_INFO};
	if (!json_value(&r, 0, 0)) return LOG_INFO;
	skip(&r);
	return *r.p ? LOG_INFO : r.level;
}

int log_level(const char *config) {
	enum { LIMIT = 1 << 20 };
	while (config && isspace((unsigned char)*config)) config++;
	if (!config || !*config) return LOG_INFO;
	if (*config == '{') return level_of(config);
	FILE *f = fopen(config, "re");
	char *text = f ? calloc(1, LIMIT) : NULL;
	size_t n = text ? fread(text, 1, LIMIT - 1, f) : 0;
	int level = n > 0 && n < LIMIT - 1 && !ferror(f) ? level_of(text) : LOG_INFO;
	free(text);
	if (f) fclose(f);
	return level;
}
