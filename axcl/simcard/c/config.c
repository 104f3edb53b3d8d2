// Options. Data flow: axsim_configure's text, then the AXSIM_ environment -> config. Everything is
// read when nothing is initialised and Init is called, so one process can run many plans.
#define _GNU_SOURCE
#include "sim.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *override_text; // "key=value" lines, or NULL

// A JSON object of strings and numbers as lines; anything else is taken as lines already.
static char *as_lines(const char *text) {
	char *out = malloc(strlen(text) * 2 + 2), *w = out;
	if (!out) return NULL;
	while (isspace((unsigned char)*text)) text++;
	if (*text != '{') return strcpy(out, text);
	bool string = false;
	for (const char *p = text + 1; *p; p++) {
		if (*p == '"') {
			string = !string;
		} else if (string && *p == '\\' && p[1]) {
			p++;
			*w++ = *p == 'n' ? ';' : *p;
		} else if (string) {
			*w++ = *p;
		} else if (*p == ':') {
			*w++ = '=';
		} else if (*p == ',') {
			*w++ = '\n';
		} else if (*p != '}' && !isspace((unsigned char)*p)) {
			*w++ = *p;
		}
	}
	*w = 0;
	return out;
}

bool config_override(const char *text) {
	free(override_text);
	override_text = NULL;
	if (!text) return true;
	override_text = as_lines(text);
	return override_text != NULL;
}

// The value of an option, in a buffer of the caller's; NULL when it is nowhere.
static const char *option(const char *name, char *buf, size_t size) {
	size_t n = strlen(name);
	for (const char *line = override_text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const char *p = line + strspn(line, " \t");
		if (!strncmp(p, "AXSIM_", 6)) p += 6;
		if (strncasecmp(p, name, n) || p[n] != '=') continue;
		size_t len = strcspn(p + n + 1, "\r\n");
		if (len >= size) len = size - 1;
		memcpy(buf, p + n + 1, len);
		buf[len] = 0;
		return buf;
	}
	char env[64] = "AXSIM_";
	for (size_t i = 0; i < n; i++) env[6 + i] = (char)toupper((unsigned char)name[i]);
	const char *v = getenv(env);
	if (!v || !*v || strlen(v) >= size) return NULL;
	return strcpy(buf, v);
}

static bool whole(const char *s, uint64_t max, uint64_t *v) {
	char *end;
	if (!isdigit((unsigned char)*s)) return false;
	*v = strtoull(s, &end, 10);
	return !*end && *v <= max;
}

// "2", "none" (no driver), or "bus:9,12".
static bool devices(config *c, const char *s) {
	uint64_t n;
	c->driver = true;
	if (!strcmp(s, "none")) {
		c->driver = false;
		c->ndevices = 0;
		return true;
	}
	if (!strncmp(s, "bus:", 4)) {
		c->ndevices = 0;
		for (const char *p = s + 4; *p;) {
			char *end;
			long id = strtol(p, &end, 10);
			if (end == p || id < 0 || id > 255 || c->ndevices == MAX_DEVICES || (*end && *end != ',')) return false;
			c->bus[c->ndevices++] = (int32_t)id;
			p = *end ? end + 1 : end;
		}
		return c->ndevices > 0;
	}
	if (!whole(s, MAX_DEVICES, &n)) return false;
	c->ndevices = (int)n;
	for (int i = 0; i < c->ndevices; i++) c->bus[i] = n == 1 ? 1 : 3 + i; // one card: bus 1; several sit behind a switch
	return true;
}

// Each hazard's name, and whether a card has it where AXSIM_HAZARDS does not say otherwise.
static const struct {
	const char *name;
	bool on;
} hazard_table[HAZARDS] = {
	[HZ_UNBOUND] = {"unbound", true},
	[HZ_ONE_GROUP] = {"one-group", false},
	[HZ_BOUNDS] = {"bounds", false},
	[HZ_OFFSET] = {"offset", true},
	[HZ_INPLACE] = {"inplace", true},
	[HZ_POISON] = {"poison", true},
	[HZ_FROMMEM] = {"frommem", false}, // with 3.6.x: see default_hazards
	[HZ_LATELOAD] = {"lateload", true},
	[HZ_WEDGE] = {"wedge", true},
	[HZ_PAGEABLE] = {"pageable", true},
	[HZ_ROUNDTRIP] = {"roundtrip", true},
	[HZ_SHORTCHUNK] = {"shortchunk", false},
	[HZ_LEAK] = {"leak", true},
	[HZ_LOADFAIL] = {"loadfail", true},
	[HZ_LATCH] = {"latch", true},
	[HZ_RAWCODE] = {"rawcode", true},
	[HZ_NOMEM] = {"nomem", true},
	[HZ_MESSAGE] = {"message", false},
	[HZ_INHERIT] = {"inherit", true},
	[HZ_OFFLINE] = {"offline", false},
	[HZ_PROPERTIES] = {"properties", false},
	[HZ_EINTR] = {"eintr", false},
	[HZ_EXCLUSIVE] = {"exclusive", false},
	[HZ_POSITIONS_FIRST] = {"positions-first", false},
	[HZ_MASK_SHARED] = {"mask-shared", false},
	[HZ_KV_INPLACE] = {"kv-inplace", false},
	[HZ_CELLS_ORDERED] = {"cells-ordered", false},
	[HZ_CACHE] = {"cache", true},
	[HZ_LAZY] = {"lazy", false},
	[HZ_LATELOAD_STRICT] = {"lateload-strict", false},
	[HZ_STATE_PADDING] = {"state-padding", false},
	[HZ_STATE_COLD] = {"state-cold", false},
	[HZ_UNLISTED] = {"unlisted", false},
	[HZ_SHARE_STALE] = {"share-stale", false},
	[HZ_INPUTS_FIRST] = {"inputs-first", false},
	[HZ_SHARE_IGNORED] = {"share-ignored", false},
	[HZ_INPUTS_IGNORED] = {"inputs-ignored", false},
	[HZ_WIDTH_FIRST] = {"width-first", false},
};

