#include "fakeroot/fakeroot.h"

#include "base/owners_file.h"
#include "base/spawn.h"
#include "fakeroot/calls.h"
#include "fakeroot/ids.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define X32_BIT   0x40000000u /* x86's third ABI, which hardly anybody has: it is refused */
#define INSTR_MAX 512
#define LAYER_MAX (32u << 20) /* bytes of a layer's owners */

/* In the supervisor. */
#define SOCK_FD   3
#define OWNERS_FD 4

void fakeroot_done(struct fakeroot *f)
{
	fd_close(&f->sock);
	fd_close(&f->owners);
	f->sock = f->owners = -1;
}

#define TREE "/tree" /* of a layer; its file of owners is beside it */

/* Begin a file of owners with those of the layers below, the topmost last. Returns how many layers
 * have owners, or -errno. */
static int add_layers(int owners, const struct strv *lowers)
{
	int n = 0;

	for (size_t i = lowers->n; i-- > 0;) {
		size_t len = strlen(lowers->v[i]), above = len - strlen(TREE), size = 0;
		auto_free char *path = NULL, *text = NULL;

		if (len < strlen(TREE) || strcmp(lowers->v[i] + above, TREE) != 0)
			continue;
		path = xasprintf("%.*s/" OWNERS_FILE_NAME, (int)above, lowers->v[i]);
		if (file_read(AT_FDCWD, path, LAYER_MAX, &text, &size, NULL) < 0)
			continue;
		TRY(file_write_all(owners, text, size));
		n++;
	}
	return n;
}

/* Without a container that is kept, layers' owners are in memory. */
int fakeroot_prepare(const char *kept, const struct strv *lowers, const struct fakeroot_user *user,
	struct fakeroot *ret, struct mlr_error *err)
{
	auto_free char *path = kept ? xasprintf("%s/" OWNERS_FILE_NAME, kept) : NULL;
	struct stat st;
	int n = 0;

	ret->user = *user;
	ret->owners = path ? open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)
			   : memfd_create(OWNERS_FILE_NAME, MFD_CLOEXEC);
	if (ret->owners < 0 || fstat(ret->owners, &st) < 0)
		return mlr_fail_errno(err, "open '%s'", path ? path : OWNERS_FILE_NAME);
	if (st.st_size == 0)
		n = add_layers(ret->owners, lowers);
	if (n < 0)
		return mlr_fail(
			err, -n, "write '%s': %s", path ? path : OWNERS_FILE_NAME, strerror(-n));
	if (!path && n == 0)
		close(take_fd(&ret->owners));
	return 0;
}

/* --- the supervisor ----------------------------------------------------------- */

/* Keep the descriptors of f alone, with others' numbers. */
static void leave_descriptors(struct fakeroot *f)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int sock = fcntl(f->sock, F_DUPFD_CLOEXEC, OWNERS_FD + 1);
	int owners = f->owners < 0 ? -1 : fcntl(f->owners, F_DUPFD_CLOEXEC, OWNERS_FD + 1);

	for (int fd = 0; fd <= 2 && null >= 0; fd++)
		dup2(null, fd);
	f->sock = dup2(sock, SOCK_FD);
	f->owners = owners < 0 ? -1 : dup2(owners, OWNERS_FD);
	fds_close_range(f->owners < 0 ? OWNERS_FD : OWNERS_FD + 1, ~0u, 0);
}

static void leave_everything(struct fakeroot *f)
{
	leave_descriptors(f);
	setsid();
	(void)!chdir("/");
	umask(0); /* the processes' own applies */
	prctl(PR_SET_NAME, "mlrun-fakeroot");
	prctl(PR_SET_DUMPABLE, 0);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
}

/* Wait for the listener; without one, the command needs no answers. */
static void supervise(struct fakeroot f)
{
	char byte;
	int listener = -1;
	ssize_t n;

	leave_everything(&f);
	n = fds_receive(f.sock, &byte, 1, &listener);
	close(f.sock);
	if (n == 1 && listener >= 0) {
		fakeroot_ids_begin(&f.user);
		fakeroot_answer(listener, f.owners);
	}
	_exit(0);
}

int fakeroot_start(struct fakeroot *ret, struct mlr_error *err)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return mlr_fail_errno(err, "make a socket pair");
	pid = fork();
	if (pid < 0) {
		close(pair[0]);
		close(pair[1]);
		return mlr_fail_errno(err, "start the fake root's supervisor");
	}
	if (pid == 0) { /* forks it and ends, so that it is no child of the command */
		if (fork() == 0)
			supervise((struct fakeroot){ pair[1], ret->owners, ret->user });
		_exit(0);
	}
	close(pair[1]);
	spawn_wait(pid);
	ret->sock = pair[0];
	return 0;
}

/* --- the filter ---------------------------------------------------------------- */

struct program {
	struct sock_filter v[INSTR_MAX];
	unsigned short n;
};

static void add(struct program *p, struct sock_filter f)
{
	p->v[p->n++] = f;
}

static void add_load(struct program *p, size_t member)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)member));
}

