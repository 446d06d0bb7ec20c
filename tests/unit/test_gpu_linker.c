/* How an image's linker is made to find what a plan brings. */
#include "unit.h"
#include "elf_file.h"
#include "gpu/inject/compat.h"
#include "gpu/inject/inject.h"
#include "gpu/inject/ldcache.h"
#include "gpu/inject/linker.h"
#include "image_dir.h"

#include <sys/utsname.h>

#define CACHE "/etc/ld.so.cache"
#define CONF  "/etc/ld.so.conf.d/00-mlrun.conf"

static char root[64];
static struct plan p;
static struct gpu_ldcache cache; /* what the plan has, after link_image() */
static struct utsname machine;

static int make(void **state)
{
	uname(&machine);
	image_dir_make(root);
	plan_init(&p);
	plan_mount_add(&p, PLAN_TMPFS, NULL, GPU_LIB_DIR, PLAN_NODEV, PLAN_FROM_GPU, NULL);
	plan_library_add(&p, "libcuda.so.1", GPU_LIB_DIR "/libcuda.so.1", 64, PLAN_FROM_GPU);
	plan_library_add(&p, "libcuda.so.1", GPU_LIB32_DIR "/libcuda.so.1", 32, PLAN_FROM_GPU);
	plan_library_add(&p, "libvendor.so.2", "/opt/vendor/libvendor.so.2", 64, PLAN_FROM_CDI);
	return 0;
}

static int drop(void **state)
{
	plan_done(&p);
	gpu_ldcache_done(&cache);
	image_dir_drop(root);
	return 0;
}

static void put_libc(void)
{
	static const char *const defines[] = { "GLIBC_2.17", "GLIBC_2.31", NULL };
	auto_free char *dir = xasprintf("/lib/%s-linux-gnu", machine.machine);
	auto_free char *path = xasprintf("%s%s/libc.so.6", root, dir);
	const struct elf_file f = { .soname = "libc.so.6", .defines = defines };

	image_dir_mkdir(root, dir);
	elf_file_write(path, &f);
}

static void put_cache(const struct gpu_ldcache *c)
{
	auto_free char *bytes = NULL, *path = xasprintf("%s" CACHE, root);
	size_t n = gpu_ldcache_print(c, &bytes);

	image_dir_mkdir(root, "/etc");
	assert_int_equal(file_replace(AT_FDCWD, path, bytes, n, 0644, NULL), 0);
}

static const struct plan_mount *file_at(const char *target)
{
	for (size_t i = 0; i < p.n_mounts; i++)
		if (p.mounts[i].kind == PLAN_FILE && strcmp(p.mounts[i].target, target) == 0)
			return &p.mounts[i];
	return NULL;
}

static void link_in(const char *where)
{
	const struct gpu_image image = image_dir(where);
	struct mlr_error err = MLR_ERROR_INIT;
	const struct plan_mount *f;

	if (gpu_link(&image, &p, &err) < 0)
		fail_msg("%s", err.text);
	f = file_at(CACHE);
	gpu_ldcache_done(&cache);
	if (f && gpu_ldcache_parse(f->text, f->text_size, &cache, &err) < 0)
		fail_msg("%s", err.text);
}

/* The only entry of a name and bits; NULL: there is none. */
static const struct gpu_ldcache_entry *entry(const char *name, int bits)
{
	const struct gpu_ldcache_entry *found = NULL;

	for (size_t i = 0; i < cache.n; i++)
		if (strcmp(cache.v[i].name, name) == 0 && gpu_ldcache_fits(&cache.v[i], bits) &&
			!cache.v[i].hwcaps) {
			assert_null(found);
			found = &cache.v[i];
		}
	return found;
}

static const char *variable(void)
{
	const char *v = plan_env_get(&p, "LD_LIBRARY_PATH");

	return v ? v : "";
}

static int is_told(const char *words)
{
	for (size_t i = 0; i < p.n_remarks; i++)
		if (strstr(p.remarks[i].text, words))
			return 1;
	return 0;
}

