#include "fakeroot/ids.h"

#include "fakeroot/asked.h"

#define ANCESTORS_MAX 64
#define SWEEP_FROM    1024

static struct fakeroot_ids **table; /* n of them; each stays where it is */
static size_t n;
static struct fakeroot_ids first = { .n_groups = -1 };
static int changed; /* any process, or the first one is not root */

static int by_number(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

void fakeroot_ids_set_groups(struct fakeroot_ids *ids, const uint32_t *groups, size_t n_groups)
{
	uint32_t *v = xcalloc(n_groups + 1, sizeof(*v));

	if (n_groups > 0)
		memcpy(v, groups, n_groups * sizeof(*v));
	qsort(v, n_groups, sizeof(*v), by_number);
	set_ptr(&ids->groups, v);
	ids->n_groups = (int)n_groups;
}

/* A process as /proc shows it. */
struct process {
	pid_t pid, parent;
	unsigned long start;
};

/* The fields after the command's name, which may contain anything but the last ')'. */
static int look(pid_t pid, struct process *ret)
{
	char path[64], state;
	auto_free char *text = NULL;
	const char *rest;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (file_read(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0)
		return -1;
	rest = strrchr(text, ')');
	if (!rest ||
		sscanf(rest + 1,
			" %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lu",
			&state, &parent, &ret->start) != 3)
		return -1;
	ret->pid = pid;
	ret->parent = parent;
	return 0;
}

static struct fakeroot_ids *find(const struct process *p)
{
	for (size_t i = 0; i < n; i++)
		if (table[i]->pid == p->pid && table[i]->start == p->start)
			return table[i];
	return NULL;
}

/* Forget processes that have ended. */
static void sweep(void)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct process p;

		if (look(table[i]->pid, &p) == 0 && p.start == table[i]->start) {
			table[kept++] = table[i];
			continue;
		}
		free(table[i]->groups);
		free(table[i]);
	}
	n = kept;
}

static struct fakeroot_ids *add(const struct process *p, const struct fakeroot_ids *from)
{
	struct fakeroot_ids *ids = xcalloc(1, sizeof(*ids));

	*ids = *from;
	ids->groups = NULL;
	if (from->n_groups > 0)
		fakeroot_ids_set_groups(ids, from->groups, (size_t)from->n_groups);
	ids->pid = p->pid;
	ids->start = p->start;
	/* Children are started mostly to execute another program, which gets neither. */
	ids->keeps_caps = ids->has_kept_caps = 0;
	ids->umask = -1;
	if (n >= SWEEP_FROM && (n & (n - 1)) == 0)
		sweep();
	*xadd(table, n) = ids;
	return ids;
}

/* Find the nearest ancestor whose ids are known, else the first ids. */
static struct fakeroot_ids *inherited(struct process p)
{
	for (int i = 0; i < ANCESTORS_MAX && p.parent > 0; i++) {
		struct fakeroot_ids *ids;

		if (look(p.parent, &p) < 0)
			break;
		ids = find(&p);
		if (ids)
			return ids;
	}
	return &first;
}

/* Describe a thread's process. Most calls come from the thread that made the last one. */
static int look_at_process(pid_t thread, struct process *ret)
{
	static struct process last; /* a thread; its parent is its process here */
	struct process t;

	if (look(thread, &t) < 0)
		return -1;
	if (t.pid != last.pid || t.start != last.start)
		last = (struct process){ t.pid, (pid_t)asked_status(thread, "\nTgid:", 10),
			t.start };
	if (last.parent <= 0)
		return -1;
	if (last.parent != thread)
		return look(last.parent, ret);
	*ret = t;
	return 0;
}

void fakeroot_ids_begin(const struct fakeroot_user *user)
{
	if (user->uid == 0 && user->gid == 0 && user->n_groups == 0)
		return;
	for (int i = 0; i < 3; i++) {
		first.uid[i] = user->uid;
		first.gid[i] = user->gid;
	}
	first.fsuid = user->uid;
	first.fsgid = user->gid;
	fakeroot_ids_set_groups(&first, user->groups, user->n_groups);
	changed = 1;
}

struct fakeroot_ids *fakeroot_ids_of(const struct asked *a, int change)
{
	struct fakeroot_ids *ids;
	struct process p;
	void **note;

	if (!changed && !change)
		return NULL;
	changed |= change;
	note = asked_note(a);
	if (note && *note)
		return *note;
	if (look_at_process(a->pid, &p) < 0)
		return NULL;
	ids = find(&p);
	/* What it has inherited stays, whatever its ancestors become. */
	if (!ids)
		ids = add(&p, inherited(p));
	if (note)
		*note = ids;
	return ids;
}

struct fakeroot_ids *fakeroot_ids_of_user(const struct asked *a)
{
	struct fakeroot_ids *ids = fakeroot_ids_of(a, 0);

	return ids && ids->fsuid != 0 ? ids : NULL;
}

int fakeroot_ids_has_group(const struct fakeroot_ids *ids, uint32_t gid)
{
	for (int i = 0; i < ids->n_groups; i++)
		if (ids->groups[i] == gid)
			return 1;
	return gid == ids->fsgid;
}
