#include "store/container.h"

#include "job/job.h"
#include "oci/digest.h"
#include "store/handle.h"
#include "store/json.h"
#include "store/trash.h"

#include <sys/file.h>

#define RECORD "container.json"
/* "containers/<name>/container.json" */
#define CONTAINER_PATH (STORE_CONTAINER_NAME_MAX + 32)

static const struct record_row rows[] = {
	{ "image", RECORD_TEXT, RECORD_AT(struct store_container, image), .flags = RECORD_MUST },
	{ "manifest", RECORD_TEXT, RECORD_AT(struct store_container, manifest),
		.flags = RECORD_MUST },
	{ "created", RECORD_NUMBER, RECORD_AT(struct store_container, created),
		.flags = RECORD_MUST },
	{ "job", RECORD_TEXT, RECORD_AT(struct store_container, job) },
	{ "step", RECORD_TEXT, RECORD_AT(struct store_container, step) },
	{ NULL },
};

void store_container_done(struct store_container *c)
{
	record_done(rows, c);
	free(c->name);
	*c = (struct store_container){ 0 };
}

int store_container_name_check(const char *name, struct mlr_error *err)
{
	static const char chars[] =
		"_.-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	size_t len = strlen(name);

	if (len > 0 && len <= STORE_CONTAINER_NAME_MAX && strspn(name, chars) == len &&
		strspn(name, chars + 3) > 0)
		return 0;
	return mlr_fail(err, EINVAL,
		"invalid container name '%.200s': use letters, digits, '_', '.' and '-', a letter "
		"or a digit first, at most %d",
		name, STORE_CONTAINER_NAME_MAX);
}

static void dir_path(const char *name, char path[CONTAINER_PATH])
{
	snprintf(path, CONTAINER_PATH, "containers/%.*s", STORE_CONTAINER_NAME_MAX, name);
}

char *store_container_path(const struct store *st, const char *name)
{
	return xasprintf("%s/containers/%s", store_path(st), name);
}

/* The key of a container's leases. */
static void lease_key(const char *name, char key[OCI_DIGEST_SIZE])
{
	auto_free char *text = xasprintf("container %s", name);

	memcpy(key, "sha256:", 7);
	hash_name(text, key + 7);
}

/* --- records -------------------------------------------------------------- */

static int bad_record(struct store *st, const char *name, const char *why, struct mlr_error *err)
{
	mlr_fail(err, EPROTO, "the record of container '%s' is damaged: %s", name, why);
	mlr_hint(err,
		"what was written in it lies in '%s/containers/%s/upper'; mlrun containers rm %s "
		"removes it",
		store_path(st), name, name);
	return -EPROTO;
}

static int read_record(
	struct store *st, const char *name, json_t **ret, struct stat *sb, struct mlr_error *err)
{
	struct mlr_error why = MLR_ERROR_INIT;
	char path[CONTAINER_PATH];
	size_t len;
	int r;

	dir_path(name, path);
	len = strlen(path);
	snprintf(path + len, sizeof(path) - len, "/" RECORD);
	if (fstatat(store_fd(st), path, sb, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			return mlr_fail_errno(err, "'%s/%s'", store_path(st), path);
		mlr_fail(err, ENOENT, "there is no container '%s' in store '%s'", name,
			store_path(st));
		mlr_hint(err, "mlrun containers lists them; mlrun exec --write=%s IMAGE makes it",
			name);
		return -ENOENT;
	}
	r = store_json_read(st, path, ret, &why);
	if (r == -EPROTO)
		return bad_record(st, name, "no JSON object", err);
	if (r < 0 && err)
		*err = why;
	return r;
}

int store_container_get(
	struct store *st, const char *name, struct store_container *ret, struct mlr_error *err)
{
	auto_call(store_container_done) struct store_container c = { 0 };
	struct mlr_error why = MLR_ERROR_INIT;
	const struct record_reader r = { .err = &why };
	json_auto_t *o = NULL;
	struct stat sb;

