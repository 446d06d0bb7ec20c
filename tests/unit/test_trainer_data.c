#include "trainer_test.h"

#include "data/idx.h"
#include "tensor/safetensors.h"

#include <zlib.h>

/* --- IDX --------------------------------------------------------------------- */

static const uint8_t two_images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5,
	6, 7, 8, 9, 10, 11, 12 };

static int read_idx(const void *bytes, size_t len, int rank, struct mlr_error *err)
{
	struct idx x = { 0 };
	int r;

	write_file("x", bytes, len);
	r = idx_read(in_test_dir("x"), rank, &x, err);
	idx_done(&x);
	return r;
}

static void write_gz(const char *name, const void *bytes, size_t len)
{
	gzFile f = gzopen(in_test_dir(name), "wb");

	assert_int_equal(gzwrite(f, bytes, (unsigned)len), (int)len);
	assert_int_equal(gzclose(f), Z_OK);
}

static void assert_two_images(const char *name)
{
	auto_call(idx_done) struct idx x = { 0 };

	assert_int_equal(idx_read(in_test_dir(name), 3, &x, NULL), 0);
	assert_int_equal(x.rank, 3);
	assert_int_equal(x.count, 12);
	assert_true(x.dim[0] == 2 && x.dim[1] == 2 && x.dim[2] == 3);
	assert_memory_equal(x.data, two_images + 16, 12);
}

static void an_idx_file_is_read_plain_and_compressed(void **state)
{
	write_file("plain", two_images, sizeof(two_images));
	write_gz("packed", two_images, sizeof(two_images));
	assert_two_images("plain");
	assert_two_images("packed");
}

static void an_idx_file_that_ends_early_is_refused(void **state)
{
	struct mlr_error err;

	for (size_t n = 0; n < sizeof(two_images); n++)
		assert_int_equal(read_idx(two_images, n, 3, &err), -EPROTO);
	assert_non_null(
		strstr(err.text, "is truncated: 11 bytes of data where its header says 12"));
	assert_non_null(strstr(err.text, test_dir));
}

static void a_compressed_idx_file_that_ends_early_or_is_damaged_is_refused(void **state)
{
	auto_free char *gz = NULL;
	struct mlr_error err;
	size_t len;

	write_gz("whole", two_images, sizeof(two_images));
	assert_int_equal(file_read(AT_FDCWD, in_test_dir("whole"), 1000, &gz, &len, NULL), 0);
	for (size_t n = 0; n < len; n++)
		assert_int_equal(read_idx(gz, n, 3, NULL), -EPROTO);
	gz[len - 6] ^= 1; /* the checksum */
	assert_int_equal(read_idx(gz, len, 3, &err), -EPROTO);
	assert_non_null(strstr(err.text, "damaged gzip data"));
}

static void an_idx_file_that_goes_on_is_refused(void **state)
{
	uint8_t longer[sizeof(two_images) + 1] = { 0 };
	struct mlr_error err;

	memcpy(longer, two_images, sizeof(two_images));
	assert_int_equal(read_idx(longer, sizeof(longer), 3, &err), -EPROTO);
	assert_non_null(strstr(err.text, "goes on after the 12 bytes"));
}

static void what_is_no_idx_file_of_bytes_is_named(void **state)
{
	uint8_t b[sizeof(two_images)];
	struct mlr_error err;

	memcpy(b, two_images, sizeof(b));
	b[0] = 1;
	assert_int_equal(read_idx(b, sizeof(b), 3, &err), -EPROTO);
	assert_non_null(strstr(err.text, "is not an IDX file"));
	b[0] = 0;
	b[2] = 0x0d;
	assert_int_equal(read_idx(b, sizeof(b), 3, &err), -EPROTO);
	assert_non_null(strstr(err.text, "of type 0x0d"));
	assert_int_equal(read_idx(two_images, sizeof(two_images), 1, &err), -EPROTO);
	assert_non_null(strstr(
		err.text, "has 3 dimensions where 1 were expected (images in place of labels?)"));
}