static void add_return(struct program *p, unsigned action)
{
	add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* If the loaded number is this one, return. */
static void add_case(struct program *p, unsigned nr, unsigned action)
{
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1));
	add_return(p, action);
}

/* The same, if a bit of an argument is set; or, with value, if the argument has that value. */
static void add_case_if(
	struct program *p, unsigned nr, unsigned arg, unsigned test, int is_value, unsigned action)
{
	const unsigned low = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0;

	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4));
	add_load(p, offsetof(struct seccomp_data, args) + 8 * arg + low);
	add(p,
		(struct sock_filter)BPF_JUMP(
			BPF_JMP | (is_value ? BPF_JEQ : BPF_JSET) | BPF_K, test, 0, 1));
	add_return(p, action);
	add_return(p, SECCOMP_RET_ALLOW);
}

/* For whom a filter is made. */
enum answers {
	PRETENDED, /* there is no supervisor: what root may change merely succeeds */
	ROOTS,
	USERS, /* all is judged; root's processes do not pay for what is done often */
};

static unsigned action_of(enum fakeroot_call call, enum answers how)
{
	int sets = call <= FAKEROOT_SETGROUPS || call == FAKEROOT_CAPSET;
	int gives = call >= FAKEROOT_CHOWN && call <= FAKEROOT_FCHOWNAT;
	/* dpkg does these to each file. */
	int is_frequent = call == FAKEROOT_UTIMENSAT || call == FAKEROOT_RMDIR ||
		call == FAKEROOT_READLINK || call == FAKEROOT_READLINKAT ||
		(call >= FAKEROOT_RENAME && call <= FAKEROOT_RENAMEAT2);

	if (how == PRETENDED && (sets || gives))
		return SECCOMP_RET_ERRNO | 0;
	if (how == ROOTS && is_frequent)
		return SECCOMP_RET_ALLOW;
	return how == PRETENDED || call == FAKEROOT_NOTHING ? SECCOMP_RET_ALLOW
							    : SECCOMP_RET_USER_NOTIF;
}

static void add_calls(
	struct program *p, const struct fakeroot_number *v, size_t n, enum answers how)
{
	const unsigned changes = O_CREAT | (O_TMPFILE & ~O_DIRECTORY) | O_WRONLY | O_RDWR | O_TRUNC;

	add_load(p, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < n; i++) {
		unsigned nr = (unsigned)v[i].nr, action = action_of(v[i].call, how);

		if (action == SECCOMP_RET_ALLOW)
			continue;
		if (how == ROOTS && (v[i].call == FAKEROOT_OPEN || v[i].call == FAKEROOT_OPENAT))
			add_case_if(p, nr, v[i].call == FAKEROOT_OPEN ? 1 : 2, changes, 0, action);
		else if (v[i].call == FAKEROOT_PRCTL)
			add_case_if(p, nr, 0, PR_SET_KEEPCAPS, 1, action);
		else
			add_case(p, nr, action);
	}
	add_case(p, SYS_io_uring_setup, SECCOMP_RET_ERRNO | ENOSYS);
	add_return(p, SECCOMP_RET_ALLOW);
}

static void make(struct program *p, enum answers how)
{
	unsigned short at;

	add_load(p, offsetof(struct seccomp_data, arch));
	at = p->n;
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, fakeroot_native_arch, 0, 0));
	add_load(p, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
	add_return(p, SECCOMP_RET_ERRNO | ENOSYS);
#endif
	add_calls(p, fakeroot_native, fakeroot_n_native, how);
	p->v[at].jf = (unsigned char)(p->n - at - 1);
	add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, fakeroot_other_arch, 1, 0));
	add_return(p, SECCOMP_RET_ALLOW);
	add_calls(p, fakeroot_other, fakeroot_n_other, how);
}

static int install(enum answers how, unsigned flags)
{
	struct program p = { .n = 0 };
	struct sock_fprog prog = { .filter = p.v };
	int r;

	make(&p, how);
	prog.len = p.n;
	r = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		flags | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &prog);
	if (r < 0 && errno == EINVAL)
		r = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	return r < 0 ? -errno : r;
}

/* Since Linux 5.5 a supervisor can let the kernel go on with a call. */
static int kernel_can(void)
{
	struct seccomp_notif_sizes sizes;
	unsigned action = SECCOMP_RET_USER_NOTIF;

	return syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) == 0 &&
		syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

int fakeroot_apply(struct fakeroot *f, struct mlr_error *err)
{
	enum answers how = f->user.uid == 0 ? ROOTS : USERS;
	int listener = kernel_can() ? install(how, SECCOMP_FILTER_FLAG_NEW_LISTENER) : -ENOSYS, r;

	if (listener >= 0) {
		r = (int)fds_send(f->sock, "", 1, listener);
		close(listener);
		return r < 0 ? mlr_result(err, r, "reach the fake root's supervisor") : 0;
	}
	mlr_warning("fake root: owners that commands set are lost, as %s",
		listener == -EBUSY ? "another supervisor answers system calls here"
				   : "this kernel cannot pass on system calls (Linux 5.5)");
	r = install(PRETENDED, 0);
	return r < 0 ? mlr_result(err, r, "install a seccomp filter") : 0;
}
