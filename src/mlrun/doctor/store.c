/* Checks the store: where it is, whether it can be read and written to, how much room it has. */
#include "doctor/check.h"

#include "base/config.h"
#include "base/filesystem.h"
#include "pull/space.h"
#include "runtime/probe.h"
#include "store/stores.h"
#include "store/guard.h"

#define MB       1000000ull
#define SKEW_MAX 60 /* seconds; a hold is renewed every five seconds */

/* Turn an error with its hint into a finding. */
static void tell_error(struct doctor_report *r, const struct mlr_error *err, const char *origin)
{
	doctor_add_error(r, "store", DOCTOR_FAILURE, err, "export MLRUN_STORE=/some/directory");
	doctor_because(r, "no image can be found or pulled (the place is %s's)", origin);
}

/* Find the store's path and what sets it. Returns 0, or -1 after adding a finding. */
static int find_place(
	const struct doctor_machine *m, struct doctor_report *r, char **path, char **origin)
{
	auto_call(config_done) struct config c = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (m->store) {
		*path = xstrdup(m->store);
		*origin = xstrdup("--store");
		return 0;
	}
	/* Another check reports an unreadable configuration. */
	if (config_load(&c, NULL) < 0)
		c = (struct config){ 0 };
	if (store_place(&c, path, origin, &err) == 0)
		return 0;
	if (err.code == EINVAL) {
		tell_error(r, &err, "MLRUN_STORE");
		return -1;
	}
	doctor_add(r, "store", DOCTOR_FAILURE, "no place for the store");
	doctor_because(r, "this user has no home directory");
	doctor_mend(r, DOCTOR_YOU, "export MLRUN_STORE=/some/directory");
	return -1;
}

static void look_at_room(int fd, struct doctor_report *r)
{
	auto_free char *files = NULL;
	struct space_room room;
	int low;

	if (space_room(fd, &room, NULL) < 0)
		return;
	if (room.inodes != UINT64_MAX)
		files = xasprintf(", and room for %llu files (%s)", (unsigned long long)room.inodes,
			room.inodes_by);
	low = room.bytes < SPACE_FEW_BYTES || room.inodes < SPACE_FEW_INODES;
	doctor_add(r, "space",
		!low                                          ? DOCTOR_PASS
			: room.bytes < MB || room.inodes == 0 ? DOCTOR_FAILURE
							      : DOCTOR_WARNING,
		"%llu MB are left (%s)%s", (unsigned long long)room.bytes / MB, room.bytes_by,
		files ? files : "");
	if (!low)
		return;
	doctor_because(r,
		room.bytes < SPACE_FEW_BYTES ? "images of machine learning take some thousand MB"
					     : "an image has ten to a hundred thousand files");
	doctor_mend(r, DOCTOR_YOU,
		room.bytes < SPACE_FEW_BYTES
			? "mlrun prune --older-than 30d; or export MLRUN_STORE=/a/directory/with/room"
			: "mlrun prune --older-than 30d; or mlrun pull --format=squashfs IMAGE, which is one file");
}

static void look_at_skew(const struct stat *sb, struct doctor_report *r)
{
	long long skew = (long long)sb->st_mtime - (long long)time(NULL);

	if (skew >= -SKEW_MAX && skew <= SKEW_MAX) {
		doctor_add(r, "store-clock", DOCTOR_PASS,
			"the store's file system and this machine have one time");
		return;
	}
	doctor_add(r, "store-clock", DOCTOR_WARNING,
		"the store's file system is %lld seconds %s of this machine",
		skew < 0 ? -skew : skew, skew < 0 ? "behind" : "ahead");
	doctor_because(r, "prune takes these times for the last use");
	doctor_mend(r, DOCTOR_ADMINISTRATOR,
		"timedatectl set-ntp true, on this machine and on the file server");
}

static void tell_unwritable(struct doctor_report *r, const char *dir, int code)
{
	int full = code == ENOSPC || code == EDQUOT;

	doctor_add(r, "store-write", DOCTOR_FAILURE, "'%s' cannot be written to: %s", dir,
		strerror(code));
	doctor_because(r, "no image can be pulled; stored ones can be run");
	if (full)
		doctor_mend(r, DOCTOR_YOU, "mlrun prune --older-than 30d");
	else
		doctor_mend(r, DOCTOR_YOU, "export MLRUN_STORE=/some/directory/of/yours");
}

/* Make a file and remove it: access(2) is unreliable on network file systems. */
static void look_at_writing(int dir, const char *name, struct doctor_report *r)
{
	char file[32];
	auto_close int fd = -1;
	struct stat sb;

	snprintf(file, sizeof(file), "doctor.%ld", (long)getpid());
	fd = openat(dir, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		tell_unwritable(r, name, errno);
		return;
	}
	if (write(fd, "mlrun\n", 6) != 6 || fsync(fd) < 0)
		tell_unwritable(r, name, errno);
	else if (fstat(fd, &sb) == 0)
		look_at_skew(&sb, r);
	unlinkat(dir, file, 0);
}

