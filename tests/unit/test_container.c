#include "unit.h"
#include "base/proc.h"
#include "runtime/container.h"
#include "runtime/door.h"
#include "runtime/meeting.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void make_plan(struct plan *p)
{
	plan_init(p);
	p->image = xstrdup("debian:12");
	p->share = xstrdup("slurm 7.0");
	p->workdir = xstrdup("/work");
	p->id = (struct plan_identity){ .uid = 1000,
		.host_uid = 1000,
		.gid = 100,
		.host_gid = 100,
		.name = xstrdup("ann"),
		.group = xstrdup("users"),
		.home = xstrdup("/home/ann"),
		.shell = xstrdup("/bin/sh") };
	strv_add(&p->lowers, "/store/layers/1/tree");
	strv_add(&p->lowers, "/store/layers/2/tree");
	assert_int_equal(
		plan_mount_add(p, PLAN_BIND, "/tmp", "/tmp", 0, PLAN_FROM_DEFAULT, NULL), 0);
}

/* Do two plans have the same keys? */
static void compare(const struct plan *p, const struct plan *q, int word, int inside)
{
	struct container_keys a, b;

	container_keys(p, &a);
	container_keys(q, &b);
	assert_int_equal(strcmp(a.word, b.word) == 0, word);
	assert_int_equal(strcmp(a.inside, b.inside) == 0, inside);
}

static void what_the_command_is_does_not_part_containers(void **state)
{
	auto_call(plan_done) struct plan p, q;

	make_plan(&p);
	make_plan(&q);
	compare(&p, &q, 1, 1);
	strv_add(&q.argv, "train");
	plan_env_set(&q, "A", "b", PLAN_FROM_USER);
	free(q.workdir);
	q.workdir = xstrdup("/elsewhere");
	/* Ranks have terminals of their own from some launchers. */
	plan_mount_add(&q, PLAN_BIND, "/dev/pts/7", "/dev/console", PLAN_OPTIONAL,
		PLAN_FROM_DEFAULT, NULL);
	compare(&p, &q, 1, 1);
}

static void what_the_container_is_parts_them_but_not_their_memory(void **state)
{
	for (int i = 0; i < 7; i++) {
		auto_call(plan_done) struct plan p, q;

		make_plan(&p);
		make_plan(&q);
		switch (i) {
		case 0:
			strv_add(&q.lowers, "/store/layers/3/tree");
			break;
		case 1:
			plan_mount_add(&q, PLAN_BIND, "/data", "/data", 0, PLAN_FROM_USER, NULL);
			break;
		case 2:
			q.mounts[0].flags = PLAN_READONLY;
			break;
		case 3:
			q.root = PLAN_ROOT_READ_ONLY;
			break;
		case 4:
			q.namespaces = PLAN_NS_IPC;
			break;
		case 5:
			q.squashfs = xstrdup("/store/squash/1.sqfs");
			break;
		default:
			q.mounts[0].options = xstrdup("size=1g");
			break;
		}
		compare(&p, &q, 1, 0);
	}
}

static void another_word_or_id_parts_all(void **state)
{
	auto_call(plan_done) struct plan p, q, r;

	make_plan(&p);
	make_plan(&q);
	make_plan(&r);
	free(q.share);
	q.share = xstrdup("slurm 7.1");
	compare(&p, &q, 0, 0);
	r.id.uid = 0;
	r.id.gid = 0;
	compare(&p, &r, 0, 1); /* entered only by one whose word is right */
}

/* Moving a byte from one name to the next makes another text. */
static void names_do_not_run_into_each_other(void **state)
{
	auto_call(plan_done) struct plan p, q;

	make_plan(&p);
	make_plan(&q);
	plan_mount_add(&p, PLAN_BIND, "/a", "/b 2:/c", 0, PLAN_FROM_USER, NULL);
	plan_mount_add(&q, PLAN_BIND, "/a 2:/b", "/c", 0, PLAN_FROM_USER, NULL);
	compare(&p, &q, 1, 0);
}

/* A linker's cache is full of them, and is the first of a plan's entries. */
static void what_stands_behind_a_nul_counts(void **state)
{
	auto_call(plan_done) struct plan p, q, r;

	make_plan(&p);
	make_plan(&q);
	make_plan(&r);
	plan_file_add(&p, "a\0b", 3, "/etc/ld.so.cache", PLAN_FROM_GPU, NULL);
	plan_file_add(&q, "a\0c", 3, "/etc/ld.so.cache", PLAN_FROM_GPU, NULL);
	compare(&p, &q, 1, 0);
	plan_file_add(&r, "a\0b", 3, "/etc/ld.so.cache", PLAN_FROM_GPU, NULL);
	compare(&p, &r, 1, 1);
	plan_mount_add(&p, PLAN_BIND, "/dev/nvidia0", "/dev/nvidia0", 0, PLAN_FROM_GPU, NULL);
	plan_mount_add(&r, PLAN_BIND, "/dev/nvidia1", "/dev/nvidia1", 0, PLAN_FROM_GPU, NULL);
	compare(&p, &r, 1, 0);
}

