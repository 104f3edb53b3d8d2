// What things cost. Data flow: a profile's lines (built in, a file, or words after a comma in
// AXSIM_PROFILE) -> profile -> nanoseconds for a copy or an execute. Measured numbers stand in the
// profile as table lines; what was not measured is a formula over weights, cache and rows.
#define _GNU_SOURCE
#include "graph.h"
#include "sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The committed profiles, byte for byte.
#define EMBED(name) \
	__asm__(".pushsection .rodata\n" \
	        "axsim_text_" #name ":\n.incbin \"" #name ".profile\"\n.byte 0\n" \
	        ".popsection\n"); \
	extern const char axsim_text_##name[] __attribute__((visibility("hidden")));
EMBED(pi5)
EMBED(cm3588)
EMBED(onboard)

static const char *built_in(const char *name) {
	if (!strcmp(name, "pi5")) return axsim_text_pi5;
	if (!strcmp(name, "cm3588")) return axsim_text_cm3588;
	if (!strcmp(name, "onboard")) return axsim_text_onboard;
	return NULL;
}

// "25GB/s", "2.5TOPS", "35e6": a number with a decimal prefix.
static bool rate(const char *s, double *v) {
	char *end;
	*v = strtod(s, &end);
	if (end == s || !(*v >= 0)) return false;
	switch (*end) {
	case 'k':
		*v *= 1e3;
		break;
	case 'M':
		*v *= 1e6;
		break;
	case 'G':
		*v *= 1e9;
		break;
	case 'T':
		*v *= 1e12;
		break;
	}
	return true;
}

static bool time_word(const char *s, uint64_t *ns) {
	const char *end;
	return parse_time(s, ns, &end) && !*end;
}

static const char *const copy_names[COPIES] = {"h2d-pinned", "h2d-pageable", "d2h-pinned", "d2h-pageable", "d2d", "set", "compare", "h2h"};

enum { MAX_WORDS = 8, MAX_DEPTH = 4 };

static bool text_load(profile *p, const char *text, const char *from, int depth);

static bool call_cost(profile *p, const char *name, uint64_t ns) {
	bool any = false;
	for (int i = 0; i < CALLS; i++)
		if (!strcmp(name, "*") || !strcmp(name, call_names[i]) || !strcmp(name, call_bare[i])) {
			p->call[i] = ns;
			any = true;
		}
	return any;
}

// layer hidden=1024 rows=1 cells=2047 weights=15.7MB time=1.50ms, or, of one that keeps a state,
// linear hidden=1024 rows=1 weights=11MB time=1ms
static bool layer_line(profile *p, char **w, int n) {
	table_line l = {.linear = *w[0] == 'l' && w[0][1] == 'i'};
	if (p->nlayers == MAX_TABLE || n != (l.linear ? 5 : 6)) return false;
	for (int i = 1; i < n; i++) {
		char *v = strchr(w[i], '=');
		double x;
		uint64_t ns;
		if (!v) return false;
		*v++ = 0;
		if (!strcmp(w[i], "time")) {
			if (!time_word(v, &ns)) return false;
			l.ns = (double)ns;
			continue;
		}
		if (!rate(v, &x) || x > 1e12) return false;
		if (!strcmp(w[i], "hidden"))
			l.hidden = (uint32_t)x;
		else if (!strcmp(w[i], "rows"))
			l.rows = (uint32_t)x;
		else if (!strcmp(w[i], "cells") && !l.linear)
			l.cells = (uint32_t)x;
		else if (!strcmp(w[i], "weights"))
			l.weights = x;
		else
			return false;
	}
	p->layers[p->nlayers++] = l;
	return true;
}

// encoder patches=576 out=2048 time=192ms
static bool encoder_line_read(profile *p, char **w, int n) {
	encoder_line l = {0};
	double x;
	uint64_t ns;
	if (p->nencoders == MAX_ENCODERS || n != 4) return false;
	for (int i = 1; i < n; i++) {
		char *v = strchr(w[i], '=');
		if (!v) return false;
		*v++ = 0;
		if (!strcmp(w[i], "time")) {
			if (!time_word(v, &ns)) return false;
			l.ns = (double)ns;
		} else if (!rate(v, &x) || x > 1e6) {
			return false;
		} else if (!strcmp(w[i], "patches")) {
			l.patches = (uint32_t)x;
		} else if (!strcmp(w[i], "out")) {
			l.out = (uint32_t)x;
		} else {
			return false;
		}
	}
	p->encoders[p->nencoders++] = l;
	return true;
}

