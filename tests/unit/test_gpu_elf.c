#include "unit.h"
#include "elf_file.h"
#include "gpu/elf.h"

#include <elf.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <sys/resource.h>

static char dir[] = "/tmp/mlr-test-elf.XXXXXX";
static char path[sizeof(dir) + 16];

static int make(void **state)
{
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/lib.so", dir);
	return 0;
}

static int remove_all(void **state)
{
	return file_remove_tree(AT_FDCWD, dir, NULL);
}

static int write_and_open(const struct elf_file *f)
{
	elf_file_write(path, f);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void assert_version(const struct gpu_version *v, const char *want)
{
	char text[GPU_VERSION_TEXT];

	assert_string_equal(gpu_version_print(v, text), want);
}

static const char *const needed[] = { "libnvidia-glcore.so.535.104.05", "libc.so.6", NULL };
static const char *const versions[] = { "GLIBC_2.3.4", "GLIBC_2.27", "GLIBC_PRIVATE", "GLIBC_2.4",
	"GLIBC_ABI_DT_RELR", NULL };
static const char *const defines[] = { "libx.so.1", "GLIBC_2.2.5", "GLIBC_2.36", "GLIBC_2.9",
	NULL };

static void check_all_that_a_library_says(int bits)
{
	const struct elf_file f = { .bits = bits,
		.soname = "libGLX_nvidia.so.0",
		.needed = needed,
		.versions = versions,
		.defines = defines };
	auto_close int fd = write_and_open(&f);
	auto_call(gpu_elf_done) struct gpu_elf e = { 0 };

	assert_int_equal(gpu_elf_read(fd, &e), 0);
	assert_int_equal(e.bits, bits);
	assert_string_equal(e.soname, "libGLX_nvidia.so.0");
	assert_int_equal(e.needed.n, 2);
	assert_string_equal(e.needed.v[0], needed[0]);
	assert_string_equal(e.needed.v[1], needed[1]);
	assert_version(&e.glibc, "2.27");
	assert_version(&e.defines, "2.36");
}

static void a_64_bit_library_says_its_name_its_needs_and_its_newest_versions(void **state)
{
	check_all_that_a_library_says(64);
}

static void a_32_bit_library_says_the_same(void **state)
{
	check_all_that_a_library_says(32);
}

static void a_library_that_says_nothing_is_one_still(void **state)
{
	const struct elf_file f = { .bits = 64 };
	auto_close int fd = write_and_open(&f);
	auto_call(gpu_elf_done) struct gpu_elf e = { 0 };

	assert_int_equal(gpu_elf_read(fd, &e), 0);
	assert_null(e.soname);
	assert_int_equal(e.needed.n, 0);
	assert_false(gpu_version_is_known(&e.glibc));
	assert_false(gpu_version_is_known(&e.defines));
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size;
	if (!strstr(info->dlpi_name, "/libc.so.6"))
		return 0;
	snprintf(ctx, PATH_MAX, "%s", info->dlpi_name);
	return 1;
}

static void the_c_library_defines_the_version_that_it_is(void **state)
{
	char name[PATH_MAX];
	auto_close int fd = -1;
	auto_call(gpu_elf_done) struct gpu_elf e = { 0 };

	assert_true(dl_iterate_phdr(find_libc, name));
	fd = open(name, O_RDONLY | O_CLOEXEC);
	assert_int_equal(gpu_elf_read(fd, &e), 0);
	assert_string_equal(e.soname, "libc.so.6");
	assert_version(&e.defines, gnu_get_libc_version());
}

static void notes_are_found_by_section_and_owner(void **state)
{
	const struct elf_file f = { .note_section = ".note.cuda.fwd_compatibility",
		.note_owner = "NVIDIA Corporation",
		.note = "{\"cuda\":\"12.4\"}" };
	auto_close int fd = write_and_open(&f);
	auto_free char *note = NULL;

	assert_int_equal(gpu_elf_note(fd, f.note_section, f.note_owner, 64, &note), 0);
	assert_string_equal(note, f.note);
	assert_int_equal(gpu_elf_note(fd, ".note.other", f.note_owner, 64, &note), -ENOENT);
	assert_int_equal(gpu_elf_note(fd, f.note_section, "NVIDIA", 64, &note), -ENOENT);
	assert_int_equal(gpu_elf_note(fd, f.note_section, f.note_owner, strlen(f.note) - 1, &note),
		-ENOEXEC);
}

static void what_is_no_library_is_refused(void **state)
{
	static const char *const texts[] = { "", "#!/bin/sh\n", "\177ELF", "!<arch>\n",
		"\177ELF\2\2\1\0\0\0\0\0\0\0\0\0\0\3\0\x3e" };
	auto_call(gpu_elf_done) struct gpu_elf e = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		auto_close int fd = -1;

		assert_int_equal(
			file_replace(AT_FDCWD, path, texts[i], strlen(texts[i]), 0644, NULL), 0);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_int_equal(gpu_elf_read(fd, &e), -ENOEXEC);
	}
}

