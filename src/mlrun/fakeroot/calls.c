#include "fakeroot/calls.h"

#include "base/cleanup.h"

#include <linux/audit.h>
#include <sys/syscall.h>

#define FCHMODAT2 452 /* Linux 6.6, in every ABI; newer than some of the headers */

const struct fakeroot_number fakeroot_native[] = {
#ifdef SYS_chown
	{ SYS_chown, FAKEROOT_CHOWN },
	{ SYS_lchown, FAKEROOT_LCHOWN },
	{ SYS_mknod, FAKEROOT_MKNOD },
	{ SYS_stat, FAKEROOT_STAT },
	{ SYS_lstat, FAKEROOT_LSTAT },
	{ SYS_chmod, FAKEROOT_CHMOD },
	{ SYS_open, FAKEROOT_OPEN },
	{ SYS_creat, FAKEROOT_CREAT },
	{ SYS_mkdir, FAKEROOT_MKDIR },
	{ SYS_symlink, FAKEROOT_SYMLINK },
#endif
	{ SYS_fchown, FAKEROOT_FCHOWN },
	{ SYS_fchownat, FAKEROOT_FCHOWNAT },
	{ SYS_mknodat, FAKEROOT_MKNODAT },
	{ SYS_setuid, FAKEROOT_SETUID },
	{ SYS_setgid, FAKEROOT_SETGID },
	{ SYS_setreuid, FAKEROOT_SETREUID },
	{ SYS_setregid, FAKEROOT_SETREGID },
	{ SYS_setresuid, FAKEROOT_SETRESUID },
	{ SYS_setresgid, FAKEROOT_SETRESGID },
	{ SYS_setfsuid, FAKEROOT_SETFSUID },
	{ SYS_setfsgid, FAKEROOT_SETFSGID },
	{ SYS_setgroups, FAKEROOT_SETGROUPS },
	{ SYS_getuid, FAKEROOT_GETUID },
	{ SYS_geteuid, FAKEROOT_GETEUID },
	{ SYS_getgid, FAKEROOT_GETGID },
	{ SYS_getegid, FAKEROOT_GETEGID },
	{ SYS_getresuid, FAKEROOT_GETRESUID },
	{ SYS_getresgid, FAKEROOT_GETRESGID },
	{ SYS_getgroups, FAKEROOT_GETGROUPS },
	{ SYS_capset, FAKEROOT_CAPSET },
	{ SYS_chroot, FAKEROOT_CHROOT },
	{ SYS_setxattr, FAKEROOT_SETXATTR },
	{ SYS_lsetxattr, FAKEROOT_LSETXATTR },
	{ SYS_fsetxattr, FAKEROOT_FSETXATTR },
	{ SYS_getxattr, FAKEROOT_GETXATTR },
	{ SYS_lgetxattr, FAKEROOT_LGETXATTR },
	{ SYS_fgetxattr, FAKEROOT_FGETXATTR },
	{ SYS_removexattr, FAKEROOT_REMOVEXATTR },
	{ SYS_lremovexattr, FAKEROOT_LREMOVEXATTR },
	{ SYS_fremovexattr, FAKEROOT_FREMOVEXATTR },
	{ SYS_fstat, FAKEROOT_FSTAT },
	{ SYS_newfstatat, FAKEROOT_FSTATAT },
	{ SYS_statx, FAKEROOT_STATX },
	{ SYS_fchmod, FAKEROOT_FCHMOD },
	{ SYS_fchmodat, FAKEROOT_FCHMODAT },
	{ FCHMODAT2, FAKEROOT_FCHMODAT2 },
	{ SYS_openat, FAKEROOT_OPENAT },
	{ SYS_mkdirat, FAKEROOT_MKDIRAT },
	{ SYS_symlinkat, FAKEROOT_SYMLINKAT },
	{ SYS_prctl, FAKEROOT_PRCTL },
};
const size_t fakeroot_n_native = ARRAY_LEN(fakeroot_native);

