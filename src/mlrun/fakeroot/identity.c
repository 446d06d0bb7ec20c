/* The fake root's answers on ids: what a process believes to be (setresuid(2), getgroups(2)). */
#include "fakeroot/asked.h"

#include "fakeroot/rights.h"

#define GROUPS_MAX 65536 /* the kernel's NGROUPS_MAX */
#define SAME       ((uint32_t)-1)

static int is_one_of(uint32_t id, const uint32_t v[3])
{
	return id == SAME || id == v[0] || id == v[1] || id == v[2];
}

/* setresuid(2) and its kin on three ids; may: the process is root. */
static int set_three(uint32_t v[3], uint32_t *fs, int may, uint32_t r, uint32_t e, uint32_t s)
{
	if (!may && (!is_one_of(r, v) || !is_one_of(e, v) || !is_one_of(s, v)))
		return -EPERM;
	if (r != SAME)
		v[0] = r;
	if (e != SAME)
		*fs = v[1] = e;
	if (s != SAME)
		v[2] = s;
	return 0;
}

/* setreuid(2): the saved id follows if the real one is set, or the effective one to another. */
static int set_two(uint32_t v[3], uint32_t *fs, int may, uint32_t r, uint32_t e)
{
	uint32_t real = v[0];
	int status = set_three(v, fs, may, r, e, SAME);

	if (status == 0 && (r != SAME || (e != SAME && e != real)))
		v[2] = v[1];
	return status;
}

/* setuid(2) */
static int set_one(uint32_t v[3], uint32_t *fs, int may, uint32_t id)
{
	return may ? set_three(v, fs, 1, id, id, id) : set_three(v, fs, 0, SAME, id, SAME);
}

static int set_fs(uint32_t v[3], uint32_t *fs, int may, uint32_t id)
{
	uint32_t was = *fs;

	if (id != SAME && (may || is_one_of(id, v) || id == was))
		*fs = id;
	return (int)was;
}

/* May it take any id? */
static int may_change(const struct fakeroot_ids *ids)
{
	return ids->uid[1] == 0 || ids->has_kept_caps;
}

static int is_root_in(const uint32_t v[3])
{
	return v[0] == 0 || v[1] == 0 || v[2] == 0;
}

/* PR_SET_KEEPCAPS, as setpriv(1) calls it to set its group after its user. */
static int answer_prctl(struct asked *a)
{
	struct fakeroot_ids *ids = fakeroot_ids_of(a, 1);

	if (ids)
		ids->keeps_caps = asked_arg(a, 1) != 0;
	return asked_pass(a);
}

static int answer_umask(struct asked *a)
{
	struct fakeroot_ids *ids = fakeroot_ids_of(a, 0);

	if (ids)
		ids->umask = (int)asked_arg(a, 0) & 0777;
	return asked_pass(a);
}

/* The calls on users and on groups alternate. */
static int set_ids(struct asked *a, struct fakeroot_ids *ids, int may)
{
	uint32_t i = asked_id(a, 0), b = asked_id(a, 1), s = asked_id(a, 2);
	int call = (int)a->what - FAKEROOT_SETUID, of_group = call % 2;
	uint32_t *v = of_group ? ids->gid : ids->uid, *fs = of_group ? &ids->fsgid : &ids->fsuid;

	switch (call / 2) {
	case 0:
		return set_one(v, fs, may, i);
	case 1:
		return set_two(v, fs, may, i, b);
	case 2:
		return set_three(v, fs, may, i, b, s);
	default:
		return set_fs(v, fs, may, i);
	}
}

static int answer_set(struct asked *a)
{
	struct fakeroot_ids *ids = fakeroot_ids_of(a, 1);
	int was_root, r;

	if (!ids)
		return -ESRCH;
	was_root = is_root_in(ids->uid);
	r = set_ids(a, ids, may_change(ids));
	if (was_root && !is_root_in(ids->uid))
		ids->has_kept_caps = ids->keeps_caps;
	return r;
}

