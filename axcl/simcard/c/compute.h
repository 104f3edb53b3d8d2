// What the kinds of layers compute with: rows of bf16 and float32, and products with a model's
// matrices.
#ifndef AXSIM_COMPUTE_H
#define AXSIM_COMPUTE_H

#include "model.h"

float axm_from_bf16(uint16_t b);
uint16_t axm_to_bf16(float f);
double axm_from_f16(uint16_t h);
uint16_t axm_to_f16(float v);
void axm_widen(float *dst, const uint16_t *src, size_t n);
void axm_narrow(uint16_t *dst, const float *src, size_t n);
float axm_dot(const float *a, const float *b, size_t n);
const float *axm_row(const axm_matrix *w, uint32_t r, float *buf); // without the scale of int8 rows
void axm_vector(const axm_matrix *w, float *dst);
void axm_project(const axm_matrix *w, const axm_matrix *bias, const float *x, uint32_t n, float *y, float *buf);
void axm_norm(const axm *m, const axm_matrix *w, const float *x, float *y, size_t rows, size_t len, float *buf);
float axm_activate(uint32_t kind, float x);
void axm_add(float *x, const float *y, size_t n);

// linear.c
int axm_linear(const axm *m, uint32_t group, const void *const *in, void *const *out, const axm_quirks *quirks);

// encoder.c
int axm_encoder(const axm *m, const void *picture, void *const *out);

#endif