/* arch/x86/entry/syscalls/syscall_32.tbl; the calls with 16-bit ids are those below 183. */
const struct fakeroot_number fakeroot_other[] = {
#ifdef __x86_64__
	{ 182, FAKEROOT_CHOWN },
	{ 16, FAKEROOT_LCHOWN },
	{ 95, FAKEROOT_FCHOWN },
	{ 212, FAKEROOT_CHOWN },
	{ 198, FAKEROOT_LCHOWN },
	{ 207, FAKEROOT_FCHOWN },
	{ 298, FAKEROOT_FCHOWNAT },
	{ 14, FAKEROOT_MKNOD },
	{ 297, FAKEROOT_MKNODAT },
	{ 213, FAKEROOT_SETUID },
	{ 214, FAKEROOT_SETGID },
	{ 203, FAKEROOT_SETREUID },
	{ 204, FAKEROOT_SETREGID },
	{ 208, FAKEROOT_SETRESUID },
	{ 210, FAKEROOT_SETRESGID },
	{ 215, FAKEROOT_SETFSUID },
	{ 216, FAKEROOT_SETFSGID },
	{ 206, FAKEROOT_SETGROUPS },
	{ 199, FAKEROOT_GETUID },
	{ 201, FAKEROOT_GETEUID },
	{ 200, FAKEROOT_GETGID },
	{ 202, FAKEROOT_GETEGID },
	{ 209, FAKEROOT_GETRESUID },
	{ 211, FAKEROOT_GETRESGID },
	{ 205, FAKEROOT_GETGROUPS },
	{ 185, FAKEROOT_CAPSET },
	{ 61, FAKEROOT_CHROOT },
	{ 226, FAKEROOT_SETXATTR },
	{ 227, FAKEROOT_LSETXATTR },
	{ 228, FAKEROOT_FSETXATTR },
	{ 229, FAKEROOT_GETXATTR },
	{ 230, FAKEROOT_LGETXATTR },
	{ 231, FAKEROOT_FGETXATTR },
	{ 235, FAKEROOT_REMOVEXATTR },
	{ 236, FAKEROOT_LREMOVEXATTR },
	{ 237, FAKEROOT_FREMOVEXATTR },
	{ 15, FAKEROOT_CHMOD },
	{ 94, FAKEROOT_FCHMOD },
	{ 306, FAKEROOT_FCHMODAT },
	{ FCHMODAT2, FAKEROOT_FCHMODAT2 },
#else
	{ -1, FAKEROOT_NOTHING },
#endif
};
const size_t fakeroot_n_other = ARRAY_LEN(fakeroot_other);

#if defined(__x86_64__)
const uint32_t fakeroot_native_arch = AUDIT_ARCH_X86_64, fakeroot_other_arch = AUDIT_ARCH_I386;
#elif defined(__aarch64__)
const uint32_t fakeroot_native_arch = AUDIT_ARCH_AARCH64, fakeroot_other_arch = AUDIT_ARCH_ARM;
#elif defined(__powerpc64__)
const uint32_t fakeroot_native_arch = AUDIT_ARCH_PPC64LE, fakeroot_other_arch = AUDIT_ARCH_PPC;
#elif defined(__s390x__)
const uint32_t fakeroot_native_arch = AUDIT_ARCH_S390X, fakeroot_other_arch = AUDIT_ARCH_S390;
#elif defined(__riscv)
const uint32_t fakeroot_native_arch = AUDIT_ARCH_RISCV64, fakeroot_other_arch = AUDIT_ARCH_RISCV32;
#else
const uint32_t fakeroot_native_arch = 0, fakeroot_other_arch = 0;
#endif

enum fakeroot_call fakeroot_call_of(uint32_t arch, int nr)
{
	int native = arch == fakeroot_native_arch;
	const struct fakeroot_number *v = native ? fakeroot_native : fakeroot_other;
	size_t n = native ? fakeroot_n_native : fakeroot_n_other;

	for (size_t i = 0; i < n; i++)
		if (v[i].nr == nr)
			return v[i].call;
	return FAKEROOT_NOTHING;
}
