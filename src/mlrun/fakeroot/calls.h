/* The system calls of a fake root, by ABI. For runtime/fakeroot*.c. */
#ifndef MLR_FAKEROOT_CALLS_H
#define MLR_FAKEROOT_CALLS_H

#include <stddef.h>
#include <stdint.h>

enum fakeroot_call {
	FAKEROOT_CHOWN,
	FAKEROOT_LCHOWN,
	FAKEROOT_FCHOWN,
	FAKEROOT_FCHOWNAT,
	FAKEROOT_MKNOD,
	FAKEROOT_MKNODAT,
	FAKEROOT_SETUID,
	FAKEROOT_SETGID,
	FAKEROOT_SETREUID,
	FAKEROOT_SETREGID,
	FAKEROOT_SETRESUID,
	FAKEROOT_SETRESGID,
	FAKEROOT_SETFSUID,
	FAKEROOT_SETFSGID,
	FAKEROOT_SETGROUPS,
	FAKEROOT_GETUID,
	FAKEROOT_GETEUID,
	FAKEROOT_GETGID,
	FAKEROOT_GETEGID,
	FAKEROOT_GETRESUID,
	FAKEROOT_GETRESGID,
	FAKEROOT_GETGROUPS,
	FAKEROOT_CAPSET,
	FAKEROOT_CHROOT,
	FAKEROOT_SETXATTR,
	FAKEROOT_LSETXATTR,
	FAKEROOT_FSETXATTR,
	FAKEROOT_GETXATTR,
	FAKEROOT_LGETXATTR,
	FAKEROOT_FGETXATTR,
	FAKEROOT_REMOVEXATTR,
	FAKEROOT_LREMOVEXATTR,
	FAKEROOT_FREMOVEXATTR,
	FAKEROOT_STAT,
	FAKEROOT_LSTAT,
	FAKEROOT_FSTAT,
	FAKEROOT_FSTATAT,
	FAKEROOT_STATX,
	FAKEROOT_CHMOD,
	FAKEROOT_FCHMOD,
	FAKEROOT_FCHMODAT,
	FAKEROOT_FCHMODAT2,
	FAKEROOT_OPEN, /* this one and the next: only with O_CREAT */
	FAKEROOT_OPENAT,
	FAKEROOT_CREAT,
	FAKEROOT_MKDIR,
	FAKEROOT_MKDIRAT,
	FAKEROOT_SYMLINK,
	FAKEROOT_SYMLINKAT,
	FAKEROOT_PRCTL,   /* only PR_SET_KEEPCAPS */
	FAKEROOT_NOTHING, /* no call of these */
};

/* A number of one ABI. */
struct fakeroot_number {
	int nr;
	enum fakeroot_call call;
};

extern const struct fakeroot_number fakeroot_native[];
extern const size_t fakeroot_n_native;
/* The 32-bit ABI's; only where there is one. */
extern const struct fakeroot_number fakeroot_other[];
extern const size_t fakeroot_n_other;
extern const uint32_t fakeroot_native_arch, fakeroot_other_arch;

/* Which call is that? */
enum fakeroot_call fakeroot_call_of(uint32_t arch, int nr);

/*
 * Answer the calls of a listener, seccomp_unotify(2), until its last process ends; then this
 * process ends, too. Returns only if that cannot be done.
 *
 *   owners  as in fakeroot/records.h
 */
void fakeroot_answer(int listener, int owners);

#endif