static bool line(profile *p, char **w, int n, int depth) {
	uint64_t ns;
	double v;
	if (!strcmp(w[0], "like") && n == 2) {
		const char *text = built_in(w[1]);
		return text && depth < MAX_DEPTH && text_load(p, text, w[1], depth + 1);
	}
	if (!strcmp(w[0], "call") && n == 3) return time_word(w[2], &ns) && call_cost(p, w[1], ns);
	if (!strcmp(w[0], "copy") && n == 4) {
		for (int i = 0; i < COPIES; i++)
			if (!strcmp(w[1], copy_names[i])) return time_word(w[2], &p->copy[i].fixed) && rate(w[3], &p->copy[i].rate);
		return false;
	}
	if (!strcmp(w[0], "enqueue") && n == 2) return time_word(w[1], &p->enqueue);
	if (!strcmp(w[0], "execute") && n == 2) return time_word(w[1], &p->execute);
	if (!strcmp(w[0], "host-call") && n == 2) return time_word(w[1], &p->host_call);
	if (!strcmp(w[0], "layer") || !strcmp(w[0], "linear")) return layer_line(p, w, n);
	if (!strcmp(w[0], "encoder")) return encoder_line_read(p, w, n);
	if (!strcmp(w[0], "table") && n == 2 && !strcmp(w[1], "clear")) {
		p->nlayers = p->nencoders = 0;
		return true;
	}
	if (!strcmp(w[0], "table") && n == 3 && (!strcmp(w[1], "less") || !strcmp(w[1], "more"))) { // the same chip on another host
		if (!time_word(w[2], &ns)) return false;
		double by = *w[1] == 'l' ? -(double)ns : (double)ns;
		for (int i = 0; i < p->nlayers; i++) p->layers[i].ns = fmax(p->layers[i].ns + by, 0);
		for (int i = 0; i < p->nencoders; i++) p->encoders[i].ns = fmax(p->encoders[i].ns + by, 0);
		return true;
	}
	if (n != 2 || !rate(w[1], &v)) return false;
	const struct {
		const char *name;
		double *to;
	} rates[] = {{"load", &p->load}, {"memory", &p->memory}, {"head", &p->head}, {"matrix", &p->matrix}, {"attention", &p->attn},
		{"host-memory", &p->host_memory}, {"host-products", &p->host_products}};
	double *to = NULL;
	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
		if (!strcmp(w[0], rates[i].name)) to = rates[i].to;
	if (to) *to = v;
	return to;
}

static bool text_load(profile *p, const char *text, const char *from, int depth) {
	char buf[256];
	for (int number = 1; *text; number++) {
		size_t len = strcspn(text, "\n");
		if (len >= sizeof buf) {
			config_complain("profile %s:%d: line too long", from, number);
			return false;
		}
		memcpy(buf, text, len);
		buf[len] = 0;
		text += len + (text[len] == '\n');
		buf[strcspn(buf, "#\r")] = 0;
		char *words[MAX_WORDS];
		int n = 0;
		for (char *save = NULL, *w = strtok_r(buf, " \t", &save); w && n < MAX_WORDS; w = strtok_r(NULL, " \t", &save)) words[n++] = w;
		if (n && !line(p, words, n, depth)) {
			config_complain("profile %s:%d: cannot read the line that begins with %s", from, number, words[0]);
			return false;
		}
	}
	return true;
}

static bool file_load(profile *p, const char *path) {
	FILE *f = fopen(path, "re");
	if (!f) {
		config_complain("AXSIM_PROFILE: %s: no such profile: want pi5, cm3588, onboard or a file", path);
		return false;
	}
	char *text = calloc(1, 1 << 20);
	size_t n = text ? fread(text, 1, (1 << 20) - 1, f) : 0;
	bool ok = text && n < (1 << 20) - 1 && !ferror(f) && text_load(p, text, path, 1);
	free(text);
	fclose(f);
	return ok;
}

// "pi5", "/some/file", "pi5,load 0,call * 0ns": a profile, then lines that change it.
bool profile_load(profile *p, const char *name) {
	char first[512], more[1024] = "";
	size_t len = strcspn(name, ",");
	memset(p, 0, sizeof *p);
	if (len >= sizeof first || strlen(name + len) >= sizeof more) return false;
	memcpy(first, name, len);
	first[len] = 0;
	if (name[len]) strcpy(more, name + len + 1);
	for (char *c = more; *c; c++)
		if (*c == ',') *c = '\n';
	snprintf(p->name, sizeof p->name, "%.63s", first);
	const char *text = built_in(first);
	if (!(text ? text_load(p, text, first, 1) : file_load(p, first))) return false;
	return text_load(p, more, "AXSIM_PROFILE", 1);
}

uint64_t profile_copy(const profile *p, int kind, uint64_t bytes) {
	double per = p->copy[kind].rate > 0 ? (double)bytes / p->copy[kind].rate * 1e9 : 0;
	return p->copy[kind].fixed + (uint64_t)per;
}

static double over(double amount, double per_second) { return per_second > 0 ? amount / per_second * 1e9 : 0; }

// What attention over h cached cells costs in addition to the rest.
static double attention_ns(const profile *p, const axm *m, double n, double h) {
	double kv = (double)m->kv_heads * m->head_dim, q = (double)m->heads * m->head_dim;
	return over(2 * h * kv * 2, p->memory) + over(4 * n * (h + n) * q, p->attn);
}