static void default_hazards(config *c) {
	for (int h = 0; h < HAZARDS; h++) c->hazard[h] = hazard_table[h].on;
	c->hazard[HZ_FROMMEM] = c->version[0] == 3 && c->version[1] == 6; // seen on 3.6.5
}

static bool hazards(config *c, char *s) {
	for (char *save = NULL, *w = strtok_r(s, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
		bool on = *w != '-';
		if (*w == '-' || *w == '+') w++;
		if (!strcmp(w, "default") || !strcmp(w, "strict")) { // strict: what no card checks, and a program should keep to all the same
			default_hazards(c);
			c->hazard[HZ_ONE_GROUP] = c->hazard[HZ_BOUNDS] = *w == 's';
			continue;
		}
		if (!strcmp(w, "none") || !strcmp(w, "all")) {
			memset(c->hazard, *w == 'a', sizeof c->hazard);
			continue;
		}
		int h = 0;
		while (h < HAZARDS && strcmp(w, hazard_table[h].name)) h++;
		if (h == HAZARDS) return false;
		c->hazard[h] = on;
	}
	return true;
}

// "52,60@10s,101@20s": degrees, and from when.
static bool temperature(config *c, const char *s) {
	c->nheat = 0;
	if (!strncmp(s, "file:", 5)) {
		c->heat[c->nheat++] = (heat){50, 0};
		return strlen(s + 5) < sizeof c->heat_file && strcpy(c->heat_file, s + 5);
	}
	while (*s) {
		char *end;
		const char *rest;
		heat *h = &c->heat[c->nheat];
		h->degrees = strtod(s, &end);
		h->at = 0;
		rest = end;
		if (end == s || !isfinite(h->degrees) || c->nheat == MAX_HEAT) return false;
		if (*end == '@' && !parse_time(end + 1, &h->at, &rest)) return false;
		if (*rest && *rest != ',') return false;
		c->nheat++;
		s = *rest ? rest + 1 : rest;
	}
	return c->nheat > 0;
}

static bool version(config *c, const char *s) { return sscanf(s, "%d.%d.%d", &c->version[0], &c->version[1], &c->version[2]) == 3; }

static bool clock_kind(config *c, const char *s) {
	static const char *const names[] = {"off", "real", "virtual"};
	for (int i = 0; i < 3; i++)
		if (!strcmp(s, names[i])) {
			c->clock = i;
			return true;
		}
	return false;
}

static bool noisy(config *c, const char *s) {
	c->noise[0] = !strcmp(s, "stdout") || !strcmp(s, "both");
	c->noise[1] = !strcmp(s, "stderr") || !strcmp(s, "both");
	return c->noise[0] || c->noise[1];
}

static bool mib(const char *s, uint64_t *bytes) {
	if (!whole(s, 1 << 24, bytes)) return false;
	*bytes <<= 20;
	return true;
}

static bool page(config *c, const char *s) {
	return whole(s, 1 << 30, &c->page) && c->page >= 4096 && !(c->page & (c->page - 1));
}

#define OPTION(name, call) \
	do { \
		const char *v = option(name, buf, sizeof buf); \
		if (v && !(call)) { \
			config_complain("AXSIM_%s: cannot use %s", name, v); \
			ok = false; \
		} \
	} while (0)

bool config_load(config *c) {
	static char buf[16384]; // under the lock, as everything here
	bool ok = true;
	memset(c, 0, sizeof *c);
	devices(c, "1");
	c->cmm = (uint64_t)7040 << 20;
	c->cmm_idle = (uint64_t)18 << 20;
	c->host_limit = UINT64_MAX;
	c->milli = true;
	c->message = 1024;
	c->page = (uint64_t)sysconf(_SC_PAGESIZE);
	strcpy(c->soc, "AX650N");
	version(c, "3.10.2");
	OPTION("VERSION", version(c, v));
	default_hazards(c);
	OPTION("HAZARDS", hazards(c, buf));
	OPTION("DEVICES", devices(c, v));
	OPTION("CMM", mib(v, &c->cmm));
	OPTION("CMM_USED", mib(v, &c->cmm_idle));
	OPTION("PAGE", page(c, v));
	OPTION("MESSAGE", whole(v, 1 << 20, &c->message));
	OPTION("HOST_LIMIT", mib(v, &c->host_limit));
	OPTION("TEMPERATURE", temperature(c, v));
	OPTION("TEMPERATURE_UNIT", !strcmp(v, "degree") ? !(c->milli = false) : !strcmp(v, "milli"));
	OPTION("CLOCK", clock_kind(c, v));
	OPTION("FAULT", faults_parse(c, v));
	OPTION("SOC", strlen(v) < sizeof c->soc && strcpy(c->soc, v));
	OPTION("TRACE", strlen(v) < sizeof c->trace && strcpy(c->trace, v));
	OPTION("ROOT", strlen(v) < sizeof c->root && strcpy(c->root, v));
	OPTION("NOISE", noisy(c, v));
	OPTION("STATE", strlen(v) < sizeof c->state && strcpy(c->state, v));
	const char *p = option("PROFILE", buf, sizeof buf);
	if (!profile_load(&c->prof, p ? buf : "pi5")) ok = false;
	return ok;
}
