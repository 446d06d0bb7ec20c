/*
 * mlrun-squashfuse: serves one squashfs image to a user's containers. runtime/squash.c starts it
 * outside the first one's namespaces, with only two of the caller's descriptors:
 *
 *   3  a socket. The server sends a byte 0, or an error message about the image. It receives the
 *      descriptor of the mounted /dev/fuse, with the CPU (an int) where the container is made or
 *      -1: the server answers there until it is made. It receives nothing if the container could
 *      not be made. The other end closes when the container is made
 *   4  the image
 *
 *   mlrun-squashfuse PART UID GID [COMMAND PATH]
 *   mlrun-squashfuse PART --look
 *
 *   PART           "OFFSET+BYTES" of the file that are the image; "" for all of it
 *   UID, GID       the owner of all files
 *   COMMAND, PATH  what will run, and its PATH: likely to be read soon
 *
 *   --look         instead of serving, answer requests from the socket (squashfs/look.h)
 *
 * It confines itself before it reads a byte of the image.
 *
 * It is no child of the container's command, which must not have one that it did not start. The
 * server ends when the mount does, with the container's last process.
 *
 * It is linked statically where the libraries allow it, since a start waits for it: loading eight
 * shared libraries takes a millisecond.
 */
#include "squashfs/server_look.h"
#include "squashfs/server_ops.h"

#include <endian.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* Confines the server of a squashfs image, whose parsing code a hostile image could take over. */

/*
 * The filter is a hand-written list of system calls, as in runtime/seccomp.c: libseccomp would take
 * longer than everything else that a start waits for. Other calls fail instead of killing the
 * process, since a C library may try calls that it can do without.
 *
 * Builds with sanitizers have no filter: they open files and start a process that looks for leaks.
 */

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

/*
 * Confine the calling thread and those that it starts, for good: no new privileges, no core file,
 * no opening of files (landlock(7)), and only the system calls that reading and serving an image
 * need (seccomp(2)); others fail with EPERM.
 *
 * Call it before the image is read, while there is only one thread. Skips what the kernel lacks.
 */
static void confine(void)
{
	struct rlimit none = { 0, 0 };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &none);
	open_no_files();
	filter_calls();
}

#define SOCKET      3
#define IMAGE       4
#define THREADS_MAX 16
#define CACHE_BYTES (16u << 20)
/* Less than a large page, which takes longer to clear than to fill. */
#define LOOK_BYTES (1u << 20)
#define LINGER_US  5000
#define LOOK_CPU_S 20 /* limits what a hostile image can use up */

/* Ignore signals to the job: the command may need its files in order to end cleanly. All are
 * blocked at the start (base/program.h). */
static void ignore_signals(void)
{
	static const int all[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2,
		SIGALRM, SIGTSTP, SIGTTIN, SIGTTOU, SIGXCPU };
	sigset_t none;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		signal(all[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Keep freed memory: blocks come and go, and new pages would have to be zeroed by the kernel each
 * time. */
static void tune_malloc(void)
{
	mallopt(M_MMAP_THRESHOLD, 8 << 20);
	mallopt(M_TRIM_THRESHOLD, CACHE_BYTES);
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_TOP_PAD, 1 << 20);
}

/* --- threads ------------------------------------------------------------------------ */

static struct {
	struct ops ops;
	atomic_int idle, started;
	cpu_set_t cpus;       /* all CPUs that we may use */
	atomic_int is_pinned; /* the first thread stays on the CPU where the container is made */
} server;

static int thread_count(void)
{
	int n = sched_getaffinity(0, sizeof(server.cpus), &server.cpus) == 0
		? CPU_COUNT(&server.cpus)
		: 1;

	return n < 2 ? 2 : n > THREADS_MAX ? THREADS_MAX : n;
}

static int is_idle(void)
{
	return atomic_load(&server.idle) > 0;
}

static void *answer_requests(void *arg);

static void pin(int cpu)
{
	cpu_set_t one;

	if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &server.cpus))
		return;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	atomic_store(&server.is_pinned, sched_setaffinity(0, sizeof(one), &one) == 0);
}

