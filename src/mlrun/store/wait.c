/* Looks at the holds of other processes: the waiting part of store/hold.h. */
#include "store/hold.h"

#include "store/handle.h"

#define TELL_AFTER_MS 2000 /* shorter waits are not reported */
#define NAP_MIN_MS    5
#define NAP_MAX_MS    100

struct store_seen {
	char *hold;
	char line[HOLD_BEAT_LEN + 1];
	struct timespec mtime;
	int64_t since_ms; /* by the waiter's clock */
};

/* Read a hold's heartbeat; open(2) makes NFS ask the server. Returns 0, -ENOENT if it is gone, or
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
	if (fstat(fd, &sb) < 0 || pread(fd, ret->line, HOLD_BEAT_LEN, 0) < 0)
		return errno == ESTALE ? -ENOENT : -errno;
	ret->mtime = sb.st_mtim;
	return 0;
}

/* Judge a hold by /proc: 1 alive, 0 dead, -1 unknown. */
static int judge_here(struct store *st, const char *hold)
{
	struct store_process p, self;
	const char *dot = strchr(hold, '.');

	if (!dot || store_process_parse(dot + 1, &p) < 0 || store_process_self(&self) < 0)
		return -1;
	return store_process_judge(st, &p, &self);
}

/* Delete a dead process's hold. Its name is unique, so several processes may do so. */
static void bury(struct store *st, const char *hold)
{
	auto_free char *path = xasprintf("holds/%s", hold);

	mlr_debug("store: '%s' belongs to a process that ended", path);
	if (hold[0] == 'r')
		renameat(store_fd(st), path, store_fd(st), HOLD_TOKEN);
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

/* Find, or add, what is remembered of a hold. */
static struct store_seen *recall(struct store_wait *w, const char *hold, int64_t now)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->seen[i].hold, hold) == 0)
			return &w->seen[i];
	*xadd(w->seen, w->n) = (struct store_seen){ .hold = xstrdup(hold), .since_ms = now };
	return &w->seen[w->n - 1];
}

/* Reads the clock before the file: sleeping in between can only prolong the wait. */
static int judge_beats(struct store_wait *w, const char *hold)
{
	int64_t now = mlr_now_ms();
	struct store_seen *s = recall(w, hold, now), is;
	int r = look(w->st, hold, &is);

	if (r == -ENOENT)
		return 0;
	if (r == 0 &&
		(memcmp(is.line, s->line, HOLD_BEAT_LEN) != 0 ||
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

/* Compares with the file system's clock, read by touching the own hold. */
static int is_older(struct store *st, const struct store_seen *is, int seconds)
{
	struct stat sb;
	int older = 0;

	if (!st->hold)
		return 0;
	pthread_mutex_lock(&st->hold->lock);
	hold_file_beat(st->hold);
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

	if (st->cancelled && st->cancelled(st->cancelled_ctx))
		return mlr_fail(err, ECANCELED, "interrupted");
	if (w->waited_ms >= TELL_AFTER_MS && !w->told) {
		tell(w, hold);
		w->told = 1;
	}
	w->nap_ms = w->nap_ms ? w->nap_ms * 2 : NAP_MIN_MS;
	w->nap_ms = w->nap_ms < NAP_MAX_MS ? w->nap_ms : NAP_MAX_MS;
	mlr_sleep_ms(w->nap_ms);
	w->waited_ms += w->nap_ms;
	return 0;
}