static void an_idx_header_that_promises_too_much_costs_no_memory(void **state)
{
	uint8_t huge[] = { 0, 0, 8, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 1 };
	uint8_t large[] = { 0, 0, 8, 3, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 1,
		1 }; /* just below the ceiling */
	uint8_t above[] = { 0, 0, 8, 3, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 1 };
	uint8_t none[] = { 0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3 };
	struct mlr_error err;

	assert_int_equal(read_idx(huge, sizeof(huge), 3, &err), -EFBIG);
	assert_int_equal(read_idx(above, sizeof(above), 3, &err), -EFBIG);
	assert_non_null(strstr(err.text, "says it holds more than 4294967296 bytes"));
	assert_int_equal(read_idx(large, sizeof(large), 3, &err), -EPROTO);
	assert_non_null(strstr(err.text, "is truncated"));
	assert_int_equal(read_idx(none, sizeof(none), 3, &err), -EPROTO);
	assert_non_null(strstr(err.text, "dimension 1 is 0"));
}

/* --- data sets ---------------------------------------------------------------- */

static void write_idx3(const char *name, uint8_t count, uint8_t h, uint8_t w, int gz)
{
	uint8_t b[16 + 1000] = { 0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, h, 0, 0, 0, w };

	if (gz)
		write_gz(name, b, 16u + count * h * w);
	else
		write_file(name, b, 16u + count * h * w);
}

static void write_labels(const char *name, uint8_t count, uint8_t last)
{
	uint8_t b[8 + 256] = { 0, 0, 8, 1, 0, 0, 0, count };

	b[7 + count] = last;
	write_file(name, b, 8u + count);
}

static void write_dataset(void)
{
	unlink(in_test_dir("t10k-images-idx3-ubyte"));
	write_idx3("train-images-idx3-ubyte", 5, 4, 6, 0);
	write_labels("train-labels-idx1-ubyte", 5, 2);
	write_idx3("t10k-images-idx3-ubyte.gz", 3, 4, 6, 1);
	write_labels("t10k-labels-idx1-ubyte", 3, 6);
}

static void a_data_set_is_read_from_its_four_files_compressed_or_not(void **state)
{
	auto_call(dataset_done) struct dataset d = { 0 };

	write_dataset();
	assert_int_equal(dataset_load(test_dir, DATASET_ALL, NULL, &d, NULL), 0);
	assert_int_equal(d.train.count, 5);
	assert_int_equal(d.test.count, 3);
	assert_true(d.height == 4 && d.width == 6);
	assert_int_equal(d.classes, 7);
}

static void files_of_a_data_set_that_do_not_belong_together_are_named(void **state)
{
	struct dataset d = { 0 };
	struct mlr_error err;

	write_dataset();
	write_labels("train-labels-idx1-ubyte", 4, 2);
	assert_int_equal(dataset_load(test_dir, DATASET_ALL, NULL, &d, &err), -EPROTO);
	assert_non_null(strstr(err.text,
		"train-images-idx3-ubyte' has 5 images but 'train-labels-idx1-ubyte' has 4"));
	write_dataset();
	write_idx3("t10k-images-idx3-ubyte.gz", 3, 4, 7, 1);
	assert_int_equal(dataset_load(test_dir, DATASET_ALL, NULL, &d, &err), -EPROTO);
	assert_non_null(strstr(err.text, "has images of 4x7 but the training images are 4x6"));
	write_dataset();
	unlink(in_test_dir("t10k-labels-idx1-ubyte"));
	assert_int_equal(dataset_load(test_dir, DATASET_TEST, NULL, &d, &err), -ENOENT);
	assert_non_null(
		strstr(err.text, "t10k-labels-idx1-ubyte' is missing, with and without .gz"));
	assert_null(d.dir);
}