/* Find the formats that the store can hold; runtime/probe.h tries them. */
static void look_at_layers(int dir, struct doctor_report *r)
{
	struct filesystem_probe p;

	if (runtime_probe(dir, &p, NULL) < 0)
		return; /* not writable, which is reported */
	if (p.upper == 0) {
		doctor_add(r, "store-writing", DOCTOR_WARNING,
			"the store's file system cannot hold what a container writes");
		doctor_because(r, "exec --write does not work there, and builds write to $TMPDIR");
		doctor_mend(r, DOCTOR_YOU, "export MLRUN_STORE=/a/directory/on/a/local/disk");
	}
	if (p.whiteouts && p.xattrs && p.overlay == 1) {
		doctor_add(r, "store-layers", DOCTOR_PASS,
			"the store's file system serves as an overlay's layers");
		return;
	}
	if (p.overlay < 0 && p.whiteouts && p.xattrs) {
		doctor_add(r, "store-layers", DOCTOR_WARNING,
			"whether the store's file system serves as an overlay's layers could not be tried");
		doctor_because(r, "that takes user namespaces");
		return;
	}
	doctor_add(r, "store-layers", DOCTOR_WARNING,
		"the store's file system does not serve as an overlay's layers");
	doctor_because(r, "it has no %s; images are kept as squashfs files there, which need FUSE",
		!p.whiteouts        ? "whiteouts"
			: !p.xattrs ? "user.* attributes"
				    : "overlays upon it");
	doctor_mend(r, DOCTOR_YOU, "export MLRUN_STORE=/a/directory/on/a/local/disk");
}

static void tell_old(struct doctor_report *r)
{

	doctor_add(r, "store-format", DOCTOR_WARNING,
		"an older mlrun made the store, and has not closed its trees to others");
	doctor_because(r, "who may enter it may write where an image's modes let everybody");
	doctor_mend(r, DOCTOR_YOU, "mlrun prune");
}

static void look_at_own(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_free char *path = NULL, *origin = NULL, *there = NULL;
	auto_store struct store *st = NULL;
	auto_close int fd = -1;
	struct mlr_error err = MLR_ERROR_INIT;
	struct filesystem fs;
	char number[32];
	int code, is_there;

	if (find_place(m, r, &path, &origin) < 0)
		return;
	code = store_open(path, 0, &st, &err);
	there = store_place_nearest(path);
	is_there = code == 0;
	if (code < 0 && code != -ENOENT) {
		tell_error(r, &err, origin);
		return;
	}
	fd = open(there, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || filesystem_read(fd, &fs) < 0) {
		mlr_fail_errno(&err, "open directory '%s'", there);
		tell_error(r, &err, origin);
		return;
	}
	snprintf(number, sizeof(number), "file system %#lx", fs.type);
	doctor_add(r, "store", DOCTOR_PASS, "'%s' (%s) on %s%s", path, origin,
		fs.name ? fs.name : number, is_there ? "" : "; not there yet, mlrun pull makes it");
	if (is_there && !store_is_tight(st))
		tell_old(r);
	look_at_writing(fd, there, r);
	look_at_room(fd, r);
	look_at_layers(fd, r);
}

/* stores_open_additional() skips faulty stores; here they are reported. */
static void look_at_additional(struct doctor_report *r)
{
	auto_call(config_done) struct config c = { 0 };
	auto_strv struct strv lists = STRV_INIT, dirs = STRV_INIT;
	const char *env = getenv("MLRUN_STORES");

	/* Another check reports an unreadable configuration. */
	if (env)
		strv_add(&lists, env);
	else if (config_load(&c, NULL) == 0)
		config_list(&c, "", "additional_stores", &lists);
	for (size_t i = 0; i < lists.n; i++) {
		char *save = NULL;

		for (char *w = strtok_r(lists.v[i], ":", &save); w; w = strtok_r(NULL, ":", &save))
			strv_add(&dirs, w);
	}
	for (size_t i = 0; i < dirs.n; i++) {
		auto_store struct store *st = NULL;
		struct mlr_error err = MLR_ERROR_INIT;

		if (store_open(dirs.v[i], 0, &st, &err) == 0) {
			doctor_add(
				r, "additional-store", DOCTOR_PASS, "'%s' can be read", dirs.v[i]);
			continue;
		}
		doctor_add_error(r, "additional-store", DOCTOR_WARNING, &err,
			"mlrun config additional_stores; echo $MLRUN_STORES");
		doctor_because(r, "it is passed over");
	}
}

void check_store(const struct doctor_machine *m, struct doctor_report *r)
{
	if (!doctor_is_here(m))
		return;
	look_at_own(m, r);
	look_at_additional(r);
}
