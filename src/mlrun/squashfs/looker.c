#include "squashfs/looker.h"

#include "base/program.h"

#include <sys/mman.h>
#include <sys/socket.h>

#define PROGRAM   "mlrun-squashfuse"
#define WAIT_S    30 /* for an answer */
#define SEALED    (F_SEAL_SHRINK | F_SEAL_WRITE)
#define AHEAD_MAX 8

/* A request that was sent ahead of looker_ask(). */
struct ahead {
	enum look_what what;
	char *path;                 /* NULL once looker_ask() has taken it */
	struct look_answer *answer; /* NULL until it arrives */
	int fd, r;                  /* the answer's descriptor and result */
};

static struct {
	char *file; /* the file looked into */
	int sock;   /* to the answering process; it answers in order */
	struct ahead ahead[AHEAD_MAX];
	size_t n_ahead, n_come; /* requests sent ahead, and answers received; in order */
	char *failed;           /* the last file without an answer; it is not asked again */
} looker = { .sock = -1 };

static void ahead_done(struct ahead *a)
{
	fd_close(&a->fd);
	free(a->path);
	free(a->answer);
	*a = (struct ahead){ .fd = -1 };
}

static void stop(void)
{
	for (size_t i = 0; i < looker.n_ahead; i++)
		ahead_done(&looker.ahead[i]);
	looker.n_ahead = looker.n_come = 0;
	fd_close(&looker.sock);
	free(looker.file);
	looker.file = NULL;
	looker.sock = -1;
}

/* Ask no more: each further request could use up the timeout again, by a hostile image. */
static void give_up(void)
{
	auto_free char *file = take_ptr(&looker.file);

	stop();
	free(looker.failed);
	looker.failed = take_ptr(&file);
}

void looker_done(void)
{
	stop();
	free(looker.failed);
	looker.failed = NULL;
}

/* Start the program with descriptors 3 and 4, as its source file says. */
static int start(const char *file, const char *part)
{
	auto_close int image = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	auto_free char *path = program_path(PROGRAM);
	char *const argv[] = { (char *)PROGRAM, (char *)part, (char *)"--look", NULL };
	auto_close int mine = -1, its = -1;
	struct timeval wait = { .tv_sec = WAIT_S };
	struct stat st;
	int pair[2];

	if (image < 0 || fstat(image, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return -EINVAL;
	if (access(path, X_OK) < 0)
		return -ENOTSUP;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	mine = pair[0];
	its = pair[1];
	if (setsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0)
		return -errno;
	TRY(program_serve(path, argv, its, image));
	looker.file = xstrdup(file);
	looker.sock = take_fd(&mine);
	return 0;
}

/* Check an answer like the image's own data: a hostile image may control the process that sends
 * it. */
static int check(struct look_answer *a, enum look_what what, int fd)
{
	int brings = what == LOOK_FILE || what == LOOK_ABOUT || what == LOOK_NAMES, seals;
	struct stat st;

	if (a->code > 0)
		return -EIO;
	a->path[sizeof(a->path) - 1] = a->target[sizeof(a->target) - 1] = '\0';
	if (a->code < 0 || !brings)
		return a->code;
	seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALED) != SEALED || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EIO;
	return 0;
}

static int send_question(enum look_what what, const char *path, int flags)
{
	struct look_request q = { .what = what };
	size_t len = strlen(path);

	if (len >= sizeof(q.path))
		return -ENAMETOOLONG;
	memcpy(q.path, path, len + 1);
	return send(looker.sock, &q, offsetof(struct look_request, path) + len + 1,
		       MSG_NOSIGNAL | flags) < 0
		? -EIO
		: 0;
}

/* Receive the next answer. A process that ends or times out is not asked again. */
static int hear(enum look_what what, struct look_answer *ret, int *fd)
{
	auto_close int got = -1;
	int r;

	if (fds_receive(looker.sock, ret, sizeof(*ret), &got) != (ssize_t)sizeof(*ret)) {
		give_up();
		return -EIO;
	}
	r = check(ret, what, got);
	if (r == 0 && fd)
		*fd = take_fd(&got);
	return r;
}

/* Receive the answers to the first n requests that were sent ahead. */
static int hear_ahead(size_t n)
{
	while (looker.n_come < n) {
		struct ahead *a = &looker.ahead[looker.n_come];
		auto_free struct look_answer *answer = xmalloc(sizeof(*answer));
		int fd = -1, r = hear(a->what, answer, &fd);

		if (looker.sock < 0)
			return r;
		a->answer = take_ptr(&answer);
		a->fd = fd;
		a->r = r;
		looker.n_come++;
	}
	return 0;
}

static struct ahead *find_ahead(enum look_what what, const char *path)
{
	for (size_t i = 0; i < looker.n_ahead; i++) {
		struct ahead *a = &looker.ahead[i];

		if (a->path && a->what == what && strcmp(a->path, path) == 0)
			return a;
	}
	return NULL;
}

static int start_for(const char *file, const char *part)
{
	if (looker.sock >= 0 && strcmp(looker.file, file) == 0)
		return 0;
	if (looker.failed && strcmp(looker.failed, file) == 0)
		return -EIO;
	stop();
	return start(file, part);
}

void looker_expect(const char *file, const char *part, enum look_what what, const char *path)
{
	if (start_for(file, part) < 0 || looker.n_ahead == AHEAD_MAX ||
		send_question(what, path, MSG_DONTWAIT) < 0)
		return;
	looker.ahead[looker.n_ahead++] =
		(struct ahead){ .what = what, .path = xstrdup(path), .fd = -1 };
}

int looker_ask(const char *file, const char *part, enum look_what what, const char *path,
	struct look_answer *ret, int *fd)
{
	struct ahead *a;
	int r;

	TRY(start_for(file, part));
	a = find_ahead(what, path);
	TRY(hear_ahead(a ? (size_t)(a - looker.ahead) + 1 : looker.n_ahead));
	if (a) {
		*ret = *a->answer;
		r = a->r;
		if (r == 0 && fd)
			*fd = take_fd(&a->fd);
		ahead_done(a);
		return r;
	}
	r = send_question(what, path, 0);
	if (r == -EIO)
		give_up();
	return r < 0 ? r : hear(what, ret, fd);
}