static char *mountinfo(const char *source)
{
	return xasprintf("1 0 0:1 / /proc rw - proc proc rw\n"
			 "511 480 0:55 / / rw,nosuid shared:3 master:1 - overlay %s rw,lowerdir=0\n"
			 "512 511 254:0 /etc/hosts /etc/hosts ro - ext4 /dev/vda rw\n",
		source);
}

static void a_mark_is_read_as_it_was_written(void **state)
{
	for (int shared = 0; shared < 2; shared++) {
		auto_call(container_done) struct container c = { 0 };
		auto_call(plan_done) struct plan p;
		struct container_keys k;

		make_plan(&p);
		container_keys(&p, &k);
		if (!shared) {
			free(p.share);
			p.share = NULL;
		}
		auto_free char *mark = container_mark(&p), *text = mountinfo(mark);

		assert_int_equal(container_parse(text, &c), 0);
		assert_string_equal(c.image, "debian:12");
		assert_string_equal(c.keys.word, shared ? k.word : "");
		assert_string_equal(c.keys.inside, shared ? k.inside : "");
		assert_true(c.id == 55);
	}
}

static void a_long_name_is_cut_where_the_kernel_would_refuse_it(void **state)
{
	auto_call(plan_done) struct plan p;

	make_plan(&p);
	free(p.image);
	p.image = xmalloc(1000);
	memset(p.image, 'x', 999);
	p.image[999] = '\0';
	auto_free char *mark = container_mark(&p);

	assert_int_equal(strlen(mark), 255);
}

static void escapes_of_the_kernel_are_undone(void **state)
{
	auto_call(container_done) struct container c = { 0 };
	auto_free char *text = mountinfo("mlrun:rootfs:/a\\040b\\134c\\012");

	assert_int_equal(container_parse(text, &c), 0);
	assert_string_equal(c.image, "rootfs:/a b\\c\n");
}

static void other_roots_are_none_of_ours(void **state)
{
	static const char *const sources[] = { "overlay", "mlrun", "mlrun@", "mlrun@abc:x",
		"mlruns:x",
		"mlrun@0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg:x", "" };
	struct container c;

	for (size_t i = 0; i < ARRAY_LEN(sources); i++) {
		auto_free char *text = mountinfo(sources[i]);

		assert_int_equal(container_parse(text, &c), -ENOENT);
	}
	assert_int_equal(container_parse("", &c), -ENOENT);
	assert_int_equal(container_parse("1 2 3 4 / ", &c), -ENOENT);
	assert_int_equal(container_parse("1 2 0:3 / / rw - overlay", &c), -ENOENT);
	/* Mounted somewhere else than on the root. */
	assert_int_equal(container_parse("1 2 0:3 / /mnt rw - overlay mlrun:x rw\n", &c), -ENOENT);
}

static void a_test_is_in_no_container(void **state)
{
	struct container c;
	int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(container_look(proc, getpid(), &c), -ENOENT);
	assert_int_equal(container_look(proc, 4194305, &c), -ESRCH);
	close(proc);
}

#define KEY "0123456789abcdef0123456789abcdef"

static void a_container_of_anothers_is_foreign_even_to_root(void **state)
{
	struct container c = { .owner = geteuid() };

	assert_false(container_is_foreign(&c));
	c.owner = geteuid() + 1;
	assert_true(container_is_foreign(&c));
}

static void an_entry_is_a_pid_a_start_time_and_a_key(void **state)
{
	static const char good[] = "123 456789 " KEY "\nmore";
	static const char *const bad[] = { "", "123 456789 " KEY, "-1 5 " KEY "\n", "0 5 " KEY "\n",
		" 1 5 " KEY "\n", "1  5 " KEY "\n", "1 5 " KEY "x\n", "1 5 0123\n",
		"99999999999999999999 5 " KEY "\n", "4294967297 5 " KEY "\n", "1 -5 " KEY "\n",
		"1 5 0123456789ABCDEF0123456789ABCDEF\n", "1 5\n", "\n" };
	struct meeting_entry e;

	assert_int_equal(meeting_entry_parse(good, &e), strlen(good) - 4);
	assert_int_equal(e.pid, 123);
	assert_true(e.start == 456789);
	assert_string_equal(e.inside, KEY);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (meeting_entry_parse(bad[i], &e) != 0)
			fail_msg("'%s' was taken", bad[i]);
}

