#include "fakeroot/calls.h"

#include <linux/audit.h>
#include <sys/syscall.h>

/* Newer than some of the headers, and the same in every ABI. */
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_renameat
#define SYS_renameat SYS_renameat2
#endif

#define ROW(name, number, naming) { SYS_##number, FAKEROOT_##name },
#ifdef SYS_chown
#define OLD_ROW(name, number, naming) ROW(name, number, naming)
#else
#define OLD_ROW(name, number, naming)
#endif

const struct fakeroot_number fakeroot_native[] = { FAKEROOT_CALLS(ROW, OLD_ROW) };
const size_t fakeroot_n_native = ARRAY_LEN(fakeroot_native);

/* arch/x86/entry/syscalls/syscall_32.tbl; the calls with 16-bit ids are those below 183. */
const struct fakeroot_number fakeroot_other[] = {
#ifdef __x86_64__
	{ 182, FAKEROOT_CHOWN }, { 16, FAKEROOT_LCHOWN }, { 95, FAKEROOT_FCHOWN },
	{ 212, FAKEROOT_CHOWN }, { 198, FAKEROOT_LCHOWN }, { 207, FAKEROOT_FCHOWN },
	{ 298, FAKEROOT_FCHOWNAT }, { 14, FAKEROOT_MKNOD }, { 297, FAKEROOT_MKNODAT },
	{ 213, FAKEROOT_SETUID }, { 214, FAKEROOT_SETGID }, { 203, FAKEROOT_SETREUID },
	{ 204, FAKEROOT_SETREGID }, { 208, FAKEROOT_SETRESUID }, { 210, FAKEROOT_SETRESGID },
	{ 215, FAKEROOT_SETFSUID }, { 216, FAKEROOT_SETFSGID }, { 206, FAKEROOT_SETGROUPS },
	{ 199, FAKEROOT_GETUID }, { 201, FAKEROOT_GETEUID }, { 200, FAKEROOT_GETGID },
	{ 202, FAKEROOT_GETEGID }, { 209, FAKEROOT_GETRESUID }, { 211, FAKEROOT_GETRESGID },
	{ 205, FAKEROOT_GETGROUPS }, { 185, FAKEROOT_CAPSET }, { 61, FAKEROOT_CHROOT },
	{ 226, FAKEROOT_SETXATTR }, { 227, FAKEROOT_LSETXATTR }, { 228, FAKEROOT_FSETXATTR },
	{ 229, FAKEROOT_GETXATTR }, { 230, FAKEROOT_LGETXATTR }, { 231, FAKEROOT_FGETXATTR },
	{ 235, FAKEROOT_REMOVEXATTR }, { 236, FAKEROOT_LREMOVEXATTR },
	{ 237, FAKEROOT_FREMOVEXATTR }, { 15, FAKEROOT_CHMOD }, { 94, FAKEROOT_FCHMOD },
	{ 306, FAKEROOT_FCHMODAT }, { SYS_fchmodat2, FAKEROOT_FCHMODAT2 }
#else
	{ -1, FAKEROOT_NOTHING }
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
