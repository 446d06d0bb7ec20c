/*
 * A fake root that remembers: gives processes with a single mapped id the results that root would
 * get. A supervisor answers their system calls (seccomp_unotify(2)):
 *
 *   chown and its kin           recorded (fakeroot/records.h); commit writes that to the
 *                               layer
 *   stat and its kin            what is recorded; without a record the kernel answers
 *   set*id, setgroups           kept for each process, inherited by its children
 *   get*id, getgroups           that, once any process has other ids than root's
 *   execve                      of a set-ID program: its owner becomes the effective id
 *   open that makes a file,     recorded as the process's user's and group's, in a set-group-ID
 *   mkdir, mknod, symlink       directory as its group's. A device is an empty file
 *   these, and chmod, execve,   -EACCES or -EPERM if the user may not, by the owners and modes
 *   access, unlink, link,       that are shown of the file and the directories on the path
 *   chdir, truncate, open to
 *   write
 *   open to read, readlink,     likewise, if the command starts as another user: else root's
 *   rename, rmdir, utimensat    processes would pay for each, dpkg's more than others
 *   *xattr security.capability  kept with the file; commit writes it to the layer. No process gets
 *                               the capabilities
 *   setxattr of security.*, of  succeeds without effect, as does capset
 *   an ACL that names users
 *   listxattr                   without the names of records
 *   umask, chroot               are only noted: paths then begin elsewhere
 *   io_uring_setup              -ENOSYS: it would get around all that
 *
 * This is no border, as all processes have the caller's rights: signals are not judged, for one.
 *
 * A file's record survives rename, link and copy-up. Those of links and fifos are in the directory
 * of a container that is kept (base/owners_file.h), which begins with those of layers; without one,
 * and on file systems without extended attributes, they last as long as the supervisor. 32-bit
 * programs change owners, ids and attributes likewise; their stat shows the real ones, and what
 * they make is root's.
 *
 * The supervisor is no child of the command. It has the container's namespaces and the caller's
 * rights, gives none of them away, and ends with the last process that it answers. The processes
 * are untrusted: what they pass is read once, and looked up beneath their own root directory
 * (fakeroot/asked.h).
 */
#pragma once

#include "base/base.h"

/* Whom the command believes to be. */
struct fakeroot_user {
	uint32_t uid, gid;
	const uint32_t *groups; /* n_groups supplementary ones */
	size_t n_groups;
};

struct fakeroot {
	int sock;   /* to the supervisor; -1: none */
	int owners; /* the container's base/owners_file.h; -1: none */
	struct fakeroot_user user;
};

#define FAKEROOT_INIT     \
	{                 \
		-1, -1,   \
		{         \
			0 \
		}         \
	}
void fakeroot_done(struct fakeroot *f);

/*
 * Open what the supervisor needs of the host's files.
 *
 *   kept    the container's directory, or NULL
 *   lowers  of the root: the trees of layers know owners of links
 *   user    its groups stay the caller's
 */
int fakeroot_prepare(const char *kept, const struct strv *lowers, const struct fakeroot_user *user,
	struct fakeroot *ret, struct mlr_error *err);

/* Start the supervisor. Call it in the container's namespaces, before privileges are dropped. */
int fakeroot_start(struct fakeroot *ret, struct mlr_error *err);

/*
 * Hand the caller's system calls to the supervisor, for good; its children's, too. no_new_privs
 * must be set. Where the kernel has no notifications, or another supervisor answers already, these
 * calls merely succeed, and owners are lost; a warning says so.
 */
int fakeroot_apply(struct fakeroot *f, struct mlr_error *err);