static void a_process_is_read_whatever_its_name(void **state)
{
	static const char line[] =
		"77 (a) R 1) ((\n) S 1 77 77 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 9";
	struct proc_stat st;

	assert_int_equal(proc_stat_parse(line, &st), 0);
	assert_int_equal(st.pid, 77);
	assert_int_equal(st.state, 'S');
	assert_true(st.start == 4242);
	assert_int_equal(proc_stat_parse("77 (a) S 1 2", &st), -EIO);
	assert_int_equal(proc_stat_parse("", &st), -EIO);
	assert_int_equal(proc_stat_read(AT_FDCWD, "/proc/self/stat", &st), 0);
	assert_int_equal(st.pid, getpid());
}

/* A process in namespaces of its own, until its standard input ends. */
static pid_t start_in_namespaces(int *end)
{
	int wait[2], ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(wait, O_CLOEXEC) | pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		close(wait[1]);
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS) < 0 ||
			write(ready[1], "", 1) != 1)
			_exit(1);
		_exit(read(wait[0], &byte, 1) < 0);
	}
	close(ready[1]);
	close(wait[0]);
	if (read(ready[0], &byte, 1) != 1)
		fail_msg("this machine allows no user namespaces");
	close(ready[0]);
	*end = wait[1];
	return pid;
}

/* In a child, since it changes namespaces: what is different of that process before and after? */
static void enter_by(pid_t pid, int with_pidfd)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		auto_close int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
		struct mlr_error err = MLR_ERROR_INIT;
		struct door d = DOOR_INIT;

		if (door_open(proc, pid, &d) < 0 || !door_lives(&d))
			_exit(1);
		if (!with_pidfd)
			close(take_fd(&d.pidfd));
		if (door_differs(&d) != (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS))
			_exit(2);
		if (door_enter(&d, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS, &err) < 0)
			_exit(3);
		if (door_differs(&d) != 0)
			_exit(4);
		/* Nobody in there may look into it. */
		_exit(prctl(PR_GET_DUMPABLE) == 0 ? 0 : 5);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void a_process_is_a_door_by_one_call_or_by_its_files(void **state)
{
	int end;
	pid_t pid = start_in_namespaces(&end);

	enter_by(pid, 1);
	enter_by(pid, 0);
	close(end);
	waitpid(pid, NULL, 0);
}

static void one_that_has_ended_is_no_door_and_leaves_us_as_we_were(void **state)
{
	int end, proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	pid_t pid = start_in_namespaces(&end);
	struct door by_pidfd = DOOR_INIT, by_files = DOOR_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(door_open(proc, pid, &by_pidfd), 0);
	assert_int_equal(door_open(proc, pid, &by_files), 0);
	close(take_fd(&by_files.pidfd));
	close(end);
	waitpid(pid, NULL, 0);
	assert_false(door_lives(&by_pidfd));
	assert_false(door_lives(&by_files));
	assert_int_equal(door_enter(&by_pidfd, CLONE_NEWUSER | CLONE_NEWNS, &err), -ESRCH);
	assert_int_equal(door_enter(&by_files, CLONE_NEWUSER | CLONE_NEWNS, &err), -ESRCH);
	assert_int_equal(prctl(PR_GET_DUMPABLE), 1);
	assert_int_equal(door_open(proc, pid, &by_files), -ESRCH);
	door_close(&by_pidfd);
	close(proc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_command_is_does_not_part_containers),
		cmocka_unit_test(what_the_container_is_parts_them_but_not_their_memory),
		cmocka_unit_test(another_word_or_id_parts_all),
		cmocka_unit_test(names_do_not_run_into_each_other),
		cmocka_unit_test(what_stands_behind_a_nul_counts),
		cmocka_unit_test(a_mark_is_read_as_it_was_written),
		cmocka_unit_test(a_long_name_is_cut_where_the_kernel_would_refuse_it),
		cmocka_unit_test(escapes_of_the_kernel_are_undone),
		cmocka_unit_test(other_roots_are_none_of_ours),
		cmocka_unit_test(a_test_is_in_no_container),
		cmocka_unit_test(a_container_of_anothers_is_foreign_even_to_root),
		cmocka_unit_test(an_entry_is_a_pid_a_start_time_and_a_key),
		cmocka_unit_test(a_process_is_read_whatever_its_name),
		cmocka_unit_test(a_process_is_a_door_by_one_call_or_by_its_files),
		cmocka_unit_test(one_that_has_ended_is_no_door_and_leaves_us_as_we_were),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