/* Wherever it ends: never a step beyond the end, which the sanitizers watch, and no half value. */
static void a_library_that_is_cut_short_harms_nobody(void **state)
{
	const struct elf_file f = { .soname = "libcuda.so.1",
		.needed = needed,
		.versions = versions,
		.note_section = ".note.x",
		.note_owner = "x",
		.note = "text" };
	auto_free char *data = NULL, *note = NULL;
	size_t len;
	unsigned refused = 0;

	elf_file_write(path, &f);
	assert_int_equal(file_read(AT_FDCWD, path, 1 << 20, &data, &len, NULL), 0);
	for (size_t n = 0; n < len; n += n < 64 ? 1 : 7) {
		auto_call(gpu_elf_done) struct gpu_elf e = { 0 };
		auto_close int fd = -1;

		assert_int_equal(truncate(path, 0), 0);
		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_int_equal(file_write_all(fd, data, n), 0);
		refused += gpu_elf_read(fd, &e) == -ENOEXEC;
		if (gpu_elf_note(fd, ".note.x", "x", 64, &note) == 0)
			free(take_ptr(&note));
	}
	assert_true(refused > 64);
}

/* The library of a test, in a sparse file of 1 GiB. */
static void make_large(const struct elf_file *f, Elf64_Ehdr *head)
{
	auto_close int fd = write_and_open(f);

	assert_int_equal(truncate(path, 1 << 30), 0);
	assert_int_equal(pread(fd, head, sizeof(*head), 0), sizeof(*head));
}

static void put(const void *data, size_t size, uint64_t at)
{
	auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_int_equal(pwrite(fd, data, size, (off_t)at), size);
}

/* Let a header say, there, that what it speaks of has 900 MiB. */
static void put_size(uint64_t at)
{
	const uint64_t size = 900 << 20;

	put(&size, sizeof(size), at);
}

/* Everything that is read of a library takes some MiB, whatever its headers say. */
static void read_all(const char *section)
{
	auto_call(gpu_elf_done) struct gpu_elf e = { 0 };
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	auto_free char *note = NULL;
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	gpu_elf_read(fd, &e);
	gpu_elf_note(fd, section, "x", 64, &note);
	getrusage(RUSAGE_SELF, &after);
	assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, 100 << 10);
}

static const struct elf_file with_all = { .soname = "libcuda.so.1",
	.needed = needed,
	.versions = versions,
	.note_section = ".note.x",
	.note_owner = "y",
	.note = "text" };

static void large_segments_are_not_read_as_a_whole(void **state)
{
	Elf64_Ehdr head;

	make_large(&with_all, &head);
	for (unsigned i = 0; i < head.e_phnum; i++)
		put_size(head.e_phoff + i * sizeof(Elf64_Phdr) + offsetof(Elf64_Phdr, p_filesz));
	read_all(".note.x");
}

static void large_sections_are_not_read_as_a_whole(void **state)
{
	Elf64_Ehdr head;

	make_large(&with_all, &head);
	for (unsigned i = 1; i < head.e_shnum; i++)
		put_size(head.e_shoff + i * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size));
	read_all(".note.x");
}

/* The number would stand in the first section: ten million. */
static void sections_without_number_do_not_count(void **state)
{
	const Elf64_Shdr first = { .sh_size = 10000000 };
	auto_close int fd = -1;
	auto_free char *note = NULL;
	Elf64_Ehdr head;

	make_large(&with_all, &head);
	head.e_shnum = 0;
	put(&head, sizeof(head), 0);
	put(&first, sizeof(first), head.e_shoff);
	read_all(".note.x");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(gpu_elf_note(fd, ".note.x", "x", 4096, &note), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_64_bit_library_says_its_name_its_needs_and_its_newest_versions),
		cmocka_unit_test(a_32_bit_library_says_the_same),
		cmocka_unit_test(a_library_that_says_nothing_is_one_still),
		cmocka_unit_test(the_c_library_defines_the_version_that_it_is),
		cmocka_unit_test(notes_are_found_by_section_and_owner),
		cmocka_unit_test(what_is_no_library_is_refused),
		cmocka_unit_test(a_library_that_is_cut_short_harms_nobody),
		cmocka_unit_test(large_segments_are_not_read_as_a_whole),
		cmocka_unit_test(large_sections_are_not_read_as_a_whole),
		cmocka_unit_test(sections_without_number_do_not_count),
	};

	return cmocka_run_group_tests(tests, make, remove_all);
}
