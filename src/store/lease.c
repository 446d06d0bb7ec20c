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
static int lease_judge(
	int dir, const char *name, const struct store_process *p, const struct store_process *self)
{
	int alive = store_process_alive(p, self);
	struct stat sb;

	if (alive < 0)
		alive = fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0 &&
			time(NULL) - sb.st_mtime < FOREIGN_SECONDS;
	if (!alive)
		unlinkat(dir, name, 0);
	return alive;
}

/* Judge every lease, or those of one manifest; the first that holds is told and ends the search. */
static int scan(struct store *st, const char *hex, struct store_process *held)
{
	struct store_process self, p;
	int fd = openat(store_fd(st), "leases", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int found = 0;

	if (!d || store_process_self(&self) < 0) {
		if (d)
			closedir(d);
		return 0;
	}
	while (!found && (e = readdir(d))) {
		if (hex && strncmp(e->d_name, hex, HEX) != 0)
			continue;
		if (strlen(e->d_name) <= HEX + 1 ||
			store_process_parse(e->d_name + HEX + 1, &p) < 0)
			continue;
		if (lease_judge(dirfd(d), e->d_name, &p, &self) && held) {
			*held = p;
			found = 1;
		}
	}
	closedir(d);
	return found;
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

int store_lease_held(struct store *st, const char *manifest, pid_t *pid, char host[65])
{
	struct store_process p;

	if (!scan(st, oci_digest_hex(manifest), &p))
		return 0;
	*pid = p.pid;
	memcpy(host, p.host, STORE_HOST_SIZE);
	return 1;
}

void store_lease_sweep(struct store *st)
{
	scan(st, NULL, NULL);
}
