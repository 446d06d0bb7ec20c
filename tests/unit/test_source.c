/* Images in files: their names, what is chosen of several, and limits that no command-line test
 * can afford to reach. */
#include "unit.h"
#include "base/temp.h"
#include "oci/name.h"
#include "oci/layout.h"
#include "pull/files.h"
#include "pull/plain.h"

#include <archive.h>
#include <archive_entry.h>
#include <zstd.h>

static const struct plain_options options = { .tmp_fd = -1 };

static void a_place_is_a_path_and_perhaps_a_name_there(void **state)
{
	static const struct {
		const char *text, *path, *which;
		enum oci_transport t;
	} cases[] = {
		{ "oci:dir", "dir", NULL, OCI_LAYOUT },
		{ "oci:/a/b:docker.io/library/x:1", "/a/b", "docker.io/library/x:1", OCI_LAYOUT },
		{ "oci-archive:x.tar:@3", "x.tar", "@3", OCI_ARCHIVE },
		{ "docker-archive:../x.tar.gz:x:1", "../x.tar.gz", "x:1", OCI_DOCKER_ARCHIVE },
		{ "oci/dir:1", NULL, NULL, OCI_REGISTRY },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_call(oci_name_done) struct oci_name n = OCI_NAME_INIT;
		struct mlr_error err = MLR_ERROR_INIT;

		assert_int_equal(oci_name_parse(cases[i].text, &n, &err), 0);
		assert_int_equal(n.transport, cases[i].t);
		if (!cases[i].path) {
			assert_string_equal(n.ref.repository, "oci/dir");
			continue;
		}
		assert_string_equal(n.path, cases[i].path);
		if (cases[i].which)
			assert_string_equal(n.which, cases[i].which);
		else
			assert_null(n.which);
		auto_free char *again = oci_name_print(&n);

		assert_string_equal(again, cases[i].text);
	}
}