static void the_images_entries_stay_but_for_those_of_our_names(void **state)
{
	auto_call(gpu_ldcache_done) struct gpu_ldcache own = { 0 };

	put_libc();
	gpu_ldcache_add(&own, "libcuda.so.1", "/usr/lib/stale/libcuda.so.1", 64);
	gpu_ldcache_add(&own, "libfoo.so.1", "/usr/lib/libfoo.so.1", 64);
	gpu_ldcache_add(&own, "libvendor.so.2", "/usr/lib32/libvendor.so.2", 32);
	gpu_ldcache_add(&own, "libz.so.1", "/usr/lib/libz.so.1", 64);
	own.v[3].hwcap = UINT64_C(1) << 62;
	own.v[3].hwcaps = xstrdup("x86-64-v3");
	put_cache(&own);
	link_in(root);
	assert_string_equal(entry("libcuda.so.1", 64)->path, GPU_LIB_DIR "/libcuda.so.1");
	assert_string_equal(entry("libcuda.so.1", 32)->path, GPU_LIB32_DIR "/libcuda.so.1");
	assert_string_equal(entry("libfoo.so.1", 64)->path, "/usr/lib/libfoo.so.1");
	assert_string_equal(entry("libvendor.so.2", 64)->path, "/opt/vendor/libvendor.so.2");
	assert_string_equal(entry("libvendor.so.2", 32)->path, "/usr/lib32/libvendor.so.2");
	assert_int_equal(cache.n, 6);
	for (size_t i = 0; i < cache.n; i++)
		if (strcmp(cache.v[i].name, "libz.so.1") == 0)
			assert_string_equal(cache.v[i].hwcaps, "x86-64-v3");
	assert_string_equal(variable(), "");
	assert_true(is_told("/usr/lib/stale/libcuda.so.1"));
	assert_false(is_told("libfoo"));
}

static void files_for_the_image_stand_before_all_mounts(void **state)
{
	put_libc();
	image_dir_mkdir(root, "/etc/ld.so.conf.d");
	link_in(root);
	assert_int_equal(p.n_mounts, 3);
	assert_string_equal(p.mounts[0].target, CACHE);
	assert_string_equal(p.mounts[1].target, CONF);
	assert_string_equal(p.mounts[2].target, GPU_LIB_DIR);
	assert_string_equal(p.mounts[1].text, GPU_LIB_DIR "\n" GPU_LIB32_DIR "\n/opt/vendor\n");
}

static void an_image_without_a_cache_gets_ours_alone(void **state)
{
	put_libc();
	link_in(root);
	assert_int_equal(cache.n, 3);
	assert_null(file_at(CONF)); /* it has no such directory */
	assert_string_equal(variable(), "");
}

static void a_cache_that_is_none_is_left_as_it_is(void **state)
{
	put_libc();
	image_dir_put(root, CACHE, "no cache");
	plan_env_set(&p, "LD_LIBRARY_PATH", "/opt/x", PLAN_FROM_IMAGE);
	link_in(root);
	assert_null(file_at(CACHE));
	assert_string_equal(variable(), GPU_LIB_DIR ":" GPU_LIB32_DIR ":/opt/vendor:/opt/x");
	assert_true(is_told("cannot be read"));
}

static void musl_gets_the_directories_before_its_own(void **state)
{
	auto_free char *loader = xasprintf("/lib/ld-musl-%s.so.1", machine.machine);
	auto_free char *list = xasprintf("/etc/ld-musl-%s.path", machine.machine);

	image_dir_put(root, loader, "");
	link_in(root);
	assert_string_equal(file_at(list)->text,
		GPU_LIB_DIR "\n" GPU_LIB32_DIR "\n/opt/vendor\n/lib\n/usr/local/lib\n/usr/lib\n");
	assert_null(file_at(CACHE));
	assert_int_equal(p.notes.n, 1);
	assert_non_null(strstr(p.notes.v[0], "gcompat"));
	drop(state);
	make(state);
	image_dir_put(root, loader, "");
	image_dir_put(root, list, "/lib:/opt/own/lib\n");
	link_in(root);
	assert_string_equal(file_at(list)->text,
		GPU_LIB_DIR "\n" GPU_LIB32_DIR "\n/opt/vendor\n/lib:/opt/own/lib\n");
}

static void without_a_libc_or_a_look_the_variable_leads_there(void **state)
{
	link_in(root);
	assert_int_equal(p.n_mounts, 1);
	assert_string_equal(variable(), GPU_LIB_DIR ":" GPU_LIB32_DIR ":/opt/vendor");
	assert_true(is_told("no known C library"));
	drop(state);
	make(state);
	link_in(NULL);
	assert_int_equal(p.n_mounts, 1);
	assert_string_equal(variable(), GPU_LIB_DIR ":" GPU_LIB32_DIR ":/opt/vendor");
	assert_true(is_told("cannot be read"));
}

static void a_mount_over_etc_leaves_the_variable(void **state)
{
	put_libc();
	plan_mount_add(&p, PLAN_BIND, "/home/me/etc", "/etc", 0, PLAN_FROM_USER, NULL);
	link_in(root);
	assert_string_equal(p.mounts[0].target, CACHE); /* before the mount, so not on the host */
	assert_string_equal(variable(), GPU_LIB_DIR ":" GPU_LIB32_DIR ":/opt/vendor");
}

