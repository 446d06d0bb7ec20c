#include "bundle/state.h"

#include "base/account.h"
#include "base/home.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/record.h"
#include "runtime/limits.h"

#include <sys/file.h>
#include <sys/utsname.h>

#define ID_MAX    200
#define STATE_MAX (1u << 20)

void bundle_state_done(struct state *s)
{
	fd_close(&s->root);
	fd_close(&s->dir);
	fd_close(&s->making);
	free(s->id);
	free(s->bundle);
	free(s->created);
	*s = (struct state)STATE_INIT;
}

const char *bundle_state_status_name(enum status s)
{
	static const char *const names[] = { "creating", "created", "running", "paused",
		"stopped" };

	return names[s];
}

/* --- directories ----------------------------------------------------------------- */

/* As runc has it; a leading dot would hide it, and "." and ".." are no names. */
static int check_id(const char *id, struct mlr_error *err)
{
	size_t len = strlen(id);

	if (len == 0 || len > ID_MAX || id[0] == '.' ||
		strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.") !=
			len)
		return mlr_fail(err, EINVAL,
			"container '%s': a name has 1 to %d letters, digits and '_+-.'", id,
			ID_MAX);
	return 0;
}

/* Nobody else may put anything there. */
static int open_private(const char *path, struct mlr_error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return mlr_fail_errno(err, "the directory of containers '%s'", path);
	if (st.st_uid != geteuid() || account_others_write(&st))
		return mlr_fail(err, EACCES,
			"the directory of containers '%s' belongs to others or is open to them: "
			"mode %04o",
			path, (unsigned)st.st_mode & 07777);
	return take_fd(&fd);
}

/* Not in the node's memory, where the user's other containers write: hooks of config.json run on
 * the host. */
static char *default_root(struct mlr_error *err)
{
	auto_free char *runtime = home_runtime_dir(), *state = NULL;
	struct utsname machine;

	if (runtime)
		return xasprintf("%s/mlrun/oci", runtime);
	state = home_xdg_dir("XDG_STATE_HOME", ".local/state", err);
	if (!state || uname(&machine) < 0)
		return NULL;
	return xasprintf("%s/mlrun/oci-%s", state, machine.nodename);
}

static int open_root(const char *root, struct mlr_error *err)
{
	auto_free char *usual = root ? NULL : default_root(err);
	const char *dir = root ? root : usual;

	if (!dir) {
		mlr_wrap(err, "no place for the states of containers");
		return mlr_hint(err, "name one with --root");
	}
	TRY(file_mkdir_p(AT_FDCWD, dir, 0700, err));
	return open_private(dir, err);
}

static int open_dir(struct state *s, struct mlr_error *err)
{
	s->dir = openat(s->root, s->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->dir < 0 && errno == ENOENT)
		return mlr_fail(err, ENOENT, "container '%s' does not exist", s->id);
	return s->dir < 0 ? mlr_fail_errno(err, "container '%s'", s->id) : 0;
}

