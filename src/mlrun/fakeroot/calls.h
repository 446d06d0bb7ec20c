/* The system calls of a fake root, by ABI. For this room's other files. */
#pragma once

#include "base/base.h"

/*
 * All calls, in groups by who answers them (asked_answer()), with like ones together: X(name here,
 * name in SYS_, how its arguments name the file: enum naming of asked.c), and OLD of those that
 * newer ABIs lack. Only some uses of OPEN, OPENAT and PRCTL: see add_calls().
 */
/* clang-format off */
#define FAKEROOT_CALLS(X, OLD) \
	/* identity.c */ \
	X(SETUID, setuid, NONE) X(SETGID, setgid, NONE) X(SETREUID, setreuid, NONE) \
	X(SETREGID, setregid, NONE) X(SETRESUID, setresuid, NONE) X(SETRESGID, setresgid, NONE) \
	X(SETFSUID, setfsuid, NONE) X(SETFSGID, setfsgid, NONE) X(SETGROUPS, setgroups, NONE) \
	X(GETUID, getuid, NONE) X(GETEUID, geteuid, NONE) X(GETGID, getgid, NONE) \
	X(GETEGID, getegid, NONE) X(GETRESUID, getresuid, NONE) X(GETRESGID, getresgid, NONE) \
	X(GETGROUPS, getgroups, NONE) X(PRCTL, prctl, NONE) X(UMASK, umask, NONE) \
	X(EXECVE, execve, PATH) X(EXECVEAT, execveat, AT4) \
	/* files.c */ \
	OLD(CHOWN, chown, PATH) OLD(LCHOWN, lchown, LINK) X(FCHOWN, fchown, FD) \
	X(FCHOWNAT, fchownat, AT4) X(SETXATTR, setxattr, PATH) X(LSETXATTR, lsetxattr, LINK) \
	X(FSETXATTR, fsetxattr, FD) X(GETXATTR, getxattr, PATH) X(LGETXATTR, lgetxattr, LINK) \
	X(FGETXATTR, fgetxattr, FD) X(REMOVEXATTR, removexattr, PATH) \
	X(LREMOVEXATTR, lremovexattr, LINK) X(FREMOVEXATTR, fremovexattr, FD) \
	X(LISTXATTR, listxattr, PATH) X(LLISTXATTR, llistxattr, LINK) \
	X(FLISTXATTR, flistxattr, FD) OLD(STAT, stat, PATH) OLD(LSTAT, lstat, LINK) \
	X(FSTAT, fstat, FD) X(FSTATAT, newfstatat, AT3) X(STATX, statx, AT2) \
	OLD(CHMOD, chmod, PATH) X(FCHMOD, fchmod, FD) X(FCHMODAT, fchmodat, AT) \
	X(FCHMODAT2, fchmodat2, AT3) \
	/* create.c */ \
	OLD(OPEN, open, PATH) X(OPENAT, openat, AT) X(OPENAT2, openat2, AT) \
	OLD(CREAT, creat, PATH) OLD(MKDIR, mkdir, PATH) X(MKDIRAT, mkdirat, AT) \
	OLD(SYMLINK, symlink, NONE) X(SYMLINKAT, symlinkat, NONE) OLD(MKNOD, mknod, PATH) \
	X(MKNODAT, mknodat, AT) \
	/* rights.c */ \
	OLD(LINK, link, NONE) X(LINKAT, linkat, NONE) OLD(UNLINK, unlink, NONE) \
	X(UNLINKAT, unlinkat, NONE) OLD(RMDIR, rmdir, NONE) OLD(RENAME, rename, NONE) \
	X(RENAMEAT, renameat, NONE) X(RENAMEAT2, renameat2, NONE) OLD(ACCESS, access, PATH) \
	X(FACCESSAT, faccessat, AT) X(FACCESSAT2, faccessat2, AT3) X(CHDIR, chdir, PATH) \
	X(TRUNCATE, truncate, PATH) X(UTIMENSAT, utimensat, AT3) OLD(READLINK, readlink, LINK) \
	X(READLINKAT, readlinkat, AT) \
	/* answer.c */ \
	X(CAPSET, capset, NONE) X(CHROOT, chroot, NONE)
/* clang-format on */

#define FAKEROOT_NAME(name, number, naming) FAKEROOT_##name,
enum fakeroot_call {
	FAKEROOT_CALLS(FAKEROOT_NAME, FAKEROOT_NAME) FAKEROOT_NOTHING, /* no call of these */
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