	TRY(store_container_name_check(name, err));
	TRY(read_record(st, name, &o, &sb, err));
	if (record_read(&r, rows, o, &c) < 0)
		return bad_record(st, name, why.text, err);
	if (oci_digest_check(c.manifest, NULL) < 0)
		return bad_record(st, name, "manifest: an invalid digest", err);
	c.name = xstrdup(name);
	c.used = sb.st_mtime;
	*ret = take_struct(&c, { 0 });
	return 0;
}

int store_container_names(struct store *st, struct strv *ret, struct mlr_error *err)
{
	auto_dir DIR *d = file_open_dir(store_fd(st), "containers", 0);

	if (!d)
		return errno == ENOENT
			? 0
			: mlr_fail_errno(err, "open '%s/containers'", store_path(st));
	for (struct dirent *e; (e = file_next(d));)
		if (store_container_name_check(e->d_name, NULL) == 0)
			strv_add(ret, e->d_name);
	strv_sort(ret);
	return 0;
}

char *store_container_of(struct store *st, const char *manifest)
{
	auto_strv struct strv names = STRV_INIT;

	if (store_container_names(st, &names, NULL) < 0)
		return xstrdup("?");
	for (size_t i = 0; i < names.n; i++) {
		auto_call(store_container_done) struct store_container c = { 0 };
		int r = store_container_get(st, names.v[i], &c, NULL);

		if (r == -ENOENT)
			continue;
		if (r < 0 || strcmp(c.manifest, manifest) == 0)
			return xstrdup(names.v[i]);
	}
	return NULL;
}

/* --- making --------------------------------------------------------------- */

/* Make a directory with the record, below tmp/ and named by its maker. */
static int make_work(struct store *st, const struct store_container *new,
	char work[STORE_WORK_PATH], struct mlr_error *err)
{
	struct store_container made = *new;
	auto_free char *path = NULL;

	TRY(store_work_path("container", work, err));
	if (mkdirat(store_fd(st), work, 0755) < 0)
		return mlr_fail_errno(err, "create directory '%s/%s'", store_path(st), work);
	path = xasprintf("%s/" RECORD, work);
	made.created = time(NULL);
	return store_json_put(st, path, rows, &made, err);
}

/* Returns 1 if this process made it, 0 if another was first, or -errno. */
static int make(struct store *st, const char *name, const struct store_container *new,
	struct mlr_error *err)
{
	char work[STORE_WORK_PATH] = "", path[CONTAINER_PATH];
	int fd = store_fd(st), r = store_upgrade(st, err);

	TRY(r);
	if (mkdirat(fd, "containers", 0700) < 0 && errno != EEXIST)
		return mlr_fail_errno(err, "create directory '%s/containers'", store_path(st));
	store_container_sweep(st);
	r = make_work(st, new, work, err);
	dir_path(name, path);
	if (r == 0 && renameat(fd, work, fd, path) < 0)
		r = errno == EEXIST || errno == ENOTEMPTY
			? 1
			: mlr_fail_errno(err, "rename '%s' to '%s/%s'", work, store_path(st), path);
	if (r == 0) {
		file_sync_dir(fd, "containers");
		return 1;
	}
	if (*work)
		file_remove_tree(fd, work, NULL);
	if (r == -ENOSPC || r == -EDQUOT)
		mlr_hint(err, "mlrun prune or mlrun rm frees space in '%s'", store_path(st));
	return r == 1 ? 0 : r;
}

static int tell_user(const char *name, const struct store_lease *l, struct mlr_error *err)
{
	if (l->is_running && l->job[0])
		mlr_fail(err, EBUSY,
			"container '%s' is in use by process %ld on '%s', of Slurm job %s", name,
			(long)l->pid, l->host, l->job);
	else if (l->is_running)
		mlr_fail(err, EBUSY, "container '%s' is in use by process %ld on '%s'", name,
			(long)l->pid, l->host);
	else
		mlr_fail(err, EBUSY,
			"container '%s' was in use by process %ld on '%s'%s; whether that still "
			"runs cannot be seen from here",
			name, (long)l->pid, l->host,
			l->here && !l->other_boot ? " in another PID namespace" : "");
	return -EBUSY;
}

/* If two nodes start at once, each sees the other and both give up. */
static int refuse_far(struct store *st, const char *name, const char *key, struct mlr_error *err)
{
	struct store_lease l;

	if (!store_lease_find(st, key, STORE_LEASE_FAR, &l))
		return 0;
	store_lease_return_key(st, key);
	tell_user(name, &l, err);
	if (l.is_running)
		mlr_hint(err,
			"one node at a time may write to a container: start there, or wait, or "
			"use another with --write=NAME");
	else
		mlr_hint(err,
			"if it has ended: mlrun containers unlock %s; else one node at a time "
			"may write to a container",
			name);
	return -EBUSY;
}

static void touch(struct store *st, const char *name)
{
	auto_free char *path = xasprintf("containers/%s/" RECORD, name);

	utimensat(store_fd(st), path, NULL, AT_SYMLINK_NOFOLLOW);
}

int store_container_open(struct store *st, const char *name, const struct store_container *new,
	struct store_container *ret, int *made, struct mlr_error *err)
{
	char key[OCI_DIGEST_SIZE];
	int is_new = 0, r;

