// The process's life: options read, cards brought up, everything released and counted when they go
// down.
#define _GNU_SOURCE
#include "sim.h"

#include <stdlib.h>
#include <string.h>

void count_live(axsim_counts *n) {
	memset(n, 0, sizeof *n);
	n->contexts = handle_count(K_CONTEXT);
	n->streams = handle_count(K_STREAM);
	for (int i = 0; i < sim.nstreams; i++) n->streams -= sim.streams[i]->own && !sim.streams[i]->o.dead;
	n->events = handle_count(K_EVENT);
	n->infos = handle_count(K_INFO);
	n->ios = handle_count(K_IO);
	for (int i = 0; i < sim.ndev; i++) {
		if (sim.dev[i].context && n->contexts) n->contexts--;
		n->device_blocks += (uint64_t)sim.dev[i].nblocks;
		for (int k = 0; k < sim.dev[i].nblocks; k++) n->device_bytes += sim.dev[i].blocks[k]->size;
	}
	for (const model *m = sim.models; m; m = m->next) {
		n->models++;
		n->engine_contexts += (uint64_t)m->ncontexts;
	}
	n->host_blocks = (uint64_t)sim.nhost;
	n->host_bytes = sim.host_bytes;
	for (const worker *w = sim.workers; w; w = w->next) n->workers++;
}

void device_release(device *d) {
	hang_release();
	streams_end(d);
	for (event *e; (e = handle_any(K_EVENT, d));) {
		sim.left.events++;
		handle_drop(&e->o);
	}
	for (iobuf *io; (io = handle_any(K_IO, d));) {
		sim.left.ios++;
		handle_drop(&io->o);
	}
	for (info *i; (i = handle_any(K_INFO, d));) {
		sim.left.infos++;
		handle_drop(&i->o);
	}
	for (model *m = sim.models; m;) {
		model *next = m->next;
		if (m->dev == d) {
			sim.left.models++;
			sim.left.engine_contexts += (uint64_t)m->ncontexts;
			model_remove(m);
		}
		m = next;
	}
	while (d->nblocks) {
		sim.left.device_blocks++;
		sim.left.device_bytes += d->blocks[d->nblocks - 1]->size;
		block_drop(d->blocks[d->nblocks - 1]);
	}
	space_close(d);
	for (context *x; (x = handle_any(K_CONTEXT, d));) {
		if (x->o.handle != d->context) sim.left.contexts++;
		handle_drop(&x->o);
	}
	d->context = NULL;
	d->uses = 0;
	state_give(d);
	d->engine = d->ran = d->loadfail = false;
	d->width = 0;
}

void sim_reload(void) {
	sim.configured = true;
	sim.bad_config = !config_load(&sim.cfg);
	memset(sim.calls, 0, sizeof sim.calls);
	memset(sim.spent, 0, sizeof sim.spent);
	sim.level = LOG_INFO;
	sim.heat = 50;
	sim.total = sim.crossings = sim.outside = sim.inside = sim.busy = sim.host = 0;
	sim.epoch = real_ns();
}

bool sim_start(void) {
	sim.ndev = sim.cfg.ndevices;
	for (int i = 0; i < sim.ndev; i++) {
		device *d = &sim.dev[i];
		memset(&d->id, 0, sizeof *d - offsetof(device, id));
		if (!d->ready) pthread_mutex_init(&d->npu, NULL);
		d->ready = true;
		d->id = sim.cfg.bus[i];
		if (!space_open(d)) return false;
	}
	sim.inits = 1;
	nodes_open();
	trace_open();
	state_open();
	return true;
}

void sim_stop(void) {
	for (int i = 0; i < sim.ndev; i++) device_release(&sim.dev[i]);
	sim.left.host_blocks += (uint64_t)sim.nhost;
	sim.left.host_bytes += sim.host_bytes;
	workers_end();
	root_remove();
	trace_summary();
	state_close();
	nodes_close();
	sim.inits = 0;
}
