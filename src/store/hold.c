#include "store/hold.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "oci/digest.h"
#include "store/handle.h"
#include "store/unsynced.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#define TOKEN    "holds/token"
#define BEAT_LEN 17          /* the counter's line */
#define PREFIX   8           /* "holds/" and a NUL */
#define PINS_MAX (16u << 20) /* bytes of digests that a hold may name */

#define TELL_AFTER_MS 2000 /* a shorter wait is nobody's worry */
#define NAP_MIN_MS    5
#define NAP_MAX_MS    100

struct store_hold {
	struct store *st;
	char path[STORE_HOLD_NAME + PREFIX]; /* "holds/<name>" */
	pid_t pid;
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t wake;
	int fd;
	uint64_t beats;
	int lost, end, has_thread;
	pthread_t thread;
};

/* --- one's own hold ------------------------------------------------------- */

int store_stale_seconds(void)
{
	const char *s = getenv("MLRUN_STALE_SECONDS");
	long n = s ? strtol(s, NULL, 10) : 0;

	return n >= 1 && n <= 86400 ? (int)n : STORE_STALE_S;
}

void store_random_hex(char hex[17])
{
	static unsigned serial;
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) < 0) /* early boot */
		number = (uint64_t)getpid() << 32 |
			__atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
	snprintf(hex, 17, "%016llx", (unsigned long long)number);
}

