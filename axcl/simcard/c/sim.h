// The card's insides, shared by its files. Data flow of a call: call_enter (count, fault plan,
// trace text) -> the call's own checks -> work on memory, streams or models -> call_leave (modelled
// time, real sleep, trace line, code).
//
// One lock, sim.lock, guards everything here; it is never held over a copy, an execute, a file read
// or a sleep. What such work touches is kept alive by reference counts. The card is a process-wide
// thing behind a process-wide ABI, so its state is one static struct.
#ifndef AXSIM_SIM_H
#define AXSIM_SIM_H

#include "axsim.h"
#include "codes.h"
#include "model.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

// ---- names of calls

enum {
#define X(name, bare, flags) CALL_##name,
#include "calls.def"
#undef X
	CALLS
};

enum { A = 1, R = 2 }; // calls.def's flags

extern const char *const call_names[CALLS];
extern const char *const call_bare[CALLS];

// ---- options

enum { CLOCK_OFF, CLOCK_REAL, CLOCK_VIRTUAL };

// How an execute's outputs are damaged. Whatever else damages data takes any of them for WRONG.
enum { WHOLE, WRONG, WRONG_NAN, WRONG_FLAT };

enum {
	HZ_UNBOUND,         // 1  an unbound or short buffer
	HZ_ONE_GROUP,       // 1  an io used with two groups
	HZ_BOUNDS,          // bindings and copies past an allocation's end are refused
	HZ_OFFSET,          // 2  mask, indices, prefill outputs at an offset
	HZ_INPLACE,         // 3  an output over an input
	HZ_POISON,          // 4  fresh device memory is all ones
	HZ_FROMMEM,         // 5  LoadFromMem hangs
	HZ_LATELOAD,        // 6  a load during a run drops the link
	HZ_WEDGE,           // 7  a process that dies in a load or an execute leaves the card unusable
	HZ_PAGEABLE,        // 8  copies from pageable memory cost more
	HZ_ROUNDTRIP,       // 9  device queries cost a round trip
	HZ_SHORTCHUNK,      // 10 short chunks' output rows are not written
	HZ_LEAK,            // 11 a dead process's memory stays taken for a while
	HZ_LOADFAIL,        // 12 after a load that failed on the card, models give garbage until all are unloaded
	HZ_LATCH,           // an event stays set once it is recorded
	HZ_RAWCODE,         // a failed task's code is the card's own, and what is queued behind it is skipped
	HZ_NOMEM,           // the codes that say that card memory is full
	HZ_MESSAGE,         // an execute whose message is too long gets no answer
	HZ_INHERIT,         // device nodes are opened so that children inherit them
	HZ_OFFLINE,         // no message reaches the card, and what waits for it waits for ever
	HZ_PROPERTIES,      // a card that is asked for its state takes long, and nothing else meanwhile
	HZ_EINTR,           // a signal ends the thread that listens, and copies fail from then on
	HZ_EXCLUSIVE,       // a card belongs to one process at a time
	HZ_POSITIONS_FIRST, // abilities a card may lack
	HZ_MASK_SHARED,
	HZ_KV_INPLACE,
	HZ_CELLS_ORDERED,
	HZ_CACHE,           // on-board: cached memory must be flushed and invalidated
	HZ_LAZY,            // streams start only when someone synchronises
	HZ_LATELOAD_STRICT, // any load after the first execute drops the link
	HZ_STATE_PADDING,   // rows that fill a chunk up get into the state
	HZ_STATE_COLD,      // the first group of several rows ignores the state it is given
	HZ_UNLISTED,        // positions and mask of a layer that keeps a state are wanted, and not listed
	HZ_SHARE_STALE,     // a layer that shares K and V reads, for a single row, the row before
	HZ_INPUTS_FIRST,    // every row of a call takes the layer inputs of the first
	HZ_SHARE_IGNORED,   // a layer that shares K and V takes the other's cache for zeros
	HZ_INPUTS_IGNORED,  // layer inputs are taken for zeros
	HZ_WIDTH_FIRST,     // rows in caches are taken to be no longer than those of the first layer that runs
	HAZARDS
};