static void what_a_file_says_becomes_a_name(void **state)
{
	static const struct {
		enum oci_transport t;
		const char *path, *said, *name;
	} cases[] = {
		{ OCI_LAYOUT, "/x/lay", NULL, "localhost/lay:latest" },
		{ OCI_LAYOUT, "/x/lay/", "1.0", "localhost/lay:1.0" },
		{ OCI_LAYOUT, "/x/lay", "debian:12", "localhost/debian:12" },
		{ OCI_LAYOUT, "/x/lay", "quay.io/a/b", "quay.io/a/b:latest" },
		{ OCI_LAYOUT, "/x/lay", "a b", "localhost/lay:latest" },
		{ OCI_LAYOUT, "/x/lay", "UPPER/case:1", "localhost/lay:latest" },
		{ OCI_LAYOUT, "/", NULL, "localhost/image:latest" },
		{ OCI_LAYOUT, "/x/--__..", NULL, "localhost/image:latest" },
		{ OCI_ARCHIVE, "/x/My App v2.TAR.GZ", NULL, "localhost/my-app-v2:latest" },
		{ OCI_ARCHIVE, "a.b_c--d.tgz", NULL, "localhost/a.b_c-d:latest" },
		{ OCI_ARCHIVE, ".tar", NULL, "localhost/tar:latest" },
		{ OCI_DOCKER_ARCHIVE, "x.tar", "debian:12", "docker.io/library/debian:12" },
		{ OCI_DOCKER_ARCHIVE, "x.tar", "mine", "docker.io/library/mine:latest" },
		{ OCI_DOCKER_ARCHIVE, "x.tar", "localhost/a:1", "localhost/a:1" },
		{ OCI_DOCKER_ARCHIVE, "x.tar", NULL, "localhost/x:latest" },
		{ OCI_DOCKER_ARCHIVE, "x.tar", "<none>:<none>", "localhost/x:latest" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_call(oci_ref_done) struct oci_ref ref = { 0 };

		oci_name_stored(cases[i].t, cases[i].path, cases[i].said, &ref);
		auto_free char *name = oci_ref_canonical(&ref);

		assert_string_equal(name, cases[i].name);
	}
}

static void a_local_name_is_what_was_typed_without_a_registry(void **state)
{
	static const struct {
		const char *text, *name;
	} cases[] = {
		{ "mine", "localhost/mine:latest" },
		{ "team/mine:2", "localhost/team/mine:2" },
		{ "library/mine", "localhost/library/mine:latest" },
		{ "docker.io/mine", "docker.io/library/mine:latest" },
		{ "localhost/mine", "localhost/mine:latest" },
		{ "docker://mine", "localhost/mine:latest" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_call(oci_ref_done) struct oci_ref ref = { 0 };

		assert_int_equal(oci_ref_parse_local(cases[i].text, &ref, NULL), 0);
		auto_free char *name = oci_ref_canonical(&ref);

		assert_string_equal(name, cases[i].name);
	}
}

static void malformed_lists_of_saved_images_are_refused(void **state)
{
	static const char *const bad[] = { "", "{}", "[]", "[7]", "[{}]", "[{\"Config\":\"\"}]",
		"[{\"Config\":7}]", "[{\"Config\":\"c\",\"Layers\":{}}]",
		"[{\"Config\":\"c\",\"Layers\":[null]}]", "[{\"Config\":\"c\",\"RepoTags\":\"x\"}]",
		"[{\"Config\":\"c\",\"Config\":\"d\"}]", "[{\"Config\":\"c\"}] x" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct mlr_error err = MLR_ERROR_INIT;
		struct oci_save s = { 0 };

		assert_int_equal(oci_save_parse(bad[i], strlen(bad[i]), &s, &err), -EPROTO);
		assert_int_equal(s.n, 0);
	}
}

static int count(void *ctx, const void *buf, size_t len, struct mlr_error *err)
{
	*(uint64_t *)ctx += len;
	return 0;
}

/* Zeros of that size, compressed, in a file. */
static int zeros(uint64_t size)
{
	int fd = temp_open(-1, NULL);
	ZSTD_CCtx *z = ZSTD_createCCtx();
	auto_free char *in = xcalloc(1, 1 << 20), *out = xmalloc(1 << 20);
	size_t left = 1;

	assert_true(fd >= 0);
	for (uint64_t done = 0; done < size || left > 0;) {
		size_t n = size - done < 1 << 20 ? (size_t)(size - done) : 1 << 20;
		ZSTD_inBuffer i = { in, n, 0 };
		ZSTD_outBuffer o = { out, 1 << 20, 0 };

		left = ZSTD_compressStream2(
			z, &o, &i, done + n == size ? ZSTD_e_end : ZSTD_e_continue);
		assert_int_equal(file_write_all(fd, out, o.pos), 0);
		done += i.pos;
	}
	ZSTD_freeCCtx(z);
	return fd;
}

static void a_gigabyte_of_zeros_comes_out_whole(void **state)
{
	const uint64_t size = (1ull << 30) + (8u << 20);
	auto_close int fd = zeros(size);
	struct mlr_error err = MLR_ERROR_INIT;
	uint64_t got = 0;

	assert_int_equal(
		plain_stream(fd, 0, (uint64_t)lseek(fd, 0, SEEK_END), &options, count, &got, &err),
		0);
	assert_true(got == size);
}

static int yes(void *ctx)
{
	return 1;
}

static void decompressing_can_be_cancelled(void **state)
{
	auto_close int fd = zeros(4u << 20);
	struct plain_options opt = { .tmp_fd = -1, .cancelled = yes };
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(plain_open(fd, &opt, &err), -ECANCELED);
}

/* An archive of n members called by number, so many digits wide. */
static int many(size_t n, int width)
{
	int fd = temp_open(-1, NULL);
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	char name[1000];

	assert_true(fd >= 0);
	archive_write_set_format_pax_restricted(a);
	assert_int_equal(archive_write_open_fd(a, fd), ARCHIVE_OK);
	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "%0*zx", width, i);
		archive_entry_clear(e);
		archive_entry_set_pathname(e, name);
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_perm(e, 0644);
		archive_entry_set_size(e, 0);
		assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
	}
	archive_entry_free(e);
	assert_int_equal(archive_write_close(a), ARCHIVE_OK);
	archive_write_free(a);
	return fd;
}

static void an_archive_with_too_many_members_or_names_is_refused(void **state)
{
	auto_close int few = many(FILES_MEMBERS_MAX, 1), more = many(FILES_MEMBERS_MAX + 1, 1),
		       wide = many(FILES_NAMES_MAX / 500 + 1, 500);
	auto_call(files_cleanup) struct files *f = NULL, *g = NULL;
	auto_call(files_part_done) struct files_part p = FILES_PART_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(files_open_fd(few, &options, &f, &err), 0);
	assert_int_equal(files_find(f, "./ffff", &p, &err), 0);
	assert_int_equal(files_find(f, "10000", &p, &err), -ENOENT);
	assert_int_equal(files_open_fd(more, &options, &g, &err), -EFBIG);
	assert_int_equal(files_open_fd(wide, &options, &g, &err), -EFBIG);
	assert_null(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_is_a_path_and_perhaps_a_name_there),
		cmocka_unit_test(what_a_file_says_becomes_a_name),
		cmocka_unit_test(a_local_name_is_what_was_typed_without_a_registry),
		cmocka_unit_test(malformed_lists_of_saved_images_are_refused),
		cmocka_unit_test(a_gigabyte_of_zeros_comes_out_whole),
		cmocka_unit_test(decompressing_can_be_cancelled),
		cmocka_unit_test(an_archive_with_too_many_members_or_names_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
