#include "unit.h"
#include "layer/path.h"
#include "oci/config.h"
#include "recipe/derive.h"
#include "rootfs/fill.h"
#include "rootfs/kept.h"
#include "rootfs/upper.h"
#include "store/container.h"
#include "store/process.h"
#include "store/tree.h"
#include "scratch.h"
#include "tar.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/* --- the store's ---------------------------------------------------------- */

static void names_are_those_that_docker_allows(void **state)
{
	static const char *const good[] = { "a", "0", "A.b-c_d", "x__y", "x.", "a..b" };
	static const char *const bad[] = { "", ".", "..", ".a", "-a", "_a", "a/b", "../a", "a b",
		"a\n", "\xc3\xa4" };
	char longest[STORE_CONTAINER_NAME_MAX + 2];

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		ok(store_container_name_check(good[i], &err));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(store_container_name_check(bad[i], &err), -EINVAL);
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(store_container_name_check(longest, &err), -EINVAL);
	longest[sizeof(longest) - 2] = '\0';
	ok(store_container_name_check(longest, &err));
}

static char name_a[] = "docker.io/library/a:1", manifest_a[] = MANIFEST_A;
static char name_b[] = "docker.io/library/b:1", manifest_b[] = MANIFEST_B;
static const struct store_container image_a = { .image = name_a, .manifest = manifest_a };
static const struct store_container image_b = { .image = name_b, .manifest = manifest_b };

static void a_container_is_made_once_and_found_again(void **state)
{
	auto_call(store_container_done) struct store_container a = { 0 }, b = { 0 };
	int made = -1;

	assert_int_equal(store_container_get(st, "c", &a, &err), -ENOENT);
	says("there is no container 'c'");
	assert_int_equal(store_container_open(st, "c", NULL, &a, &made, &err), -ENOENT);
	says("there is no container 'c'");
	ok(store_container_open(st, "c", &image_a, &a, &made, &err));
	assert_int_equal(made, 1);
	assert_string_equal(a.image, "docker.io/library/a:1");
	assert_string_equal(a.manifest, MANIFEST_A);
	ok(store_container_open(st, "c", &image_b, &b, &made, &err));
	assert_int_equal(made, 0);
	assert_string_equal(b.manifest, MANIFEST_A);
}

static void the_image_of_a_container_is_known_to_be_needed(void **state)
{
	auto_call(store_container_done) struct store_container c = { 0 };
	auto_free char *name = NULL, *none = NULL, *any = NULL;
	int made;

	ok(store_container_open(st, "c", &image_a, &c, &made, &err));
	name = store_container_of(st, MANIFEST_A);
	none = store_container_of(st, MANIFEST_B);
	assert_string_equal(name, "c");
	assert_null(none);
	/* A container with a damaged record may need any image. */
	ok(file_replace(store_fd(st), "containers/c/container.json", "{", 1, 0644, &err));
	any = store_container_of(st, MANIFEST_B);
	assert_string_equal(any, "c");
	assert_int_equal(store_container_get(st, "c", &c, &err), -EPROTO);
	says("containers rm c");
}

/* The lease of a process lasts as long as the process. */
static void one_in_use_is_not_removed(void **state)
{
	int ends[2], made, status;
	struct store_lease l;
	pid_t child;
	char up;

	assert_int_equal(pipe(ends), 0);
	child = fork_child();
	if (child == 0) {
		struct store_container c = { 0 };

		store_container_open(st, "c", &image_a, &c, &made, &err);
		(void)!write(ends[1], "", 1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ends[0], &up, 1), 1);
	assert_int_equal(store_container_used(st, "c", &l), 1);
	assert_int_equal(l.pid, child);
	assert_int_equal(store_container_is_joined(st, "c"), 1);
	assert_int_equal(store_container_remove(st, "c", 1, &err), -EBUSY);
	says("is in use by process");
	assert_int_equal(store_container_unlock(st, "c", &err), -EBUSY);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	assert_int_equal(store_container_used(st, "c", &l), 0);
	ok(store_container_remove(st, "c", 0, &err));
	assert_int_equal(store_container_remove(st, "c", 0, &err), -ENOENT);
	close(ends[0]);
	close(ends[1]);
}