typedef struct {
	int call;      // CALLS: any call
	bool both;     // a bare name stands for the synchronous and the asynchronous call
	int64_t index; // which matching call, from 0; -1 every
	enum { F_CODE, F_HANG, F_LOST, F_WRONG, F_SLOW } action;
	int damage; // of F_WRONG
	int32_t code;
	uint64_t ns;
	bool sticky, late;
	int64_t seen; // matching calls so far
} fault;

enum { MAX_STREAMS = 1024, MAX_FAULTS = 64, MAX_HEAT = 64, MAX_TABLE = 128, MAX_ENCODERS = 32, MAX_DEVICES = 32 };

typedef struct {
	double degrees;
	uint64_t at;
} heat;

enum { COPY_H2D_PINNED, COPY_H2D_PAGEABLE, COPY_D2H_PINNED, COPY_D2H_PAGEABLE, COPY_D2D, COPY_SET, COPY_COMPARE, COPY_H2H, COPIES };

typedef struct {
	uint32_t hidden, rows, cells;
	bool linear; // of a layer that keeps a state
	double weights, ns;
} table_line;

typedef struct {
	uint32_t patches, out; // of a picture; values of a row
	double ns;
} encoder_line;

typedef struct {
	char name[64];
	uint64_t call[CALLS]; // fixed cost of each call on the host
	struct {
		uint64_t fixed;
		double rate; // bytes per second; 0: free
	} copy[COPIES];
	uint64_t enqueue;                  // host's cost of an asynchronous call
	uint64_t execute;                  // fixed part of one execute, part of the table's numbers
	double memory, head, matrix, attn; // bytes/s, bytes/s, operations/s, operations/s
	double load;                       // bytes/s
	uint64_t host_call;                // of a piece of work on the host's processor: ns
	double host_memory, host_products; // bytes/s, products/s
	table_line layers[MAX_TABLE];
	int nlayers;
	encoder_line encoders[MAX_ENCODERS];
	int nencoders;
} profile;

typedef struct {
	int ndevices;
	bool driver; // the driver's node is there
	int32_t bus[MAX_DEVICES];
	uint64_t cmm, cmm_idle, host_limit;
	uint64_t page;    // of this machine
	uint64_t message; // bytes of the longest message that the card takes
	bool hazard[HAZARDS];
	fault faults[MAX_FAULTS];
	int nfaults;
	heat heat[MAX_HEAT];
	int nheat;
	char heat_file[512]; // holds the degrees, if it is named
	bool milli; // temperatures in thousandths
	int clock;
	profile prof;
	char trace[512], root[512], state[512], soc[64];
	int version[3];
	bool noise[2]; // log on standard output, on standard error
} config;

// parse.c
void config_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
bool parse_time(const char *s, uint64_t *ns, const char **end); // "3ms", "20us", "5" (ns)
// config.c
bool config_load(config *c);               // from the environment and axsim_configure's text; false after a line on stderr
bool config_override(const char *text);    // false: no memory
// fault.c
bool faults_parse(config *c, const char *text);
// profile.c
bool profile_load(profile *p, const char *name);
double profile_execute(const profile *p, const axm *m, uint32_t group); // ns
uint64_t profile_copy(const profile *p, int kind, uint64_t bytes);
uint64_t profile_host(const profile *p, uint64_t bytes, uint64_t products);

// ---- objects

enum { K_CONTEXT = 1, K_STREAM, K_EVENT, K_INFO, K_IO, KINDS };

typedef struct device device;

typedef struct obj {
	int kind, refs;
	bool dead; // its handle is gone
	device *dev;
	void *handle;
} obj;

// A block of device memory. `base` is the number programs see; `data` is where its bytes are.
typedef struct block {
	uint64_t base, size, room, cmm; // room: address space, with the closed page behind it; cmm: card memory
	uint8_t *data;
	uint8_t *cpu, *clean; // on-board cached memory: the CPU's copy, and what it was when last in step with `data`
	int refs;
	bool dead;
	device *dev;
} block;

