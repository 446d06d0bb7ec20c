#include "store/lease.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "oci/digest.h"
#include "store/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define FOREIGN_SECONDS (7 * 24 * 3600) /* how long a lease of another host or PID namespace counts */
#define SWEEP_EVERY     256 /* one lease in so many cleans up, so that they do not pile up */
#define HEX             64

/* Is the lease still meant? Deletes it when not. */
static int judge(
	int dir, const char *name, const struct store_process *self, struct store_lease *ret)
{
	struct store_process p;
	struct stat sb;
	int alive;

	if (store_process_parse(name + HEX + 1, &p) < 0 ||
		fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	alive = store_process_alive(&p, self);
	if (alive == 0 || (alive < 0 && time(NULL) - sb.st_mtime >= FOREIGN_SECONDS)) {
		unlinkat(dir, name, 0);
		return 0;
	}
	ret->pid = p.pid;
	memcpy(ret->host, p.host, sizeof(ret->host));
	ret->since = sb.st_mtime;
	ret->here = strcmp(p.host, self->host) == 0;
	ret->is_running = alive > 0;
	return 1;
}

static DIR *open_leases(struct store *st)
{
	int fd = openat(store_fd(st), "leases", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? NULL : fdopendir(fd);
}

/* The next lease, of one manifest or of all. */
static const char *next(DIR *d, const char *hex)
{
	struct dirent *e;

	while ((e = readdir(d)))
		if (strlen(e->d_name) > HEX + 1 && (!hex || strncmp(e->d_name, hex, HEX) == 0))
			return e->d_name;
	return NULL;
}

int store_lease_take(struct store *st, const char *manifest, struct mlr_error *err)
{
	struct store_process self;
	const char *hex = oci_digest_hex(manifest);
	char who[STORE_PROCESS_NAME], path[280], facts[96];
	int fd, r = store_process_self(&self);

	if (r < 0)
		return mlr_fail(
			err, -r, "lease: read /proc/self/stat and boot_id: %s", strerror(-r));
	store_process_name(&self, who);
	snprintf(path, sizeof(path), "leases/%.64s.%s", hex, who);
	fd = openat(store_fd(st), path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0 && errno != EEXIST) { /* EEXIST: this very process has it already */
		if (errno == EACCES || errno == EPERM || errno == EROFS || errno == ENOENT)
			return 0;
		if (errno == ENOSPC || errno == EDQUOT) {
			mlr_debug("store: no lease: %s", strerror(errno));
			return 0; /* a full disk is no reason not to run */
		}
		return mlr_fail_errno(err, "take a lease in '%s/leases'", store_path(st));
	}
	if (fd >= 0)
		close(fd);

	/* rm takes the facts away before it looks at the leases, so one of us sees the other. */
	snprintf(facts, sizeof(facts), "facts/%.64s.json", hex);
	if (faccessat(store_fd(st), facts, F_OK, 0) < 0 && errno == ENOENT) {
		unlinkat(store_fd(st), path, 0);
		return mlr_fail(err, ENOENT, "image %s is no longer in store '%s'", manifest,
			store_path(st));
	}
	if (self.pid % SWEEP_EVERY == 0)
		store_lease_sweep(st);
	return 0;
}

int store_lease_held(struct store *st, const char *manifest, struct store_lease *ret)
{
	DIR *d = open_leases(st);
	struct store_process self;
	struct store_lease one;
	const char *name;
	int found = 0;

	if (d && store_process_self(&self) == 0) {
		while ((name = next(d, oci_digest_hex(manifest)))) {
			if (!judge(dirfd(d), name, &self, &one))
				continue;
			if (!found || one.is_running)
				*ret = one;
			found = 1;
			if (one.is_running)
				break;
		}
	}
	if (d)
		closedir(d);
	return found;
}

void store_lease_drop(struct store *st, const char *manifest)
{
	DIR *d = open_leases(st);
	const char *name;

	while (d && (name = next(d, oci_digest_hex(manifest))))
		unlinkat(dirfd(d), name, 0);
	if (d)
		closedir(d);
}

void store_lease_sweep(struct store *st)
{
	DIR *d = open_leases(st);
	struct store_process self;
	struct store_lease one;
	const char *name;

	if (d && store_process_self(&self) == 0)
		while ((name = next(d, NULL)))
			judge(dirfd(d), name, &self, &one);
	if (d)
		closedir(d);
}