// A layer that keeps a state reads it and leaves another, as large at any length.
static double linear_formula(const profile *p, const axm *m, const axm_group *g) {
	double keys = (double)m->kv_heads * m->head_dim, values = (double)m->heads * m->value_dim, n = g->rows;
	double params = (double)m->hidden * (2 * keys + 3 * values + 3.0 * m->intermediate);
	double states = (double)(g->in[IN_K].size + g->in[IN_V].size);
	return (double)p->execute + over((double)m->weight_bytes + 2 * states, p->memory) + over(n > 1 ? 2 * n * params : 0, p->matrix);
}

static double formula(const profile *p, const axm *m, double n, double h) {
	double kv = (double)m->kv_heads * m->head_dim, q = (double)m->heads * m->head_dim;
	double params = (double)m->hidden * (2 * q + 2 * kv + 3.0 * m->intermediate);
	return (double)p->execute + over((double)m->weight_bytes, p->memory) + over(n > 1 ? 2 * n * params : 0, p->matrix) + attention_ns(p, m,
		n, h);
}

// How far a line's weights are from the layer's; none where the line is of another kind, width or
// number of rows.
static double off(const table_line *l, const axm *m, const axm_group *g) {
	if (l->linear != (m->kind == AXM_LINEAR) || l->hidden != m->hidden || l->rows != g->rows) return INFINITY;
	return fabs((double)m->weight_bytes / l->weights - 1);
}

// A line of the table fits a layer of the same width and rows whose weights take about as much, and
// no other line's are nearer; between two lines' cells the time is drawn straight, beyond them the
// formula's attention carries on.
static double layer_ns(const profile *p, const axm *m, const axm_group *g) {
	const table_line *below = NULL, *above = NULL;
	double nearest = 0.15;
	for (int i = 0; i < p->nlayers; i++) nearest = fmin(nearest, off(&p->layers[i], m, g));
	for (int i = 0; i < p->nlayers; i++) {
		const table_line *l = &p->layers[i];
		if (off(l, m, g) > nearest) continue;
		if (l->cells <= g->cells && (!below || l->cells > below->cells)) below = l;
		if (l->cells >= g->cells && (!above || l->cells < above->cells)) above = l;
	}
	double n = g->rows, h = g->cells;
	if (m->kind == AXM_LINEAR) return below ? below->ns : linear_formula(p, m, g);
	if (below && above && above->cells > below->cells)
		return below->ns + (above->ns - below->ns) * (h - below->cells) / (above->cells - below->cells);
	if (below || above) {
		const table_line *l = below ? below : above;
		return fmax(l->ns + attention_ns(p, m, n, h) - attention_ns(p, m, n, l->cells), (double)p->execute);
	}
	return formula(p, m, n, h);
}

// An encoder of pictures: every patch sees every other.
static double encoder_formula(const profile *p, const axm *m) {
	double n = (double)m->down * m->across, rows = m->groups[0].rows, d = m->hidden, wide = d * m->merge * m->merge;
	double mergers = rows * (m->deep + 1.0) * wide * ((m->flags & AXM_MERGER ? wide : 0) + m->out);
	double products = n * m->blocks * d * (4 * d + 2.0 * m->intermediate) + mergers;
	return (double)p->execute + over((double)m->weight_bytes, p->memory) + over(2 * products, p->matrix) +
		over(4 * n * n * d * m->blocks, p->attn);
}

double profile_execute(const profile *p, const axm *m, uint32_t group) {
	const axm_group *g = &m->groups[group];
	switch (m->kind) {
	case AXM_LAYER:
	case AXM_LINEAR:
		return layer_ns(p, m, g);
	case AXM_ENCODER:
		for (int i = 0; i < p->nencoders; i++)
			if (p->encoders[i].patches == m->down * m->across && p->encoders[i].out == m->out) return p->encoders[i].ns;
		return encoder_formula(p, m);
	case AXM_NET:
		return (double)p->execute + over((double)m->weight_bytes, p->memory) + over(2 * m->graph[group]->work, p->matrix);
	case AXM_HEAD:
		return (double)p->execute + over((double)m->weight_bytes, p->head);
	case AXM_DECODER: { // its parts, but one call
		double ns = 0, heads = m->flags & AXM_LAST ? 1 : g->rows;
		for (uint32_t i = 0; i < m->parts; i++)
			ns += (profile_execute(p, &m->part[i], i + 1 < m->parts ? group : 0) - (double)p->execute) * (i + 1 < m->parts ? 1 : heads);
		return (double)p->execute + ns;
	}
	default:
		return (double)p->execute + over((double)m->weight_bytes, p->memory) + over(2.0 * g->rows * m->hidden * m->out, p->matrix);
	}
}

// The host's processor reads and multiplies at the same time.
uint64_t profile_host(const profile *p, uint64_t bytes, uint64_t products) {
	return p->host_call + (uint64_t)fmax(over((double)bytes, p->host_memory), over((double)products, p->host_products));
}
