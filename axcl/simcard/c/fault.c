// Fault plans as text. Data flow: "Call:index:action[:word...]" separated by ';' -> config.faults,
// read by call.c.
#define _GNU_SOURCE
#include "sim.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 8 };

// The call a plan names: in full, without its prefix, or '*'. A bare Memcpy, Memset, Memcmp or
// Execute stands for its Async form too, and a bare Execute for the on-board engine's runs.
static bool call_named(const char *s, fault *f) {
	if (!strcmp(s, "*")) {
		f->call = CALLS;
		return true;
	}
	for (int i = 0; i < CALLS; i++) {
		const char *full = call_names[i];
		bool engine = !strncmp(full, "axclrtEngine", 12) && !strcmp(full + 12, s);
		bool runtime = !strncmp(full, "axclrt", 6) && !strcmp(full + 6, s);
		bool bare = !strcmp(call_bare[i], s) || engine || runtime;
		if (!bare && strcmp(full, s)) continue;
		if (bare && !strcmp(s, "CreateContext") && i != CALL_axclrtCreateContext) continue;
		f->call = i;
		f->both = bare;
		return true;
	}
	return false;
}

static bool action(char **words, int n, fault *f) {
	int i = 0;
	char *end;
	if (n < 1) return false;
	if (!strcmp(words[0], "hang")) {
		f->action = F_HANG;
	} else if (!strcmp(words[0], "nothing")) {
		f->action = F_CODE; // of 0
	} else if (!strcmp(words[0], "lost")) {
		f->action = F_LOST;
	} else if (!strcmp(words[0], "wrong") || !strcmp(words[0], "nan") || !strcmp(words[0], "flat")) {
		f->action = F_WRONG;
		f->damage = *words[0] == 'w' ? WRONG : *words[0] == 'n' ? WRONG_NAN : WRONG_FLAT;
	} else if (!strcmp(words[0], "slow")) {
		const char *rest;
		f->action = F_SLOW;
		if (n < 2 || !parse_time(words[1], &f->ns, &rest) || *rest) return false;
		if (f->ns && words[1][strlen(words[1]) - 1] != 's') f->ns *= 1000000; // a plain number is milliseconds
		i = 1;
	} else {
		unsigned long v = strtoul(words[0], &end, 0);
		if (end == words[0] || *end || v == 0 || v > 0xffffffffu) return false;
		f->action = F_CODE;
		f->code = (int32_t)(uint32_t)v;
	}
	for (i++; i < n; i++) {
		if (!strcmp(words[i], "sticky"))
			f->sticky = true;
		else if (!strcmp(words[i], "late"))
			f->late = true;
		else
			return false;
	}
	return true;
}

static bool one(char *text, fault *f) {
	char *words[MAX_WORDS], *end;
	int n = 0;
	memset(f, 0, sizeof *f);
	for (char *save = NULL, *w = strtok_r(text, ":", &save); w; w = strtok_r(NULL, ":", &save)) {
		if (n == MAX_WORDS) return false;
		words[n++] = w;
	}
	if (n < 3 || !call_named(words[0], f)) return false;
	f->index = strcmp(words[1], "*") ? strtoll(words[1], &end, 10) : -1;
	if (f->index >= 0 && (*end || end == words[1])) return false;
	if (f->index < 0 && strcmp(words[1], "*")) return false;
	return action(words + 2, n - 2, f);
}

bool faults_parse(config *c, const char *text) {
	c->nfaults = 0;
	char *copy = strdup(text);
	if (!copy) return false;
	bool ok = true;
	for (char *save = NULL, *p = strtok_r(copy, ";\n", &save); p && ok; p = strtok_r(NULL, ";\n", &save)) {
		p += strspn(p, " \t");
		p[strcspn(p, " \t")] = 0;
		if (!*p) continue;
		if (c->nfaults == MAX_FAULTS || !one(p, &c->faults[c->nfaults])) {
			config_complain(
				"AXSIM_FAULT: cannot read %s: want Call:index:code|nothing|hang|lost|wrong|nan|flat|slow:time[:sticky][:late]", text);
			ok = false;
		} else {
			c->nfaults++;
		}
	}
	free(copy);
	return ok;
}
