// The cards themselves: found by number, lost, and how warm they are.
#include "sim.h"

#include <stdio.h>

device *device_find(int32_t id) {
	for (int i = 0; sim.inits && i < sim.ndev; i++)
		if (sim.dev[i].id == id) return &sim.dev[i];
	return NULL;
}

void devices_lose(device *d) {
	for (int i = 0; i < sim.ndev; i++)
		if (!d || d == &sim.dev[i]) sim.dev[i].lost = true;
	pthread_cond_broadcast(&sim.changed);
}

void temperature_read(void) {
	FILE *f = sim.cfg.heat_file[0] ? fopen(sim.cfg.heat_file, "re") : NULL;
	double t;
	if (!f) return;
	if (fscanf(f, "%lf", &t) == 1) sim.heat = t;
	fclose(f);
}

double temperature_now(void) {
	if (sim.cfg.heat_file[0]) return sim.heat;
	double t = 50;
	uint64_t now = clock_now();
	for (int i = 0; i < sim.cfg.nheat; i++)
		if (sim.cfg.heat[i].at <= now) t = sim.cfg.heat[i].degrees;
	return t;
}
