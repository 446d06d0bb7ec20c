#include "exec/parts.h"

#include "plan/capability.h"

static int keep(
	const char *option, const char *text, long fd, struct plan *p, struct mlr_error *err)
{
	if (fcntl((int)fd, F_GETFD) < 0)
		return mlr_fail(err, EBADF, "%s %s: descriptor %ld is not open", option, text, fd);
	if (fd > 2)
		plan_keep_fd(p, (int)fd);
	return 0;
}

/* Keep the descriptors "5,9". */
static int keep_listed(const char *text, struct plan *p, struct mlr_error *err)
{
	for (const char *s = text;; s++) {
		char *end;
		long fd = strtol(s, &end, 10);
		int r;

		if (end == s || (*end && *end != ',') || fd < 0 || fd > INT_MAX)
			return mlr_fail(err, EINVAL,
				"--preserve-fd '%s': expected numbers, FD[,FD]...", text);
		r = keep("--preserve-fd", text, fd, p, err);
		if (r < 0 || !*end)
			return r;
		s = end;
	}
}

/* Keep all that the caller passes on. */
static void keep_inherited(struct plan *p)
{
	auto_dir DIR *d = opendir("/proc/self/fd");

	for (struct dirent *e; (e = file_next(d));) {
		int fd = atoi(e->d_name);

		if (fd > 2 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
			plan_keep_fd(p, fd);
	}
}

int confinement_fds(const struct exec_options *o, struct plan *p, struct mlr_error *err)
{
	char count[16];
	int r = 0;

	if (exec_dialect_of(o)->keeps_fds)
		keep_inherited(p);
	snprintf(count, sizeof(count), "%d", o->preserve_fds);
	for (int fd = 3; r == 0 && fd < 3 + o->preserve_fds; fd++)
		r = keep("--preserve-fds", count, fd, p, err);
	for (size_t i = 0; r == 0 && i < o->keep_fds.n; i++)
		r = keep_listed(o->keep_fds.v[i], p, err);
	return r;
}

/* sethostname(2) takes 64 bytes; RFC 1123 defines the characters. */
static int plan_hostname(const char *name, struct plan *p, struct mlr_error *err)
{
	size_t len = strlen(name);

	if (len == 0 || len > 64 || name[0] == '-' ||
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") !=
			len)
		return mlr_fail(err, EINVAL,
			"--hostname '%s': expected 1 to 64 letters, digits, '.' and '-'", name);
	p->hostname = xstrdup(name);
	p->namespaces |= PLAN_NS_UTS;
	return 0;
}

/* Drop "CHOWN", "chown,kill" like podman, or "ALL". */
static int plan_cap_drop(const char *text, struct plan *p, struct mlr_error *err)
{
	auto_free char *list = xstrdup(text);
	char *save = NULL, *name = strtok_r(list, ",", &save);

	if (!name)
		return mlr_fail(err, EINVAL, "--cap-drop: expected a capability's name or ALL");
	for (; name; name = strtok_r(NULL, ",", &save)) {
		uint64_t bits = capability_bits(name);

		if (bits == 0)
			return mlr_fail(err, EINVAL,
				"--cap-drop: unknown capability '%s': capabilities(7) lists them",
				name);
		p->caps_dropped |= bits;
	}
	return 0;
}

int confinement_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err)
{
	int r = 0;

	p->init = o->init;
	p->namespaces |= (o->pid || o->init ? PLAN_NS_PID : 0) | (o->ipc ? PLAN_NS_IPC : 0) |
		(o->no_network ? PLAN_NS_NET : 0);
	p->seccomp = o->seccomp ? xstrdup(o->seccomp) : NULL;
	if (o->hostname)
		r = plan_hostname(o->hostname, p, err);
	for (size_t i = 0; r == 0 && i < o->ulimits.n; i++)
		r = limit_plan(o->ulimits.v[i], p, err);
	if (r == 0 && o->cpus)
		r = limit_cpus(o->cpus, p, err);
	if (r == 0 && o->memory)
		r = limit_memory(o->memory, p, err);
	for (size_t i = 0; r == 0 && i < o->cap_drop.n; i++)
		r = plan_cap_drop(o->cap_drop.v[i], p, err);
	return r;
}