	TRY(store_container_name_check(name, err));
	lease_key(name, key);
	r = store_lease_take_key(st, key, err);
	if (r == -EROFS || r == -EACCES || r == -EPERM)
		mlr_hint(err,
			"a container needs a store that can be written to: --store or MLRUN_STORE names "
			"one of your own");
	if (r == 0)
		r = refuse_far(st, name, key, err);
	TRY(r);
	r = store_container_get(st, name, ret, err);
	if (r == -ENOENT && new) {
		r = is_new = make(st, name, new, err);
		if (r >= 0)
			r = store_container_get(st, name, ret, err);
	}
	if (r < 0) {
		store_lease_return_key(st, key);
		return r;
	}
	touch(st, name);
	*made = is_new;
	return 0;
}

/* --- use and end ---------------------------------------------------------- */

void store_container_leave(struct store *st, const char *name)
{
	char key[OCI_DIGEST_SIZE];

	lease_key(name, key);
	store_lease_return_key(st, key);
}

int store_container_used(struct store *st, const char *name, struct store_lease *ret)
{
	char key[OCI_DIGEST_SIZE];

	lease_key(name, key);
	return store_lease_find(st, key, STORE_LEASE_ANYBODY, ret);
}

int store_container_is_joined(struct store *st, const char *name)
{
	char key[OCI_DIGEST_SIZE];
	struct store_lease l;

	lease_key(name, key);
	return store_lease_find(st, key, STORE_LEASE_NEIGHBOUR, &l);
}

/* Has another begun to save it after this time? If not, note that we do now. */
static int is_saved(int dir, const struct timespec *since, struct mlr_error *err)
{
	auto_close int file =
		openat(dir, "saved", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	struct timespec now[2];
	struct stat st;

	if (file < 0 || fstat(file, &st) < 0)
		return mlr_fail_errno(err, "make 'saved' in the container's directory");
	if (st.st_size > 0 &&
		(st.st_mtim.tv_sec > since->tv_sec ||
			(st.st_mtim.tv_sec == since->tv_sec &&
				st.st_mtim.tv_nsec > since->tv_nsec)))
		return 1;
	clock_gettime(CLOCK_REALTIME, &now[0]);
	now[1] = now[0];
	return ftruncate(file, 1) < 0 || futimens(file, now) < 0
		? mlr_fail_errno(err, "write 'saved' in the container's directory")
		: 0;
}

int store_container_save(struct store *st, const char *name, const struct timespec *ended,
	int *lock, struct mlr_error *err)
{
	auto_free char *path = xasprintf("containers/%s", name);
	auto_close int dir = openat(store_fd(st), path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (dir < 0)
		return mlr_fail_errno(err, "open '%s/%s'", store_path(st), path);
	while (flock(dir, LOCK_EX) < 0)
		if (errno != EINTR)
			return mlr_fail_errno(err, "lock '%s/%s'", store_path(st), path);
	r = store_container_is_joined(st, name) ? 1 : is_saved(dir, ended, err);
	if (r != 0)
		return r < 0 ? r : 0;
	*lock = take_fd(&dir);
	return 1;
}

static int refuse_removal(struct store *st, const char *name, int force, struct mlr_error *err)
{
	struct store_lease l;

	if (!store_container_used(st, name, &l) || (force && !l.is_running))
		return 0;
	tell_user(name, &l, err);
	if (l.is_running)
		mlr_hint(err, "remove it when that process has ended");
	else
		mlr_hint(err, "remove it there, or with --force when that process has ended");
	return -EBUSY;
}

/* Does the container exist? One without a valid record can be removed, too. */
static int is_there(struct store *st, const char *name, const char *path, struct mlr_error *err)
{
	auto_call(store_container_done) struct store_container c = { 0 };
	struct stat sb;

	if (fstatat(store_fd(st), path, &sb, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return errno == ENOENT ? store_container_get(st, name, &c, err)
			       : mlr_fail_errno(err, "'%s/%s'", store_path(st), path);
}

int store_container_remove(struct store *st, const char *name, int force, struct mlr_error *err)
{
	char path[CONTAINER_PATH], trash[STORE_WORK_PATH], key[OCI_DIGEST_SIZE];
	int fd = store_fd(st), r = store_container_name_check(name, err);

	TRY(r);
	dir_path(name, path);
	TRY(is_there(st, name, path, err));
	TRY(refuse_removal(st, name, force, err));
	TRY(store_trash(st, path, trash, err));
	/* A process that takes a lease from here on finds no container. One that took it before may
	 * already have made a new container; then this one is deleted. */
	r = refuse_removal(st, name, force, err);
	if (r < 0 && renameat(fd, trash, fd, path) == 0)
		return r;
	file_sync_dir(fd, "containers");
	if (r == 0) {
		lease_key(name, key);
		store_lease_drop_unseen(st, key);
	}
	return file_remove_tree(fd, trash, err);
}

int store_container_unlock(struct store *st, const char *name, struct mlr_error *err)
{
	char path[CONTAINER_PATH], key[OCI_DIGEST_SIZE];
	struct store_lease l;

	TRY(store_container_name_check(name, err));
	dir_path(name, path);
	TRY(is_there(st, name, path, err));
	lease_key(name, key);
	store_lease_drop_unseen(st, key);
	if (!store_container_used(st, name, &l))
		return 0;
	tell_user(name, &l, err);
	mlr_hint(err, "only that process locks it");
	return -EBUSY;
}

void store_container_sweep(struct store *st)
{
	auto_strv struct strv names = STRV_INIT;

	store_container_names(st, &names, NULL);
	for (size_t i = 0; i < names.n; i++) {
		auto_call(store_container_done) struct store_container c = { 0 };

		if (store_container_get(st, names.v[i], &c, NULL) < 0 || !c.job ||
			job_is_alive(c.job) != 0 || store_container_remove(st, c.name, 0, NULL) < 0)
			continue;
		mlr_debug("container '%s' has ended with its job", c.name);
	}
}