static void a_kept_containers_own_cache_leaves_the_variable(void **state)
{
	put_libc();
	p.root = PLAN_ROOT_KEPT;
	p.kept = xasprintf("%s/kept", root);
	link_in(root);
	assert_string_equal(variable(), "");
	image_dir_put(root, "/kept/upper" CACHE, "");
	link_in(root);
	assert_string_equal(variable(), GPU_LIB_DIR ":" GPU_LIB32_DIR ":/opt/vendor");
}

static void a_variable_that_leads_to_a_stale_driver_leads_to_ours_first(void **state)
{
	put_libc();
	image_dir_put(root, "/usr/local/cuda/compat/libcuda.so.1", "");
	plan_env_set(&p, "LD_LIBRARY_PATH", "/opt/x:/usr/local/cuda/compat:" GPU_LIB_DIR,
		PLAN_FROM_IMAGE);
	link_in(root);
	assert_string_equal(variable(),
		GPU_LIB_DIR ":" GPU_LIB32_DIR
			    ":/opt/vendor:/opt/x:/usr/local/cuda/compat:" GPU_LIB_DIR);
	drop(state);
	make(state);
	put_libc();
	image_dir_put(root, "/usr/local/cuda/compat/libcuda.so.1", "");
	plan_env_set(
		&p, "LD_LIBRARY_PATH", GPU_LIB_DIR "/:/usr/local/cuda/compat", PLAN_FROM_IMAGE);
	link_in(root);
	assert_string_equal(variable(), GPU_LIB_DIR "/:/usr/local/cuda/compat");
	/* Ours ends in the same words, and is another. */
	plan_env_set(&p, "LD_LIBRARY_PATH", "/lib:/usr/local/cuda/compat", PLAN_FROM_IMAGE);
	link_in(root);
	assert_non_null(strstr(variable(), GPU_LIB_DIR ":"));
}

static void libraries_that_a_mount_covers_are_told_to_the_user(void **state)
{
	put_libc();
	plan_mount_add(&p, PLAN_BIND, "/usr/local", "/usr/local", 0, PLAN_FROM_USER, NULL);
	link_in(root);
	assert_int_equal(p.notes.n, 1);
	assert_non_null(strstr(p.notes.v[0], "'/usr/local'"));
}

static void without_libraries_nothing_is_done(void **state)
{
	plan_done(&p);
	put_libc();
	link_in(root);
	assert_int_equal(p.n_mounts, 0);
	assert_int_equal(p.n_env, 0);
	assert_int_equal(p.n_remarks, 0);
}

/* Of the image in root, and noted: "/etc/ld.so.cache". */
static struct strv opened;

static int open_and_note(void *ctx, const char *path)
{
	const struct gpu_image image = image_dir(root);

	(void)ctx;
	strv_add(&opened, path);
	return image.open(image.ctx, path);
}

static int list_in_root(void *ctx, const char *path, struct strv *ret)
{
	const struct gpu_image image = image_dir(root);

	(void)ctx;
	return image.list(image.ctx, path, ret);
}

static int has_in_root(void *ctx, const char *path)
{
	auto_free char *full = xasprintf("%s%s", root, path);

	(void)ctx;
	return access(full, F_OK) == 0 ? 0 : -ENOENT;
}

static void files_that_need_only_be_there_are_not_opened(void **state)
{
	const struct gpu_image image = {
		.open = open_and_note, .list = list_in_root, .has = has_in_root
	};
	struct gpu_ldcache c = { 0 };

	put_libc();
	put_cache(&c);
	image_dir_put(root, "/usr/local/old/libcuda.so.1", "");
	plan_env_set(&p, "LD_LIBRARY_PATH", "/usr/local/old", PLAN_FROM_IMAGE);
	assert_int_equal(gpu_link(&image, &p, NULL), 0);
	assert_int_equal(opened.n, 1);
	assert_string_equal(opened.v[0], CACHE);
	assert_string_equal(
		variable(), GPU_LIB_DIR ":" GPU_LIB32_DIR ":/opt/vendor:/usr/local/old");
	strv_done(&opened);
}

/* What the image was told of, as note() writes it. */
static struct strv told;

static char *note(enum gpu_look what, const char *path)
{
	return xasprintf("%s %s", what == GPU_LOOK_OPEN ? "open" : "list", path);
}

static void note_expected(void *ctx, enum gpu_look what, const char *path)
{
	(void)ctx;
	strv_take(&told, note(what, path));
}

