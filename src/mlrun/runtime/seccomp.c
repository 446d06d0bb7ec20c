/*
 * The filter that every command gets is written by hand: it has only 15 instructions, whereas
 * libseccomp takes 70 us to load and 55 us to make one. It allows system calls other than ioctl(2)
 * by number alone. The kernel detects that when it loads the filter, by running it for each number
 * of each ABI, and no longer calls the filter for them (Linux 5.11, kernel/seccomp.c "action
 * cache"). Most numbers are therefore allowed by the third instruction.
 */
#include "runtime/seccomp.h"

#include "base/program.h"
#include "runtime/privileges.h"

#include <endian.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#define PROGRAM    "mlrun-seccomp"
#define ANSWER_MAX (BPF_MAXINSNS * sizeof(struct sock_filter) + sizeof(uint32_t))

/* The kernel's other ABIs have their own numbers: the 32-bit one has another architecture value,
 * and x86's x32 is marked by a bit (arch/x86/entry/syscalls/syscall_64.tbl). */
#define X32_BIT     0
#define X32_IOCTL   SYS_ioctl
#define OTHER_IOCTL 54
#if defined(__x86_64__)
#undef X32_BIT
#undef X32_IOCTL
#define X32_BIT    0x40000000u
#define X32_IOCTL  514
#define OTHER_ARCH AUDIT_ARCH_I386
#elif defined(__aarch64__)
#define OTHER_ARCH AUDIT_ARCH_ARM
#elif defined(__powerpc64__)
#define OTHER_ARCH AUDIT_ARCH_PPC
#elif defined(__s390x__)
#define OTHER_ARCH AUDIT_ARCH_S390
#else
#define OTHER_ARCH 0 /* no other ABI, or one with the same numbers */
#endif

#if __BYTE_ORDER == __LITTLE_ENDIAN
#define LOW_HALF 0
#else
#define LOW_HALF 4
#endif

#define LOAD(member)            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (member))
#define MASK(bits)              BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (bits))
#define IF(value, then, els)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (then), (els))
#define IF_ANY(bits, then, els) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (then), (els))
#define RETURN(action)          BPF_STMT(BPF_RET | BPF_K, (action))

/* The second number of a jump says how many instructions to skip if the value differs. */
static const struct sock_filter terminal[] = {
	/* a bit that is not set in ioctl's number in any ABI */
	LOAD(offsetof(struct seccomp_data, nr)),
	IF_ANY(~(0u | SYS_ioctl | X32_IOCTL | OTHER_IOCTL | X32_BIT), 11, 0),
	LOAD(offsetof(struct seccomp_data, arch)),
	IF(OTHER_ARCH, 4, 0),
	LOAD(offsetof(struct seccomp_data, nr)),
	MASK(~X32_BIT),
	IF(X32_IOCTL, 3, 0),
	IF(SYS_ioctl, 2, 5),
	/* another ABI */
	LOAD(offsetof(struct seccomp_data, nr)),
	IF(OTHER_IOCTL, 0, 3),
	/* ioctl: the kernel uses only the lower half of the request */
	LOAD(offsetof(struct seccomp_data, args[1]) + LOW_HALF),
	IF(TIOCSTI, 2, 0),
	IF(TIOCLINUX, 1, 0),
	RETURN(SECCOMP_RET_ALLOW),
	RETURN(SECCOMP_RET_ERRNO | EPERM),
};

void seccomp_done(struct seccomp *s)
{
	free(s->filter);
	*s = (struct seccomp){ 0 };
}

/* A path that mlrun-seccomp can open, to free(). It inherits none of our descriptors, so
 * "/dev/fd/63" of a shell's <(...) gets another name. */
static char *name_for(const char *path)
{
	static const char *const ours[] = { "/dev/fd/", "/proc/self/fd/" };

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (strncmp(path, ours[i], strlen(ours[i])) == 0)
			return xasprintf("/proc/%ld/fd/%s", (long)getpid(), path + strlen(ours[i]));
	return xstrdup(path);
}

static int compile(
	const struct plan *p, const char *program, struct seccomp *s, struct mlr_error *err)
{
	auto_free char *name = name_for(p->seccomp);
	char caps[24], *words;
	char *const argv[] = { (char *)PROGRAM, name, caps, NULL };
	uint32_t flags;
	int status;
	ssize_t n;

	snprintf(caps, sizeof(caps), "%" PRIx64, privileges_kept(p));
	s->filter = xmalloc(ANSWER_MAX + 2);
	n = program_ask(program, argv, s->filter, ANSWER_MAX + 1, &status);
	if (n < 0)
		return mlr_result(err, (int)n, "run '%s'", program);
	if (n > (ssize_t)ANSWER_MAX)
		return mlr_fail(err, E2BIG,
			"'%s' makes a filter of more than the kernel's %d instructions", p->seccomp,
			BPF_MAXINSNS);
	if (status == 0 && n > (ssize_t)sizeof(flags) &&
		n % sizeof(struct sock_filter) == sizeof(flags)) {
		s->size = (size_t)n - sizeof(flags);
		memcpy(&flags, s->filter + s->size, sizeof(flags));
		s->flags = flags;
		return 0;
	}
	s->filter[n] = '\0';
	words = strchr(s->filter, ' ');
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || !words)
		return mlr_fail(err, EIO, "'%s' could not compile '%s'", PROGRAM, p->seccomp);
	return mlr_pass(err, (int)strtol(s->filter, NULL, 10), words + 1);
}

int seccomp_prepare(const struct plan *p, struct seccomp *ret, struct mlr_error *err)
{
	auto_call(seccomp_done) struct seccomp s = { 0 };
	auto_free char *program = NULL;

	if (!p->seccomp)
		return 0;
	program = program_path(PROGRAM);
	if (access(program, X_OK) < 0) {
		mlr_fail(err, ENOTSUP, "--seccomp: this mlrun was built without libseccomp");
		return mlr_hint(
			err, "build it with libseccomp-dev installed, or leave --seccomp out");
	}
	if (compile(p, program, &s, err) < 0)
		return mlr_wrap(err, "--seccomp");
	*ret = take_struct(&s, { 0 });
	return 0;
}

static int install(
	const struct sock_filter *filter, size_t size, unsigned flags, struct mlr_error *err)
{
	const struct sock_fprog prog = { .len = (unsigned short)(size / sizeof(*filter)),
		.filter = (struct sock_filter *)filter };

	/* No mitigation of speculation: before Linux 5.16 it would be on by default and slow the
	 * program down, and this filter protects no secret in the program's memory. */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		    &prog) == 0 ||
		(errno == EINVAL &&
			syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog) == 0))
		return 0;
	return mlr_fail_errno(err, "install a seccomp filter");
}

int seccomp_apply(const struct seccomp *s, struct mlr_error *err)
{
	if (install(terminal, sizeof(terminal), 0, err) < 0)
		return mlr_hint(err, "the kernel needs CONFIG_SECCOMP_FILTER");
	if (!s->filter)
		return 0;
	return install((const struct sock_filter *)s->filter, s->size, s->flags, err) < 0
		? mlr_wrap(err, "--seccomp")
		: 0;
}
