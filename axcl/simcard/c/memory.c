// Device memory and pinned host memory. Data flow: a program's pointer -> the block it lies in -> a
// span (block, offset, length) that keeps the block alive -> the bytes behind it. The numbers
// programs get lie in address space that is reserved and closed, so that a read or a write through
// one on the host faults; the bytes are elsewhere.
#define _GNU_SOURCE
#include "abi_axcl.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CARD_PAGE = 4096 }; // what the card gives memory out by, whatever this machine's pages are

static uint64_t whole_pages(uint64_t size, uint64_t page) { return (size + page - 1) / page * page; }

bool space_open(device *d) {
	if (d->space) return true;
	for (uint64_t size = (uint64_t)32 << 30; size >= (uint64_t)1 << 30; size /= 2) {
		void *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED) continue;
		d->space = d->next = (uint64_t)(uintptr_t)p;
		d->space_end = d->space + size;
		return true;
	}
	return false;
}

void space_close(device *d) {
	free(d->blocks);
	d->blocks = NULL;
	d->nblocks = d->cap = 0;
}

// Index of the first block that begins above addr.
static int above(const device *d, uint64_t addr) {
	int lo = 0, hi = d->nblocks;
	while (lo < hi) {
		int mid = lo + (hi - lo) / 2;
		if (d->blocks[mid]->base > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

// A gap of `room` bytes at or after the cursor, so that an address comes back late and a stale
// pointer is found out.
static bool place(device *d, uint64_t room, uint64_t align, uint64_t *base, int *at) {
	for (int round = 0; round < 2; round++) {
		uint64_t from = (d->next + align - 1) / align * align;
		int i = above(d, from);
		if (i > 0 && d->blocks[i - 1]->base + d->blocks[i - 1]->room > from)
			from = (d->blocks[i - 1]->base + d->blocks[i - 1]->room + align - 1) / align * align;
		for (;; i++) {
			uint64_t end = i < d->nblocks ? d->blocks[i]->base : d->space_end;
			if (from <= end && room <= end - from) {
				*base = from;
				*at = i;
				d->next = from + room;
				return true;
			}
			if (i == d->nblocks) break;
			from = (d->blocks[i]->base + d->blocks[i]->room + align - 1) / align * align;
		}
		d->next = d->space;
	}
	return false;
}

static uint8_t *filled(uint64_t size) {
	uint8_t *p = hazard(HZ_POISON) ? malloc((size_t)size) : calloc(1, (size_t)size);
	if (p && hazard(HZ_POISON)) memset(p, 0xff, (size_t)size);
	return p;
}

block *block_new(device *d, uint64_t size, uint64_t align, bool cached, int *id) {
	*id = ID_NO_MEMORY;
	if (size > cmm_free(d)) return NULL;
	uint64_t page = sim.cfg.page, cmm = whole_pages(size, CARD_PAGE), room = whole_pages(size, page) + page; // a closed page behind it
	if (cmm > cmm_free(d)) return NULL;
	if (align < page) align = page;
	if (d->nblocks == d->cap) {
		int cap = d->cap ? d->cap * 2 : 64;
		block **p = realloc(d->blocks, (size_t)cap * sizeof *p);
		if (!p) return NULL;
		d->blocks = p;
		d->cap = cap;
	}
	uint64_t base;
	int at;
	if (!place(d, room, align, &base, &at)) return NULL;
	block *b = calloc(1, sizeof *b);
	if (!b) return NULL;
	b->data = filled(size);
	if (cached) {
		b->cpu = filled(size);
		b->clean = filled(size);
	}
	if (!b->data || (cached && (!b->cpu || !b->clean))) {
		free(b->data);
		free(b->cpu);
		free(b->clean);
		free(b);
		return NULL;
	}
	b->base = base;
	b->size = size;
	b->room = room;
	b->cmm = cmm;
	b->refs = 1;
	b->dev = d;
	memmove(d->blocks + at + 1, d->blocks + at, (size_t)(d->nblocks - at) * sizeof *d->blocks);
	d->blocks[at] = b;
	d->nblocks++;
	d->cmm_used += cmm;
	state_bytes();
	return b;
}

static void block_unref(block *b) {
	if (--b->refs) return;
	free(b->data);
	free(b->cpu);
	free(b->clean);
	free(b);
}

void block_drop(block *b) {
	device *d = b->dev;
	int i = above(d, b->base) - 1;
	memmove(d->blocks + i, d->blocks + i + 1, (size_t)(d->nblocks - i - 1) * sizeof *d->blocks);
	d->nblocks--;
	d->cmm_used -= b->cmm;
	b->dead = true;
	block_unref(b);
	state_bytes();
}

static block *find_in(device *d, uint64_t addr) {
	int i = above(d, addr) - 1;
	if (i < 0 || addr - d->blocks[i]->base >= d->blocks[i]->size) return NULL;
	return d->blocks[i];
}

block *block_find(uint64_t addr, device *only) {
	if (only) return find_in(only, addr);
	for (int i = 0; i < sim.ndev; i++) {
		block *b = find_in(&sim.dev[i], addr);
		if (b) return b;
	}
	return NULL;
}

int32_t span_get(const void *p, uint64_t len, device *only, span *s) {
	uint64_t addr = (uint64_t)(uintptr_t)p;
	block *b = block_find(addr, only);
	if (!b) return E_NOT_DEVICE;
	if (hazard(HZ_BOUNDS) && len > b->size - (addr - b->base)) return CODE(SUB_MEMORY, ID_ILLEGAL);
	b->refs++;
	*s = (span){b, addr - b->base, len};
	return 0;
}

void span_put(span *s) {
	if (s->b) block_unref(s->b);
	s->b = NULL;
}

// What lies at an address that a program reaches past the end of its own block: another's bytes, or
// nothing, which reads as ones.
static void stray(const span *s, uint64_t at, uint64_t n, uint8_t *copy, bool write) {
	uint64_t addr = s->b->base + s->off + at, end = addr + n;
	lock();
	while (addr < end) {
		bool own = addr - s->b->base < s->b->size;
		block *b = own ? s->b : find_in(s->b->dev, addr);
		if (!b) {
			if (!write) *copy = 0xff;
			addr++, copy++;
			continue;
		}
		uint64_t off = addr - b->base, k = b->size - off < end - addr ? b->size - off : end - addr;
		memcpy(write ? b->data + off : copy, write ? copy : b->data + off, (size_t)k);
		addr += k, copy += k;
	}
	unlock();
}

uint8_t *span_open(const span *s, uint64_t at, uint64_t n, void **spare) {
	uint64_t off = s->off + at;
	*spare = NULL;
	if (off <= s->b->size && n <= s->b->size - off) return s->b->data + off;
	if (off + n - s->b->size > (uint64_t)1 << 30) return NULL; // farther than anything lies on purpose
	*spare = malloc((size_t)n);
	if (*spare) stray(s, at, n, *spare, false);
	return *spare;
}

void span_shut(const span *s, uint64_t at, uint64_t n, void *spare, bool write) {
	if (spare && write) stray(s, at, n, spare, true);
	free(spare);
}

int host_find(const void *p) {
	for (int i = 0; i < sim.nhost; i++)
		if ((uintptr_t)p - (uintptr_t)sim.host_blocks[i].p < sim.host_blocks[i].size) return i;
	return -1;
}

int host_new(void **p, size_t size) {
	if (size > sim.cfg.host_limit || sim.host_bytes > sim.cfg.host_limit - size) return ID_NO_MEMORY;
	if (sim.nhost == sim.caphost) {
		int cap = sim.caphost ? sim.caphost * 2 : 16;
		pinned *h = realloc(sim.host_blocks, (size_t)cap * sizeof *h);
		if (!h) return ID_NO_MEMORY;
		sim.host_blocks = h;
		sim.caphost = cap;
	}
	nodes_pinned();
	void *mem = NULL;
	if (posix_memalign(&mem, (size_t)sim.cfg.page, size)) return ID_NO_MEMORY;
	sim.host_blocks[sim.nhost++] = (pinned){mem, size};
	sim.host_bytes += size;
	*p = mem;
	return 0;
}

void host_drop(int i) {
	free(sim.host_blocks[i].p);
	sim.host_bytes -= sim.host_blocks[i].size;
	sim.host_blocks[i] = sim.host_blocks[--sim.nhost];
}

void host_release_all(void) {
	while (sim.nhost) host_drop(sim.nhost - 1);
	free(sim.host_blocks);
	sim.host_blocks = NULL;
	sim.caphost = 0;
}