// Device memory from somewhere inside a block. It may go on past the block's end: the card has no
// more than an address there.
typedef struct {
	block *b;
	uint64_t off, len;
} span;

typedef struct model {
	axm *m;
	uint64_t id;
	int refs;
	bool dead, garbage;
	device *dev;
	uint32_t affinity;
	uint64_t cmm;
	uint64_t contexts[64];
	int ncontexts;
	struct model *next;
} model;

typedef struct task task;

typedef struct {
	obj o;
	pthread_t thread;
	pthread_cond_t wake, idle;
	task *head, **tail;
	uint64_t queued, done, allowed; // counts of tasks; `allowed` holds lazy streams back
	bool stop, hung, own; // hung: what runs never ends; own: a context's default, which ends with it
	int32_t error; // of a task, given out by the next synchronisation
	uint64_t t;    // modelled time at which all that is queued has ended
} stream;

typedef struct {
	obj o;
	uint64_t recorded, fired; // generations: enqueued, reached
	bool skipped;             // a record was skipped with its stream: who waits may wait for ever
	uint64_t t;
} event;

typedef struct {
	obj o;
	model *model;
} info;

typedef struct {
	obj o;
	model *model;
	struct binding {
		uint64_t addr, len; // as the program gave them; 0 and 0: unbound
	} in[IN_MAX], out[OUT_MAX];
	uint32_t batch;
	int64_t group; // the first it was used with; -1 none
} iobuf;

struct device {
	// What outlives Init and Finalize: the lock, and the addresses that are reserved.
	pthread_mutex_t npu;
	bool ready;
	uint64_t space, space_end, next; // device addresses

	int32_t id; // from here on all is new at each Init
	uint32_t uses; // SetDevice without its ResetDevice
	bool lost, wedged, engine, ran, loadfail;
	void *context; // the default one's handle
	int32_t vnpu;
	uint64_t cmm_used, foreign; // bytes of this process, of others that hold some or died
	block **blocks;
	int nblocks, cap;
	int running; // executes queued or running
	uint32_t width; // of a row of K in the first layer that ran, for HZ_WIDTH_FIRST
	uint64_t npu_free, link_free; // modelled time
	uint64_t busy, busy_seen, seen_at;
};

typedef struct {
	uint8_t *p;
	size_t size;
} pinned;

typedef struct worker {
	int32_t pid;
	int fd;
	struct worker *next;
} worker;

typedef struct {
	pthread_mutex_t lock;
	pthread_cond_t changed; // events fire, hangs end
	bool configured, bad_config;
	int inits; // axclInit or AX_SYS_Init without its opposite
	config cfg;
	device dev[MAX_DEVICES];
	int ndev;
	model *models;
	uint64_t next_id;
	pinned *host_blocks;
	int nhost, caphost;
	uint64_t host_bytes;
	stream *streams[MAX_STREAMS];
	int nstreams;
	worker *workers;
	double heat; // what the file said last
	uint64_t hang_epoch;
	uint64_t interrupted; // how often a listening thread was; touched without the lock
	bool telling;         // the card's state is being asked for, and nothing else is heard
	int hanging;
	int level; // of the log
	// accounting
	uint64_t epoch, host; // real time of Init; virtual host clock
	uint64_t calls[CALLS], spent[CALLS], total, crossings, outside, inside, busy;
	axsim_counts left;
	FILE *trace;
} sim_state;

extern sim_state sim;

static inline void lock(void) { pthread_mutex_lock(&sim.lock); }
static inline void unlock(void) { pthread_mutex_unlock(&sim.lock); }
static inline bool hazard(int h) { return sim.cfg.hazard[h]; }
static inline int32_t card_full(int sub) { return CODE(sub, hazard(HZ_NOMEM) ? ID_EXECUTE : ID_NO_MEMORY); }

// ---- a call under way (call.c)