static void what_a_killed_maker_left_is_swept(void **state)
{
	auto_call(store_container_done) struct store_container c = { 0 };
	char work[STORE_PROCESS_NAME + 64], who[STORE_PROCESS_NAME];
	struct store_process p;
	int made;

	ok(store_process_self(&p));
	p.start++; /* a process that has ended */
	store_process_name(&p, who);
	snprintf(work, sizeof(work), "tmp/container.1.%s", who);
	assert_int_equal(mkdirat(store_fd(st), work, 0755), 0);
	ok(store_container_open(st, "c", &image_a, &c, &made, &err));
	store_container_done(&c);
	store_sweep(st);
	assert_int_equal(faccessat(store_fd(st), work, F_OK, 0), -1);
	ok(store_container_get(st, "c", &c, &err));
}

/* --- what it is called ---------------------------------------------------- */

static void a_container_is_called_like_its_image(void **state)
{
	static const struct {
		const char *image, *name;
	} cases[] = { { "debian", "debian" }, { "debian:12", "debian-12" },
		{ "quay.io/a/b/app:1.0-rc", "app-1.0-rc" }, { "x@" MANIFEST_A, "x-aaaaaaaaaaaa" } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_call(oci_ref_done) struct oci_ref ref = { 0 };
		auto_free char *name = NULL;

		ok(oci_ref_parse(cases[i].image, &ref, &err));
		name = rootfs_kept_name(&ref);
		assert_string_equal(name, cases[i].name);
		ok(store_container_name_check(name, &err));
	}
}

/* --- its layer ------------------------------------------------------------ */

static int gather(void *ctx, const void *buf, size_t len, struct mlr_error *e)
{
	tar_bytes(ctx, buf, len);
	return 0;
}

static int make_upper(void)
{
	int fd, sock;
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	assert_int_equal(mkdirat(store_fd(st), "up", 0755), 0);
	fd = openat(store_fd(st), "up", O_RDONLY | O_DIRECTORY);
	assert_true(fd >= 0);
	assert_int_equal(mkdirat(fd, "d", 0750), 0);
	ok(file_replace(fd, "d/file", "text", 4, 0640, &err));
	assert_int_equal(linkat(fd, "d/file", fd, "d/link", 0), 0);
	assert_int_equal(symlinkat("../x", fd, "d/sym"), 0);
	ok(layer_whiteout_make(fd, "gone", &err));
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/sock", fd);
	sock = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(sock, (struct sockaddr *)&a, sizeof(a)), 0);
	close(sock);
	return fd;
}

static void an_upper_directory_becomes_the_same_tar_each_time(void **state)
{
	auto_tar struct tar a = { 0 }, b = { 0 };
	struct rootfs_upper u = { .fd = make_upper() };

	ok(rootfs_upper_tar(&u, gather, &a, &err));
	ok(file_replace(u.fd, "later", "x", 1, 0644, &err));
	assert_int_equal(unlinkat(u.fd, "later", 0), 0);
	ok(rootfs_upper_tar(&u, gather, &b, &err));
	/* The top's time has changed, and its header with it; the rest is as it was. */
	assert_int_equal(a.n, b.n);
	assert_memory_equal(a.p + 512, b.p + 512, a.n - 512);
	assert_int_equal(u.omitted.n, 1);
	assert_string_equal(u.omitted.v[0], "/sock");
	strv_done(&u.omitted);
	close(u.fd);
}

