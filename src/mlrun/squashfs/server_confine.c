/*
 * The filter is a hand-written list of system calls, as in runtime/seccomp.c: libseccomp would take
 * longer than everything else that a start waits for. Other calls fail instead of killing the
 * process, since a C library may try calls that it can do without.
 *
 * Builds with sanitizers have no filter: they open files and start a process that looks for leaks.
 */
#include "squashfs/server_confine.h"

#include "base/base.h"

#include <endian.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#elif defined(__powerpc64__) && __BYTE_ORDER == __LITTLE_ENDIAN
#define ARCH AUDIT_ARCH_PPC64LE
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCH AUDIT_ARCH_RISCV64
#endif

#if defined(ARCH) && !defined(MLR_SANITIZED)
#define LOAD(member)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, (action))
#define ALLOW(call)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), RETURN(SECCOMP_RET_ALLOW)
#define REFUSE(code)   RETURN(SECCOMP_RET_ERRNO | (code))

/* The second number of a jump says how many instructions to skip if the value differs. All these
 * machines store the lower half of an argument first. */
#define ALLOW_IF(call, arg, bits, then, otherwise)                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 4), LOAD(args[arg]), \
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, 1), then, otherwise

static const struct sock_filter allowed[] = {
	LOAD(arch),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
	REFUSE(EPERM),
	LOAD(nr),
	/* requests, and the image */
	ALLOW(read),
	ALLOW(pread64),
	ALLOW(write),
	ALLOW(writev),
	ALLOW(futex),
	ALLOW(lseek),
	ALLOW(close),
	ALLOW(fcntl),
	/* the socket */
	ALLOW(recvfrom),
	ALLOW(recvmsg),
	ALLOW(sendto),
	ALLOW(sendmsg),
	/* memory, but not executable */
	ALLOW_IF(mmap, 2, PROT_EXEC, REFUSE(EPERM), RETURN(SECCOMP_RET_ALLOW)),
	ALLOW_IF(mprotect, 2, PROT_EXEC, REFUSE(EPERM), RETURN(SECCOMP_RET_ALLOW)),
	ALLOW(munmap),
	ALLOW(mremap),
	ALLOW(madvise),
	ALLOW(brk),
	/* answers of --look: a file in memory */
	ALLOW(memfd_create),
	ALLOW(ftruncate),
	ALLOW(pwrite64),
	/* threads, but no processes; glibc tries clone3(2) first, whose flags a filter cannot
	 * read */
	ALLOW_IF(clone, 0, CLONE_THREAD, RETURN(SECCOMP_RET_ALLOW), REFUSE(EPERM)),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
	REFUSE(ENOSYS),
	ALLOW(set_robust_list),
	ALLOW(rseq),
	ALLOW(gettid),
	ALLOW(getuid),
	ALLOW(setpriority),
	ALLOW(sched_getaffinity),
	ALLOW(sched_setaffinity),
	ALLOW(sched_yield),
	/* time, signals, the end */
	ALLOW(clock_gettime),
	ALLOW(clock_nanosleep),
	ALLOW(getrandom),
	ALLOW(restart_syscall),
	ALLOW(rt_sigaction),
	ALLOW(rt_sigprocmask),
	ALLOW(rt_sigreturn),
	ALLOW(exit),
	ALLOW(exit_group),
	REFUSE(EPERM),
};

static void filter_calls(void)
{
	const struct sock_fprog prog = { .len = ARRAY_LEN(allowed),
		.filter = (struct sock_filter *)allowed };

	syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &prog);
}
#else
static void filter_calls(void)
{
}
#endif

static void open_no_files(void)
{
	struct landlock_ruleset_attr attr = {
		.handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1
	}; /* the rights of Landlock's first version */
	auto_close int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);

	if (fd >= 0)
		syscall(SYS_landlock_restrict_self, fd, 0);
}

void confine(void)
{
	struct rlimit none = { 0, 0 };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &none);
	open_no_files();
	filter_calls();
}
