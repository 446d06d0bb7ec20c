#include "unit.h"
#include "base/account.h"
#include "base/duration.h"
#include "base/machine.h"
#include "base/escape.h"
#include "base/file_owner.h"
#include "base/owners_file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/path.h"
#include "base/strv.h"
#include "base/walk.h"

#include <elf.h>
#include <time.h>

static char dir[64];
static int dirfd_;

static int make_dir(void **state)
{
	strcpy(dir, "/tmp/mlr-test-base.XXXXXX");
	assert_non_null(mkdtemp(dir));
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dirfd_ < 0;
}

static int drop_dir(void **state)
{
	close(dirfd_);
	return file_remove_tree(AT_FDCWD, dir, NULL);
}

/* The bytes are those of protoc's encoder. */
static void an_owner_is_the_message_that_umoci_reads(void **state)
{
	static const struct {
		struct file_owner owner;
		size_t len;
		const char *bytes;
	} cases[] = {
		{ { 0, 0, 0 }, 0, "" },
		{ { 5, 6, 0 }, 4, "\x08\x05\x10\x06" },
		{ { 0, 6, 0 }, 2, "\x10\x06" },
		{ { 1000, 65534, 0 }, 7, "\x08\xe8\x07\x10\xfe\xff\x03" },
		{ { 0xfffffffe, 0, 0 }, 6, "\x08\xfe\xff\xff\xff\x0f" },
	};
	static const char *const bad[] = { "\x08", "\x08\x80", "\x18\x01", "\x09\x05",
		"\x08\xff\xff\xff\xff\x7f" };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned char buf[FILE_OWNER_SIZE];
		struct file_owner back = { 1, 1, 0777 };

		assert_int_equal(file_owner_encode(&cases[i].owner, buf), cases[i].len);
		assert_memory_equal(buf, cases[i].bytes, cases[i].len);
		assert_int_equal(file_owner_decode(buf, cases[i].len, &back), 0);
		assert_int_equal(back.uid, cases[i].owner.uid);
		assert_int_equal(back.gid, cases[i].owner.gid);
		assert_int_equal(back.mode, 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct file_owner back;

		assert_int_equal(
			file_owner_decode((const unsigned char *)bad[i], strlen(bad[i]), &back),
			-EINVAL);
	}
}

static struct owners_file open_owners(void)
{
	struct owners_file o = OWNERS_FILE_INIT;

