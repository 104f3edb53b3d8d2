// native.h: what Go sees of the C side. Two nouns, a card and a model, and one verb, axn_run.
//
// Data flow: table_axcl.c and table_axengine.c give one set of operations (axn_provider) over
// either library; model.c loads, binds and releases with them; pass.c sends a pass through what was
// bound; linear.c does so for layers that keep a state, whole.c for a whole decoder in one file;
// sharedkv.c is what some layers read in addition: K and V of another, rows that the host made;
// lora.c is the adapters that some layers take;
// rows.c moves rows and states; net.c is a single model called by tensor, and the buffers that
// tensors can be bound to.
//
// C keeps no Go pointer, has no globals, starts no thread, calls nothing back, logs nothing and
// never allocates: every struct below lives in memory that Go gives and frees. Sizes are checked in
// Go (layout.go) and asserted here. A function returns AXN_OK or the kind of failure, which
// card->err describes. After a fatal code (axn_fatal) the card is lost: no function calls the
// library again, so that closing frees what is ours and leaves to the library what it may still be
// using.

#ifndef AXLE_NATIVE_H
#define AXLE_NATIVE_H

#include <stdbool.h>
#include "abi.h"

enum { AXN_OK, AXN_CALL, AXN_THREAD, AXN_MODEL, AXN_GONE };
enum { AXN_NO_LAYER = -1, AXN_HEAD = -2 };
#define AXN_NO_ID UINT64_MAX
#define AXN_UNOPENED "the library could not open it"
enum { AXN_NAME = 64, AXN_DIMS = 8, AXN_TENSORS = 64, AXN_GROUPS = 64, AXN_SLOTS = 8 };

typedef struct axn_provider axn_provider;

// Where a call of a library goes in its table.
typedef struct { const char *name; size_t at; bool optional; } axn_symbol;

// A library that was opened, and the table made of it.
typedef struct {
    const axn_provider *provider;
    void *handle, *sys; // on board sys is a library of its own
    struct axcl_table axcl;
    struct engine_table engine;
} axn_lib;

typedef struct {
    const char *op; // the library's function
    int32_t code, layer;
    uint32_t slot; // AXN_MODEL: the tensor that is wrong
} axn_err;

typedef struct {
    const axn_lib *lib;
    void *stream, *context;
    int32_t device, owner; // owner: the thread that opened it
    int32_t layer;         // where an error belongs
    bool attached, engine_ours, lost;
    void *side;  // a second stream, for copies within the card
    bool beside; // it has work that sync must wait for
    bool switches; // the thread has another device too, so each function makes this one current
    uint64_t calls;
    axn_err err; // the first of the last function
} axn_card;

typedef struct { void *at; uint64_t phys; size_t size; } axn_mem;

typedef struct {
    uint64_t id, context_id; // AXCL
    void *info;
    void *handle, *context; // on board
    bool loaded;
    uint32_t groups, ins, outs;
} axn_module;

typedef struct {
    void *handle; // AXCL
    ax_io io;     // on board
    ax_buffer *buffers;
    uint32_t ins, outs;
} axn_io;

// A tensor; slots count the inputs, then the outputs.
typedef struct {
    char name[AXN_NAME];
    int32_t type; // AXCL's numbering on either library; -1: unknown
    int32_t ndim, dims[AXN_DIMS];
    uint64_t size;
} axn_tensor;

typedef struct {
    char version[64], soc[32];
    int32_t release[3]; // zeros: not known
    axcl_properties props;
} axn_info;

