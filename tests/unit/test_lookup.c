#include "unit.h"
#include "layer/path.h"
#include "rootfs/lookup.h"

#include <sys/wait.h>

static char dir[] = "/tmp/mlr-test-lookup.XXXXXX";

static void put(const char *name, const char *text)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	char *slash = strrchr(path, '/');

	*slash = '\0';
	assert_int_equal(file_mkdir_p(AT_FDCWD, path, 0755, NULL), 0);
	*slash = '/';
	assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), 0644, NULL), 0);
}

static int open_dir(const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);

	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void link_at(const char *text, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);

	assert_int_equal(symlink(text, path), 0);
}

/* Two trees, "up" over "low". */
static int make(void **state)
{
	struct plan *p = xcalloc(1, sizeof(*p));

	assert_non_null(mkdtemp(dir));
	put("low/etc/passwd", "low passwd");
	put("low/etc/group", "low group");
	put("low/etc/shadow", "low shadow");
	put("low/opaque/below", "hidden");
	put("low/gone/file", "hidden");
	put("low/plain/file", "hidden by a file");
	put("low/usr/share/real", "at the end of links");
	put("up/etc/group", "up group");
	put("up/opaque/above", "seen");
	put("up/plain", "a file");
	put("outside", "not the image's");

	auto_close int etc = open_dir("up/etc"), up = open_dir("up");

	assert_int_equal(layer_whiteout_make(etc, "shadow", NULL), 0);
	assert_int_equal(layer_whiteout_make(up, "gone", NULL), 0);
	assert_int_equal(layer_opaque_set(up, "opaque", NULL), 0);
	link_at("../usr/share", "up/etc/rel");
	link_at("/etc/rel/real", "up/abs");
	link_at("../../../../../../outside", "up/out");
	link_at("loop", "up/loop");
	assert_int_equal(mkfifoat(up, "fifo", 0644), 0);

	strv_addf(&p->lowers, "%s/up", dir);
	strv_addf(&p->lowers, "%s/low", dir);
	*state = p;
	return 0;
}

static int unmake(void **state)
{
	plan_done(*state);
	free(*state);
	return file_remove_tree(AT_FDCWD, dir, NULL);
}

static void reads(const struct plan *p, const char *path, const char *text)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *got = NULL;

	if (rootfs_read(p, path, 100, &got, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(got, text);
}

static void lacks(const struct plan *p, const char *path, int code)
{
	auto_free char *got = NULL;

	assert_int_equal(rootfs_read(p, path, 100, &got, NULL), -code);
	assert_null(got);
}

static void the_topmost_tree_that_has_a_file_wins(void **state)
{
	reads(*state, "/etc/passwd", "low passwd");
	reads(*state, "/etc/group", "up group");
	reads(*state, "/etc/../etc/./group", "up group");
	reads(*state, "/plain", "a file");
	lacks(*state, "/plain/file", ENOENT);
	lacks(*state, "/etc/none", ENOENT);
	lacks(*state, "/etc", ENOENT); /* no file */
}

static void whiteouts_and_opaque_directories_hide_what_is_below(void **state)
{
	lacks(*state, "/etc/shadow", ENOENT);
	lacks(*state, "/gone/file", ENOENT);
	lacks(*state, "/opaque/below", ENOENT);
	reads(*state, "/opaque/above", "seen");
}

static void links_are_followed_inside_and_never_out(void **state)
{
	reads(*state, "/etc/rel/real", "at the end of links");
	reads(*state, "/abs", "at the end of links");
	lacks(*state, "/out", ENOENT);
	lacks(*state, "/loop", ELOOP);
}

static void a_regular_file_is_opened_for_reading_and_nothing_else_is(void **state)
{
	auto_close int fd = rootfs_open(*state, "/abs");
	char text[32];

	assert_int_equal(fcntl(fd, F_GETFL) & (O_ACCMODE | O_PATH), O_RDONLY);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text)), strlen("at the end of links"));
	assert_int_equal(rootfs_open(*state, "/etc"), -ENOENT);
	assert_int_equal(rootfs_open(*state, "/etc/shadow"), -ENOENT);
	assert_int_equal(rootfs_open(*state, "/fifo"), -ENOENT);
	assert_int_equal(rootfs_open(*state, "/out"), -ENOENT);
	assert_int_equal(rootfs_open(*state, "/loop"), -ELOOP);
}

