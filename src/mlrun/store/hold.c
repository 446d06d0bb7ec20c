#include "store/hold.h"

#include "oci/digest.h"
#include "store/format.h"
#include "store/handle.h"

/*
 * One hold's file, "holds/<name>", and the thread that writes its heartbeat.
 */

/* Does the name still belong to the open file? 0: another process deleted the hold. */
static int hold_file_is_there(const struct store_hold *h)
{
	struct stat mine, there;

	if (fstatat(store_fd(h->st), h->path, &there, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT && errno != ESTALE;
	if (fstat(h->fd, &mine) < 0)
		return errno != ESTALE;
	return file_is_one(&mine, &there);
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

/* Start the thread that writes the counter until hold_file_free(). It blocks all signals: the
 * program's own threads handle them. */
static int hold_file_start(struct store_hold *h, struct mlr_error *err)
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

/* Choose a new name, without making the file. kind: 'a' adder, 'r' remover. */
static int hold_file_new(
	struct store *st, char kind, struct store_hold **ret, struct mlr_error *err)
{
	struct store_hold *h;
	struct store_process self;
	char who[STORE_PROCESS_NAME], hex[17];

	TRY(mlr_result(err, store_process_self(&self), "read /proc/self/stat and boot_id"));
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

/* Stop the thread and free h; the file stays. A forked child has a copy of h, but neither the
 * thread nor the hold. */
static void hold_file_free(struct store_hold *h)
{
	if (h->has_thread && h->pid == getpid()) {
		pthread_mutex_lock(&h->lock);
		h->end = 1;
		pthread_cond_signal(&h->wake);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->thread, NULL);
	}
	fd_close(&h->fd);
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

/* Make or replace an adder's file, by rename(2), since a remover may read it at any time. NULL: it
 * relies on everything. */
static int hold_file_put(struct store_hold *h, const struct strv *digests, struct mlr_error *err)
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
		mlr_result(err, r, "write '%s/%s'", store_path(h->st), tmp);
	pthread_mutex_lock(&h->lock);
	if (r == 0 && renameat(top, tmp, top, h->path) < 0)
		r = mlr_fail_errno(err, "rename '%s' to '%s/%s'", tmp, store_path(h->st), h->path);
	if (r == 0) {
		int old = h->fd;

		h->fd = take_fd(&fd);
		fd_close(&old);
	} else {
		unlinkat(top, tmp, 0);
	}
	pthread_mutex_unlock(&h->lock);
	return r;
}

#define PINS_MAX (16u << 20) /* bytes of a hold's file */

int store_stale_seconds(void)
{
	const char *s = getenv("MLRUN_STALE_SECONDS");
	long n = s ? strtol(s, NULL, 10) : 0;

	return n >= 1 && n <= 86400 ? (int)n : STORE_STALE_S;
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
	if (!h->lost && !hold_file_is_there(h))
		h->lost = 1;
	lost = h->lost;
	pthread_mutex_unlock(&h->lock);
	return lost;
}

int store_hold_lost(struct store *st, struct mlr_error *err)
{
	mlr_fail(err, ESTALE,
		"this process was suspended for over %d s, so another process took it for dead",
		store_stale_seconds());
	mlr_hint(err, "run it again: store '%s' is unharmed", store_path(st));
	return -ESTALE;
}

/* List the holds of one kind, except own and the handle's; dead ones, too. */
static int list(struct store *st, char kind, const struct store_hold *own, struct strv *ret,
	struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), "holds", 0);

	if (!d)
		return mlr_fail_errno(err, "open '%s/holds'", store_path(st));
	for (struct dirent *e; (e = file_next(d));) {
		if (e->d_name[0] != kind || e->d_name[1] != '-')
			continue;
		if (own && strcmp(e->d_name, own->path + strlen("holds/")) == 0)
			continue;
		if (st->hold && strcmp(e->d_name, store_hold_name(st)) == 0)
			continue;
		strv_add(ret, e->d_name);
	}
	return 0;
}

int store_wait_for_all(struct store *st, const char *what, struct mlr_error *err)
{
	auto_call(store_wait_done) struct store_wait w = STORE_WAIT_INIT(st, what);

	for (;;) {
		auto_strv struct strv l = STRV_INIT;
		const char *other = NULL;
		int r = list(st, 'a', NULL, &l, err);

		if (r == 0)
			r = list(st, 'r', NULL, &l, err);
		for (size_t i = 0; r == 0 && i < l.n && !other; i++)
			if (store_wait_alive(&w, l.v[i]))
				other = l.v[i];
		if (r < 0 || !other)
			return r;
		TRY(store_wait_nap(&w, other, err));
	}
}

/* --- adders --------------------------------------------------------------- */

/* Find a live remover; hold becomes "" without one. */
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
 * Wait until no process removes anything. While the own hold exists, no new remover begins without
 * seeing it. An existing remover may be waiting for this process, so a claim to everything is
 * withdrawn meanwhile.
 */
static int wait_for_removers(
	struct store_hold *h, const struct strv *digests, struct mlr_error *err)
{
	auto_call(store_wait_done) struct store_wait w =
		STORE_WAIT_INIT(h->st, "removing images from this store");
	char remover[256];
	int withdrawn = 0;

	for (;;) {
		TRY(find_remover(h->st, h, &w, remover, err));
		if (!remover[0] && !withdrawn)
			return 0;
		if (!remover[0]) {
			TRY(hold_file_put(h, digests, err));
			withdrawn = 0;
			continue;
		}
		if (!digests && !withdrawn) {
			unlinkat(store_fd(h->st), h->path, 0);
			withdrawn = 1;
		}
		TRY(store_wait_nap(&w, remover, err));
	}
}

/* Replace the error if the store is not writable: the name of a hold's file would tell a user
 * nothing. */
static int cannot_change(struct store *st, int r, struct mlr_error *err)
{
	if (r != -EACCES && r != -EROFS && r != -EPERM)
		return r;
	mlr_result(err, r, "store '%s' cannot be written to", store_path(st));
	return mlr_hint(err, "--store or MLRUN_STORE names one of your own");
}

static int hold_first(struct store *st, const struct strv *digests, struct mlr_error *err)
{
	struct store_hold *h;
	int r = hold_file_new(st, 'a', &h, err);

	if (r < 0)
		return cannot_change(st, r, err);
	r = hold_file_put(h, digests, err);
	if (r == 0)
		r = wait_for_removers(h, digests, err);
	if (r == 0)
		r = hold_file_start(h, err);
	if (r < 0) {
		unlinkat(store_fd(st), h->path, 0);
		hold_file_free(h);
		return cannot_change(st, r, err);
	}
	st->hold = h;
	return 0;
}

int store_hold_set(struct store *st, const struct strv *digests, struct mlr_error *err)
{
	int r;

	if (!st->hold) {
		r = store_upgrade(st, err);
		umask(STORE_UMASK);
		return r < 0 ? r : hold_first(st, digests, err);
	}
	if (store_hold_is_lost(st))
		return store_hold_lost(st, err);
	if (!digests)
		return 0;
	TRY(hold_file_put(st->hold, digests, err));
	return wait_for_removers(st->hold, digests, err);
}

void store_hold_close(struct store_hold *h)
{
	if (!h)
		return;
	if (h->pid == getpid() && !h->lost)
		unlinkat(store_fd(h->st), h->path, 0);
	hold_file_free(h);
}

/* --- removers ------------------------------------------------------------- */

/* Rename the token to this hold's name. Returns 1; 0 if another remover has it (named in hold); or
 * -errno. */
static int take_token(
	struct store_hold *h, struct store_wait *w, char hold[256], struct mlr_error *err)
{
	int top = store_fd(h->st), r;

	if (renameat(top, HOLD_TOKEN, top, h->path) == 0)
		return 1;
	if (errno != ENOENT)
		return mlr_fail_errno(
			err, "rename '%s/" HOLD_TOKEN "' to '%s'", store_path(h->st), h->path);
	r = find_remover(h->st, h, w, hold, err);
	if (r < 0 || hold[0])
		return r;
	/* Nobody has it: a dead remover's was renamed back, or the token was lost. */
	r = openat(top, HOLD_TOKEN, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (r < 0)
		return mlr_fail_errno(err, "create '%s/" HOLD_TOKEN "'", store_path(h->st));
	close(r);
	return 0;
}

/* Take the token, and yield to any other remover: two processes that miss a token at once make two.
 */
static int become_remover(struct store_hold *h, struct mlr_error *err)
{
	auto_call(store_wait_done) struct store_wait w =
		STORE_WAIT_INIT(h->st, "removing images from this store");
	char other[256] = "";
	int r;

	for (;;) {
		r = take_token(h, &w, other, err);
		if (r < 0)
			return cannot_change(h->st, r, err);
		if (r == 1) {
			r = find_remover(h->st, h, &w, other, err);
			if (r == 0 && !other[0])
				return 0;
			unlinkat(store_fd(h->st), h->path, 0);
			TRY(r);
		}
		TRY(store_wait_nap(&w, other, err));
	}
}

/* Read what an adder relies on. Returns 1 and adds its digests to spare, or 0 for everything. */
static int read_pins(struct store *st, const char *hold, struct strv *spare)
{
	auto_free char *path = xasprintf("holds/%s", hold), *text = NULL;
	char *line, *save = NULL;
	int r = file_read(store_fd(st), path, PINS_MAX, &text, NULL, NULL);

	if (r < 0)
		return r == -ENOENT || r == -ESTALE; /* the adder has just ended */
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

		TRY(list(h->st, 'a', h, &l, err));
		strv_done(spare);
		for (size_t i = 0; i < l.n && !all; i++)
			if (store_wait_alive(&w, l.v[i]) && !read_pins(h->st, l.v[i], spare))
				all = l.v[i];
		if (!all)
			return 0;
		TRY(store_wait_nap(&w, all, err));
	}
}

static int remover_start(struct store_hold *h, struct strv *spare, struct mlr_error *err)
{
	TRY(become_remover(h, err));
	h->fd = openat(store_fd(h->st), h->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (h->fd < 0)
		return mlr_fail_errno(err, "open '%s/%s'", store_path(h->st), h->path);
	hold_file_beat(h);
	TRY(hold_file_start(h, err));
	return wait_for_adders(h, spare, err);
}

int store_remover_begin(
	struct store *st, struct strv *spare, struct store_hold **ret, struct mlr_error *err)
{
	struct store_hold *h;
	int r;

	TRY(store_upgrade(st, err));
	TRY(hold_file_new(st, 'r', &h, err));
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
	return hold_file_is_there(h);
}

void store_remover_end(struct store_hold *h)
{
	int top;

	if (!h)
		return;
	top = store_fd(h->st);
	if (h->fd < 0 || hold_file_is_there(h)) /* no other process uses this name */
		renameat(top, h->path, top, HOLD_TOKEN);
	hold_file_free(h);
}