// The operations both libraries can do. Work is queued in order: up, down, copy and run return
// before it is done, sync waits for all of it. Host memory of up and down comes from host_alloc and
// is not touched before sync.
struct axn_provider {
    const axn_symbol *symbols; // the last has no name
    size_t table;              // of axn_lib, where symbols count from
    int (*init)(axn_card *);
    int (*fini)(axn_card *);
    int (*list)(axn_card *, axcl_device_list *);
    int (*inform)(axn_card *, int32_t device, axn_info *); // device < 0: only what needs no card
    int (*attach)(axn_card *, int32_t device);
    int (*detach)(axn_card *);
    int (*enter)(axn_card *); // makes the device the thread's current one; NULL: there is only one
    int (*load)(axn_card *, axn_module *, const char *path, const void *data, size_t size); // data: the file's bytes, on board only
    int (*unload)(axn_card *, axn_module *); // keeps info
    int (*forget)(axn_card *, axn_module *); // releases info
    // Fills in what the library says of a tensor; what does not depend on the group is asked for in
    // group 0 only, and left alone in others.
    int (*describe)(axn_card *, axn_module *, uint32_t group, uint32_t slot, bool dims, axn_tensor *);
    // The slot of an input that the library does not list and yet knows by name: ins + outs and
    // what the library counts it as; or AXN_NONE.
    uint32_t (*unlisted)(axn_card *, axn_module *, const char *name);
    int (*io_new)(axn_card *, axn_module *, axn_io *);
    int (*io_free)(axn_card *, axn_io *);
    int (*bind)(axn_card *, axn_io *, uint32_t slot, const axn_mem *, size_t offset, size_t size);
    int (*alloc)(axn_card *, axn_mem *, size_t size); // zeroed
    int (*free)(axn_card *, axn_mem *);
    int (*host_alloc)(axn_card *, void **, size_t size); // pinned; on board any memory will do, and Go has given it
    int (*host_free)(axn_card *, void **);
    int (*up)(axn_card *, const axn_mem *, size_t offset, const void *from, size_t size);
    int (*down)(axn_card *, void *to, const axn_mem *, size_t offset, size_t size);
    int (*copy)(axn_card *, const axn_mem *to, size_t to_offset, const axn_mem *from, size_t from_offset, size_t size);
    int (*run)(axn_card *, axn_module *, uint32_t group, axn_io *);
    // As copy, beside whatever else is queued: what it reads must be there already, and sync waits
    // for it too.
    int (*keep)(axn_card *, const axn_mem *to, size_t to_offset, const axn_mem *from, size_t from_offset, size_t size);
    int (*sync)(axn_card *, int32_t ms);
};

// Which tensor of a layer that keeps no state plays which part in a shape group, as slots.
// layer_input is AXN_NONE where there is no such input.
typedef struct { uint32_t input, indices, mask, k, v, k_out, v_out, output, layer_input; } axn_parts;

// One shape group of the layers.
typedef struct {
    uint32_t rows, cells, pos; // pos: positions a row has in indices
    uint32_t cache;            // rows of the K_cache input, as of V_cache, of a layer that keeps its own
    axn_mem mask_dev;
    uint16_t *mask_host; // what the card's mask is to be
    uint64_t *seen;      // the same as bits: rows × (Words(cells) + Words(rows))
    uint32_t bound;      // the cell on which every layer's K and V are bound, or AXN_UNBOUND
    bool stale;          // the card's mask is not known to be mask_host
} axn_group;

#define AXN_UNBOUND UINT32_MAX
#define AXN_NONE UINT32_MAX

// One shape group of the layers that keep a state. Of each such layer it has two ios, so that two
// states which are read and written turn about are bound once.
typedef struct {
    uint32_t rows, pos; // pos: positions a row has in indices
    uint32_t input, indices, mask, k, v, k_out, v_out, output; // slots; indices and mask may be AXN_NONE
    uint32_t from[2], to[2]; // the buffers that every such layer's ios are bound to, or AXN_UNBOUND
    uint32_t last;           // which of the two ran last
} axn_sgroup;

enum { AXN_SINGLES = 3 }; // ios of a layer that takes rows one by one: from the state given, and between two turn about

// Recurrent layers: slots of states. A pass reads one and writes another.
typedef struct {
    uint32_t layers, groups, one; // one: the group of a single row
    uint32_t slots;               // buffers of each layer's state, one more than the slots that Go counts: see where
    bool *of;                     // which of the model's layers they are
    axn_sgroup *group;
    int32_t *beside;  // the group that goes with each of the model's groups; -1: rows go one by one
    size_t k_bytes, v_bytes;
    axn_mem *k, *v;   // layers × slots
    axn_mem zero_k, zero_v, indices, mask, row_in, row_out, row_pos;
    uint32_t *where;  // the buffer of each slot, from 1 on; where[0] is the one that no slot has, to write into
    axn_io *io;       // layers × groups × 2
    axn_io *single;   // layers × AXN_SINGLES
    uint32_t single_from[AXN_SINGLES], single_to[AXN_SINGLES];
    uint16_t *mask_host;
    uint32_t *indices_host;
    uint32_t masked, masking; // rows that the card's mask says are there, and will once the pass is done; AXN_UNBOUND: not known
} axn_states;