/* In the first thread: unpin it once the other side has closed the socket. */
static void unpin_when_made(void)
{
	char byte;

	if (recv(SOCKET, &byte, 1, MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	sched_setaffinity(0, sizeof(server.cpus), &server.cpus);
	atomic_store(&server.is_pinned, 0);
}

/* Start one more thread if all are busy. */
static void grow_when_busy(void)
{
	pthread_t thread;
	int n = atomic_load(&server.started);

	if (atomic_load(&server.is_pinned) || is_idle() || n >= server.ops.threads)
		return;
	if (!atomic_compare_exchange_strong(&server.started, &n, n + 1))
		return;
	if (pthread_create(&thread, NULL, answer_requests, NULL) == 0)
		pthread_detach(thread);
	else
		atomic_fetch_sub(&server.started, 1);
}

/* Answer requests until the mount is gone. */
static void *answer_requests(void *arg)
{
	struct fuse_buf buf = { 0 };

	while (!fuse_session_exited(server.ops.session)) {
		int n;

		atomic_fetch_add(&server.idle, 1);
		n = fuse_session_receive_buf(server.ops.session, &buf);
		atomic_fetch_sub(&server.idle, 1);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			break;
		if (atomic_load(&server.is_pinned) && arg == &server)
			unpin_when_made();
		grow_when_busy();
		fuse_session_process_buf(server.ops.session, &buf);
	}
	/* The mount goes when the container's last process ends. Let that finish first: freeing our
	 * memory would delay it on the same CPU. */
	usleep(LINGER_US);
	_exit(0);
}

static int serve(int fuse)
{
	char *argv[] = { (char *)"mlrun-squashfuse", NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	char place[32];

	server.ops.session = fuse_session_new(&args, &ops_table, sizeof(ops_table), &server.ops);
	snprintf(place, sizeof(place), "/dev/fd/%d", fuse); /* tells libfuse that it is mounted */
	if (!server.ops.session || fuse_session_mount(server.ops.session, place) != 0)
		return 1;
	atomic_store(&server.started, 1);
	answer_requests(&server);
	return 0;
}

/* Open the image. Returns 0 if it can be served, or sends an error message. */
static int take_image(const char *part, const char *uid, const char *gid)
{
	const char *why = "", *compression = NULL;
	char text[200] = "";
	struct ops *o = &server.ops;

	if (image_open(IMAGE, part, (uid_t)strtoul(uid, NULL, 10), (gid_t)strtoul(gid, NULL, 10),
		    &o->image, &why, &compression) < 0) {
		if (compression)
			snprintf(text, sizeof(text),
				"compressed with %s, which this mlrun's libsquashfuse cannot read",
				compression);
		else
			snprintf(text, sizeof(text), "%s", why);
	} else if (!(o->blocks = blocks_new(o->image, CACHE_BYTES))) {
		snprintf(text, sizeof(text), "no memory");
	}
	o->threads = thread_count();
	o->idle = is_idle;
	if (send(SOCKET, text, strlen(text) + 1, MSG_NOSIGNAL) < 0 || *text)
		return -1;
	return 0;
}

/* argv: COMMAND PATH NULL */
static void *warm(void *argv)
{
	char *const *a = argv;

	/* Lower the priority below the answering threads': on a busy machine a guess gains
	 * nothing. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10);
	image_expect_metadata(server.ops.image);
	if (a[0] && a[1])
		warm_command(&server.ops, a[0], a[1]);
	return NULL;
}

static void start_warming(char **argv)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, warm, argv) == 0)
		pthread_detach(thread);
}

/* Answer every request, also if the file is not a squashfs image. */
static int look(const char *part)
{
	struct rlimit cpu = { LOOK_CPU_S, LOOK_CPU_S };
	const char *why, *compression;
	struct image *im = NULL;
	struct blocks *blocks = NULL;

	setrlimit(RLIMIT_CPU, &cpu);
	confine();
	if (image_open(IMAGE, part, 0, 0, &im, &why, &compression) == 0)
		blocks = blocks_new(im, LOOK_BYTES);
	look_serve(SOCKET, blocks ? im : NULL, blocks);
	blocks_free(blocks);
	image_close(im);
	return 0;
}

int main(int argc, char **argv)
{
	int is_look = argc == 3 && strcmp(argv[2], "--look") == 0;
	int fuse, cpu;

	if (argc != 4 && argc != 6 && !is_look) {
		fprintf(stderr, "mlrun: this program is a part of mlrun: type mlrun exec IMAGE\n");
		return 125;
	}
	ignore_signals();
	tune_malloc();
	if (is_look)
		return look(argv[1]);
	confine();
	if (take_image(argv[1], argv[2], argv[3]) < 0)
		return 125;
	start_warming(argv + 4);
	if (fds_receive(SOCKET, &cpu, sizeof(cpu), &fuse) != sizeof(cpu) || fuse < 0)
		return 0;
	pin(cpu);
	return serve(fuse);
}
