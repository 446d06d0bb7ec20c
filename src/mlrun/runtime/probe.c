#include "runtime/probe.h"

#include "base/spawn.h"
#include "runtime/userns.h"

#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

/* The child's answer: one of these, with UPPER if the file system can hold an upper layer. */
enum { OVERLAY_RIGHT, OVERLAY_WRONG, OVERLAY_UNKNOWN, UPPER = 4 };

static int make_file(int dir, const char *path)
{
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Make two layers: the upper one hides "gone" and everything in the lower one's "opaque". */
static int make_trees(int dir, struct filesystem_probe *p, struct mlr_error *err)
{
	static const char *const dirs[] = { "lower", "lower/opaque", "upper", "upper/opaque", "mnt",
		"kept", "work" };
	static const char *const files[] = { "lower/kept", "lower/gone", "lower/opaque/hidden" };
	auto_close int opaque = -1;

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(dir, dirs[i], 0755) < 0)
			return mlr_fail_errno(err, "create a directory");
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {

		TRY(mlr_result(err, make_file(dir, files[i]), "create a file"));
	}
	opaque = openat(dir, "upper/opaque", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	p->whiteouts = mknodat(dir, "upper/gone", S_IFCHR, makedev(0, 0)) == 0;
	p->xattrs = opaque >= 0 && fsetxattr(opaque, "user.overlay.opaque", "y", 1, 0) == 0;
	p->hard_links = linkat(dir, "lower/kept", dir, "upper/linked", 0) == 0;
	return 0;
}

static int try_upper(void)
{
	return mount("probe", "mnt/root", "overlay", MS_NOSUID | MS_NODEV,
		       "lowerdir=lower,upperdir=kept,workdir=work,userxattr") == 0
		? UPPER
		: 0;
}

/* In its own namespaces. */
static int try_overlay(int dir)
{
	struct plan_identity id = {
		.uid = geteuid(), .host_uid = geteuid(), .gid = getegid(), .host_gid = getegid()
	};
	struct mlr_error err;
	int right;

	/* Change the directory first: it moves into the new mount namespace with the process, but
	 * the descriptor stays in the old one, where nothing can be mounted. */
	if (fchdir(dir) < 0 || userns_enter(&id, &err) < 0 ||
		mount("tmpfs", "mnt", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755") < 0)
		return OVERLAY_UNKNOWN;
	if (mkdir("mnt/up", 0755) < 0 || mkdir("mnt/work", 0755) < 0 || mkdir("mnt/root", 0755) < 0)
		return OVERLAY_UNKNOWN;
	if (mount("probe", "mnt/root", "overlay", MS_NOSUID | MS_NODEV,
		    "lowerdir=upper:lower,upperdir=mnt/up,workdir=mnt/work,userxattr") < 0)
		return OVERLAY_WRONG | try_upper();
	right = access("mnt/root/kept", F_OK) == 0 && access("mnt/root/gone", F_OK) < 0 &&
		access("mnt/root/opaque", F_OK) == 0 && access("mnt/root/opaque/hidden", F_OK) < 0;
	return (right ? OVERLAY_RIGHT : OVERLAY_WRONG) | try_upper();
}

static void ask_child(int dir, struct filesystem_probe *p)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(try_overlay(dir));
	status = pid < 0 ? -1 : spawn_wait(pid);
	p->overlay = p->upper = -1;
	if (status < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == OVERLAY_UNKNOWN)
		return;
	p->overlay = (WEXITSTATUS(status) & ~UPPER) == OVERLAY_RIGHT;
	p->upper = !!(WEXITSTATUS(status) & UPPER);
}

int runtime_probe(int dir_fd, struct filesystem_probe *ret, struct mlr_error *err)
{
	struct filesystem_probe p = { 0 };
	auto_close int dir = -1;
	char hex[RANDOM_HEX_SIZE], name[32];
	int r;

	random_hex(hex);
	snprintf(name, sizeof(name), "probe.%s", hex);
	if (mkdirat(dir_fd, name, 0700) < 0)
		return mlr_fail_errno(err, "create directory '%s'", name);
	dir = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = dir < 0 ? mlr_fail_errno(err, "open directory '%s'", name) : make_trees(dir, &p, err);
	if (r == 0)
		ask_child(dir, &p);
	file_remove_tree(dir_fd, name, NULL);
	TRY(r);
	mlr_debug("probe: whiteouts %d, xattrs %d, hard links %d, overlay %d, upper %d",
		p.whiteouts, p.xattrs, p.hard_links, p.overlay, p.upper);
	*ret = p;
	return 0;
}