#define AXN_ZERO (UINT32_MAX - 1) // the buffer of the zero state


enum { AXN_HIDE = 0xc780 }; // −65536 in bf16: what a hidden column adds to its score

typedef struct {
    int64_t upload, enqueue, wait, head, download; // ns
    uint64_t calls;
} axn_timing;

// The slots that a pass reads and writes, from 1; 0 is the zero state. single: rows go one by one.
typedef struct { uint32_t from, to; bool single; } axn_slots;

// How a pass goes through the layers that keep a state.
typedef struct {
    axn_slots slots;
    int32_t group;       // of theirs; -1: rows go one by one
    uint32_t rows, turn; // turn: which of the group's two ios
    uint32_t from, to;   // buffers
    uint32_t nth;        // of these layers, the next
    bool bind;
} axn_way;

// A whole decoder: all layers and the head are one call, K and V of all layers one buffer each. The
// model's k and v are parts of those.
typedef struct {
    uint32_t files; // modules, the first of the model's layer; 0: the model is a file a layer
    uint32_t *file, *at; // of each of the model's groups: its module, and its number there
    uint32_t *logits;    // slot
    axn_mem k, v, k_new, v_new, out; // k_new, v_new: layers × a call's rows
} axn_whole;

// Layers that use the K and V of an earlier one: see sharedkv.c.
typedef struct {
    uint32_t *source; // of each layer, whose K and V it uses: its own, or those of one before it. NULL: each its own
    bool *of;         // which layers' K and V others use
    uint32_t behind;  // rows behind the cache of one, for those of a call that sees all of its cells
    uint32_t apart;   // rows of the caches for calls that see fewer; 0: there are no such calls
    axn_mem *k, *v;   // those, of each layer whose K and V are shared
    axn_mem k_out, v_out; // what a layer gives out that uses another's: it is not read
} axn_shared;

// Layer inputs, beyond the hidden state: each layer has a buffer of its own for them.
typedef struct {
    uint32_t width; // values of a row; 0: there are none
    axn_mem *dev;   // of each layer
    uint16_t *host; // layers × rows × width
} axn_inputs;

// LoRA adapters, which layers take as inputs: two matrices for each of seven.
enum { AXN_LORA = 14 };
typedef struct {
    bool takes;            // the layers take one
    uint32_t adapters;
    uint32_t *slot;        // layers × groups × AXN_LORA
    size_t at[AXN_LORA], size[AXN_LORA]; // where each input lies in what an adapter has for a layer, and its bytes
    axn_mem zero;          // for every input where there is no adapter
    axn_mem *dev;          // adapters × layers: Go's buffers
    uint32_t *bound;       // of each group, the adapter that all of its layers are bound to, from 1; 0: none; or AXN_UNBOUND
} axn_lora;

typedef struct {
    axn_card *card;
    uint32_t layers, groups, hidden, kv, pos, rows, kv_rows; // rows: the most a group takes; kv_rows: of the caches; kv: see width
    uint32_t out;
    int32_t head_argmax, head_output; // slots; head_argmax -1: none
    bool head, head_f32, place;
    int32_t timeout_ms;

    axn_module *layer, head_module;
    axn_group *group;
    axn_parts *parts; // layers × groups
    uint32_t *width;  // of each layer, values of a row of the K that it keeps, or uses, and as many of V: kv at most
    axn_io *io, head_io[2]; // io: layers × groups; head_io: reads the last hidden buffer, or a row of its own
    axn_mem *k, *v;
    uint32_t masks; // groups, or twice as many: local layers' masks are those of group[groups + g], of which nothing else is used
    bool *local;    // which layers are local; NULL: none
    axn_mem *k_new, *v_new; // a layer's new rows in a wide pass, until they are copied to their cells
    axn_mem turn[2], indices, k_out, v_out, head_in, logits, argmax;

    // Pinned host memory, one block, and its parts.
    void *pinned;
    size_t pinned_size;
    uint16_t *hidden_host, *probe_host;
    uint32_t *indices_host;
    uint8_t *logits_host;
    int32_t *argmax_host;
    uint64_t *see; // a row's bits being made: plain memory
    uint8_t *rows_host; // rows to save or restore, piece × row_bytes, or bytes of a slot
    uint32_t piece;     // cells that a call takes at most
    size_t state_piece; // bytes of a slot that a call takes at most

    uint32_t *full;    // the layers that keep rows
    size_t *row_at;    // where each one's K begins in a saved row; its V follows
    size_t row_bytes;  // of a saved row
    uint32_t whole;    // how many layers keep rows
    axn_states state;  // of those that keep a state
    axn_shared shared;
    axn_inputs inputs;
    axn_lora lora;
    axn_whole decoder;

    axn_timing time;
} axn_model;