static void that_a_regular_file_is_there_is_told_without_opening_it(void **state)
{
	assert_int_equal(rootfs_has(*state, "/abs"), 0);
	assert_int_equal(rootfs_has(*state, "/etc"), -ENOENT);
	assert_int_equal(rootfs_has(*state, "/etc/shadow"), -ENOENT);
	assert_int_equal(rootfs_has(*state, "/fifo"), -ENOENT);
	assert_int_equal(rootfs_has(*state, "/out"), -ENOENT);
	assert_int_equal(rootfs_has(*state, "/loop"), -ELOOP);
}

static void lists(const struct plan *p, const char *path, const char *names)
{
	auto_strv struct strv got = STRV_INIT;
	char text[200] = "";

	assert_int_equal(rootfs_list(p, path, &got), 0);
	strv_sort(&got);
	for (size_t i = 0; i < got.n; i++) {
		strcat(text, got.v[i]);
		strcat(text, " ");
	}
	assert_string_equal(text, names);
}

static void a_directory_has_the_names_of_all_trees_but_what_is_hidden(void **state)
{
	auto_strv struct strv none = STRV_INIT;

	lists(*state, "/etc", "group passwd rel ");
	lists(*state, "/opaque", "above ");
	lists(*state, "/etc/rel", "real ");
	lists(*state, "/", "abs etc fifo loop opaque out plain usr ");
	assert_int_equal(rootfs_list(*state, "/gone", &none), -ENOENT);
	assert_int_equal(rootfs_list(*state, "/plain", &none), -ENOTDIR);
	assert_int_equal(none.n, 0);
}

static void fill(const char *name, int from, int to)
{
	auto_close int d = -1;
	auto_free char *path = xasprintf("%s/%s", dir, name);

	assert_int_equal(mkdir(path, 0755), 0);
	d = open_dir(name);
	for (int i = from; i < to; i++) {
		char file[16];

		snprintf(file, sizeof(file), "f%d", i);
		assert_int_equal(mknodat(d, file, S_IFREG | 0644, 0), 0);
	}
}

/* Comparing each with each takes half a second. */
static void many_names_are_listed_once_each(void **state)
{
	auto_strv struct strv got = STRV_INIT;

	fill("up/many", 0, 10000);
	fill("low/many", 5000, 15000);
	assert_int_equal(rootfs_list(*state, "/many", &got), 0);
	assert_int_equal(got.n, 15000);
}

/* A named container's own layer is above the image's. */
static void what_a_named_container_has_written_counts(void **state)
{
	struct plan p = *(struct plan *)*state;
	auto_free char *kept = xasprintf("%s/kept", dir);

	put("kept/upper/etc/passwd", "kept passwd");
	put("kept/upper/etc/new", "");
	p.kept = kept;
	reads(&p, "/etc/passwd", "kept passwd");
	lists(&p, "/etc", "group new passwd rel ");
	reads(*state, "/etc/passwd", "low passwd");
}

static void a_squashfs_file_has_no_files_to_open(void **state)
{
	auto_call(plan_done) struct plan p;

	plan_init(&p);
	p.squashfs = xstrdup("/x.sqfs");
	assert_int_equal(rootfs_lookup(&p, "/etc/passwd", NULL), -ENOTSUP);
	rootfs_expect_open(&p, "/etc/passwd"); /* what fails is told when it is asked */
	assert_int_equal(rootfs_open(&p, "/etc/passwd"), -ENOENT); /* there is no /x.sqfs */
	assert_int_equal(rootfs_has(&p, "/etc/passwd"), -ENOENT);
}

static const char *program; /* another than mlrun's own; NULL */
static int started;

/* The build tree's, which lies elsewhere than beside this program. */
char *__wrap_program_path(const char *name);
char *__wrap_program_path(const char *name)
{
	const char *top = getenv("top_builddir");

	started++;
	return program ? xstrdup(program) : xasprintf("%s/bin/%s", top ? top : ".", name);
}

