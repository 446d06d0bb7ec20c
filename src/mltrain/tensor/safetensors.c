#include "tensor/safetensors.h"

#include "base/json.h"

#include <math.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors data is little-endian");

/* A tensor's name for a message. It is untrusted, so it is shortened and made printable. */
struct shown {
	char text[80];
};

static struct shown show(const char *name)
{
	struct shown s;
	size_t n = 0;

	for (; name[n] && n < sizeof(s.text) - 1; n++)
		s.text[n] = name[n] >= 0x20 && name[n] < 0x7f ? name[n] : '?';
	s.text[n] = '\0';
	return s;
}

static const struct type {
	const char *name;
	size_t size; /* bytes of a number */
} types[TENSOR_TYPES] = {
	[TENSOR_F32] = { "F32", 4 },
	[TENSOR_F16] = { "F16", 2 },
	[TENSOR_BF16] = { "BF16", 2 },
	[TENSOR_F64] = { "F64", 8 },
	[TENSOR_F8_E4M3] = { "F8_E4M3", 1 },
	[TENSOR_F8_E5M2] = { "F8_E5M2", 1 },
	[TENSOR_I64] = { "I64", 8 },
	[TENSOR_I32] = { "I32", 4 },
	[TENSOR_I16] = { "I16", 2 },
	[TENSOR_I8] = { "I8", 1 },
	[TENSOR_U64] = { "U64", 8 },
	[TENSOR_U32] = { "U32", 4 },
	[TENSOR_U16] = { "U16", 2 },
	[TENSOR_U8] = { "U8", 1 },
	[TENSOR_BOOL] = { "BOOL", 1 },
};

const char *tensor_type_name(enum tensor_type type)
{
	return types[type].name;
}

size_t tensor_size(const struct tensor *t)
{
	return shape_count(&t->shape) * types[t->type].size;
}

/* IEEE 754's binary16: a sign, 5 bits of exponent, 10 of fraction. */
static float of_half(uint16_t h)
{
	int exponent = h >> 10 & 31, fraction = h & 1023;
	float v = exponent == 31 ? (fraction ? NAN : INFINITY)
		: exponent       ? ldexpf((float)(1024 + fraction), exponent - 25)
				 : ldexpf((float)fraction, -24);

	return h & 0x8000 ? -v : v;
}