typedef struct {
	int id;
	int sub;               // subsystem of the codes it gives
	int32_t code;          // set when `stop`
	bool stop;             // the fault plan or the card's state ends it here
	bool fail_after;       // a release call told to fail: do the work, then give `code`
	bool hang;             // asynchronous hang
	int wrong;             // damaged data
	int32_t late;          // code the stream shall give later
	uint64_t number;       // of this call among all
	uint64_t start, end;   // modelled
	uint64_t slow;
	char args[192];
	void *made; // the memory that the call gave, for the trace
} call;

// call_enter counts the call, reads the fault plan and writes the trace's operands. Takes and
// releases the lock.
void call_enter(call *c, int id, int sub, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
// call_device finds the calling thread's device, or sets c->code and returns NULL. Call with the
// lock held.
device *call_device(call *c);
// call_stream is the same for a call that is given a stream, which brings its device: the thread
// needs no context. NULL and c->code where the handle is none.
stream *call_stream(call *c, const void *handle);
// call_releases: whether the call gives something back, which a fault does not prevent.
bool call_releases(int id);
// call_leave gives the code that the program sees. Call without the lock.
int32_t call_leave(call *c, int32_t code);
#define ENTER(name, sub, ...) \
	call c; \
	call_enter(&c, CALL_##name, sub, __VA_ARGS__); \
	if (c.stop) return call_leave(&c, c.code)
#define FAIL(id) call_leave(&c, CODE(c.sub, id))

// ---- time (clock.c); with the lock held unless said otherwise
uint64_t real_ns(void);                          // any time
uint64_t clock_now(void);                        // modelled
void clock_sleep_until(uint64_t modelled);       // without the lock; only clock=real sleeps
void charge_host(call *c, uint64_t ns);          // the caller waits
void charge_copy(call *c, device *d, int kind, uint64_t bytes);
void charge_npu(call *c, device *d, uint64_t ns);
uint64_t charge_stream_copy(call *c, stream *s, device *d, int kind, uint64_t bytes); // returns the task's modelled end
uint64_t charge_stream_npu(call *c, stream *s, device *d, uint64_t ns);
void hang_here(void); // until axsim_reset, Finalize or ResetDevice
void hang_release(void);

// ---- handles (object.c); with the lock held
bool handle_new(obj *o, int kind, device *d); // false: no memory
void *handle_get(const void *h, int kind);    // NULL when it is not a live handle of that kind
void handle_drop(obj *o);                     // the handle dies; the object when its last reference goes
void obj_ref(obj *o);
void obj_unref(obj *o);
uint64_t handle_count(int kind);
void *handle_any(int kind, device *d);        // some live handle of a device (NULL: any device), or NULL

// ---- memory (memory.c); with the lock held
bool space_open(device *d);
void space_close(device *d);
block *block_new(device *d, uint64_t size, uint64_t align, bool cached, int *id); // NULL and *id = ID_NO_MEMORY...
void block_drop(block *b);
block *block_find(uint64_t addr, device *only);
int32_t span_get(const void *p, uint64_t len, device *only, span *s); // takes a reference; 0 or a memory code
void span_put(span *s);
// span_open gives n bytes of a span from `at` on: in place, or where they leave the block a copy in
// *spare, made of what lies at those addresses. span_shut writes a copy back if `write`, and frees
// it. Both without the lock. NULL: no memory.
uint8_t *span_open(const span *s, uint64_t at, uint64_t n, void **spare);
void span_shut(const span *s, uint64_t at, uint64_t n, void *spare, bool write);
int host_find(const void *p); // index of the pinned block that holds p, or -1
int host_new(void **p, size_t size);  // 0, or the id of an error
void host_drop(int i);
void host_release_all(void);

// ---- streams (stream.c)
struct task {
	task *next;
	int32_t (*run)(task *, stream *); // without the lock; its code goes to stream.error
	void (*drop)(task *);             // with the lock: releases what it holds
	void (*skip)(task *);             // with the lock: its stream has failed, so it does not run; or NULL
	uint64_t end;                     // modelled
	int32_t late;
	bool hang;
	span a, b;
	void *host;          // host side of a copy: where to
	const void *host2;   // where from
	size_t len;
	uint8_t value;
	int wrong;
	int kind;
	event *ev;
	uint64_t gen;
	int64_t wait_ns; // -1: no limit
	uint64_t slow;   // ns to lose with clock=off
	struct exec *exec;
};
stream *stream_new(device *d); // NULL: no memory, or too many
bool deadline(int64_t ns, struct timespec *ts);                        // in the conditions' clock; false: none
bool wait_until(pthread_cond_t *cond, const struct timespec *deadline); // with the lock held; false: the time is over. NULL: none
task *task_new(call *c);
void stream_push(stream *s, task *t, uint64_t end); // with the lock
void streams_end(device *d); // with the lock: all of a device, by force, counted in sim.left
void stream_start_all(device *d);                   // with the lock: lets lazy streams go
int32_t stream_sync(call *c, stream *s, int32_t ms); // with the lock, s referenced
void stream_destroy(stream *s, bool force);          // with the lock; releases it while it waits

// ---- running a model (exec.c)
typedef struct exec {
	model *m;
	uint32_t group, batch;
	span in[IN_MAX], out[OUT_MAX];
	int wrong;           // damaged data
	bool crossed, board; // an io used with another group before; on the board itself
	device *dev;
} exec;
int32_t exec_check(exec *e);      // with the lock: bindings against the group's sizes; 0 or an engine code
int32_t exec_run(exec *e);        // without the lock
void exec_drop(exec *e);          // with the lock
uint64_t exec_cost(const exec *e);

// ---- models on the card (card_models.c); with the lock held unless said otherwise
model *model_find(uint64_t id, device *d);
int32_t model_admit(device *d, axm *m, model **out); // takes m over on success
void model_unref(model *m);
void model_remove(model *m);
int32_t open_code(int axm_code); // engine code for AXM_E_*
void late_load(device *d);       // rule 6
void charge_load(call *c, const axm *a);

// ---- devices (device.c); with the lock held
device *device_find(int32_t id);
void devices_lose(device *d); // NULL: all
double temperature_now(void);
void temperature_read(void); // anew, where a file holds it

// ---- contexts (context.c); with the lock held
typedef struct {
	obj o;
	void *stream; // its default one's handle, once somebody asked for it
} context;
extern _Thread_local void *context_current; // the thread's; a number, checked at every use
context *context_new(device *d);
device *device_current(void); // of the calling thread; NULL without a context
void **context_stream(const void *ctx, device **d); // where a context keeps its default stream's handle; NULL: no such context

// ---- the process's life (life.c); with the lock held
void device_release(device *d); // everything it holds, counted in sim.left; releases the lock while threads end
void sim_reload(void);          // options from the environment, counters from zero
bool sim_start(void);           // devices, trace; false: no memory
void sim_stop(void);
void count_live(axsim_counts *c);

// ---- the library's descriptors and the thread that listens (nodes.c); with the lock held
void nodes_open(void);
void nodes_pinned(void); // pinned memory is asked for
void nodes_close(void);

// ---- the card's memory across processes (state.c); with the lock held
void state_open(void);
void state_look(void); // what others hold now
uint64_t cmm_free(const device *d); // as all processes see it
void state_close(void);
void state_bytes(void);
void state_busy(int by); // loads and executes under way
bool state_take(const device *d); // whether the card is this process's: false where another has it (exclusive)
void state_give(const device *d);
void state_fault(void);  // a line of the fault plan comes true now

// ---- the library's own log (log.c)
enum { LOG_TRACE, LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_CRITICAL, LOG_OFF };
int log_level(const char *config); // what an Init's configuration says, or LOG_INFO
void noise(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // with the lock held

// ---- trace.c; with the lock held
void trace_open(void);
void trace_line(const call *c, int32_t code);
void trace_summary(void);

// ---- worker.c; with the lock held
bool root_path(char *buf, size_t size); // of the folder that stands for the card's file system
void root_remove(void);
worker **worker_find(uint32_t pid); // where the list names it, or NULL
void worker_end(worker **p);
void workers_end(void);

#endif