/* As where a hostile image takes all the time that it may have: once. */
static void a_squashfs_file_for_which_nobody_answers_is_asked_once(void **state)
{
	auto_call(plan_done) struct plan p;

	plan_init(&p);
	p.squashfs = xasprintf("%s/low/etc/passwd", dir);
	program = "/bin/false";
	started = 0;
	rootfs_expect_open(&p, "/a");
	assert_int_equal(rootfs_open(&p, "/a"), -EIO);
	assert_int_equal(rootfs_open(&p, "/b"), -EIO);
	assert_int_equal(rootfs_list(&p, "/", NULL), -EIO);
	assert_int_equal(started, 1);
	rootfs_look_done();
	assert_int_equal(rootfs_has(&p, "/a"), -EIO);
	assert_int_equal(started, 2);
	rootfs_look_done();
	program = NULL;
}

static void is_like(int fd, const struct plan *p, const char *path)
{
	auto_free char *want = NULL;
	auto_close int given = fd;
	char got[4096];
	ssize_t n = pread(given, got, sizeof(got), 0);

	assert_int_equal(rootfs_read(p, path, sizeof(got), &want, NULL), 0);
	assert_true(n > 1000);
	assert_memory_equal(got, want, (size_t)n);
}

/* A file "a" and a directory "b", in which "c" is a link to it. */
static void what_was_expected_of_a_squashfs_file_is_answered_in_any_order(void **state)
{
	const char *top = getenv("top_srcdir");
	auto_call(plan_done) struct plan p;

	plan_init(&p);
	p.squashfs = xasprintf("%s/tests/fuzz/corpus/squashfs/look", top ? top : ".");
	if (access(p.squashfs, R_OK) < 0 || rootfs_has(&p, "/a") == -ENOTSUP) {
		print_message("top_srcdir is not set, or mlrun-squashfuse is not built\n");
		return;
	}
	rootfs_expect_list(&p, "/b");
	rootfs_expect_open(&p, "/none");
	rootfs_expect_open(&p, "//a");
	rootfs_expect_list(&p, "/a");
	rootfs_expect_open(&p, "/b/c");
	is_like(rootfs_open(&p, "/a"), &p, "/b/c");
	assert_int_equal(rootfs_has(&p, "/b"), -ENOENT); /* which nobody has expected */
	lists(&p, "/b", "c ");
	lists(&p, "/b", "c "); /* asked anew */
	is_like(rootfs_open(&p, "/b/c"), &p, "/a");
	assert_int_equal(rootfs_open(&p, "/none"), -ENOENT);
	assert_int_equal(rootfs_list(&p, "/a", NULL), -ENOTDIR);
	for (int i = 0; i < 20; i++) /* more than are heeded */
		rootfs_expect_open(&p, "/a");
	is_like(rootfs_open(&p, "/a"), &p, "/a");
	rootfs_look_done();
	is_like(rootfs_open(&p, "/a"), &p, "/a");
	rootfs_look_done();
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_topmost_tree_that_has_a_file_wins),
		cmocka_unit_test(whiteouts_and_opaque_directories_hide_what_is_below),
		cmocka_unit_test(links_are_followed_inside_and_never_out),
		cmocka_unit_test(a_regular_file_is_opened_for_reading_and_nothing_else_is),
		cmocka_unit_test(that_a_regular_file_is_there_is_told_without_opening_it),
		cmocka_unit_test(a_directory_has_the_names_of_all_trees_but_what_is_hidden),
		cmocka_unit_test(what_a_named_container_has_written_counts),
		cmocka_unit_test(many_names_are_listed_once_each),
		cmocka_unit_test(a_squashfs_file_has_no_files_to_open),
		cmocka_unit_test(a_squashfs_file_for_which_nobody_answers_is_asked_once),
		cmocka_unit_test(what_was_expected_of_a_squashfs_file_is_answered_in_any_order),
	};

	return cmocka_run_group_tests(tests, make, unmake);
}