typedef struct {
    axn_card *card;
    axn_module module;
    axn_io *io; // one a group
    axn_mem mem[2 * AXN_TENSORS];
    size_t mem_size[2 * AXN_TENSORS];
    size_t *size; // groups × (ins + outs)
    void *pinned;
    size_t pinned_size;
    int32_t timeout_ms;
} axn_net;

// Pinned memory through which a card's buffers are copied, taken with the first of them.
typedef struct { void *pinned; size_t size; bool there; } axn_stage;

// Card memory that nets' tensors can be bound to.
typedef struct {
    axn_card *card;
    axn_mem mem;
    axn_stage *stage;
    int32_t timeout_ms;
} axn_buffer;

// table_*.c. axn_open_* fill lib and return NULL, or say what failed: dlerror's text, or (missing
// set) a symbol's name.
const char *axn_open_axcl(axn_lib *, const char *path, bool *missing);
const char *axn_open_engine(axn_lib *, const char *sys, const char *engine, bool *missing);
void *axn_dlopen(const char *path, int flags); // with signals blocked
void *axn_beside(const char *name, const char *path); // loads what a library needs from where it lies; NULL: axn_why says why not
const char *axn_why(void);
void axn_unload(void *handle);
const char *axn_absent(const axn_lib *, uint32_t n); // the nth optional call that is not there; NULL: no more
const char *axn_library_file(const axn_lib *);      // where the loader found it
void *axn_find(const axn_lib *, const char *name);   // anything else it exports; NULL: nothing of that name

// table.c: what both tables share.
int axn_fail(axn_card *, int kind, const char *op, int32_t code, bool mild);
int axn_note(axn_card *, const char *op, int32_t code);
bool axn_fatal(uint32_t code);
bool axn_raw(uint32_t code); // not of the library's scheme
int32_t axn_thread(void);
const char *axn_resolve(axn_lib *, const axn_provider *); // fills the table; gives the name of a call that is missing
void axn_begin(axn_card *);                               // forgets the last error
int axn_enter(axn_card *);                                // the same; checks thread and lost, makes the device current
int axn_init(axn_card *);
int axn_fini(axn_card *);
int axn_attach(axn_card *, int32_t device);
int axn_detach(axn_card *);
int axn_list(axn_card *, axcl_device_list *);
int axn_inform(axn_card *, int32_t device, axn_info *);

void axn_text(char *to, size_t size, const char *from); // copies what fits; NULL is empty
static inline uint32_t axn_words(uint32_t bits) { return (bits + 63) / 64; }
static inline size_t axn_row(const axn_model *m, uint32_t l) { return (size_t)m->width[l] * 2; } // bytes of a row of K
static inline bool axn_keeps_state(const axn_model *m, uint32_t l) { return m->state.layers && m->state.of[l]; }
static inline bool axn_shares(const axn_model *m, uint32_t l) { return m->shared.source && m->shared.source[l] != l; }
static inline void axn_also(int *rc, int next) { *rc = *rc ? *rc : next; } // keeps the first failure

// model.c
int axn_load(axn_card *, axn_module *, int32_t layer, const char *path, const void *data, size_t size);
int axn_describe(axn_card *, axn_module *, int32_t layer, axn_tensor *all); // groups × (ins + outs)
int axn_same(axn_card *, axn_module *, int32_t layer, const axn_tensor *all);
size_t axn_host_need(axn_model *); // bytes of pinned memory
int axn_bind(axn_model *);
int axn_probe(axn_model *);
int axn_close(axn_model *);

// What is added to a row between layers: as axcl.Addition.
typedef struct { uint32_t layer, row; } axn_add;