/* The upper half of a float. */
static float of_bfloat(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

int tensor_floats(const struct tensor *t, float *to, struct mlr_error *err)
{
	size_t n = shape_count(&t->shape);

	if (t->type > TENSOR_BF16)
		return mlr_fail(err, ENOTSUP,
			"tensor '%s' is of type %s; F32, F16 and BF16 are read", show(t->name).text,
			types[t->type].name);
	if (t->type == TENSOR_F32)
		memcpy(to, t->data, n * sizeof(*to));
	for (size_t i = 0; t->type != TENSOR_F32 && i < n; i++) {
		uint16_t h;

		memcpy(&h, (const char *)t->data + i * sizeof(h), sizeof(h));
		to[i] = t->type == TENSOR_F16 ? of_half(h) : of_bfloat(h);
	}
	return 0;
}

static json_t *header_of(const struct safetensors *st)
{
	json_t *root = json_object();
	size_t at = 0;

	if (st->metas) {
		json_t *meta = json_object();

		for (size_t i = 0; i < st->metas; i++)
			json_object_set_new(meta, st->meta[i].key, json_string(st->meta[i].value));
		json_object_set_new(root, "__metadata__", meta);
	}
	for (size_t i = 0; i < st->n; i++) {
		const struct tensor *t = &st->tensors[i];
		size_t end = at + tensor_size(t);

		json_object_set_new(root, t->name,
			json_pack("{s:s, s:o, s:[I, I]}", "dtype", types[t->type].name, "shape",
				MLR_JSON_LIST(k, t->shape.rank, json_integer(t->shape.dim[k])),
				"data_offsets", (json_int_t)at, (json_int_t)end));
		at = end;
	}
	return root;
}

int safetensors_build(const struct safetensors *st, char **ret, size_t *len, struct mlr_error *err)
{
	json_auto_t *root = header_of(st);
	auto_free char *text = json_dumps(root, JSON_COMPACT);
	size_t header, data = 0, at;
	uint64_t head64;
	char *buf;

	if (!text)
		return mlr_fail(err, EINVAL, "safetensors header: a name is not UTF-8");
	for (size_t i = 0; i < st->n; i++)
		data += tensor_size(&st->tensors[i]);
	header = (strlen(text) + 7) / 8 * 8;
	if (header > SAFETENSORS_HEADER_MAX)
		return mlr_fail(err, EFBIG,
			"%zu bytes of names and metadata are too many for its header; %zu are the most",
			header, SAFETENSORS_HEADER_MAX);
	buf = malloc(8 + header + data);
	if (!buf)
		return mlr_fail(err, ENOMEM, "%zu bytes of memory", 8 + header + data);

	head64 = header;
	memcpy(buf, &head64, 8);
	memset(buf + 8, ' ', header); /* the format pads with spaces */
	memcpy(buf + 8, text, strlen(text));
	at = 8 + header;
	for (size_t i = 0; i < st->n; i++) {
		size_t size = tensor_size(&st->tensors[i]);

		memcpy(buf + at, st->tensors[i].data, size);
		at += size;
	}
	*ret = buf;
	*len = at;
	return 0;
}

static int parse_metadata(json_t *value, struct safetensors *st, struct mlr_error *err)
{
	const char *key;
	json_t *v;

	if (!json_is_object(value))
		return mlr_fail(err, EPROTO, "__metadata__ is not an object");
	st->meta = xcalloc(json_object_size(value) + 1, sizeof(*st->meta));
	json_object_foreach(value, key, v) {
		if (!json_is_string(v))
			return mlr_fail(
				err, EPROTO, "__metadata__ '%s' is not a string", show(key).text);
		st->meta[st->metas].key = xstrdup(key);
		st->meta[st->metas++].value = xstrdup(json_string_value(v));
	}
	return 0;
}

static int parse_shape(const char *name, json_t *dims, struct shape *ret, struct mlr_error *err)
{
	struct shape s = { 0, { 1, 1, 1, 1 } };
	size_t count = 1;

	if (!json_is_array(dims))
		return mlr_fail(err, EPROTO, "tensor '%s' has no shape", show(name).text);
	if (json_array_size(dims) > SHAPE_RANK_MAX)
		return mlr_fail(err, ENOTSUP, "tensor '%s' has %zu dimensions; at most %d are read",
			show(name).text, json_array_size(dims), SHAPE_RANK_MAX);
	for (s.rank = 0; s.rank < (int)json_array_size(dims); s.rank++) {
		json_t *d = json_array_get(dims, (size_t)s.rank);
		json_int_t v = json_is_integer(d) ? json_integer_value(d) : 0;

		if (v < 1 || v > INT_MAX || __builtin_mul_overflow(count, (size_t)v, &count) ||
			count > SIZE_MAX / sizeof(double))
			return mlr_fail(err, EPROTO, "tensor '%s': dimension %d is not possible",
				show(name).text, s.rank + 1);
		s.dim[s.rank] = (int)v;
	}
	*ret = s;
	return 0;
}

static enum tensor_type find_type(const char *name)
{
	int type = 0;

	while (type < TENSOR_TYPES && strcmp(types[type].name, name) != 0)
		type++;
	return (enum tensor_type)type;
}

/* Check one tensor's entry; data is where the file's tensor bytes begin. */
static int parse_tensor(const char *name, json_t *entry, const char *data, size_t size,
	struct tensor *ret, struct mlr_error *err)
{
	json_t *dtype = json_object_get(entry, "dtype");
	json_t *offsets = json_object_get(entry, "data_offsets");
	json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
	json_int_t a, b;

	if (!json_is_string(dtype))
		return mlr_fail(err, EPROTO, "tensor '%s' has no dtype", show(name).text);
	ret->type = find_type(json_string_value(dtype));
	if (ret->type == TENSOR_TYPES)
		return mlr_fail(err, ENOTSUP, "tensor '%s' is of an unknown type %s",
			show(name).text, show(json_string_value(dtype)).text);
	TRY(parse_shape(name, json_object_get(entry, "shape"), &ret->shape, err));
	if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
		return mlr_fail(
			err, EPROTO, "tensor '%s' has no pair of data_offsets", show(name).text);
	a = json_integer_value(from);
	b = json_integer_value(to);
	if (a < 0 || b < a || (uint64_t)b > size)
		return mlr_fail(err, EPROTO,
			"tensor '%s': data_offsets [%" PRId64 ", %" PRId64
			"] lie outside the %zu bytes of data",
			show(name).text, (int64_t)a, (int64_t)b, size);
	if ((size_t)(b - a) != tensor_size(ret))
		return mlr_fail(err, EPROTO,
			"tensor '%s': its shape needs %zu bytes but its data_offsets hold %" PRId64,
			show(name).text, tensor_size(ret), (int64_t)(b - a));
	ret->name = xstrdup(name);
	ret->data = data + a;
	return 0;
}

static int by_data(const void *a, const void *b)
{
	const char *x = ((const struct tensor *)a)->data, *y = ((const struct tensor *)b)->data;

	return (x > y) - (x < y);
}

/* Check that every byte of data belongs to exactly one tensor. */
static int check_cover(struct safetensors *st, const char *data, size_t size, struct mlr_error *err)
{
	const char *at = data;

	qsort(st->tensors, st->n, sizeof(*st->tensors), by_data);
	for (size_t i = 0; i < st->n; i++) {
		const struct tensor *t = &st->tensors[i];

		if ((const char *)t->data < at)
			return mlr_fail(err, EPROTO, "tensors '%s' and '%s' overlap",
				show(st->tensors[i - 1].name).text, show(t->name).text);
		if ((const char *)t->data > at)
			return mlr_fail(err, EPROTO,
				"%zu bytes before tensor '%s' belong to no tensor",
				(size_t)((const char *)t->data - at), show(t->name).text);
		at += tensor_size(t);
	}
	if (at != data + size)
		return mlr_fail(err, EPROTO, "the last %zu bytes belong to no tensor",
			(size_t)(data + size - at));
	return 0;
}

static int parse_header(
	json_t *root, const char *data, size_t size, struct safetensors *st, struct mlr_error *err)
{
	const char *key;
	json_t *value;
	int r;

	st->tensors = xcalloc(json_object_size(root) + 1, sizeof(*st->tensors));
	json_object_foreach(root, key, value) {
		if (strcmp(key, "__metadata__") == 0)
			r = parse_metadata(value, st, err);
		else
			r = parse_tensor(key, value, data, size, &st->tensors[st->n], err);
		if (r < 0)
			return r;
		if (strcmp(key, "__metadata__") != 0)
			st->n++;
	}
	return check_cover(st, data, size, err);
}

/* A ZIP archive, or before PyTorch 1.6 a pickle; a header of safetensors is not that long. */
static int is_of_torch_save(const char *buf)
{
	return memcmp(buf, "PK\3\4", 4) == 0 || memcmp(buf, "\x80\2", 2) == 0;
}

static int fail_torch_save(struct mlr_error *err)
{
	mlr_fail(err, EPROTO, "a file of torch.save(), not safetensors");
	return mlr_hint(err,
		"python3 -c 'import torch, safetensors.torch as s; "
		"s.save_file(torch.load(\"FILE.pt\", weights_only=True), \"FILE.safetensors\")'"
		", then mltrain import");
}

int safetensors_parse(const char *buf, size_t len, struct safetensors *ret, struct mlr_error *err)
{
	auto_call(safetensors_done) struct safetensors st = { 0 };
	json_auto_t *root = NULL;
	json_error_t why;
	uint64_t header;

	if (len < 8)
		return mlr_fail(err, EPROTO, "not a safetensors file: %zu bytes are too few", len);
	memcpy(&header, buf, 8);
	if (header > len - 8 && is_of_torch_save(buf))
		return fail_torch_save(err);
	if (header > len - 8)
		return mlr_fail(err, EPROTO,
			"not a safetensors file, or truncated: a header of %" PRIu64
			" bytes in a file of %zu",
			header, len);
	if (header > SAFETENSORS_HEADER_MAX)
		return mlr_fail(err, EPROTO,
			"its header of %" PRIu64 " bytes is larger than the %zu that are read",
			header, SAFETENSORS_HEADER_MAX);
	if (header == 0 || buf[8] != '{')
		return mlr_fail(
			err, EPROTO, "not a safetensors file: its header is not a JSON object");
	root = json_loadb(buf + 8, header, JSON_REJECT_DUPLICATES, &why);
	if (!root)
		return mlr_fail(err, EPROTO, "its header is not JSON: %s (byte %d)", why.text,
			why.position);

	TRY(parse_header(root, buf + 8 + header, len - 8 - header, &st, err));
	*ret = take_struct(&st, { 0 });
	return 0;
}

void safetensors_done(struct safetensors *st)
{
	for (size_t i = 0; i < st->n; i++)
		free(st->tensors[i].name);
	for (size_t i = 0; i < st->metas; i++) {
		free(st->meta[i].key);
		free(st->meta[i].value);
	}
	free(st->tensors);
	free(st->meta);
	*st = (struct safetensors){ 0 };
}

const struct tensor *safetensors_find(const struct safetensors *st, const char *name)
{
	for (size_t i = 0; i < st->n; i++)
		if (strcmp(st->tensors[i].name, name) == 0)
			return &st->tensors[i];
	return NULL;
}

const char *safetensors_meta(const struct safetensors *st, const char *key)
{
	for (size_t i = 0; i < st->metas; i++)
		if (strcmp(st->meta[i].key, key) == 0)
			return st->meta[i].value;
	return NULL;
}