static int answer_setgroups(struct asked *a)
{
	struct fakeroot_ids *ids = fakeroot_ids_of(a, 1);
	uint64_t n = asked_arg(a, 0);
	auto_free uint32_t *v = NULL;

	if (!ids)
		return -ESRCH;
	if (!may_change(ids))
		return -EPERM;
	if (n > GROUPS_MAX)
		return -EINVAL;
	v = xcalloc(n + 1, sizeof(*v));
	if (asked_read(a, asked_arg(a, 1), v, n * sizeof(*v)) < 0)
		return -EFAULT;
	fakeroot_ids_set_groups(ids, v, n);
	return 0;
}

static int answer_getgroups(struct asked *a)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of(a, 0);
	int size = (int)asked_arg(a, 0);

	if (!ids || ids->n_groups < 0)
		return asked_pass(a);
	if (size == 0)
		return ids->n_groups;
	if (size < ids->n_groups)
		return -EINVAL;
	if (ids->n_groups > 0 &&
		asked_write(a, asked_arg(a, 1), ids->groups,
			(size_t)ids->n_groups * sizeof(*ids->groups)) < 0)
		return -EFAULT;
	return ids->n_groups;
}

static int write_three(const struct asked *a, const uint32_t v[3])
{
	for (int i = 0; i < 3; i++)
		if (asked_write(a, asked_arg(a, i), &v[i], sizeof(v[i])) < 0)
			return -EFAULT;
	return 0;
}

static int answer_get(struct asked *a)
{
	const struct fakeroot_ids *ids = fakeroot_ids_of(a, 0);
	int call = (int)a->what - FAKEROOT_GETUID;

	if (!ids)
		return asked_pass(a);
	if (a->what >= FAKEROOT_GETRESUID)
		return write_three(a, a->what == FAKEROOT_GETRESUID ? ids->uid : ids->gid);
	return (int)(call < 2 ? ids->uid : ids->gid)[call % 2];
}

/* Take over the owner of a program that has a set-ID bit. The kernel, with its one id, does not. */
static void take_program(struct fakeroot_ids *ids, int fd)
{
	struct file_owner o;
	struct stat st;

	if (fakeroot_shown(fd, &st, &o) < 0 || !S_ISREG(st.st_mode))
		return;
	if (o.mode & S_ISUID)
		ids->uid[1] = ids->fsuid = o.uid;
	if ((o.mode & S_ISGID) && (o.mode & S_IXGRP))
		ids->gid[1] = ids->fsgid = o.gid;
}

/* As execve(2) does, also if the kernel then cannot execute the file. */
static int answer_exec(struct asked *a)
{
	struct fakeroot_ids *ids = fakeroot_ids_of(a, 0);
	auto_close int fd = ids ? asked_file(a) : -1;

	if (fd < 0)
		return asked_pass(a);
	if (ids->fsuid != 0 && !fakeroot_may(ids, fd, X_OK))
		return -EACCES;
	take_program(ids, fd);
	ids->uid[2] = ids->uid[1];
	ids->gid[2] = ids->gid[1];
	ids->keeps_caps = ids->has_kept_caps = 0;
	return asked_pass(a);
}

int fakeroot_identity_answer(struct asked *a)
{
	switch (a->what) {
	case FAKEROOT_EXECVE:
	case FAKEROOT_EXECVEAT:
		return answer_exec(a);
	case FAKEROOT_PRCTL:
		return answer_prctl(a);
	case FAKEROOT_UMASK:
		return answer_umask(a);
	case FAKEROOT_SETGROUPS:
		return answer_setgroups(a);
	case FAKEROOT_GETGROUPS:
		return answer_getgroups(a);
	default:
		return a->what >= FAKEROOT_GETUID ? answer_get(a) : answer_set(a);
	}
}