/* Is the file that we have open still the one of that name? */
static int is_there(const struct store_hold *h)
{
	struct stat mine, there;

	if (fstatat(store_fd(h->st), h->path, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT && errno != ESTALE;
	if (fstat(h->fd, &mine) < 0)
		return errno != ESTALE;
	return mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

/* Time and content, as a file system may be slow to tell of either. A full disk keeps the time. */
static void beat(struct store_hold *h)
{
	char line[BEAT_LEN + 1];

	if (h->lost || !is_there(h)) {
		h->lost = 1;
		return;
	}
	snprintf(line, sizeof(line), "%016llx\n", (unsigned long long)++h->beats);
	if (futimens(h->fd, NULL) < 0 || pwrite(h->fd, line, BEAT_LEN, 0) != BEAT_LEN)
		mlr_debug("store: beat: %s", strerror(errno));
}

static void *beat_main(void *ctx)
{
	struct store_hold *h = ctx;
	long ms = store_stale_seconds() * 1000L / 12;
	struct timespec at;

	pthread_mutex_lock(&h->lock);
	while (!h->end) {
		clock_gettime(CLOCK_MONOTONIC, &at);
		at.tv_nsec += ms % 1000 * 1000000;
		at.tv_sec += ms / 1000 + at.tv_nsec / 1000000000;
		at.tv_nsec %= 1000000000;
		if (pthread_cond_timedwait(&h->wake, &h->lock, &at) == ETIMEDOUT)
			beat(h);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

/* Signals are for the threads that were there before. */
static int start_beating(struct store_hold *h, struct mlr_error *err)
{
	sigset_t all, was;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	r = pthread_create(&h->thread, NULL, beat_main, h);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (r != 0)
		return mlr_fail(err, r, "start a thread: %s", strerror(r));
	h->has_thread = 1;
	return 0;
}

static int hold_new(struct store *st, char kind, struct store_hold **ret, struct mlr_error *err)
{
	struct store_hold *h;
	struct store_process self;
	char who[STORE_PROCESS_NAME], hex[17];
	pthread_condattr_t attr;
	int r = store_process_self(&self);

	if (r < 0)
		return mlr_fail(err, -r, "read /proc/self/stat and boot_id: %s", strerror(-r));
	store_process_name(&self, who);
	store_random_hex(hex);
	h = xcalloc(1, sizeof(*h));
	h->st = st;
	h->pid = self.pid;
	h->fd = -1;
	snprintf(h->path, sizeof(h->path), "holds/%c-%s.%s", kind, hex, who);
	pthread_mutex_init(&h->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->wake, &attr);
	pthread_condattr_destroy(&attr);
	*ret = h;
	return 0;
}

/* A child that was forked meanwhile has a copy, but neither the thread nor the hold. */
static void hold_free(struct store_hold *h)
{
	if (h->has_thread && h->pid == getpid()) {
		pthread_mutex_lock(&h->lock);
		h->end = 1;
		pthread_cond_signal(&h->wake);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->thread, NULL);
	}
	if (h->fd >= 0)
		close(h->fd);
	pthread_cond_destroy(&h->wake);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* What an adder's file says. */
static char *pins_text(const struct strv *digests)
{
	size_t n = digests ? digests->n : 0;
	char *text = xmalloc(BEAT_LEN + 3 + n * 65), *s = text;

	s += sprintf(s, "%016x\n", 0);
	if (!digests)
		s += sprintf(s, "*\n");
	for (size_t i = 0; i < n; i++)
		s += sprintf(s, "%.64s\n", oci_digest_hex(digests->v[i]));
	return text;
}

/* The file appears whole, also in the place of an earlier one: a remover may read it at any time. */
static int put_file(struct store_hold *h, const struct strv *digests, struct mlr_error *err)
{
	auto_free char *text = pins_text(digests);
	auto_free char *tmp = xasprintf("tmp/hold.%s", strchr(h->path, '/') + 1);
	int top = store_fd(h->st);
	auto_close int fd =
		openat(top, tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	int r;

	if (fd < 0)
		return mlr_fail_errno(err, "create '%s/%s'", store_path(h->st), tmp);
	r = file_write_all(fd, text, strlen(text));
	if (r < 0)
		mlr_fail(err, -r, "write '%s/%s': %s", store_path(h->st), tmp, strerror(-r));
	pthread_mutex_lock(&h->lock);
	if (r == 0 && renameat(top, tmp, top, h->path) < 0)
		r = mlr_fail_errno(
			err, "rename '%s' to '%s/%s'", tmp, store_path(h->st), h->path);
	if (r == 0) {
		int old = h->fd;

		h->fd = take_fd(&fd);
		if (old >= 0)
			close(old);
	} else {
		unlinkat(top, tmp, 0);
	}
	pthread_mutex_unlock(&h->lock);
	return r;
}

const char *store_hold_name(const struct store *st)
{
	return strchr(st->hold->path, '/') + 1;
}

int store_hold_is_lost(struct store *st)
{
	struct store_hold *h = st->hold;
	int lost;

	if (!h)
		return 0;
	pthread_mutex_lock(&h->lock);
	if (!h->lost && !is_there(h))
		h->lost = 1;
	lost = h->lost;
	pthread_mutex_unlock(&h->lock);
	return lost;
}

int store_hold_lost(struct store *st, struct mlr_error *err)
{
	mlr_fail(err, ESTALE,
		"this process stood still for so long (%d s) that another one took it for dead",
		store_stale_seconds());
	mlr_hint(err, "run it again: store '%s' is as good as before", store_path(st));
	return -ESTALE;
}

/* --- others' holds -------------------------------------------------------- */

struct store_seen {
	char *hold;
	char line[BEAT_LEN + 1];
	struct timespec mtime;
	int64_t since_ms; /* on the waiter's own clock */
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Read a hold's beat; opening makes NFS ask the server. Returns 0, -ENOENT when there is none, or
 * another error, which says nothing of the process. */
static int look(struct store *st, const char *hold, struct store_seen *ret)
{
	auto_free char *path = xasprintf("holds/%s", hold);
	auto_close int fd =
		openat(store_fd(st), path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat sb;

	if (fd < 0)
		return errno == ESTALE ? -ENOENT : -errno;
	memset(ret, 0, sizeof(*ret));
	if (fstat(fd, &sb) < 0 || pread(fd, ret->line, BEAT_LEN, 0) < 0)
		return errno == ESTALE ? -ENOENT : -errno;
	ret->mtime = sb.st_mtim;
	return 0;
}

/* 1, 0, or -1 for who cannot be judged by /proc. */
static int judge_here(struct store *st, const char *hold)
{
	struct store_process p, self;
	const char *dot = strchr(hold, '.');
	int alive;

	if (!dot || store_process_parse(dot + 1, &p) < 0 || store_process_self(&self) < 0)
		return -1;
	alive = store_process_alive(&p, &self);
	/* Two nodes may bear one name; a local file system knows of one boot at a time. */
	if (alive == 0 && strcmp(p.boot, self.boot) != 0 && !unsynced_allowed(st))
		return -1;
	return alive;
}

/* Nobody's any more. Its name was this process's alone, so it does not matter who comes first. */
static void bury(struct store *st, const char *hold)
{
	auto_free char *path = xasprintf("holds/%s", hold);

	mlr_debug("store: '%s' belongs to a process that ended", path);
	if (hold[0] == 'r')
		renameat(store_fd(st), path, store_fd(st), TOKEN);
	else
		unlinkat(store_fd(st), path, 0);
}

void store_wait_done(struct store_wait *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->seen[i].hold);
	free(w->seen);
	w->seen = NULL;
	w->n = 0;
}

/* What was seen of a hold before, made when there is nothing yet. */
static struct store_seen *recall(struct store_wait *w, const char *hold, int64_t now)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->seen[i].hold, hold) == 0)
			return &w->seen[i];
	w->seen = xreallocarray(w->seen, w->n + 1, sizeof(*w->seen));
	memset(&w->seen[w->n], 0, sizeof(*w->seen));
	w->seen[w->n].hold = xstrdup(hold);
	w->seen[w->n].since_ms = now;
	return &w->seen[w->n++];
}

/* The clock is read before the file: whoever sleeps in between only waits the longer. */
static int judge_beats(struct store_wait *w, const char *hold)
{
	int64_t now = now_ms();
	struct store_seen *s = recall(w, hold, now), is;
	int r = look(w->st, hold, &is);

	if (r == -ENOENT)
		return 0;
	if (r == 0 && (memcmp(is.line, s->line, BEAT_LEN) != 0 ||
			      is.mtime.tv_sec != s->mtime.tv_sec ||
			      is.mtime.tv_nsec != s->mtime.tv_nsec)) {
		memcpy(s->line, is.line, sizeof(s->line));
		s->mtime = is.mtime;
		s->since_ms = now;
	}
	return now - s->since_ms <= store_stale_seconds() * 1000L;
}

int store_wait_alive(struct store_wait *w, const char *hold)
{
	struct store_seen is;
	int alive = judge_here(w->st, hold);

	if (alive > 0)
		return look(w->st, hold, &is) != -ENOENT;
	if (alive < 0)
		alive = judge_beats(w, hold);
	if (!alive)
		bury(w->st, hold);
	return alive;
}

/* The file system's clock, by a file that we touch: the hold itself. */
static int is_older(struct store *st, const struct store_seen *is, int seconds)
{
	struct stat sb;
	int older = 0;

	if (!st->hold)
		return 0;
	pthread_mutex_lock(&st->hold->lock);
	beat(st->hold);
	if (fstat(st->hold->fd, &sb) == 0)
		older = sb.st_mtim.tv_sec - is->mtime.tv_sec > seconds;
	pthread_mutex_unlock(&st->hold->lock);
	return older;
}

int store_hold_alive(struct store *st, const char *hold, int seconds)
{
	struct store_seen is;
	int alive = judge_here(st, hold), r = look(st, hold, &is);

	if (r == -ENOENT)
		return 0;
	if (alive < 0)
		alive = r < 0 || !is_older(st, &is, seconds);
	if (!alive)
		bury(st, hold);
	return alive;
}

static void tell(const struct store_wait *w, const char *hold)
{
	struct store_process p;
	const char *dot = strchr(hold, '.');

	if (dot && store_process_parse(dot + 1, &p) == 0)
		mlr_info("waiting for process %ld on '%s', which is %s", (long)p.pid, p.host,
			w->what);
	else
		mlr_info("waiting for another process, which is %s", w->what);
}

int store_wait_nap(struct store_wait *w, const char *hold, struct mlr_error *err)
{
	struct store *st = w->st;
	struct timespec ts;

	if (st->cancelled && st->cancelled(st->cancelled_ctx))
		return mlr_fail(err, ECANCELED, "interrupted");
	if (w->waited_ms >= TELL_AFTER_MS && !w->told) {
		tell(w, hold);
		w->told = 1;
	}
	w->nap_ms = w->nap_ms ? w->nap_ms * 2 : NAP_MIN_MS;
	w->nap_ms = w->nap_ms < NAP_MAX_MS ? w->nap_ms : NAP_MAX_MS;
	ts = (struct timespec){ 0, w->nap_ms * 1000000L };
	nanosleep(&ts, NULL);
	w->waited_ms += w->nap_ms;
	return 0;
}

/* The names in holds/ of one kind but our own, whoever they belong to. */
static int list(struct store *st, char kind, const struct store_hold *own, struct strv *ret,
	struct mlr_error *err)
{
	int fd = openat(store_fd(st), "holds", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d)
		return mlr_fail_errno(err, "open '%s/holds'", store_path(st));
	while ((e = readdir(d))) {
		if (e->d_name[0] != kind || e->d_name[1] != '-')
			continue;
		if (own && strcmp(e->d_name, own->path + strlen("holds/")) == 0)
			continue;
		if (st->hold && strcmp(e->d_name, store_hold_name(st)) == 0)
			continue;
		strv_add(ret, e->d_name);
	}
	closedir(d);
	return 0;
}

/* --- adders --------------------------------------------------------------- */

/* The first live remover, or "". */
static int find_remover(struct store *st, const struct store_hold *own, struct store_wait *w,
	char hold[256], struct mlr_error *err)
{
	auto_strv struct strv l = STRV_INIT;
	int r = list(st, 'r', own, &l, err);

	hold[0] = '\0';
	for (size_t i = 0; r == 0 && i < l.n && !hold[0]; i++)
		if (store_wait_alive(w, l.v[i]))
			snprintf(hold, 256, "%s", l.v[i]);
	return r;
}

/*
 * Wait until nobody removes. With the own file in place no remover can begin that does not see it;
 * one that waits for us to end must not be waited for, so a claim to everything is withdrawn.
 */
static int wait_for_removers(
	struct store_hold *h, const struct strv *digests, struct mlr_error *err)
{
	auto_call(store_wait_done) struct store_wait w =
		STORE_WAIT_INIT(h->st, "removing images from this store");
	char remover[256];
	int r, withdrawn = 0;

	for (;;) {
		r = find_remover(h->st, h, &w, remover, err);
		if (r < 0)
			return r;
		if (!remover[0] && !withdrawn)
			return 0;
		if (!remover[0]) {
			r = put_file(h, digests, err);
			if (r < 0)
				return r;
			withdrawn = 0;
			continue;
		}
		if (!digests && !withdrawn) {
			unlinkat(store_fd(h->st), h->path, 0);
			withdrawn = 1;
		}
		r = store_wait_nap(&w, remover, err);
		if (r < 0)
			return r;
	}
}

static int hold_first(struct store *st, const struct strv *digests, struct mlr_error *err)
{
	struct store_hold *h;
	int r = hold_new(st, 'a', &h, err);

	if (r < 0)
		return r;
	r = put_file(h, digests, err);
	if (r == 0)
		r = wait_for_removers(h, digests, err);
	if (r == 0)
		r = start_beating(h, err);
	if (r < 0) {
		unlinkat(store_fd(st), h->path, 0);
		hold_free(h);
		return r;
	}
	st->hold = h;
	return 0;
}

int store_hold_set(struct store *st, const struct strv *digests, struct mlr_error *err)
{
	int r;

	if (!st->hold) {
		r = store_upgrade(st, err);
		return r < 0 ? r : hold_first(st, digests, err);
	}
	if (store_hold_is_lost(st))
		return store_hold_lost(st, err);
	if (!digests)
		return 0;
	r = put_file(st->hold, digests, err);
	return r < 0 ? r : wait_for_removers(st->hold, digests, err);
}

void store_hold_close(struct store_hold *h)
{
	if (!h)
		return;
	if (h->pid == getpid() && !h->lost)
		unlinkat(store_fd(h->st), h->path, 0);
	hold_free(h);
}

/* --- removers ------------------------------------------------------------- */

/* Make the token ours, by its own name or that of a remover that died. Returns 1, 0 when another
 * remover lives (named in hold), or -errno. */
static int take_token(
	struct store_hold *h, struct store_wait *w, char hold[256], struct mlr_error *err)
{
	int top = store_fd(h->st), r;

	if (renameat(top, TOKEN, top, h->path) == 0)
		return 1;
	if (errno != ENOENT)
		return mlr_fail_errno(
			err, "rename '%s/" TOKEN "' to '%s'", store_path(h->st), h->path);
	r = find_remover(h->st, h, w, hold, err);
	if (r < 0 || hold[0])
		return r;
	/* The dead one's was renamed back, or somebody tidied it away. */
	r = openat(top, TOKEN, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (r < 0)
		return mlr_fail_errno(err, "create '%s/" TOKEN "'", store_path(h->st));
	close(r);
	return 0;
}

/* Two tokens can come to be when two processes miss one at once; who sees another remover yields. */
static int become_remover(struct store_hold *h, struct mlr_error *err)
{
	auto_call(store_wait_done) struct store_wait w =
		STORE_WAIT_INIT(h->st, "removing images from this store");
	char other[256] = "";
	int r;

	for (;;) {
		r = take_token(h, &w, other, err);
		if (r < 0)
			return r;
		if (r == 1) {
			r = find_remover(h->st, h, &w, other, err);
			if (r == 0 && !other[0])
				return 0;
			unlinkat(store_fd(h->st), h->path, 0);
			if (r < 0)
				return r;
		}
		r = store_wait_nap(&w, other, err);
		if (r < 0)
			return r;
	}
}

/* What an adder counts on. Returns 1 for certain digests, which are added; 0 for everything. */
static int read_pins(struct store *st, const char *hold, struct strv *spare)
{
	auto_free char *path = xasprintf("holds/%s", hold), *text = NULL;
	char *line, *save = NULL;
	int r = file_read(store_fd(st), path, PINS_MAX, &text, NULL, NULL);

	if (r < 0)
		return r == -ENOENT || r == -ESTALE; /* it has just ended */
	strtok_r(text, "\n", &save);
	line = strtok_r(NULL, "\n", &save);
	if (line && strcmp(line, "*") == 0)
		return 0;
	for (; line; line = strtok_r(NULL, "\n", &save))
		strv_add(spare, line);
	return 1;
}

static int wait_for_adders(struct store_hold *h, struct strv *spare, struct mlr_error *err)
{
	auto_call(store_wait_done) struct store_wait w =
		STORE_WAIT_INIT(h->st, "adding to this store");

	for (;;) {
		auto_strv struct strv l = STRV_INIT;
		const char *all = NULL;
		int r = list(h->st, 'a', h, &l, err);

		if (r < 0)
			return r;
		strv_done(spare);
		for (size_t i = 0; i < l.n && !all; i++)
			if (store_wait_alive(&w, l.v[i]) && !read_pins(h->st, l.v[i], spare))
				all = l.v[i];
		if (!all)
			return 0;
		r = store_wait_nap(&w, all, err);
		if (r < 0)
			return r;
	}
}

static int remover_start(struct store_hold *h, struct strv *spare, struct mlr_error *err)
{
	int r = become_remover(h, err);

	if (r < 0)
		return r;
	h->fd = openat(store_fd(h->st), h->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (h->fd < 0)
		return mlr_fail_errno(err, "open '%s/%s'", store_path(h->st), h->path);
	beat(h);
	r = start_beating(h, err);
	return r < 0 ? r : wait_for_adders(h, spare, err);
}

int store_remover_begin(
	struct store *st, struct strv *spare, struct store_hold **ret, struct mlr_error *err)
{
	struct store_hold *h;
	int r = store_upgrade(st, err);

	if (r == 0)
		r = hold_new(st, 'r', &h, err);
	if (r < 0)
		return r;
	r = remover_start(h, spare, err);
	if (r < 0) {
		store_remover_end(h);
		return r;
	}
	*ret = h;
	return 0;
}

int store_remover_holds(const struct store_hold *h)
{
	return is_there(h);
}

void store_remover_end(struct store_hold *h)
{
	int top;

	if (!h)
		return;
	top = store_fd(h->st);
	if (h->fd >= 0 && is_there(h))
		renameat(top, h->path, top, TOKEN);
	hold_free(h);
}