// A pass, as axcl.Pass has it. It points to Go's memory, for the length of the call, and is passed
// by value: a struct that C were given a pointer to could hold pointers to Go's memory only where
// that was pinned, which allocates.
typedef struct {
    uint32_t group, rows;
    const uint16_t *hidden;  // rows × hidden
    const uint16_t *layer_inputs; // rows × layers × their width; NULL: there are none
    const uint32_t *pos, *cell;
    uint32_t cell_words;     // of a row of see_cells and local_cells; those of see_rows and local_rows have axn_words(rows)
    const uint64_t *see_cells, *see_rows, *local_cells, *local_rows;
    const axn_add *add;      // in the order of layers, then of rows
    uint32_t adds;
    const uint16_t *added;   // adds × hidden
    const int64_t *want;     // rows whose logits are wanted
    uint32_t wanted;
    uint16_t *logits;        // wanted × out; NULL: not asked for, as the next two
    int32_t *argmax;
    uint16_t *hidden_out;    // rows × hidden
    bool unfinished;         // return when hidden_out is there: axn_finish waits for the rest
    axn_slots slots;
    uint32_t adapter;        // from 1; 0: none
} axn_pass;

// linear.c
uint32_t axn_unlisted(axn_card *, axn_module *, const char *name);
int axn_state_alloc(axn_model *);
int axn_state_bind(axn_model *);
int axn_state_close(axn_model *);
int axn_state_upload(axn_model *, const axn_pass *);
int axn_state_begin(axn_model *, const axn_pass *, axn_way *);
int axn_state_run(axn_model *, uint32_t l, axn_way *); // l counts all layers
void axn_state_queued(axn_model *, const axn_way *);
void axn_state_done(axn_model *, const axn_way *);

// sharedkv.c. A layer's new rows of a pass lie in k and v, from byte at on.
typedef struct { const axn_mem *k, *v; size_t at; } axn_news;
int axn_shared_alloc(axn_model *);
int axn_shared_close(axn_model *);
const axn_mem *axn_shared_cache(axn_model *, const axn_group *, uint32_t l, bool v); // what a layer reads that uses l's
bool axn_behind(const axn_model *, const axn_group *, uint32_t l);
int axn_share(axn_model *, const axn_group *, uint32_t l, axn_news);
int axn_share_placed(axn_model *);
int axn_inputs_upload(axn_model *, const axn_pass *);

// lora.c
int axn_lora_alloc(axn_model *);
int axn_lora_bind(axn_model *, uint32_t l, uint32_t group, uint32_t adapter);
int axn_lora_begin(axn_model *, const axn_pass *); // binds what the pass computes with
int axn_lora_close(axn_model *);

// whole.c
int axn_whole_bind(axn_model *);
int axn_whole_close(axn_model *);
int axn_whole_run(axn_model *, const axn_pass *);
int axn_whole_logits(axn_model *, const int64_t *want, uint32_t n);

// pass.c
int axn_run(axn_model *, axn_pass);
int axn_finish(axn_model *);
int axn_head(axn_model *, const uint16_t *rows, uint32_t n, uint16_t *logits); // n × hidden, n × out
int axn_clear(axn_model *, const uint32_t *cell, uint32_t cells); // ascending
int axn_drain(axn_card *, int32_t ms);

// rows.c: cells at most piece, none twice
int axn_save(axn_model *, const uint32_t *cell, uint32_t cells, uint8_t *to);
int axn_restore(axn_model *, const uint32_t *cell, uint32_t cells, const uint8_t *from);
int axn_copy(axn_model *, const uint32_t *to, const uint32_t *from, uint32_t cells);
int axn_save_state(axn_model *, uint32_t slot, size_t at, uint8_t *to, size_t size); // size at most state_piece
int axn_restore_state(axn_model *, uint32_t slot, size_t at, const uint8_t *from, size_t size);

// net.c
int axn_net_bind(axn_net *);
int axn_net_rebind(axn_net *, uint32_t group, uint32_t slot, const axn_mem *); // NULL: the net's own memory
int axn_net_put(axn_net *, uint32_t slot, const void *data, size_t size);
int axn_net_run(axn_net *, uint32_t group);
int axn_net_get(axn_net *, uint32_t slot, void *data, size_t size);
int axn_net_close(axn_net *);
int axn_buffer_new(axn_buffer *, size_t size);
int axn_buffer_write(axn_buffer *, size_t at, const void *data, size_t size);
int axn_buffer_read(axn_buffer *, size_t at, void *data, size_t size);
int axn_buffer_free(axn_buffer *);
int axn_stage_free(axn_card *, axn_stage *); // after the buffers

#endif
