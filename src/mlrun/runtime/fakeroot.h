/*
 * A fake root that remembers: gives processes with a single mapped id the results that root would
 * get. A supervisor answers their system calls (seccomp_unotify(2)):
 *
 *   chown and its kin       recorded with the file (base/file_owner.h), so a record survives
 * rename, link and copy-up, and commit writes it to the layer stat and its kin        show what is
 * recorded; without a record the kernel answers set*id, setgroups       kept for each process,
 * inherited by its children get*id, getgroups       show that, once any process has changed its ids
 *   mknod of a device       makes an empty file
 *   capset, setxattr of security.*   succeed without effect
 *   chroot                  is only noted: paths then begin elsewhere
 *   io_uring_setup          -ENOSYS: it would get around all that
 *
 * 32-bit programs change owners and ids likewise; their stat shows the real ones. Owners of
 * symlinks, and of files on file systems without extended attributes, are known as long as the
 * container runs.
 *
 * The supervisor is no child of the command. It has the container's namespaces and the caller's
 * rights, gives none of them away, and ends with the last process that it answers. The processes
 * are untrusted: what they pass is read once, and looked up beneath their own root directory.
 */
#ifndef MLR_RUNTIME_FAKEROOT_H
#define MLR_RUNTIME_FAKEROOT_H

#include "base/error.h"

struct fakeroot {
	int sock; /* to the supervisor; -1: none */
};

#define FAKEROOT_INIT \
	{             \
		-1    \
	}
void fakeroot_done(struct fakeroot *f);

/* Start the supervisor. Call it in the container's namespaces, before privileges are dropped. */
int fakeroot_start(struct fakeroot *ret, struct mlr_error *err);

/*
 * Hand the caller's system calls to the supervisor, for good; its children's, too. no_new_privs
 * must be set. Where the kernel has no notifications, or another supervisor answers already, these
 * calls merely succeed, and owners are lost; a warning says so.
 */
int fakeroot_apply(struct fakeroot *f, struct mlr_error *err);

#endif
