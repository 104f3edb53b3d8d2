// A net's graph of operations: what one shape group of it is made of, and how to run it.
// Data flow: a group's program in the file -> axg_read (every operand, attribute and shape checked,
// nothing believed) -> axg; the inputs' bytes -> axg_run, which goes through the nodes in order ->
// the outputs' bytes. An axg never changes: any thread may run it.
#ifndef AXSIM_GRAPH_H
#define AXSIM_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AXG_PORTS = 64, AXG_RANK = 6, AXG_OPERANDS = 64 };

typedef enum {
	AXG_CONV = 1, AXG_CONV_TRANSPOSE, AXG_MATMUL, AXG_ATTENTION, AXG_LAYER_NORM, AXG_RMS_NORM, AXG_GROUP_NORM, AXG_UNARY, AXG_BINARY,
	AXG_CAST, AXG_SOFTMAX, AXG_REDUCE, AXG_POOL, AXG_RESIZE, AXG_GATHER, AXG_RESHAPE, AXG_TRANSPOSE, AXG_CONCAT, AXG_SLICE, AXG_PAD,
	AXG_EXPAND, AXG_LSTM, AXG_OPS,
} axg_op;

enum { AXG_RELU, AXG_LEAKY, AXG_SIGMOID, AXG_TANH, AXG_SILU, AXG_GELU, AXG_GELU_TANH, AXG_GELU_FAST, AXG_SQRT, AXG_SIN, AXG_COS,
	AXG_FUNCTIONS };
enum { AXG_ADD, AXG_SUB, AXG_MUL, AXG_DIV, AXG_MIN, AXG_MAX, AXG_BINARIES };

typedef struct {
	bool integer; // of 32 bits; else float32
	uint32_t rank, dims[AXG_RANK];
	uint64_t n;
} axg_value;

typedef struct {
	char name[64];
	uint32_t type, value; // AXCL's number of the type in which it crosses the border
} axg_port;

typedef struct {
	uint32_t type;
	const void *data; // in the file; NULL where only its description was read
} axg_constant;

typedef struct {
	uint32_t op, nin, nattr, out, nout; // out: the first value it gives
	const int32_t *in, *attr;           // -1: left out
} axg_node;

typedef struct axg {
	uint32_t nin, nout, nconst, nnodes, nvalues;
	axg_port in[AXG_PORTS], out[AXG_PORTS];
	axg_value *values; // inputs, constants, then what the nodes give
	axg_constant *constants;
	axg_node *nodes;
	int32_t *words; // what nodes point into
	double work;    // multiplications
} axg;

enum { AXG_OK, AXG_BAD, AXG_MEMORY };

// axg_read reads the program of n bytes at `at` of a file. Its constants may lie from `first` on.
int axg_read(const uint8_t *file, uint64_t size, uint64_t at, uint64_t n, uint64_t first, bool weights, axg **out);
void axg_free(axg *g);

// axg_run computes a graph: in has each input's bytes, out room for each output, or NULL. AXG_OK or
// AXG_MEMORY.
int axg_run(const axg *g, const void *const *in, void *const *out);

// ---- for the files that compute

typedef struct {
	const axg_value *is;
	float *f;
	int32_t *i;      // f's memory, of integers
	bool borrowed;   // a constant's in the file
	uint32_t to_use; // by this many nodes yet
} axg_tensor;

// graph_conv.c: products. NULL: the operand is left out. False: no memory.
bool axg_conv(const axg_node *n, const axg_tensor *x, const axg_tensor *w, const axg_tensor *b, axg_tensor *y);
bool axg_conv_transpose(const axg_node *n, const axg_tensor *x, const axg_tensor *w, const axg_tensor *b, axg_tensor *y);
bool axg_matmul(const axg_node *n, const axg_tensor *a, const axg_tensor *b, const axg_tensor *bias, axg_tensor *y);
bool axg_attention(const axg_node *n, const axg_tensor *q, const axg_tensor *k, const axg_tensor *v, const axg_tensor *mask, axg_tensor *y);

static inline float axg_float(int32_t bits) {
	union {
		int32_t i;
		float f;
	} u = {.i = bits};
	return u.f;
}

#endif
