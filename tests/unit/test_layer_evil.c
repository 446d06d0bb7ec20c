#include "unit.h"
#include "outer.h"

/*
 * Archives that only an adversary or a broken tool writes. Each is unpacked into outer/tree:
 * nothing else in outer may change, the record must give the tar back, and the tree must be
 * removable. test_layer.c has the common cases, one by one.
 */
struct evil {
	const char *name;
	void (*make)(struct tar *t);
	int code;          /* -code is returned; 0: it is unpacked */
	const char *words; /* of the failure, or a path that the tree then has */

	/* Without a function of its own: a file of this name, with these bytes in its header, or
	 * after this pax record. */
	const char *file;
	struct {
		size_t at, n;
		const char *bytes;
	} header;
	struct {
		const char *key, *value;
		size_t n;
	} pax;
};

/* Change bytes of the last header, and correct its checksum. data: the size of what follows it. */
static void patch(struct tar *t, size_t data, size_t at, const void *bytes, size_t n)
{
	unsigned char *h = t->p + t->n - 512 - (data + 511) / 512 * 512;
	unsigned sum = 0;
	char text[8];

	memcpy(h + at, bytes, n);
	memset(h + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += h[i];
	snprintf(text, sizeof(text), "%06o", sum);
	memcpy(h + 148, text, 7);
}

#define SIZE  124, 12
#define MTIME 136, 12
#define MODE  100, 8

static void evil_make(const struct evil *e, struct tar *t)
{
	if (e->make) {
		e->make(t);
		return;
	}
	if (e->pax.key)
		tar_pax(t, e->pax.key, e->pax.value, e->pax.n);
	tar_file(t, e->file, "text");
	if (e->header.bytes)
		patch(t, 4, e->header.at, e->header.bytes, e->header.n);
}

/* --- numbers ---------------------------------------------------------------- */

static void size_of_a_directory(struct tar *t)
{
	tar_member(t, '5', "d", 0755, 1, "", "", 0, 512);
	tar_file(t, "taken for data, or not", "");
}

static void checksum_wrong(struct tar *t)
{
	tar_file(t, "e", "x");
	tar_file(t, "f", "x");
	t->p[t->n - 1024 + 148] = '7';
}

/* --- names ------------------------------------------------------------------ */

static void name_of_a_component_too_long(struct tar *t)
{
	char name[300];

	memset(name, 'n', sizeof(name));
	tar_pax(t, "path", name, sizeof(name));
	tar_file(t, "f", "x");
}

static void name_too_deep(struct tar *t)
{
	char name[2 * (LAYER_DEPTH_MAX + 1)];

	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = i % 2 ? '/' : 'd';
	tar_pax(t, "path", name, sizeof(name) - 1);
	tar_file(t, "f", "x");
}

static void name_as_deep_as_can_be(struct tar *t)
{
	char name[2 * LAYER_DEPTH_MAX];

	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = i % 2 ? '/' : 'd';
	tar_pax(t, "path", name, sizeof(name) - 1);
	tar_file(t, "f", "x");
}

static void name_of_a_megabyte(struct tar *t)
{
	auto_free char *name = xmalloc(2 << 20);

	memset(name, 'n', 2 << 20);
	tar_pax(t, "path", name, 2 << 20);
	tar_file(t, "f", "x");
}

/* --- links ------------------------------------------------------------------ */

static void link_upwards(struct tar *t)
{
	tar_link(t, '1', "f", "../outside");
}

static void link_through_a_symlink_upwards(struct tar *t)
{
	tar_link(t, '2', "s", "../..");
	tar_link(t, '1', "f", "s/outside");
}

static void link_to_a_symlink_outside_written_through(struct tar *t)
{
	tar_link(t, '2', "s", "../outside");
	tar_link(t, '1', "l", "s");
	tar_file(t, "l", "mine");
	tar_file(t, "s", "mine too");
}

static void link_to_a_directory(struct tar *t)
{
	tar_dir(t, "d", 0755, 1);
	tar_link(t, '1', "f", "d");
}

static void link_to_a_whiteout(struct tar *t)
{
	tar_file(t, "d/.wh.gone", "");
	tar_link(t, '1', "f", "d/gone");
}

static void symlink_exchanged_for_a_directory_between_members(struct tar *t)
{
	tar_dir(t, "d", 0755, 1);
	tar_file(t, "d/a", "1");
	tar_link(t, '2', "d", "../target");
	tar_file(t, "d/outside", "would be in target");
	tar_link(t, '2', "d", "/proc/self/cwd");
	tar_file(t, "d/b", "3");
}

static void symlink_as_long_as_a_path(struct tar *t)
{
	char to[PATH_MAX];

	memset(to, 'x', sizeof(to));
	tar_pax(t, "linkpath", to, sizeof(to));
	tar_link(t, '2', "s", "x");
}

static void mode_of_a_symlinked_directory(struct tar *t)
{
	tar_link(t, '2', "s", "../target");
	tar_dir(t, "s/", 0, 1);
}

/* --- marks ------------------------------------------------------------------ */

static void whiteout_through_a_symlink(struct tar *t)
{
	tar_link(t, '2', "s", "../target");
	tar_file(t, "s/.wh.x", "");
	tar_file(t, "s/.wh..wh..opq", "");
}

static void whiteout_as_a_directory(struct tar *t)
{
	tar_dir(t, "d/.wh.gone", 0755, 1);
}

/* --- xattrs ----------------------------------------------------------------- */

static void xattr_too_large(struct tar *t)
{
	auto_free char *value = xmalloc(100000);

	memset(value, 'v', 100000);
	tar_pax(t, "SCHILY.xattr.user.big", value, 100000);
	tar_file(t, "f", "x");
}

/* --- structure -------------------------------------------------------------- */

static void pax_header_that_lies_about_its_length(struct tar *t)
{
	tar_member(t, 'x', "pax", 0644, 1, "", "9999 path=../../x\n", 18, 18);
	tar_file(t, "f", "x");
}

static void pax_header_without_a_member(struct tar *t)
{
	tar_pax(t, "path", "x", 1);
}

static void sparse_map_out_of_order(struct tar *t)
{
	tar_pax(t, "GNU.sparse.map", "100,4,0,4", 9);
	tar_pax(t, "GNU.sparse.size", "200", 3);
	tar_file(t, "f", "textmore");
}

/* libarchive turns four bytes of the map into forty-eight of memory. */
static void sparse_map_of_millions(struct tar *t)
{
	static const char pax[] = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n"
				  "26 GNU.sparse.realsize=10\n";
	size_t n = 2 << 20;
	auto_free char *map = xmalloc(8 + 4 * n);

	snprintf(map, 9, "%07zu\n", n);
	for (size_t i = 0; i < n; i++)
		memcpy(map + 8 + 4 * i, "0\n0\n", 4);
	tar_member(t, 'x', "pax", 0644, 1, "", pax, sizeof(pax) - 1, sizeof(pax) - 1);
	tar_member(t, '0', "f", 0644, 1, "", map, 8 + 4 * n, 8 + 4 * n);
}

static void old_sparse_map_of_millions(struct tar *t)
{
	char block[512] = { 0 };

	tar_member(t, 'S', "f", 0644, 1, "", "", 0, 0);
	patch(t, 0, 257, "ustar  ", 8);
	patch(t, 0, 386, "00000000000 00000000000 ", 24);
	patch(t, 0, 482, "\1", 1); /* more of the map follows */
	patch(t, 0, 483, "00000000012", 12);
	for (size_t i = 0; i < 21; i++)
		memcpy(block + 24 * i, "00000000000 00000000000 ", 24);
	block[504] = 1;
	for (size_t i = 0; i < 6 << 20; i += sizeof(block))
		tar_bytes(t, block, sizeof(block));
}

static void headers_without_end(struct tar *t)
{
	auto_free char *value = xcalloc(1, 900000);

	memset(value, 'v', 900000);
	for (int i = 0; i < 8; i++)
		tar_pax(t, "SCHILY.xattr.user.x", value, 900000);
	tar_file(t, "f", "x");
}

/* Skipped data do not count as headers. */
static void whiteout_with_megabytes(struct tar *t)
{
	auto_free char *data = xcalloc(1, 6 << 20);

	tar_member(t, '0', "d/.wh.gone", 0644, 1, "", data, 6 << 20, 6 << 20);
	tar_file(t, "f", "x");
}

static void kind_of_member_unknown(struct tar *t)
{
	tar_member(t, 'Z', "f", 0644, 1, "", "x", 1, 1);
}

#define MADE(f) #f, f

static const struct evil evils[] = {
	{ "size_negative", NULL, EPROTO, "", "f",
		{ SIZE, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfb" } },
	{ "size_of_exabytes", NULL, EPROTO, "overflow", "f",
		{ SIZE, "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff" } },
	{ "size_beyond_64_bits", NULL, EPROTO, "overflow", "f",
		{ SIZE, "\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" } },
	{ "size_of_letters", NULL, EPROTO, "", "f", { SIZE, "zzzzzzzzzzz" } },
	{ MADE(size_of_a_directory), 0, "d" },
	{ "pax_size_not_a_number", NULL, 0, "f", "f", .pax = { "size", "12x", 3 } },
	{ "pax_size_of_exabytes", NULL, EPROTO, "overflow", "f",
		.pax = { "size", "9223372036854775807", 19 } },
	{ "pax_size_too_long", NULL, EPROTO, "overflow", "f",
		.pax = { "size", "99999999999999999999999999", 26 } },
	{ "time_beyond_all_ages", NULL, 0, "f", "f",
		{ MTIME, "\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff" } },
	{ "time_before_all_ages", NULL, 0, "f", "f",
		{ MTIME, "\xff\xff\xff\xff\x80\0\0\0\0\0\0\0" } },
	{ "time_of_nonsense", NULL, 0, "f", "f",
		.pax = { "mtime", "-9999999999999999999.99999999999999", 35 } },
	{ "mode_with_every_bit", NULL, 0, "f", "f", { MODE, "7777777" } },
	{ "owner_beyond_32_bits", NULL, 0, "f", "f", .pax = { "uid", "99999999999999", 14 } },
	{ MADE(checksum_wrong), EPROTO, "broken tar" },
	{ "name_with_control_characters", NULL, 0, "d\n/\x1b[2J\x7f\t", "d\n/\x1b[2J\x7f\t" },
	{ "name_that_is_no_utf8", NULL, 0, "\xff\xfe/\xc0\xaf", "f",
		.pax = { "path", "\xff\xfe/\xc0\xaf", 5 } },
	{ "name_with_a_nul", NULL, 0, "a", "f", .pax = { "path", "a\0/../../b", 10 } },
	{ "name_with_two_dots", NULL, EPROTO, "'a/../../outside': a path with '..'",
		"a/../../outside" },
	{ "name_of_nothing", NULL, EPROTO, "a member without a name", "" },
	{ "name_of_dots_and_slashes", NULL, 0, "a/b", "//.//./a/.//b" },
	{ MADE(name_of_a_component_too_long), ENAMETOOLONG, "File name too long" },
	{ MADE(name_too_deep), ENAMETOOLONG, "deeper than 256" },
	{ MADE(name_as_deep_as_can_be), 0, "d/d/d" },
	{ MADE(name_of_a_megabyte), EPROTO, "" },
	{ MADE(link_upwards), EPROTO, "a path with '..'" },
	{ MADE(link_through_a_symlink_upwards), EPROTO, "which this layer does not have" },
	{ MADE(link_to_a_symlink_outside_written_through), 0, "l" },
	{ MADE(link_to_a_directory), EPROTO, "which is not a file" },
	{ MADE(link_to_a_whiteout), EPROTO, "which is not a file" },
	{ MADE(symlink_exchanged_for_a_directory_between_members), 0, "target/outside" },
	{ MADE(symlink_as_long_as_a_path), EPROTO, "where 4095 are the most" },
	{ MADE(mode_of_a_symlinked_directory), 0, "s" },
	{ "whiteout_of_nothing", NULL, EPROTO, "a whiteout of no name", ".wh." },
	{ "whiteout_of_itself", NULL, EPROTO, "a whiteout of no name", ".wh.." },
	{ "whiteout_of_the_parent", NULL, EPROTO, "a whiteout of no name", ".wh..." },
	{ "whiteout_of_a_parent", NULL, EPROTO, "a whiteout of no name", "d/.wh..." },
	{ MADE(whiteout_through_a_symlink), 0, "target" },
	{ MADE(whiteout_as_a_directory), 0, "d/gone" },
	{ MADE(xattr_too_large), 0, "f" },
	{ "xattr_without_a_name", NULL, 0, "f", "f", .pax = { "SCHILY.xattr.", "v", 1 } },
	{ "xattr_of_capabilities", NULL, 0, "f", "f",
		.pax = { "SCHILY.xattr.security.capability", "\1\0\0\2\0\4\0\0", 8 } },
	{ MADE(pax_header_that_lies_about_its_length), 0, "f" },
	{ MADE(pax_header_without_a_member), EPROTO, "" },
	{ MADE(sparse_map_out_of_order), 0, "f" },
	{ "sparse_map_beyond_the_size", NULL, EPROTO, "", "f",
		.pax = { "GNU.sparse.map", "9223372036854775000,4", 21 } },
	{ "sparse_file_of_exabytes", NULL, EFBIG, "its files are larger than", "f",
		.pax = { "GNU.sparse.realsize", "9223372036854775807", 19 } },
	{ MADE(sparse_map_of_millions), EFBIG, "map of holes" },
	{ MADE(old_sparse_map_of_millions), EFBIG, "map of holes" },
	{ MADE(headers_without_end), EFBIG, "bytes of headers" },
	{ MADE(whiteout_with_megabytes), 0, "f" },
	{ MADE(kind_of_member_unknown), 0, "f" },
};

static void try(const struct evil *e)
{
	auto_tar struct tar t = { 0 };
	struct stat sb;
	int r;

	start_again();
	trying = e->name;
	evil_make(e, &t);
	tar_end(&t);
	r = unpack_as(&t, OCI_PLAIN);
	if (r != -e->code || (r < 0 && !strstr(err.text, e->words)))
		fail_msg("%s: %d, '%s', not %d and '%s'", e->name, r, err.text, -e->code, e->words);
	if (r == 0 && fstatat(tree, e->words, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		fail_msg("%s: '%s' is not in the tree", e->name, e->words);
	if (r == 0 && S_ISREG(sb.st_mode) && (sb.st_mode & (S_ISUID | S_ISGID)))
		fail_msg("%s: a set-id bit", e->name);
}

static void nothing_evil_gets_out_of_the_tree_or_goes_unsaid(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(evils); i++)
		try(&evils[i]);
}

/* An archive cut at any place is refused, or accepted if only its end mark is missing. */
static void an_archive_cut_at_any_place_is_refused_or_whole(void **state)
{
	auto_tar struct tar whole = { 0 };
	int taken = 0;

	tar_dir(&whole, "d", 0755, 1);
	tar_pax(&whole, "path", "d/a-name-from-pax", 17);
	tar_file(&whole, "f", "text");
	tar_link(&whole, '1', "l", "d/a-name-from-pax");
	/* By 32, so that the ends of blocks are among the places. */
	for (size_t n = 32; n <= whole.n; n += 32) {
		struct tar cut = whole;
		int r;

		cut.n = n;
		start_again();
		r = unpack_as(&cut, OCI_PLAIN);
		assert_true(r == 0 || r == -EPROTO);
		assert_true(r == 0 ? n % 512 == 0 : n < whole.n);
		taken += r == 0;
	}
	assert_true(taken > 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_evil_gets_out_of_the_tree_or_goes_unsaid),
		TEST(an_archive_cut_at_any_place_is_refused_or_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