/* Returns a descriptor that holds the lock; closing it, or the process's end, releases it. */
static int lock(const struct state *s, const char *name, struct mlr_error *err)
{
	auto_close int fd = openat(s->dir, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return mlr_fail_errno(err, "lock '%s' of container '%s'", name, s->id);
	return take_fd(&fd);
}

static int is_locked(const struct state *s, const char *name)
{
	auto_close int fd = openat(s->dir, name, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

int bundle_state_wait_lock(const struct state *s, struct mlr_error *err)
{
	int fd = lock(s, "waiting", err);

	return fd < 0 ? fd : 0;
}

static int make(const char *root, const char *id, struct state *s, struct mlr_error *err)
{
	TRY(check_id(id, err));
	s->id = xstrdup(id);
	s->root = open_root(root, err);
	if (s->root < 0)
		return s->root;
	if (mkdirat(s->root, id, 0700) < 0) {
		if (errno != EEXIST)
			return mlr_fail_errno(err, "make container '%s'", id);
		mlr_fail(err, EEXIST, "container '%s' exists already", id);
		return mlr_hint(err, "mlrun oci delete %s removes one that has ended", id);
	}
	TRY(open_dir(s, err));
	s->making = lock(s, "making", err);
	return s->making < 0 ? s->making : 0;
}

int bundle_state_make(const char *root, const char *id, struct state *ret, struct mlr_error *err)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;

	TRY(make(root, id, &s, err));
	*ret = take_struct(&s, STATE_INIT);
	return 0;
}

/* --- state.json ------------------------------------------------------------------- */

#define AT(member) RECORD_AT(struct state, member)

static const struct record_row rows[] = {
	{ "bundle", RECORD_TEXT, AT(bundle), .flags = RECORD_MUST },
	{ "created", RECORD_TEXT, AT(created) },
	{ "pid", RECORD_NUMBER, AT(pid), .min = 1 },
	{ "start", RECORD_NUMBER, AT(start) },
	{ "mounts", RECORD_NUMBER, AT(mounts) },
	{ "root_mount", RECORD_NUMBER, AT(root_mount) },
	{ "boot", RECORD_CHARS, AT(boot), .flags = RECORD_NULL },
	{ NULL },
};

/* Pids and start times begin anew with each boot. */
static void read_boot(char *boot, size_t size)
{
	*boot = '\0';
	proc_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, size);
	boot[strcspn(boot, "\n")] = '\0';
}

int bundle_state_write(struct state *s, pid_t pid, const struct talk_message *made,
	const char *bundle, struct mlr_error *err)
{
	auto_free char *name = xasprintf("/proc/%ld/stat", (long)pid), *text = NULL;
	char created[32];
	struct proc_stat st;
	int r = proc_stat_read(AT_FDCWD, name, &st);

	/* hidepid=2 hides it until it executes the command (runtime/userns.c) */
	if (r == -ENOENT && kill(pid, 0) == 0) {
		st.start = made->start;
		r = made->start ? 0 : r;
	}
	if (r < 0)
		return mlr_fail(err, -r, "the container's process %ld has ended", (long)pid);
	mlr_time_utc(time(NULL), created);
	free(s->bundle);
	free(s->created);
	s->bundle = xstrdup(bundle);
	s->created = xstrdup(created);
	s->pid = pid;
	s->start = st.start;
	s->mounts = made->mounts;
	s->root_mount = made->root_mount;
	read_boot(s->boot, sizeof(s->boot));
	text = mlr_json_print(record_write(rows, s), JSON_INDENT(2));
	return file_replace(s->dir, "state.json", text, strlen(text), 0600, err);
}

static int parse(const char *text, size_t len, struct state *s, struct mlr_error *err)
{
	const struct record_reader r = { .err = err };
	json_error_t e;
	json_auto_t *o = json_loadb(text, len, 0, &e);
	char boot[sizeof(s->boot)];

	if (!o)
		return mlr_fail(err, EPROTO, "line %d: %s", e.line, e.text);
	TRY(record_read(&r, rows, o, s));
	read_boot(boot, sizeof(boot));
	if (strcmp(boot, s->boot) != 0) {
		s->pid = 0;
		s->mounts = s->root_mount = 0;
	}
	return 0;
}

static int find(const char *root, const char *id, struct state *s, struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len;
	int r;

	TRY(check_id(id, err));
	s->id = xstrdup(id);
	s->root = open_root(root, err);
	TRY(s->root < 0 ? s->root : open_dir(s, err));
	r = file_read(s->dir, "state.json", STATE_MAX, &text, &len, NULL);
	if (r == -ENOENT)
		return 0;
	r = r < 0 ? mlr_fail(err, -r, "%s", strerror(-r)) : parse(text, len, s, err);
	return r < 0 ? mlr_wrap(err, "state of container '%s'", id) : 0;
}

int bundle_state_open(const char *root, const char *id, struct state *ret, struct mlr_error *err)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;

	TRY(find(root, id, &s, err));
	*ret = take_struct(&s, STATE_INIT);
	return 0;
}

static int is_alive(const struct state *s)
{
	int r = s->pid > 0 ? proc_is_running(s->pid, s->start) : 0;

	/* A hidden process counts if it is the caller's. */
	return r > 0 || (r < 0 && kill(s->pid, 0) == 0);
}

enum status bundle_state_status(const struct state *s)
{
	if (!s->bundle)
		return is_locked(s, "making") ? STATUS_CREATING : STATUS_STOPPED;
	if (!is_alive(s))
		return STATUS_STOPPED;
	if (is_locked(s, "waiting"))
		return STATUS_CREATED;
	return cgroup_is_frozen(s->pid) ? STATUS_PAUSED : STATUS_RUNNING;
}

int bundle_state_bundle(const struct state *s, struct bundle *ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	size_t len;
	int r = file_read(s->dir, "config.json", BUNDLE_CONFIG_MAX, &text, &len, err);

	if (r == 0)
		r = bundle_parse(text, len, ret, err);
	return r < 0 ? mlr_wrap(err, "container '%s': config.json", s->id) : 0;
}

json_t *bundle_state_json(const struct state *s, const struct bundle *b, enum status status)
{
	json_t *o = json_pack("{s:s, s:o, s:s}", "ociVersion", b->version ? b->version : "1.0.2",
		"id", mlr_json_text(s->id), "status", bundle_state_status_name(status));

	if (status != STATUS_STOPPED && s->pid)
		json_object_set_new(o, "pid", json_integer(s->pid));
	json_object_set_new(o, "bundle", mlr_json_text(s->bundle ? s->bundle : ""));
	if (s->created)
		json_object_set_new(o, "created", mlr_json_text(s->created));
	json_object_set_new(o, "annotations", mlr_json_pairs(&b->annotations));
	return o;
}

int bundle_state_list(const char *root, struct strv *ret, struct mlr_error *err)
{
	auto_close int fd = open_root(root, err);
	auto_dir DIR *d = fd < 0 ? NULL : file_open_dir(fd, ".", 0);

	if (fd < 0)
		return fd;
	if (!d)
		return mlr_fail_errno(err, "list the containers");
	for (struct dirent *e; (e = file_next(d));)
		if (e->d_name[0] != '.')
			strv_add(ret, e->d_name);
	strv_sort(ret);
	return 0;
}

int bundle_state_remove(const struct state *s, struct mlr_error *err)
{
	return file_remove_tree(s->root, s->id, err);
}
