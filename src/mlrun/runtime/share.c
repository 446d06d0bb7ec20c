#include "runtime/share.h"

#include "runtime/door.h"
#include "runtime/userns.h"

#include <sched.h>

#define LOCK_WAIT_MS 60000 /* for the process that makes the container */
#define DOOR_WAIT_MS 10000 /* for a process that has not executed its command yet */

/* Is the list's entry for a process true? A false one could lead us into a forged root. */
static int check(const struct share *s, const struct meeting_entry *e, int inside)
{
	auto_call(container_done) struct container c = { 0 };

	TRY(container_look(s->meeting.proc, (pid_t)e->pid, &c));
	if (container_is_foreign(&c) || strcmp(c.keys.word, s->keys.word) != 0 ||
		(inside && strcmp(c.keys.inside, s->keys.inside) != 0))
		return -ENOENT;
	return 0;
}

struct entry {
	struct share *share;
	int inside; /* enter the container; else only the user namespace, whatever container it is
		       in */
	int namespaces; /* 0: all that the container has */
};

/* A meeting_use: enter through this process. */
static int try_door(void *ctx, const struct meeting_entry *e)
{
	const struct entry *how = ctx;
	struct share *s = how->share;
	auto_call(door_close) struct door d = DOOR_INIT;
	struct mlr_error err;
	int namespaces = how->namespaces, r;

	if (how->inside && strcmp(e->inside, s->keys.inside) != 0)
		return -ENOENT;
	r = door_open(s->meeting.proc, (pid_t)e->pid, &d);
	if (r < 0 || d.start != e->start)
		return -ESRCH;
	r = check(s, e, how->inside);
	if (r == 0 && !namespaces)
		r = namespaces = door_differs(&d);
	if (r >= 0)
		r = door_enter(&d, namespaces, &err);
	if (r == 0)
		s->entered = namespaces;
	if (r == -EACCES || r == -EPERM)
		return -EPERM;
	if (r < 0)
		mlr_debug(
			"cannot enter the container through process %ld: %s", e->pid, strerror(-r));
	return r;
}

/* Enter through the first process that allows it. Returns 1 if entered, 0 if no process is
 * there. */
static int enter_list(struct share *s, const struct meeting_list *l, int inside, int namespaces,
	struct mlr_error *err)
{
	struct entry how = { s, inside, namespaces };
	long pid;
	int r = meeting_use_any(l, try_door, &how, DOOR_WAIT_MS, &pid);

	if (r == -ENOTRECOVERABLE)
		return mlr_fail(err, -r, "enter the namespaces of process %ld", pid);
	if (r == -EPERM)
		return mlr_fail(err, -r,
			"cannot enter the container through process %ld, whose program "
			"is another user's and may not be read",
			pid);
	return r;
}

/* Under the lock, enter the container. With an exclusive lock and nobody in the container, enter
 * the others' user namespace. */
static int try_enter(
	const struct plan *p, struct share *s, enum meeting_lock how, struct mlr_error *err)
{
	auto_call(meeting_list_done) struct meeting_list l = { 0 };
	int r;

	TRY(meeting_lock(&s->meeting, how, LOCK_WAIT_MS, &l, err));
	r = enter_list(s, &l, 1,
		p->enters_any ? 0 : CLONE_NEWUSER | CLONE_NEWNS | userns_clone_flags(p->namespaces),
		err);
	if (r != 0 || how == MEETING_SHARED)
		return r;
	r = enter_list(s, &l, 0, CLONE_NEWUSER, err);
	TRY(r);
	s->in_user_namespace = r;
	s->made = 1;
	return r == 0 ? meeting_drop_dead(&s->meeting, &l, err) : 0;
}

static int enter(const struct plan *p, struct share *s, struct mlr_error *err)
{
	int r;

	container_keys(p, &s->keys);
	TRY(meeting_open(&s->keys, &s->meeting, err));
	/* A shared lock first: processes that find the container do not wait for each other. */
	r = try_enter(p, s, MEETING_SHARED, err);
	if (r != 0)
		return r;
	r = try_enter(p, s, MEETING_ALONE, err);
	if (r == 0)
		meeting_sweep(&s->meeting);
	return r;
}

/* Refuse a container that lacks a namespace of its own that is asked for. */
static int check_namespaces(const struct plan *p, const struct share *s, struct mlr_error *err)
{
	int missing = userns_clone_flags(p->namespaces) & ~s->entered;

	return !missing ? 0
			: mlr_fail(err, EBUSY, "the container runs already, and has the node's %s",
				  missing & CLONE_NEWNET           ? "network"
					  : missing & CLONE_NEWIPC ? "IPC"
					  : missing & CLONE_NEWPID ? "processes"
								   : "host name");
}

int share_enter(const struct plan *p, struct share *ret, struct mlr_error *err)
{
	auto_call(share_done) struct share s = SHARE_INIT;
	int r;

	if (!p->share)
		return SHARE_NOBODY;
	r = enter(p, &s, err);
	if (r > 0 && p->enters_any && check_namespaces(p, &s, err) < 0)
		return -EBUSY;
	if (r < 0) {
		mlr_wrap(err, "share a container ('%s')", p->share);
		if (!err || !strstr(err->text, "\nhint: "))
			mlr_hint(err,
				strncmp(p->share, "tag ", 4) == 0
					? "without --join-tag this process gets a container of its own"
					: "--mpi=none gives this process a container of its own");
		return r;
	}
	*ret = take_struct(&s, SHARE_INIT);
	if (r == 0)
		return SHARE_NOBODY;
	return ret->entered & CLONE_NEWPID ? SHARE_ENTERED_PID : SHARE_ENTERED;
}

int share_open(struct share *s, struct mlr_error *err)
{
	int r;

	if (s->meeting.file < 0)
		return 0;
	r = meeting_add(&s->meeting, s->keys.inside, err);
	if (r == 0 && s->made)
		s->meeting.file = -1; /* execve(2) closes and unlocks it */
	share_done(s);
	return r;
}

void share_done(struct share *s)
{
	meeting_done(&s->meeting);
	*s = (struct share)SHARE_INIT;
}

int share_join(const struct plan *p, struct mlr_error *err)
{
	pid_t pid = p->join;
	auto_close int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_call(container_done) struct container c = { 0 };
	auto_call(door_close) struct door d = DOOR_INIT;
	int r, namespaces;

	if (p->door) {
		namespaces = door_take(p->door, err);
		TRY(namespaces);
		return namespaces & CLONE_NEWPID ? SHARE_ENTERED_PID : SHARE_ENTERED;
	}
	if (proc < 0)
		return mlr_fail_errno(err, "open '/proc'");
	r = door_open(proc, pid, &d);
	if (r == 0 && p->join_start)
		r = d.start == p->join_start ? 0 : -ESRCH;
	else if (r == 0)
		r = container_look(proc, pid, &c);
	if (r == 0 && !p->join_start && container_is_foreign(&c))
		r = -EPERM;
	if (r < 0)
		return container_refuse(pid, r, err);
	namespaces = door_differs(&d);
	if (namespaces < 0)
		return container_refuse(pid, namespaces, err);
	r = door_enter(&d, namespaces, err);
	if (r < 0)
		return r == -EPERM ? container_refuse(pid, r, err) : r;
	return namespaces & CLONE_NEWPID ? SHARE_ENTERED_PID : SHARE_ENTERED;
}
