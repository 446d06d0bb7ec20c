/*
 * Safetensors files (https://huggingface.co/docs/safetensors, section "Format"): a little-endian
 * 64-bit header length, a JSON header, then the tensors' bytes, row-major and little-endian:
 *
 *   {"__metadata__":{"k":"v"},"conv1.weight":{"dtype":"F32","shape":[32,1,5,5],"data_offsets":[0,3200]},…}
 *
 * Reading is strict, since checkpoints are untrusted: every byte of data must belong to exactly one
 * tensor, as the format demands.
 */
#pragma once

#include "tensor/shape.h"

/* The most bytes of JSON that are parsed: 65535 class names of 255 letters fit. */
#define SAFETENSORS_HEADER_MAX ((size_t)32 << 20)

/* The types of a tensor's numbers. Only the first three are computed with. */
enum tensor_type {
	TENSOR_F32,
	TENSOR_F16,
	TENSOR_BF16,
	TENSOR_F64,
	TENSOR_F8_E4M3,
	TENSOR_F8_E5M2,
	TENSOR_I64,
	TENSOR_I32,
	TENSOR_I16,
	TENSOR_I8,
	TENSOR_U64,
	TENSOR_U32,
	TENSOR_U16,
	TENSOR_U8,
	TENSOR_BOOL,
};
#define TENSOR_TYPES 15

struct tensor {
	char *name; /* owned when read, borrowed when written */
	struct shape shape;
	const void *data; /* shape_count() numbers, possibly not aligned: memcpy() them; borrowed */
	enum tensor_type type;
};

struct metadata {
	char *key, *value;
};

struct safetensors {
	struct tensor *tensors; /* [n], in the order of their data */
	size_t n;
	struct metadata *meta; /* [metas] */
	size_t metas;
};

/*
 * Write a file into memory. The data begins at a multiple of 8.
 *
 *   st         names and metadata keys are unique; all borrowed
 *   ret, len   a buffer to free()
 *
 * Returns 0, -EFBIG for a header larger than SAFETENSORS_HEADER_MAX, which safetensors_parse()
 * refuses, or -ENOMEM with the byte count.
 */
int safetensors_build(const struct safetensors *st, char **ret, size_t *len, struct mlr_error *err);

/*
 * Parse a file's bytes.
 *
 *   buf   [len]; the tensors' data points into it
 *   ret   free with safetensors_done() after success
 *
 * Returns 0, -EPROTO for what breaks the format (too short, header larger than the file or than
 * SAFETENSORS_HEADER_MAX, not JSON, a duplicate key, sizes that disagree with shapes, offsets out
 * of range, overlapping or leaving gaps), -ENOTSUP for a tensor of an unknown type or of more than
 * SHAPE_RANK_MAX dimensions. Errors name the tensor.
 */
int safetensors_parse(const char *buf, size_t len, struct safetensors *ret, struct mlr_error *err);

/* A type's name in files: "BF16". */
const char *tensor_type_name(enum tensor_type type);

/* The bytes of a tensor's data. */
size_t tensor_size(const struct tensor *t);

/* Copy the numbers of a tensor of F32, F16 or BF16 as floats [shape_count()]. Returns 0, or
 * -ENOTSUP naming the tensor of another type. */
int tensor_floats(const struct tensor *t, float *to, struct mlr_error *err);

/* Free what safetensors_parse() made; a zeroed struct is fine. */
void safetensors_done(struct safetensors *st);

/* The tensor or metadata value of that name, or NULL. */
const struct tensor *safetensors_find(const struct safetensors *st, const char *name);
const char *safetensors_meta(const struct safetensors *st, const char *key);
