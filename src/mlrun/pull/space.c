#include "pull/space.h"

#include "base/filesystem.h"

#include <sys/quota.h>
#include <sys/syscall.h>

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443 /* Linux 5.14, one number on all architectures */
#endif

/*
 * Compressed bytes for each file, directory or link of an image. A Debian base system has one for
 * every 10,500 bytes of its gzip; with Python, NumPy and PyTorch, one for every 12,800.
 */
#define BYTES_PER_INODE 12000

#define MB(bytes) ((unsigned long long)(bytes) / 1000000)

/* Compute the rest below a limit; 0 means no limit. */
static uint64_t left(uint64_t limit, uint64_t used)
{
	if (limit == 0)
		return UINT64_MAX;
	return limit > used ? limit - used : 0;
}

/* Only hard limits refuse: a soft one may be exceeded for some time. If there is no quota or no
 * answer, there is no limit. */
static void ask_quota(int fd, int type, id_t id, const char *whose, struct space_room *room)
{
	struct dqblk q;
	/* glibc's QCMD() shifts a signed number out of its range. */
	unsigned cmd = (unsigned)Q_GETQUOTA << SUBCMDSHIFT | ((unsigned)type & SUBCMDMASK);
	uint64_t bytes, inodes;

	memset(&q, 0, sizeof(q));
	if (syscall(SYS_quotactl_fd, (unsigned)fd, cmd, id, &q) < 0)
		return;
	bytes = (q.dqb_valid & QIF_BLIMITS) ? left(q.dqb_bhardlimit * 1024, q.dqb_curspace)
					    : UINT64_MAX;
	inodes = (q.dqb_valid & QIF_ILIMITS) ? left(q.dqb_ihardlimit, q.dqb_curinodes) : UINT64_MAX;
	if (bytes < room->bytes) {
		room->bytes = bytes;
		room->bytes_by = whose;
	}
	if (inodes < room->inodes) {
		room->inodes = inodes;
		room->inodes_by = whose;
	}
}

int space_room(int fd, struct space_room *ret, struct mlr_error *err)
{
	struct space_room room = { 0, UINT64_MAX, "file system", "file system" };
	struct statvfs fs;
	struct stat sb;

	if (filesystem_room(fd, &fs) < 0 || fstat(fd, &sb) < 0)
		return mlr_fail_errno(err, "ask for the free space");
	room.bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (fs.f_files != 0) /* otherwise it creates inodes on demand */
		room.inodes = fs.f_favail;
	ask_quota(fd, USRQUOTA, geteuid(), "quota of user", &room);
	/* Files in a set-group-ID directory get its group. */
	ask_quota(fd, GRPQUOTA, (sb.st_mode & S_ISGID) ? sb.st_gid : getegid(), "quota of group",
		&room);
	*ret = room;
	return 0;
}

static int refuse(
	struct store *st, uint64_t need, const struct space_room *room, struct mlr_error *err)
{
	int quota = strcmp(room->bytes_by, "file system") != 0;

	return mlr_fail(err, quota ? EDQUOT : ENOSPC,
		"the layers have %llu MB compressed, the %s of '%s' has %llu MB left", MB(need),
		room->bytes_by, store_path(st), MB(room->bytes));
}

int space_check(struct store *st, uint64_t compressed, unsigned times, int files,
	void (*notice)(void *ctx, const char *words), void *ctx, struct mlr_error *err)
{
	auto_free char *words = NULL;
	uint64_t inodes = files ? compressed / BYTES_PER_INODE : 1;
	struct space_room room;

	if (space_room(store_fd(st), &room, err) < 0)
		return mlr_wrap(err, "store '%s'", store_path(st));
	if (compressed > room.bytes)
		return refuse(st, compressed, &room, err);
	if (!notice)
		return 0;
	if (compressed > room.bytes / times) {
		words = xasprintf("the %s of '%s' has %llu MB left, which may not be enough for "
				  "%llu MB of compressed layers",
			room.bytes_by, store_path(st), MB(room.bytes), MB(compressed));
		notice(ctx, words);
	}
	if (inodes > room.inodes) {
		free(take_ptr(&words));
		words = xasprintf("the %s of '%s' has room for %llu more files, and the image may "
				  "have about %llu; --format squashfs makes one file of it",
			room.inodes_by, store_path(st), (unsigned long long)room.inodes,
			(unsigned long long)inodes);
		notice(ctx, words);
	}
	return 0;
}