	owners_file_open(&o,
		openat(dirfd_, OWNERS_FILE_NAME, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
	assert_true(o.fd >= 0);
	return o;
}

static int owner_of(struct owners_file *o, struct owners_file_key key)
{
	struct file_owner owner;

	return owners_file_find(o, &key, &owner) ? (int)(owner.uid * 100 + owner.gid) : -1;
}

static void owners_of_links_are_read_again_by_inode_or_by_path(void **state)
{
	const struct owners_file_key a = { 7, 1000, 5, 0, "a\nb" }, b = { 8, 1000, 5, 0, " c" },
				     timeless = { 9, 0, 0, 3, "d" };
	struct owners_file o = open_owners(), other = open_owners();

	assert_int_equal(owner_of(&o, a), -1);
	assert_int_equal(owners_file_set(&o, &a, &(struct file_owner){ 0, 0, 0 }), 0);
	assert_false(owners_file_has_any(&o)); /* root's needs no record */
	assert_int_equal(owners_file_set(&o, &a, &(struct file_owner){ 5, 6, 0 }), 0);
	assert_int_equal(owners_file_set(&o, &b, &(struct file_owner){ 1, 2, 0 }), 0);
	assert_int_equal(owners_file_set(&o, &timeless, &(struct file_owner){ 3, 4, 0 }), 0);
	assert_int_equal(owner_of(&o, timeless), 304);
	assert_int_equal(owner_of(&other, a), 506); /* what another process wrote */
	assert_int_equal(owners_file_set(&other, &a, &(struct file_owner){ 0, 7, 0 }), 0);
	assert_int_equal(owner_of(&o, a), 7);
	owners_file_done(&o);
	owners_file_done(&other);

	o = open_owners();
	assert_int_equal(owner_of(&o, (struct owners_file_key){ 7, 1000, 5, 0, "new name" }), 7);
	assert_int_equal(owner_of(&o, (struct owners_file_key){ 99, 1000, 5, 0, " c" }), 102);
	/* Another file by now: the number, or the name, of one that is gone. */
	assert_int_equal(owner_of(&o, (struct owners_file_key){ 7, 1000, 6, 0, "a\nb" }), -1);
	assert_int_equal(owner_of(&o, (struct owners_file_key){ 99, 1000, 5, 0, "c" }), -1);
	assert_int_equal(owner_of(&o, timeless), -1);
	owners_file_done(&o);
	assert_int_equal(unlinkat(dirfd_, OWNERS_FILE_NAME, 0), 0);
}

static void a_file_of_owners_may_hold_anything(void **state)
{
	static const char text[] =
		"\0 \0 x\0 1 2 3 4\0 1 2 3 4 5\0 1 0 0 5 6 p\0 7 8 9 1 2 p\0 7 8 9 3";
	struct owners_file o = open_owners();
	const struct owners_file_key p = { 7, 8, 9, 0, "p" };

	assert_int_equal(write(o.fd, text, sizeof(text) - 1), sizeof(text) - 1);
	assert_int_equal(owner_of(&o, p), 102);
	assert_int_equal(o.n, 1);
	assert_int_equal(write(o.fd, " 4 p\0", 5), 5); /* the rest of a record */
	assert_int_equal(owner_of(&o, p), 304);
	owners_file_done(&o);
	assert_int_equal(unlinkat(dirfd_, OWNERS_FILE_NAME, 0), 0);
}

static void an_error_reads_from_the_act_down_to_the_cause(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(mlr_fail(&err, ENOENT, "no file '%s'", "x"), -ENOENT);
	assert_int_equal(mlr_wrap(&err, "pull %s", "demo:1"), -ENOENT);
	mlr_hint(&err, "try %s", "again");
	assert_string_equal(err.text, "pull demo:1: no file 'x'\nhint: try again");
}

static void words_for_an_error_that_nobody_reads_leave_its_number_alone(void **state)
{
	mlr_fail(NULL, ENOENT, "no file '%s'", "x");
	assert_int_equal(mlr_wrap(NULL, "pull %s", "demo:1"), -ENOENT);
	assert_int_equal(mlr_hint(NULL, "try %s", "again"), -ENOENT);
	mlr_result(NULL, -EPROTO, "read");
	assert_int_equal(mlr_hint(NULL, "try %s", "again"), -EPROTO);
	errno = EACCES;
	mlr_fail_errno(NULL, "open");
	assert_int_equal(mlr_wrap(NULL, "pull"), -EACCES);
}

static void an_error_longer_than_its_room_is_cut_and_terminated(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	char big[3000];

	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	mlr_fail(&err, EIO, "%s", big);
	mlr_wrap(&err, "%s", big);
	mlr_hint(&err, "%s", big);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void an_error_longer_than_its_room_keeps_cause_and_hint(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	char big[2001] = "";

	for (int i = 0; i < 1000; i++)
		strcat(big, "\xc3\xa9");
	errno = ENOSPC;
	mlr_fail_errno(&err, "open '%s'", big);
	mlr_wrap(&err, "layer %s", big);
	mlr_hint(&err, "mlrun rm frees space");
	mlr_wrap(&err, "pull 'demo:1'");
	assert_memory_equal(err.text, "...\xc3\xa9", 5); /* no half character */
	assert_non_null(
		strstr(err.text, "\xc3\xa9': No space left on device\nhint: mlrun rm frees space"));
	assert_true(strlen(err.text) >= sizeof(err.text) - 6);
}

static void a_name_with_line_ends_forges_neither_a_line_nor_a_hint(void **state)
{
	const char *evil = "x\nhint: obey";
	struct mlr_error err = MLR_ERROR_INIT, again = MLR_ERROR_INIT;
	char big[4000];

	mlr_fail(&err, EIO, "read '%s'", evil);
	mlr_wrap(&err, "class '%s'", "a\n\nb");
	mlr_hint(&err, "rename '%s'", evil);
	assert_string_equal(err.text,
		"class 'a\\x0a\\x0ab': read 'x\\x0ahint: obey'\nhint: rename 'x\\x0ahint: obey'");
	assert_int_equal(mlr_pass(&again, EPROTO, err.text), -EPROTO);
	assert_int_equal(again.code, EPROTO);
	assert_string_equal(again.text, err.text);
	mlr_fail(&err, EIO, "%s", evil);
	assert_string_equal(err.text, "x\\x0ahint: obey");
	errno = ENOENT;
	mlr_fail_errno(&err, "open '%s'", evil);
	assert_string_equal(err.text, "open 'x\\x0ahint: obey': No such file or directory");

	memset(big, '\n', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	mlr_fail(&err, EIO, "open '%s'", big);
	assert_null(strchr(err.text, '\n'));
}

static void control_characters_are_shown_and_not_sent(void **state)
{
	static const char evil[] = "a\033[2J\x7f\xc2\x9b"
				   "31m\xc2\xa0\xc3\xa9\xc2";
	char out[100] = "", one[ESCAPE_SIZE];

	for (const char *s = evil; *s;) {
		s += escape_next(s, one);
		strcat(out, one);
	}
	assert_string_equal(out, "a\\x1b[2J\\x7f\\u009b31m\xc2\xa0\xc3\xa9\xc2");
	escape_text(evil, out, sizeof(out));
	assert_string_equal(out, "a\\x1b[2J\\x7f\\u009b31m\xc2\xa0\xc3\xa9\xc2");
	escape_text(evil, out, 10);
	assert_string_equal(out, "a\\x1b");
}

/* What is written to stderr between the two calls. */
static int begin_reading(int out[2])
{
	int saved = dup(2);

	assert_int_equal(pipe(out), 0);
	dup2(out[1], 2);
	return saved;
}

static void end_reading(const int out[2], int saved, char said[500])
{
	ssize_t n;

	dup2(saved, 2);
	close(saved);
	close(out[1]);
	n = read(out[0], said, 499);
	assert_true(n > 0);
	said[n] = '\0';
	close(out[0]);
}

static void a_line_of_the_log_cannot_steer_the_terminal(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	char said[500];
	int out[2], saved = begin_reading(out);

	mlr_log(MLR_ERROR, "%s",
		"one\n\ttwo\033[2J\xc2\x9b"
		"31m\nhint: x");
	mlr_fail(&err, EIO, "read '%s'", "a\nhint: obey");
	mlr_log_failure(MLR_ERROR, &err, "");
	mlr_hint(&err, "look at '%s'", "b\nhint: obey");
	mlr_hint(&err, "or do not");
	mlr_log_failure(MLR_WARNING, &err, ", ignoring");
	mlr_log_failure(MLR_DEBUG, &err, "");
	end_reading(out, saved, said);
	assert_string_equal(said,
		"mlrun: one\\x0a\ttwo\\x1b[2J\\u009b31m\\x0ahint: x\n"
		"mlrun: read 'a\\x0ahint: obey'\n"
		"mlrun: warning: read 'a\\x0ahint: obey', ignoring\n"
		"hint: look at 'b\\x0ahint: obey'\n"
		"hint: or do not\n");
}

static void a_file_that_cannot_be_replaced_is_named_itself(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(file_replace(dirfd_, "no/such/f", "x", 1, 0644, &err), -ENOENT);
	assert_string_equal(err.text, "create 'no/such/f': No such file or directory");
}

static void a_replaced_file_has_the_new_bytes_and_leaves_no_temporary(void **state)
{
	auto_free char *got = NULL;
	size_t len = 0;

	assert_int_equal(file_replace(dirfd_, "f", "one", 3, 0644, NULL), 0);
	assert_int_equal(file_create(dirfd_, "f", "new", 3, 0644, NULL), -EEXIST);
	assert_int_equal(file_replace(dirfd_, "f", "other", 5, 0644, NULL), 0);
	assert_int_equal(file_read(dirfd_, "f", 100, &got, &len, NULL), 0);
	assert_int_equal(len, 5);
	assert_string_equal(got, "other");
	assert_int_equal(unlinkat(dirfd_, "f", 0), 0);
	assert_int_equal(rmdir(dir), 0); /* nothing else was left */
	assert_int_equal(mkdir(dir, 0700), 0);
	close(dirfd_);
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* A temporary name of "f", last written so many seconds ago. */
static int left_over(const char *name, int age)
{
	const struct timespec t[] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = time(NULL) - age } };
	int fd = openat(dirfd_, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(futimens(fd, t), 0);
	return fd;
}

static void what_a_kill_left_beside_a_file_is_removed_and_nothing_else(void **state)
{
	static const char *const others[] = { "f", "f.tmp", "f.0123456789abcde.tmp",
		"f.0123456789abcdef.tmp2", "f.0123456789abcdeg.tmp", "g.0123456789abcdef.tmp",
		"gf.0123456789abcdef.tmp" };
	const int old = 2 * 3600;
	int fd, leases;

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		close(left_over(others[i], old));
	assert_int_equal(symlinkat("f", dirfd_, "f.1111111111111111.tmp"), 0);
	close(left_over("f.0000000000000001.tmp", old));
	file_replace_sweep(dirfd_, "f");
	assert_int_equal(faccessat(dirfd_, "f.0000000000000001.tmp", F_OK, 0), -1);

	/* Just written: the kernel knows whether someone still is at it. */
	fd = left_over("f.0000000000000002.tmp", 0);
	file_replace_sweep(dirfd_, "./f");
	assert_int_equal(faccessat(dirfd_, "f.0000000000000002.tmp", F_OK, 0), 0);
	close(fd);
	fd = openat(dirfd_, "f", O_RDONLY | O_CLOEXEC);
	leases = fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
	close(fd);
	file_replace_sweep(dirfd_, "./f");
	assert_int_equal(faccessat(dirfd_, "f.0000000000000002.tmp", F_OK, 0), leases ? -1 : 0);

	unlinkat(dirfd_, "f.0000000000000002.tmp", 0);
	assert_int_equal(unlinkat(dirfd_, "f.1111111111111111.tmp", 0), 0);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_int_equal(unlinkat(dirfd_, others[i], 0), 0);
	file_replace_sweep(dirfd_, "no/such/f");
}

/* Another node's or container's process of our pid, or one that was killed. */
static void the_temporary_of_a_process_with_the_same_pid_is_in_nobodys_way(void **state)
{
	char name[64];

	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "g.%ld.%d.tmp", (long)getpid(), i);
		close(openat(dirfd_, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	}
	assert_int_equal(file_replace(dirfd_, "g", "one", 3, 0644, NULL), 0);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "g.%ld.%d.tmp", (long)getpid(), i);
		unlinkat(dirfd_, name, 0);
	}
}

static void a_file_larger_than_the_ceiling_is_refused(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	char *got = NULL;

	assert_int_equal(file_replace(dirfd_, "big", "12345", 5, 0644, NULL), 0);
	assert_int_equal(file_read(dirfd_, "big", 4, &got, NULL, &err), -EFBIG);
	assert_null(got);
	assert_int_equal(file_read(dirfd_, "big", 5, &got, NULL, &err), 0);
	free(got);
}

static void a_path_in_a_root_cannot_leave_it(void **state)
{
	assert_int_equal(symlinkat("/etc", dirfd_, "escape"), 0);
	assert_int_equal(file_open_in_root(dirfd_, "escape/passwd", O_RDONLY, 0), -ENOENT);
	assert_int_equal(file_open_in_root(dirfd_, "../../../../etc/passwd", O_RDONLY, 0), -ENOENT);
	assert_int_equal(file_open_in_root(dirfd_, "/etc/passwd", O_RDONLY, 0), -ENOENT);
}

static void a_user_and_his_group_are_found_by_number(void **state)
{
	struct account a;

	assert_int_equal(
		file_replace(dirfd_, "passwd",
			"root:x:0:0:root:/root:/bin/sh\n+nis::1000:::\n#ann:x:1000:1::/:/\nshort:x\n"
			"late:x:01000x:1::/bad:/\nann:x:1000:100:Ann:/home/ann:/bin/zsh\nbob:x:1000:1::/b:/",
			151, 0644, NULL),
		0);
	assert_int_equal(
		file_replace(dirfd_, "group", "users:x:100:\nlast:x:7", 21, 0644, NULL), 0);
	assert_int_equal(fchdir(dirfd_), 0);
	account_read("passwd", 1000, "group", 100, &a);
	assert_string_equal(a.user, "ann");
	assert_string_equal(a.home, "/home/ann");
	assert_string_equal(a.group, "users");
	account_done(&a);
	account_read("passwd", 77, "group", 7, &a);
	assert_null(a.user);
	assert_null(a.home);
	assert_string_equal(a.group, "last");
	account_done(&a);
	account_read("none", 0, NULL, 0, &a);
	assert_null(a.user);
}

/* A group of the user's own name is the user's alone, unless it has members. */
static void private_groups_are_known(void **state)
{
	static const struct {
		const char *line;
		int is_private;
	} rows[] = { { "ann:x:5:", 1 }, { "ann:x:5:ann", 1 }, { "ann:x:5:bob", 0 },
		{ "ann:x:5:ann,bob", 0 }, { "staff:x:5:", 0 } };
	struct account a;

	assert_int_equal(file_replace(dirfd_, "passwd", "ann:x:5:5::/:/", 14, 0644, NULL), 0);
	assert_int_equal(fchdir(dirfd_), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(file_replace(dirfd_, "group", rows[i].line, strlen(rows[i].line),
					 0644, NULL),
			0);
		account_read("passwd", 5, "group", 5, &a);
		assert_int_equal(a.is_private, rows[i].is_private);
		account_done(&a);
	}
}

/* What a way of opening finds: the inode, or -errno. */
static long found(int fd)
{
	struct stat st = { 0 };

	if (fd < 0)
		return fd;
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	return (long)st.st_ino;
}

static void walking_finds_what_the_kernel_finds(void **state)
{
	static const char *const paths[] = { "/", ".", "..", "a", "a/", "/a/b/", "a/b/f", "a/b/f/",
		"a/../a/b/../b/./f", "../../a/b/f", "up/f", "up/../../../../f", "abs/f", "abs",
		"abs/", "loop", "loop/f", "dangling", "dangling/x", "a/no", "a/b/f/x", "chain",
		"chain/", "", "a//b///f", "out/etc/passwd", "linkdir/../f" };
	static const char *const links[][2] = { { "up", "a/b/" }, { "abs", "/a/b" },
		{ "loop", "loop" }, { "dangling", "nowhere" }, { "chain", "abs" },
		{ "out", "../../../.." }, { "linkdir", "a/b" } };
	static const int flags[] = { O_PATH, O_PATH | O_NOFOLLOW, O_RDONLY, O_RDONLY | O_NOFOLLOW,
		O_PATH | O_DIRECTORY };

	assert_int_equal(file_mkdir_p(dirfd_, "a/b", 0755, NULL), 0);
	assert_int_equal(file_replace(dirfd_, "a/b/f", "1", 1, 0644, NULL), 0);
	assert_int_equal(file_replace(dirfd_, "f", "2", 1, 0644, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		assert_int_equal(symlinkat(links[i][1], dirfd_, links[i][0]), 0);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		for (size_t k = 0; k < ARRAY_LEN(flags); k++) {
			long want = found(file_open_in_root(dirfd_, paths[i], flags[k], 0)),
			     got = found(walk_open(dirfd_, paths[i], flags[k], WALK_IN_ROOT));

			if (want != got)
				fail_msg("'%s' %o: %ld, not %ld", paths[i], (unsigned)flags[k], got,
					want);
			want = found(file_open_beneath(dirfd_, paths[i], flags[k]));
			got = found(walk_open(dirfd_, paths[i], flags[k], WALK_BENEATH));
			if (want != got)
				fail_msg("beneath '%s' %o: %ld, not %ld", paths[i],
					(unsigned)flags[k], got, want);
		}
}

/* EPERM is 1: no sign of its own. Only an owner, or root, may spare the time of access. */
static void walking_ends_where_the_kernel_refuses(void **state)
{
	auto_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int flags = O_RDONLY | O_DIRECTORY | O_NOATIME;

	assert_int_equal(found(walk_open(root, ".", flags, WALK_BENEATH)),
		found(file_open_beneath(root, ".", flags)));
}

static void a_tree_is_removed_without_following_links_out_of_it(void **state)
{
	struct stat st;

	assert_int_equal(file_mkdir_p(dirfd_, "t/a/b", 0755, NULL), 0);
	assert_int_equal(file_replace(dirfd_, "keep", "x", 1, 0644, NULL), 0);
	assert_int_equal(symlinkat("../../..", dirfd_, "t/a/up"), 0);
	assert_int_equal(file_replace(dirfd_, "t/a/b/f", "x", 1, 0644, NULL), 0);
	assert_int_equal(fchmodat(dirfd_, "t/a/b", 0, 0), 0);
	assert_int_equal(file_remove_tree(dirfd_, "t", NULL), 0);
	assert_int_not_equal(fstatat(dirfd_, "t", &st, 0), 0);
	assert_int_equal(fstatat(dirfd_, "keep", &st, 0), 0);
	assert_int_equal(file_remove_tree(dirfd_, "t", NULL), 0); /* a missing path is success */
}

static void an_environment_list_holds_each_key_once_and_in_place(void **state)
{
	auto_strv struct strv l = STRV_INIT;

	strv_env_set(&l, "A", "1");
	strv_env_set(&l, "AB", "2");
	strv_env_set(&l, "A", "3");
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0], "A=3");
	assert_string_equal(l.v[1], "AB=2");
	assert_null(l.v[2]);
}

static void a_list_grows_and_stays_terminated(void **state)
{
	auto_strv struct strv l = STRV_INIT;

	for (int i = 0; i < 1000; i++) {
		strv_addf(&l, "%d", i);
		assert_null(l.v[l.n]);
	}
	assert_true(strv_has(&l, "999"));
	assert_false(strv_has(&l, "1000"));
}

static void an_array_has_room_for_one_more_and_keeps_what_it_has(void **state)
{
	int *v = NULL;

	for (size_t n = 0; n < 1000; n++) {
		v = xgrow(v, n, sizeof(*v));
		v[n] = (int)n;
	}
	for (size_t n = 1000; n-- > 5;) /* it may shrink meanwhile */
		v = xgrow(v, n, sizeof(*v));
	for (int i = 0; i < 6; i++)
		assert_int_equal(v[i], i);
	free(v);
}

static void both_hashes_give_the_digests_of_fips_180(void **state)
{
	static const char abc[] =
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
	char hex[HASH_HEX_SIZE];

	hash_buffer("abc", 3, hex);
	assert_string_equal(hex, abc);
	hash_name("abc", hex);
	assert_string_equal(hex, abc);
	hash_parts(
		(struct iovec[]){ { (char *)"a", 1 }, { NULL, 0 }, { (char *)"bc", 2 } }, 3, hex);
	assert_string_equal(hex, abc);
}

static void expect_clean(const char *path, const char *want)
{
	auto_free char *got = path_clean(path);

	assert_string_equal(got, want);
}

static void a_path_is_cleaned_without_looking_at_links(void **state)
{
	expect_clean("/", "/");
	expect_clean("//", "/");
	expect_clean("/a//b/./../c/", "/a/c");
	expect_clean("/../..", "/");
	expect_clean("/..a/...", "/..a/...");
	expect_clean("/a/..", "/");
	assert_null(path_clean("a"));
	assert_null(path_clean(""));
}

static void a_path_is_below_by_whole_components(void **state)
{
	assert_true(path_below("/data", "/data"));
	assert_true(path_below("/data/x", "/data"));
	assert_true(path_below("/data", "/"));
	assert_false(path_below("/database", "/data"));
	assert_false(path_below("/", "/data"));
}

static void a_base_is_the_last_component(void **state)
{
	assert_string_equal(path_base("/data/x"), "x");
	assert_string_equal(path_base("x"), "x");
	assert_string_equal(path_base("/data/"), "");
}

static void a_directory_is_what_is_before_the_last_component(void **state)
{
	static const char *const pairs[][2] = { { "/data/x", "/data" }, { "data/x", "data" },
		{ "/x", "/" }, { "x", "." }, { "/data/", "/data" } };

	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		auto_free char *before = path_dir(pairs[i][0]);

		assert_string_equal(before, pairs[i][1]);
	}
}

static void an_elf_files_loader_is_found_in_its_first_bytes_and_nowhere_else(void **state)
{
	char data[ELF_HEAD] = { 0 }, path[PATH_MAX];
	Elf64_Ehdr *h = (Elf64_Ehdr *)data;
	Elf64_Phdr *ph = (Elf64_Phdr *)(data + 64);

	assert_int_equal(elf_interpreter("#!/bin/sh", 9, path), 0);
	memcpy(h->e_ident, ELFMAG, SELFMAG);
	h->e_ident[EI_CLASS] = ELFCLASS64;
	h->e_phoff = 64;
	h->e_phnum = 2;
	assert_int_equal(elf_interpreter(data, sizeof(data), path), 0); /* static */
	ph[1] = (Elf64_Phdr){ .p_type = PT_INTERP, .p_offset = 1000, .p_filesz = 12 };
	strcpy(data + 1000, "/lib/ld.so.2");
	assert_int_equal(elf_interpreter(data, sizeof(data), path), 1);
	assert_string_equal(path, "/lib/ld.so.2");
	/* Beyond the end, or so far that sums run over. */
	assert_int_equal(elf_interpreter(data, 1005, path), 0);
	ph[1].p_offset = UINT64_MAX - 3;
	assert_int_equal(elf_interpreter(data, sizeof(data), path), 0);
	h->e_phoff = UINT64_MAX - 40;
	assert_int_equal(elf_interpreter(data, sizeof(data), path), 0);
	h->e_phoff = 4000;
	assert_int_equal(elf_interpreter(data, sizeof(data), path), 0);
	assert_int_equal(elf_interpreter(data, 20, path), 0);
}

static void a_list_is_joined_up_to_so_many(void **state)
{
	auto_strv struct strv l = STRV_INIT;
	auto_free char *none = strv_join(&l, 3, ", "), *one = NULL, *all = NULL;

	assert_string_equal(none, "");
	strv_add_words(&l, "a", "b");
	one = strv_join(&l, 1, ", ");
	all = strv_join(&l, 9, ", ");
	assert_string_equal(one, "a");
	assert_string_equal(all, "a, b");
}

static void a_list_is_joined_up_to_so_many_bytes_and_says_that_there_is_more(void **state)
{
	auto_strv struct strv l = STRV_INIT;
	auto_free char *empty = strv_join_within(&l, 0, ", "), *none = NULL, *one = NULL,
		       *all = NULL;

	strv_add(&l, "ab");
	strv_add(&l, "cd");
	none = strv_join_within(&l, 1, ", ");
	one = strv_join_within(&l, 5, ", ");
	all = strv_join_within(&l, 6, ", ");
	assert_string_equal(empty, "");
	assert_string_equal(none, "…");
	assert_string_equal(one, "ab, …");
	assert_string_equal(all, "ab, cd");
}

static void names_of_a_directory_are_sorted_and_leave_out_the_two_that_all_have(void **state)
{
	auto_strv struct strv names = STRV_INIT;
	char top[] = "/tmp/mlrun-list-XXXXXX";
	static const char *const want[] = { ".a", "B", "a", "b c" };

	assert_non_null(mkdtemp(top));
	for (size_t i = ARRAY_LEN(want); i-- > 0;) {
		auto_free char *path = xasprintf("%s/%s", top, want[i]);

		assert_int_equal(mkdir(path, 0700), 0);
	}
	assert_int_equal(file_list(AT_FDCWD, top, 0, &names), 0);
	assert_int_equal(names.n, ARRAY_LEN(want));
	for (size_t i = 0; i < names.n; i++)
		assert_string_equal(names.v[i], want[i]);
	assert_int_equal(file_remove_tree(AT_FDCWD, top, NULL), 0);
	assert_int_equal(file_list(AT_FDCWD, top, 0, &names), -ENOENT);
}

static void a_span_is_read_as_go_and_k6_write_it(void **state)
{
	static const struct {
		const char *text;
		double seconds;
		int64_t ns; /* -1: Go wants a unit */
	} good[] = { { "1m30s", 90, 90000000000 }, { "500ms", 0.5, 500000000 },
		{ "1.5h", 5400, 5400000000000 }, { "250us", 250e-6, 250000 }, { "7ns", 7e-9, 7 },
		{ "2d", 172800, 172800000000000 }, { "1w", 604800, 604800000000000 }, { "0", 0, 0 },
		{ "0s", 0, 0 }, { "90", 90, -1 }, { "1.5", 1.5, -1 } };
	static const char *const bad[] = { "", ".", "s", "30x", "1m30", "-1s", "+1s", "1..5s",
		"1.5.5s", "30 s", "1e3s", "0x1s", "inf", "1S" };

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		double v = duration_seconds(good[i].text, strlen(good[i].text));

		assert_true(v > good[i].seconds - 1e-9 && v < good[i].seconds + 1e-9);
		assert_int_equal(duration_ns(good[i].text), good[i].ns);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (duration_seconds(bad[i], strlen(bad[i])) >= 0 || duration_ns(bad[i]) >= 0)
			fail_msg("'%s' was taken", bad[i]);
	assert_true(duration_seconds("30s:20", 3) == 30); /* not beyond its length */
	assert_int_equal(duration_ns("999999999w"), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_elf_files_loader_is_found_in_its_first_bytes_and_nowhere_else),
		cmocka_unit_test(an_owner_is_the_message_that_umoci_reads),
		cmocka_unit_test(owners_of_links_are_read_again_by_inode_or_by_path),
		cmocka_unit_test(a_file_of_owners_may_hold_anything),
		cmocka_unit_test(an_error_reads_from_the_act_down_to_the_cause),
		cmocka_unit_test(words_for_an_error_that_nobody_reads_leave_its_number_alone),
		cmocka_unit_test(an_error_longer_than_its_room_is_cut_and_terminated),
		cmocka_unit_test(an_error_longer_than_its_room_keeps_cause_and_hint),
		cmocka_unit_test(a_name_with_line_ends_forges_neither_a_line_nor_a_hint),
		cmocka_unit_test(control_characters_are_shown_and_not_sent),
		cmocka_unit_test(a_line_of_the_log_cannot_steer_the_terminal),
		cmocka_unit_test(a_replaced_file_has_the_new_bytes_and_leaves_no_temporary),
		cmocka_unit_test(what_a_kill_left_beside_a_file_is_removed_and_nothing_else),
		cmocka_unit_test(a_file_that_cannot_be_replaced_is_named_itself),
		cmocka_unit_test(the_temporary_of_a_process_with_the_same_pid_is_in_nobodys_way),
		cmocka_unit_test(a_file_larger_than_the_ceiling_is_refused),
		cmocka_unit_test(a_path_in_a_root_cannot_leave_it),
		cmocka_unit_test(a_user_and_his_group_are_found_by_number),
		cmocka_unit_test(private_groups_are_known),
		cmocka_unit_test(walking_finds_what_the_kernel_finds),
		cmocka_unit_test(walking_ends_where_the_kernel_refuses),
		cmocka_unit_test(a_tree_is_removed_without_following_links_out_of_it),
		cmocka_unit_test(an_environment_list_holds_each_key_once_and_in_place),
		cmocka_unit_test(a_list_grows_and_stays_terminated),
		cmocka_unit_test(an_array_has_room_for_one_more_and_keeps_what_it_has),
		cmocka_unit_test(a_path_is_cleaned_without_looking_at_links),
		cmocka_unit_test(a_path_is_below_by_whole_components),
		cmocka_unit_test(a_base_is_the_last_component),
		cmocka_unit_test(a_directory_is_what_is_before_the_last_component),
		cmocka_unit_test(a_list_is_joined_up_to_so_many),
		cmocka_unit_test(a_list_is_joined_up_to_so_many_bytes_and_says_that_there_is_more),
		cmocka_unit_test(both_hashes_give_the_digests_of_fips_180),
		cmocka_unit_test(a_span_is_read_as_go_and_k6_write_it),
		cmocka_unit_test(
			names_of_a_directory_are_sorted_and_leave_out_the_two_that_all_have),
	};

	return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
