#include "train/cpus.h"

#include "base/machine.h"

#include <sched.h>

static int at_most(int n, long long quota_us, long long period_us)
{
	long long cpus;

	if (quota_us <= 0 || period_us <= 0)
		return n;
	cpus = (quota_us + period_us - 1) / period_us;
	return cpus < n ? (int)cpus : n;
}

/* Apply the quota of one control group's directory. */
static int limit_by_dir(const char *dir, int v2, int n)
{
	auto_free char *a = xasprintf("%s/%s", dir, v2 ? "cpu.max" : "cpu.cfs_quota_us");
	auto_free char *b = xasprintf("%s/cpu.cfs_period_us", dir);
	auto_free char *quota = NULL, *period = NULL;
	long long q = 0, p = 0;

	if (file_read(AT_FDCWD, a, 4096, &quota, NULL, NULL) < 0)
		return n;
	if (v2) /* "max 100000" has no quota */
		return sscanf(quota, "%lld %lld", &q, &p) == 2 ? at_most(n, q, p) : n;
	if (file_read(AT_FDCWD, b, 4096, &period, NULL, NULL) < 0)
		return n;
	return at_most(n, atoll(quota), atoll(period));
}

/* Apply the quota of every level from a group up to the root: any may be the smallest. */
static int limit_by_group(const char *mount, const char *group, int v2, int n)
{
	auto_free char *dir = xasprintf("%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
	size_t stop = strlen(mount);

	for (;;) {
		char *slash;

		n = limit_by_dir(dir, v2, n);
		slash = strrchr(dir, '/');
		if (strlen(dir) <= stop || !slash)
			return n;
		*slash = '\0';
	}
}

/* Is one of the comma-separated controllers "cpu"? */
static int has_cpu(const char *controllers)
{
	auto_free char *list = xstrdup(controllers);
	char *save;

	for (char *c = strtok_r(list, ",", &save); c; c = strtok_r(NULL, ",", &save))
		if (strcmp(c, "cpu") == 0)
			return 1;
	return 0;
}

/* cgroups(7): lines "0::/group" (v2) and "4:cpu,cpuacct:/group" (v1). */
static int limit_by_cgroups(const char *root, int n)
{
	auto_free char *path = xasprintf("%s/proc/self/cgroup", root), *text = NULL;
	char *save;

	if (file_read(AT_FDCWD, path, 1 << 20, &text, NULL, NULL) < 0)
		return n;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *controllers = strchr(line, ':'), *group;

		if (!controllers || !(group = strchr(++controllers, ':')))
			continue;
		*group++ = '\0';
		if (!*controllers) {
			auto_free char *mount = xasprintf("%s/sys/fs/cgroup", root);

			n = limit_by_group(mount, group, 1, n);
		} else if (has_cpu(controllers)) {
			auto_free char *mount = xasprintf("%s/sys/fs/cgroup/%s", root, controllers);

			n = limit_by_group(mount, group, 0, n);
		}
	}
	return n;
}

int cpus_available(const char *root)
{
	const char *slurm = getenv("SLURM_CPUS_PER_TASK");
	int n = limit_by_cgroups(root, (int)processors_count());

	if (slurm && atoi(slurm) > 0 && atoi(slurm) < n)
		n = atoi(slurm);
	return n > 0 ? n : 1;
}

int cpus_cut(int threads, int warns)
{
	int n = cpus_available("");

	if (threads <= n)
		return threads;
	if (warns)
		mlr_warning("%d threads are more than the %d CPUs: %d compute", threads, n, n);
	return n;
}

#define SEAT_CPUS 4096 /* CPUs with higher numbers count as not shared */

/* The node of a rank and the CPUs on which it may run. */
struct seat {
	char host[256];
	uint8_t may[SEAT_CPUS];
};

static void take_seat(struct seat *s)
{
	cpu_set_t *set = CPU_ALLOC(SEAT_CPUS);
	size_t size = CPU_ALLOC_SIZE(SEAT_CPUS);

	memset(s, 0, sizeof(*s));
	gethostname(s->host, sizeof(s->host) - 1);
	if (set && sched_getaffinity(0, size, set) == 0)
		for (int i = 0; i < SEAT_CPUS; i++)
			s->may[i] = CPU_ISSET_S((size_t)i, size, set) != 0;
	CPU_FREE(set);
}

/* Sum a rank's CPUs, each divided by the number of the node's ranks that may run on it. */
static double share_of(const struct seat *seats, int ranks, int rank)
{
	double sum = 0;

	for (int i = 0; i < SEAT_CPUS; i++) {
		int users = 0;

		if (!seats[rank].may[i])
			continue;
		for (int k = 0; k < ranks; k++)
			users += seats[k].may[i] && strcmp(seats[k].host, seats[rank].host) == 0;
		sum += 1.0 / users;
	}
	return sum;
}

int cpus_share(struct dist *d, const char *root, int *ret, struct mlr_error *err)
{
	auto_free struct seat *seats = xcalloc((size_t)d->ranks, sizeof(*seats));
	auto_free double *shares = xcalloc((size_t)d->ranks, sizeof(*shares));
	int n = cpus_available(root), share;
	struct seat own;

	if (d->ranks == 1) {
		*ret = n;
		return 0;
	}
	take_seat(&own);
	TRY(d->ops->gather(d, &own, sizeof(own), seats, err));
	for (int k = 0; d->rank == 0 && k < d->ranks; k++)
		shares[k] = share_of(seats, d->ranks, k);
	TRY(d->exchange.broadcast(
		d->exchange.ctx, shares, (size_t)d->ranks * sizeof(*shares), err));
	share = (int)(shares[d->rank] + 1e-6);
	share = share < 1 ? 1 : share;
	*ret = share < n ? share : n;
	return 0;
}
