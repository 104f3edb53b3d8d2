// A software card's .axmodel in memory: what it is made of, and how to run one of its shape groups.
// Data flow: file bytes -> axm_open (checked, nothing believed) -> axm; plain host pointers ->
// axm_run -> plain host pointers. Knows nothing of devices, handles or the ABI. An axm never
// changes after axm_open: any thread may run it.
#ifndef AXSIM_MODEL_H
#define AXSIM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AXM_LAYER = 1, AXM_HEAD = 2, AXM_EMBED = 3, AXM_AFFINE = 4, AXM_LINEAR = 5, AXM_ENCODER = 6, AXM_DECODER = 7,
	AXM_NET = 8 };

enum {
	AXM_QKV_BIAS = 1,
	AXM_QK_NORM = 2,
	AXM_EXTRA_NORMS = 4,
	AXM_NORM_PLUS_ONE = 8,
	AXM_F32_LOGITS = 16,
	AXM_ARGMAX = 32,
	AXM_SHAPE_ONLY = 64,
	AXM_SUFFIX = 128,
	AXM_GATE = 256,
	AXM_MERGER = 512,
	AXM_LAST = 1024,
	AXM_ONE_POS = 2048,
	AXM_GEMMA4 = 4096,
	AXM_SHARES = 8192,
	AXM_BIAS = 16384,
	AXM_LORA = 32768,
	AXM_FLAGS = 65535,
};

// Where a layer's tensors stand among its inputs and outputs, and a whole decoder's, whose output
// is its logits. Some layers have layer inputs beyond the hidden state. A net may have more of
// both.
enum { IN_INPUT, IN_INDICES, IN_MASK, IN_K, IN_V, IN_LAYER, IN_LAYER_INPUT = IN_LAYER, IN_LORA = IN_LAYER, IN_MAX = 64 };
enum { LORA_Q, LORA_K, LORA_V, LORA_O, LORA_GATE, LORA_UP, LORA_DOWN, LORA_PARTS }; // of an adapter, A and B of each
enum { OUT_K, OUT_V, OUT_OUTPUT, OUT_LAYER, OUT_MAX = 64 };

// AXCL's numbers for element types.
enum { TYPE_U8 = 4, TYPE_I32 = 7, TYPE_U32 = 8, TYPE_F16 = 13, TYPE_BF16 = 14, TYPE_F32 = 15 };

typedef struct {
	char name[76]; // with the group's suffix where the model has them
	int32_t type;
	int32_t ndims;
	int32_t dims[6];
	uint64_t size; // bytes; 0: nothing to bind
} axm_tensor;

typedef struct {
	uint32_t rows, cells, cache;
	axm_tensor in[IN_MAX], out[OUT_MAX];
} axm_group;

typedef struct {
	uint32_t type; // the file's: 1 f32, 2 bf16, 6 bf16 in fours, 7 int8 and 8 int4 with scales of groups; 0 absent
	uint32_t rows, cols, group;
	const void *data;
	const void *scales; // bf16, of groups
} axm_matrix;

enum {
	W_INPUT_NORM, W_Q, W_K, W_V, W_O, W_POST_NORM, W_GATE, W_UP, W_DOWN, W_Q_BIAS, W_K_BIAS, W_V_BIAS, W_Q_NORM, W_K_NORM,
	W_PRE_MLP_NORM, W_POST_MLP_NORM, W_INV_FREQ, W_ROPE_AXIS, W_NORM, W_WEIGHT, W_BIAS, W_QKV, W_Z, W_B, W_A, W_CONV, W_DT_BIAS, W_A_LOG,
	W_PATCH, W_PATCH_BIAS, W_POS, W_NORM1, W_NORM1_BIAS, W_QKV_BIAS, W_O_BIAS, W_NORM2, W_NORM2_BIAS, W_FC1, W_FC1_BIAS, W_FC2,
	W_FC2_BIAS, W_MERGE_NORM, W_MERGE_NORM_BIAS, W_MERGE_FC1, W_MERGE_FC1_BIAS, W_MERGE_FC2, W_MERGE_FC2_BIAS, W_DEEP_AT, W_DEEP_NORM,
	W_DEEP_NORM_BIAS, W_DEEP_FC1, W_DEEP_FC1_BIAS, W_DEEP_FC2, W_DEEP_FC2_BIAS, W_PER_GATE, W_PER_PROJ,
	W_PER_NORM, W_SCALAR,
	W_COUNT,
};

typedef struct axm {
	uint32_t kind, flags, activation;
	uint32_t hidden, heads, kv_heads, head_dim, intermediate, out;
	uint32_t rotary, period, pos;
	uint32_t rank; // of the adapter that a layer takes as inputs
	uint32_t value_dim, conv, state; // of a layer that keeps a state: heads are its value heads, kv_heads its key heads
	uint32_t patch, merge, order, blocks, deep, down, across; // of an encoder
	float eps, scale, rope_magnitude;
	uint32_t ngroups, nin, nout;
	uint32_t listed;     // inputs that a description lists; the others are there all the same
	uint32_t at[IN_MAX]; // where a layer's inputs stand among them
	axm_group *groups;
	struct axm *part; // of a whole decoder: its layers and its head, which point into its bytes
	uint32_t parts;
	struct axg **graph; // of a net: each group's
	axm_matrix w[W_COUNT];
	uint64_t weight_bytes, file_bytes;
	char tool[65];
	void *data;      // owned copy or mapping of the file
	size_t data_size;
	bool mapped;
} axm;

enum { AXM_OK, AXM_E_OPEN, AXM_E_EMPTY, AXM_E_VENDOR, AXM_E_BAD, AXM_E_MEMORY };

// axm_open_file and axm_open_mem give a new model or a code; `mem` is copied. With weights false
// only the header and the directory are kept.
int axm_open_file(const char *path, bool weights, axm **out);
int axm_open_mem(const void *mem, uint64_t size, axm **out);
void axm_free(axm *m);

// axm_hide leaves positions and mask of a layer that keeps a state out of what a description lists.
void axm_hide(axm *m);

// Abilities a card may lack (hazards); all false is the vendor's contract.
typedef struct {
	bool positions_first; // row r's position is the first row's plus r
	bool mask_shared;     // every row sees the cells the first row sees, and the rows of the call up to itself
	bool short_chunks;    // `output` is left alone unless min(64, n) rows are in use
	bool cells_ordered;   // the visible cells are taken to be the first ones
	bool state_padding;   // a call of several rows that keeps a state takes all of them to be there
	bool state_cold;      // the first group of several rows takes the state to be zero
	bool share_stale;     // a layer that shares K and V reads, for a single row, the row before
	bool inputs_first;    // every row of a call takes the layer inputs of the first
	bool share_ignored;   // a layer that shares K and V takes the other's cache for zeros
	bool inputs_ignored;  // layer inputs are taken for zeros
	uint32_t width_first; // 0, or how long rows in caches are taken to be where they are longer
} axm_quirks;

// axm_run computes one group. Pointers follow the order of the group's tensors, each with exactly
// its tensor's size; outputs may be NULL. Inputs and outputs must not overlap. Returns AXM_OK or
// AXM_E_MEMORY.
int axm_run(const axm *m, uint32_t group, const void *const *in, void *const *out, const axm_quirks *quirks);

#endif