static void a_pipe_in_a_file_s_place_is_refused_at_once(void **state)
{
	struct dataset d = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	write_dataset();
	unlink(in_test_dir("train-labels-idx1-ubyte"));
	unlink(in_test_dir("train-labels-idx1-ubyte.gz"));
	assert_int_equal(mkfifo(in_test_dir("train-labels-idx1-ubyte"), 0600), 0);
	alarm(300); /* a reader that waits would be ended */
	assert_int_equal(dataset_load(test_dir, DATASET_ALL, NULL, &d, &err), -EINVAL);
	alarm(0);
	assert_non_null(strstr(err.text, "/train-labels-idx1-ubyte' is not a regular file"));
	unlink(in_test_dir("train-labels-idx1-ubyte"));
}

static void a_data_set_that_is_not_there_names_the_package(void **state)
{
	struct dataset d = { 0 };
	struct mlr_error err;

	assert_int_equal(dataset_load("/no/such", DATASET_ALL, NULL, &d, &err), -ENOENT);
	assert_non_null(strstr(err.text, "'/no/such'"));
	assert_non_null(strstr(err.text, "dataset-fashion-mnist"));
	assert_int_equal(dataset_load("no-such-set", DATASET_ALL, NULL, &d, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/usr/share/datasets/no-such-set"));
}

/* --- safetensors -------------------------------------------------------------- */

/* A file of this header, with the data length given. */
static int parse_header(const char *json, size_t data, struct mlr_error *err)
{
	auto_call(safetensors_done) struct safetensors st = { 0 };
	uint64_t n = strlen(json);
	auto_free char *buf = xcalloc(1, 8 + n + data);

	memcpy(buf, &n, 8);
	memcpy(buf + 8, json, n);
	return safetensors_parse(buf, 8 + n + data, &st, err);
}

static void safetensors_come_back_as_they_were_written(void **state)
{
	const float a[6] = { 1, 2, 3, 4, 5, 6 }, b[1] = { -7 };
	struct tensor tensors[] = { { (char *)"z", shape2(2, 3), a },
		{ (char *)"a.b", shape1(1), b } };
	struct metadata meta[] = { { (char *)"k", (char *)"v \"ä\"" } };
	struct safetensors in = { tensors, 2, meta, 1 };
	auto_call(safetensors_done) struct safetensors out = { 0 };
	auto_free char *buf = NULL;
	size_t len;

	assert_int_equal(safetensors_build(&in, &buf, &len, NULL), 0);
	assert_int_equal(len % 4, 0);
	assert_int_equal(safetensors_parse(buf, len, &out, NULL), 0);
	assert_int_equal(out.n, 2);
	assert_memory_equal(safetensors_find(&out, "z")->data, a, sizeof(a));
	assert_memory_equal(safetensors_find(&out, "a.b")->data, b, sizeof(b));
	assert_int_equal(safetensors_find(&out, "z")->shape.rank, 2);
	assert_null(safetensors_find(&out, "y"));
	assert_string_equal(safetensors_meta(&out, "k"), "v \"ä\"");
	for (size_t n = 0; n < len; n++) { /* no shorter file is one */
		struct safetensors st = { 0 };

		assert_int_equal(safetensors_parse(buf, n, &st, NULL), -EPROTO);
	}
}

static void hostile_safetensors_are_refused_by_name(void **state)
{
	static const struct {
		const char *json;
		size_t data;
		int code;
		const char *says;
	} all[] = {
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, -EPROTO,
			"tensor 't': data_offsets [0, 8] lie outside the 4 bytes" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, -EPROTO,
			"lie outside" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, -EPROTO,
			"lie outside" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, -EPROTO,
			"its shape needs 8 bytes but its data_offsets hold 4" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 12, -EPROTO,
			"the last 4 bytes belong to no tensor" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, -EPROTO,
			"4 bytes before tensor 't' belong to no tensor" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
		  "\"u\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
			12, -EPROTO, "overlap" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
		  "\"t\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
			8, -EPROTO, "duplicate" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,2],\"data_offsets\":[0,0]}}",
			0, -EPROTO, "tensor 't': dimension 1 is not possible" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[2147483647,2147483647,2147483647],\"data_offsets\":[0,0]}}",
			0, -EPROTO, "tensor 't': dimension 2 is not possible" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, -EPROTO,
			"dimension 1" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, -EPROTO,
			"dimension 1" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
			-ENOTSUP, "has 5 dimensions" },
		{ "{\"t\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, -ENOTSUP,
			"tensor 't' is of an unknown type F4" },
		{ "{\"t\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, -EPROTO,
			"its shape needs 4 bytes but its data_offsets hold 8" },
		{ "{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, -EPROTO,
			"tensor 't' has no shape" },
		{ "{\"t\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, -EPROTO,
			"tensor 't' has no pair of data_offsets" },
		{ "{\"t\":7}", 0, -EPROTO, "tensor 't' has no dtype" },
		{ "{\"__metadata__\":{\"k\":1}}", 0, -EPROTO, "__metadata__ 'k' is not a string" },
		{ "{\"__metadata__\":[]}", 0, -EPROTO, "__metadata__ is not an object" },
		{ "{\"a\\u001b[2J\":{}}", 0, -EPROTO, "tensor 'a?[2J' has no dtype" },
		{ "[]", 0, -EPROTO, "is not a JSON object" },
		{ "{\"t\":", 0, -EPROTO, "not JSON" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		int r = parse_header(all[i].json, all[i].data, &err);

		if (r != all[i].code || !strstr(err.text, all[i].says))
			fail_msg("%s: %d, %s", all[i].json, r, err.text);
	}
}

static void a_safetensors_header_larger_than_the_file_or_the_ceiling_is_refused(void **state)
{
	struct safetensors st = { 0 };
	auto_free char *buf = xcalloc(1, SAFETENSORS_HEADER_MAX + 9);
	uint64_t n = UINT64_MAX;
	struct mlr_error err;

	memcpy(buf, &n, 8);
	assert_int_equal(safetensors_parse(buf, 100, &st, &err), -EPROTO);
	assert_non_null(
		strstr(err.text, "a header of 18446744073709551615 bytes in a file of 100"));
	n = SAFETENSORS_HEADER_MAX + 1;
	memcpy(buf, &n, 8);
	assert_int_equal(safetensors_parse(buf, n + 8, &st, &err), -EPROTO);
	assert_non_null(strstr(err.text, "is larger than"));
}

static void a_safetensors_header_that_would_not_be_read_is_not_written(void **state)
{
	auto_free char *value = xcalloc(1, SAFETENSORS_HEADER_MAX + 1);
	struct metadata meta = { (char *)"key", memset(value, 'x', SAFETENSORS_HEADER_MAX) };
	const struct safetensors st = { .meta = &meta, .metas = 1 };
	struct mlr_error err;
	char *buf = NULL;
	size_t len;

	assert_int_equal(safetensors_build(&st, &buf, &len, &err), -EFBIG);
	assert_non_null(strstr(err.text, "are too many for its header"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idx_file_is_read_plain_and_compressed),
		cmocka_unit_test(an_idx_file_that_ends_early_is_refused),
		cmocka_unit_test(a_compressed_idx_file_that_ends_early_or_is_damaged_is_refused),
		cmocka_unit_test(an_idx_file_that_goes_on_is_refused),
		cmocka_unit_test(what_is_no_idx_file_of_bytes_is_named),
		cmocka_unit_test(an_idx_header_that_promises_too_much_costs_no_memory),
		cmocka_unit_test(a_data_set_is_read_from_its_four_files_compressed_or_not),
		cmocka_unit_test(files_of_a_data_set_that_do_not_belong_together_are_named),
		cmocka_unit_test(a_pipe_in_a_file_s_place_is_refused_at_once),
		cmocka_unit_test(a_data_set_that_is_not_there_names_the_package),
		cmocka_unit_test(safetensors_come_back_as_they_were_written),
		cmocka_unit_test(hostile_safetensors_are_refused_by_name),
		cmocka_unit_test(a_safetensors_header_that_would_not_be_read_is_not_written),
		cmocka_unit_test(
			a_safetensors_header_larger_than_the_file_or_the_ceiling_is_refused),
	};

	return cmocka_run_group_tests(tests, make_test_dir, drop_test_dir);
}