static void a_layer_made_of_it_shows_the_same(void **state)
{
	struct rootfs_upper u = { .fd = make_upper() };
	char diff_id[OCI_DIGEST_SIZE];
	auto_close int tree = -1;
	struct stat sb, other;
	uint64_t bytes;

	ok(rootfs_fill_digest(rootfs_upper_tar, &u, diff_id, &bytes, &err));
	ok(rootfs_fill(st, diff_id, rootfs_upper_tar, &u, &err));
	ok(rootfs_fill(st, diff_id, rootfs_upper_tar, &u, &err));
	tree = store_tree_open(st, STORE_LAYER, diff_id, &err);
	ok(tree);
	assert_int_equal(fstatat(tree, "gone", &sb, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(layer_whiteout_is(&sb));
	assert_int_equal(fstatat(tree, "d/file", &sb, 0), 0);
	assert_int_equal(fstatat(tree, "d/link", &other, 0), 0);
	assert_int_equal(sb.st_ino, other.st_ino);
	assert_int_equal(sb.st_mode, S_IFREG | 0640);
	assert_int_equal(fstatat(tree, "d", &sb, 0), 0);
	assert_int_equal(sb.st_mode, S_IFDIR | 0750);
	assert_int_equal(fstatat(tree, "sock", &sb, 0), -1);
	strv_done(&u.omitted);
	close(u.fd);
}

/* A file whose time differs at each reading. */
static int moody(void *ctx, layer_write_fn write, void *to, struct mlr_error *e)
{
	auto_tar struct tar t = { 0 };

	tar_member(&t, '0', "file", 0644, ++*(int *)ctx, "", "x", 1, 1);
	tar_end(&t);
	return write(to, t.p, t.n, e);
}

static void files_that_change_while_they_are_read_make_no_layer(void **state)
{
	char diff_id[OCI_DIGEST_SIZE];
	uint64_t bytes;
	int times = 0;

	ok(rootfs_fill_digest(moody, &times, diff_id, &bytes, &err));
	assert_int_equal(rootfs_fill(st, diff_id, moody, &times, &err), -EBUSY);
	says("changed while they were read");
	assert_false(store_tree_exists(st, STORE_LAYER, diff_id));
}

static int broken(void *ctx, layer_write_fn write, void *to, struct mlr_error *e)
{
	char zeros[1024] = "";
	int r = write(to, zeros, sizeof(zeros), e);

	return r < 0 ? r : mlr_fail(e, EIO, "the disk is on fire");
}

static int swapping;

/* Acts like a container's process that exchanges a file and a link, again and again. */
static void *swap(void *ctx)
{
	const int *fd = ctx;

	while (__atomic_load_n(&swapping, __ATOMIC_RELAXED))
		renameat2(*fd, "x", *fd, "link", RENAME_EXCHANGE);
	return NULL;
}

static void a_file_that_becomes_a_link_while_it_is_read_changes_nothing_outside(void **state)
{
	auto_free char *victim = xasprintf("%s/victim", dir), *path = xasprintf("%s/upper", dir);
	auto_close int fd = -1, file = open(victim, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
	pthread_t thread;
	struct stat sb;

	assert_true(file >= 0);
	assert_int_equal(mkdir(path, 0755), 0);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mknodat(fd, "x", S_IFREG, 0), 0);
	assert_int_equal(symlinkat(victim, fd, "link"), 0);
	swapping = 1;
	assert_int_equal(pthread_create(&thread, NULL, swap, &fd), 0);
	for (int i = 0; i < 10000; i++) {
		auto_tar struct tar b = { 0 };
		struct rootfs_upper u = { .fd = fd };

		rootfs_upper_tar(&u, gather, &b, &err);
		strv_done(&u.omitted);
	}
	__atomic_store_n(&swapping, 0, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_int_equal(fstat(file, &sb), 0);
	assert_int_equal(sb.st_mode & 07777, 0640);
}

static void the_writers_failure_is_the_cause(void **state)
{
	assert_int_equal(rootfs_fill(st, LAYER_1, broken, NULL, &err), -EIO);
	says("the disk is on fire");
	assert_false(store_tree_exists(st, STORE_LAYER, LAYER_1));
}

/* --- its configuration ---------------------------------------------------- */

static const char config[] =
	"{\"architecture\":\"amd64\",\"os\":\"linux\",\"unknown\":[1],"
	"\"container\":\"x\",\"config\":{\"Env\":[\"A=1\",\"B=2\"],\"Cmd\":[\"old\"],"
	"\"WorkingDir\":\"/w\"},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"" LAYER_1 "\"]}}";

static char *derived(const char *diff_id, const char *const *changes, size_t n)
{
	auto_strv struct strv lines = STRV_INIT;
	struct instruction *list = NULL;
	struct derive d = {
		.diff_id = diff_id, .created = "2026-01-01T00:00:00Z", .created_by = "test"
	};
	char *text = NULL;

	for (size_t i = 0; i < n; i++)
		strv_add(&lines, changes[i]);
	err.text[0] = '\0';
	if (derive_parse(&lines, &list, &d.n_changes, &err) == 0) {
		d.changes = list;
		derive_config(config, strlen(config), &d, &text, &err);
	}
	for (size_t i = 0; i < d.n_changes; i++)
		instruction_done(&list[i]);
	free(list);
	return text;
}

static void a_derived_configuration_keeps_what_it_does_not_change(void **state)
{
	auto_call(oci_config_done) struct oci_config c = { 0 };
	auto_free char *text = derived(LAYER_1, NULL, 0);

	assert_non_null(text);
	ok(oci_config_parse(text, strlen(text), &c, &err));
	assert_int_equal(c.diff_ids.n, 2);
	assert_int_equal(c.env.n, 2);
	assert_string_equal(c.cmd.v[0], "old");
	assert_non_null(strstr(text, "\"unknown\":[1]"));
	assert_null(strstr(text, "\"container\""));
	/* A history has an entry for every layer; the image before had none. */
	assert_non_null(strstr(text, "\"history\":[{\"created_by\":\"not recorded\"},{"));
}

static void changes_are_done_in_their_order(void **state)
{
	static const char *const changes[] = { "ENV B=3 C='x y' D=\"q\\\"r\"", "env B 4 5",
		"WORKDIR sub", "WORKDIR ../up", "ENTRYPOINT [\"/e\"]", "USER me" };
	auto_call(oci_config_done) struct oci_config c = { 0 };
	auto_free char *text = derived(NULL, changes, ARRAY_LEN(changes));

	if (!text)
		fail_msg("%s", err.text);
	ok(oci_config_parse(text, strlen(text), &c, &err));
	assert_int_equal(c.env.n, 4);
	assert_string_equal(c.env.v[1], "B=4 5");
	assert_string_equal(c.env.v[2], "C=x y");
	assert_string_equal(c.env.v[3], "D=q\"r");
	assert_string_equal(c.working_dir, "/w/up");
	assert_string_equal(c.user, "me");
	assert_int_equal(c.entrypoint.n, 1);
	assert_int_equal(c.cmd.n, 0);
	assert_int_equal(c.diff_ids.n, 1);
	assert_non_null(strstr(text, "\"empty_layer\":true"));
}

static void a_change_that_is_none_is_named(void **state)
{
	static const char *const bad[] = { "RUN x", "", "ENV", "ENV  ", "ENV =1", "ENV A",
		"ENV A=1 B", "ENV A='1", "ENVA=1", "USER a b", "CMD \xff" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_free char *text = derived(NULL, &bad[i], 1);

		assert_null(text);
		says("change '");
	}
}

#define ONE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(names_are_those_that_docker_allows),
		ONE(a_container_is_made_once_and_found_again),
		ONE(the_image_of_a_container_is_known_to_be_needed),
		ONE(one_in_use_is_not_removed),
		ONE(what_a_killed_maker_left_is_swept),
		ONE(a_container_is_called_like_its_image),
		ONE(an_upper_directory_becomes_the_same_tar_each_time),
		ONE(a_layer_made_of_it_shows_the_same),
		ONE(files_that_change_while_they_are_read_make_no_layer),
		ONE(a_file_that_becomes_a_link_while_it_is_read_changes_nothing_outside),
		ONE(the_writers_failure_is_the_cause),
		ONE(a_derived_configuration_keeps_what_it_does_not_change),
		ONE(changes_are_done_in_their_order),
		ONE(a_change_that_is_none_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
