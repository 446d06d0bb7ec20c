#include "store/hold_file.h"

#include "base/base.h"
#include "base/wait.h"
#include "oci/digest.h"

int hold_file_is_there(const struct store_hold *h)
{
	struct stat mine, there;

	if (fstatat(store_fd(h->st), h->path, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT && errno != ESTALE;
	if (fstat(h->fd, &mine) < 0)
		return errno != ESTALE;
	return mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

/* Sets the time, too, which works on a full disk; some file systems show one change late. */
void hold_file_beat(struct store_hold *h)
{
	char line[HOLD_BEAT_LEN + 1];

	if (h->lost || !hold_file_is_there(h)) {
		h->lost = 1;
		return;
	}
	snprintf(line, sizeof(line), "%016llx\n", (unsigned long long)++h->beats);
	if (futimens(h->fd, NULL) < 0 || pwrite(h->fd, line, HOLD_BEAT_LEN, 0) != HOLD_BEAT_LEN)
		mlr_debug("store: beat: %s", strerror(errno));
}

static void *beat_main(void *ctx)
{
	struct store_hold *h = ctx;
	long ms = store_stale_seconds() * 1000L / 12;

	pthread_mutex_lock(&h->lock);
	while (!h->end)
		if (mlr_cond_wait_ms(&h->wake, &h->lock, ms) == ETIMEDOUT)
			hold_file_beat(h);
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

/* The thread blocks all signals: the program's own threads handle them. */
int hold_file_start(struct store_hold *h, struct mlr_error *err)
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

int hold_file_new(struct store *st, char kind, struct store_hold **ret, struct mlr_error *err)
{
	struct store_hold *h;
	struct store_process self;
	char who[STORE_PROCESS_NAME], hex[17];
	int r = store_process_self(&self);

	if (r < 0)
		return mlr_fail(err, -r, "read /proc/self/stat and boot_id: %s", strerror(-r));
	store_process_name(&self, who);
	random_hex(hex);
	h = xcalloc(1, sizeof(*h));
	h->st = st;
	h->pid = self.pid;
	h->fd = -1;
	snprintf(h->path, sizeof(h->path), "holds/%c-%s.%s", kind, hex, who);
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->wake, NULL);
	*ret = h;
	return 0;
}

/* A forked child has a copy of h, but neither the thread nor the hold. */
void hold_file_free(struct store_hold *h)
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

/* The content of an adder's file, to free(). */
static char *pins_text(const struct strv *digests)
{
	size_t n = digests ? digests->n : 0;
	char *text = xmalloc(HOLD_BEAT_LEN + 3 + n * 65), *s = text;

	s += sprintf(s, "%016x\n", 0);
	if (!digests)
		s += sprintf(s, "*\n");
	for (size_t i = 0; i < n; i++)
		s += sprintf(s, "%.64s\n", oci_digest_hex(digests->v[i]));
	return text;
}

/* Replaces the file by rename(2), since a remover may read it at any time. */
int hold_file_put(struct store_hold *h, const struct strv *digests, struct mlr_error *err)
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
		r = mlr_fail_errno(err, "rename '%s' to '%s/%s'", tmp, store_path(h->st), h->path);
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