static int open_expected(void *ctx, const char *path)
{
	auto_free char *what = note(GPU_LOOK_OPEN, path);

	assert_true(strv_has(&told, what));
	return open_and_note(ctx, path);
}

static int list_expected(void *ctx, const char *path, struct strv *ret)
{
	auto_free char *what = note(GPU_LOOK_LIST, path);

	assert_true(strv_has(&told, what));
	return list_in_root(ctx, path, ret);
}

static void what_a_usual_image_is_asked_for_was_expected(void **state)
{
	const struct gpu_image image = { .open = open_expected,
		.list = list_expected,
		.has = has_in_root,
		.expect = note_expected };
	auto_call(gpu_image_libc_done) struct gpu_image_libc l = GPU_IMAGE_LIBC_INIT;
	auto_call(gpu_compat_done) struct gpu_compat compat = { 0 };
	struct gpu_machine m = GPU_MACHINE_INIT;
	struct gpu_ldcache c = { 0 };

	put_libc();
	put_cache(&c);
	gpu_compat_expect(&image);
	gpu_link_expect(&image);
	assert_int_equal(gpu_compat_read(&image, &m, &compat), 0);
	gpu_image_libc_read(&image, &l);
	assert_int_equal(l.version.part[1], 31);
	assert_int_equal(gpu_link(&image, &p, NULL), 0);
	assert_int_equal(opened.n, told.n - 2);
	strv_done(&opened);
	strv_done(&told);
}

static void the_version_of_the_images_glibc_is_read_of_it(void **state)
{
	const struct gpu_image image = image_dir(root);
	auto_call(gpu_image_libc_done) struct gpu_image_libc l = GPU_IMAGE_LIBC_INIT;

	gpu_image_libc_read(&image, &l);
	assert_int_equal(l.kind, GPU_LIBC_NONE);
	put_libc();
	gpu_image_libc_read(&image, &l);
	assert_int_equal(l.kind, GPU_LIBC_GLIBC);
	assert_int_equal(l.version.part[0], 2);
	assert_int_equal(l.version.part[1], 31);
}

static void files_that_need_a_newer_glibc_are_named(void **state)
{
	static const struct {
		const char *path, *glibc;
		int is_brought;
	} files[] = {
		{ "/usr/lib/libcuda.so.580.65.06", "2.38", 1 },
		{ "/usr/lib/libnvidia-nvvm.so.4", "2.31", 1 },
		{ "/usr/lib/libnvidia-glcore.so.580.65.06", "2.39", 0 },
		{ "/usr/lib32/libcuda.so.580.65.06", "2.40", 0 },
	};
	auto_call(plan_done) struct plan bound;
	struct gpu_machine m = GPU_MACHINE_INIT;
	struct gpu_image_libc l = { .kind = GPU_LIBC_GLIBC };
	auto_strv struct strv names = STRV_INIT;

	plan_init(&bound);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct gpu_file *f = gpu_machine_add_file(&m);

		f->path = xstrdup(files[i].path);
		gpu_version_parse(files[i].glibc, &f->glibc);
		if (files[i].is_brought)
			assert_int_equal(plan_mount_add(&bound, PLAN_BIND, f->path, f->path, 0,
						 PLAN_FROM_GPU, NULL),
				0);
	}
	gpu_glibc_check(&m, &l, &bound, &names);
	assert_int_equal(names.n, 0); /* not known */
	gpu_version_parse("2.31", &l.version);
	gpu_glibc_check(&m, &l, &bound, &names);
	assert_int_equal(names.n, 1);
	assert_string_equal(names.v[0], "libcuda.so.580.65.06 (GLIBC_2.38)");
	gpu_machine_done(&m);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make, drop)
	const struct CMUnitTest tests[] = {
		TEST(the_images_entries_stay_but_for_those_of_our_names),
		TEST(files_for_the_image_stand_before_all_mounts),
		TEST(an_image_without_a_cache_gets_ours_alone),
		TEST(a_cache_that_is_none_is_left_as_it_is),
		TEST(musl_gets_the_directories_before_its_own),
		TEST(without_a_libc_or_a_look_the_variable_leads_there),
		TEST(a_mount_over_etc_leaves_the_variable),
		TEST(a_kept_containers_own_cache_leaves_the_variable),
		TEST(a_variable_that_leads_to_a_stale_driver_leads_to_ours_first),
		TEST(libraries_that_a_mount_covers_are_told_to_the_user),
		TEST(without_libraries_nothing_is_done),
		TEST(files_that_need_only_be_there_are_not_opened),
		TEST(what_a_usual_image_is_asked_for_was_expected),
		TEST(the_version_of_the_images_glibc_is_read_of_it),
		TEST(files_that_need_a_newer_glibc_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
