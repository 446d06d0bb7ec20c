#include "runtime/running.h"

#include "base/proc.h"

#define COMMAND_MAX (4u << 20) /* bytes of arguments */

/* A mount namespace already seen, and its container's index in the list, or -1. */
struct seen {
	ino_t ns;
	long container;
};

struct search {
	int proc;
	struct stat self; /* mlrun's own program file */
	ino_t ns;         /* the caller's mount namespace */
	struct seen *seen;
	size_t n_seen;
	struct running_list found;
	unsigned long long *starts; /* of each container's oldest process */
};

void running_list_done(struct running_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		container_done(&l->v[i].container);
		strv_done(&l->v[i].command);
	}
	free(l->v);
	*l = (struct running_list){ 0 };
}

static void search_done(struct search *s)
{
	running_list_done(&s->found);
	free(s->seen);
	free(s->starts);
	fd_close(&s->proc);
}

static int stat_of(const struct search *s, const char *pid, const char *what, struct stat *ret)
{
	char name[48];

	snprintf(name, sizeof(name), "%.16s/%s", pid, what);
	return fstatat(s->proc, name, ret, 0);
}

/* Examine a new mount namespace: its container may be known by its root, new, or none. */
static long look_at(struct search *s, pid_t pid)
{
	struct running r = { .processes = 0 };

	if (container_look(s->proc, pid, &r.container) < 0)
		return -1;
	for (size_t i = 0; i < s->found.n; i++)
		if (s->found.v[i].container.id == r.container.id) {
			container_done(&r.container);
			return (long)i;
		}
	s->found.v = xreallocarray(s->found.v, s->found.n + 1, sizeof(*s->found.v));
	s->starts = xreallocarray(s->starts, s->found.n + 1, sizeof(*s->starts));
	s->found.v[s->found.n] = r;
	return (long)s->found.n++;
}

static long container_of(struct search *s, ino_t ns, pid_t pid)
{
	size_t i = 0;

	while (i < s->n_seen && s->seen[i].ns != ns)
		i++;
	if (i == s->n_seen) {
		long found = look_at(s, pid);

		*xadd(s->seen, s->n_seen) = (struct seen){ ns, found };
	}
	return s->seen[i].container;
}

static void add_process(struct search *s, const char *name)
{
	struct stat owner, ns, exe;
	struct proc_stat st;
	char path[40];
	struct running *r;
	long at;

	snprintf(path, sizeof(path), "%.16s/stat", name);
	if (fstatat(s->proc, name, &owner, 0) < 0 ||
		(geteuid() != 0 && owner.st_uid != geteuid()) ||
		stat_of(s, name, "ns/mnt", &ns) < 0 || ns.st_ino == s->ns ||
		proc_stat_read(s->proc, path, &st) < 0)
		return;
	/* A supervisor, an init of ours, or a process that has not executed its command yet. */
	if (stat_of(s, name, "exe", &exe) == 0 && file_is_one(&exe, &s->self))
		return;
	at = container_of(s, ns.st_ino, st.pid);
	if (at < 0)
		return;
	r = &s->found.v[at];
	if (r->processes++ == 0 || st.start < s->starts[at] ||
		(st.start == s->starts[at] && st.pid < r->pid)) {
		r->pid = st.pid;
		s->starts[at] = st.start;
	}
}

static void read_command(const struct search *s, struct running *r)
{
	auto_free char *text = NULL;
	char name[40];
	size_t len = 0;

	snprintf(name, sizeof(name), "%ld/cmdline", (long)r->pid);
	if (file_read(s->proc, name, COMMAND_MAX, &text, &len, NULL) < 0)
		return;
	for (size_t at = 0; at < len; at += strlen(text + at) + 1)
		strv_add(&r->command, text + at);
}

static int64_t time_of(unsigned long long ticks)
{
	struct timespec now, up;
	long hz = sysconf(_SC_CLK_TCK);

	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	return (int64_t)(now.tv_sec - up.tv_sec + (now.tv_nsec < up.tv_nsec ? -1 : 0) +
		(int64_t)(ticks / (unsigned long long)hz));
}

static int by_age(const void *a, const void *b)
{
	const struct running *x = a, *y = b;

	if (x->started != y->started)
		return x->started < y->started ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int read_processes(struct search *s, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(s->proc, ".", 0);

	if (!d)
		return mlr_fail_errno(err, "read '/proc'");
	for (struct dirent *e; (e = file_next(d));)
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			add_process(s, e->d_name);
	return 0;
}

int running_find(struct running_list *ret, struct mlr_error *err)
{
	auto_call(search_done) struct search s = { .found = { 0 } };
	struct stat ns;

	s.proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s.proc < 0)
		return mlr_fail_errno(err, "open '/proc'");
	if (stat_of(&s, "self", "exe", &s.self) < 0 || stat_of(&s, "self", "ns/mnt", &ns) < 0)
		return mlr_fail_errno(err, "look at '/proc/self'");
	s.ns = ns.st_ino;
	TRY(read_processes(&s, err));
	for (size_t i = 0; i < s.found.n; i++) {
		s.found.v[i].started = time_of(s.starts[i]);
		read_command(&s, &s.found.v[i]);
	}
	sort_all(s.found.v, s.found.n, by_age);
	*ret = s.found;
	s.found = (struct running_list){ 0 };
	return 0;
}
