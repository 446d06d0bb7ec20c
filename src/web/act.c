#include "web/act.h"

#include "base/escape.h"
#include "base/json.h"
#include "web/command.h"

#include <pthread.h>
#include <sys/statvfs.h>

#define START_MS   600000 /* it may pull an image */
#define STOP_MS    60000
#define KEYS_MAX   64
#define NAME_BYTES 100

/* A start by its Idempotency-Key. */
struct start {
	char key[128], id[RUN_ID_SIZE];
	int is_done;
};

struct act {
	struct index *index;
	const struct strv *roots;
	char node[HOST_NAME_MAX + 1];
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	struct start starts[KEYS_MAX];
	size_t n_starts; /* ever */
};

struct act *act_new(struct index *i, const struct strv *roots)
{
	struct act *a = xcalloc(1, sizeof(*a));

	a->index = i;
	a->roots = roots;
	gethostname(a->node, sizeof(a->node) - 1);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	return a;
}

/* --- starts ------------------------------------------------------------------------------ */

/* Can it be the name of a directory, and stand in -v? */
static int check_name(const char *what, const char *name, const char **field, struct mlr_error *err)
{
	size_t n = name ? strlen(name) : 0;

	*field = what;
	if (n == 0)
		return mlr_fail(err, EINVAL, "%s: it needs a name", what);
	if (n > NAME_BYTES)
		return mlr_fail(err, EINVAL, "%s: a name has at most %d bytes", what, NAME_BYTES);
	if (name[0] == '.' || name[0] == '-')
		return mlr_fail(err, EINVAL, "%s: a name does not begin with '%c'", what, name[0]);
	for (const char *c = name; *c; c++)
		if (*c == '/' || *c == ':' || *c == ',' || (unsigned char)*c < ' ' || *c == 0x7f)
			return mlr_fail(err, EINVAL,
				"%s: a name has no '/', ':', ',' or control characters", what);
	return 0;
}

static int check_wish(
	const struct act *a, const struct act_wish *w, const char **field, struct mlr_error *err)
{
	*field = "directory";
	if (!w->directory || !strv_has(a->roots, w->directory))
		return mlr_fail(err, EINVAL, "directory: '%s' is none of this server's",
			w->directory ? w->directory : "");
	if (strpbrk(w->directory, ":,"))
		return mlr_fail(err, EINVAL,
			"directory: '%s': a path with ':' or ',' cannot be mounted", w->directory);
	TRY(check_name("experiment", w->experiment, field, err));
	TRY(check_name("name", w->name, field, err));
	*field = "image";
	if (!w->image || !*w->image || *w->image == '-')
		return mlr_fail(err, EINVAL, "image: expected the name of an image");
	*field = "command";
	for (size_t i = 0; i < w->command->n; i++)
		if (strlen(w->command->v[i]) >= 128 << 10)
			return mlr_fail(err, EINVAL,
				"command: word %zu is longer than the kernel takes (128 KiB)",
				i + 1);
	*field = NULL;
	return 0;
}

/* The command line of a run in its directory. */
static void fill_argv(const char *mlrun, const char *directory, const char *service,
	const char *image, const struct strv *command, struct strv *ret)
{
	strv_add(ret, mlrun);
	strv_add(ret, "run");
	strv_add(ret, "-d");
	strv_addf(ret, "--name=%s", service);
	strv_addf(ret, "--log-file=%s/log", directory);
	strv_addf(ret, "--volume=%s", directory);
	strv_addf(ret, "--workdir=%s", directory);
	strv_addf(ret, "--env=MLRUN_RUN_DIR=%s", directory);
	strv_add(ret, image);
	strv_add(ret, "--");
	strv_add_all(ret, command);
}

static char *line_of(const struct strv *argv)
{
	struct strv words = STRV_INIT;
	char *line;

	for (size_t i = 0; i < argv->n; i++)
		strv_take(&words, escape_for_reader(argv->v[i]));
	line = strv_join(&words, words.n, " ");
	strv_done(&words);
	return line;
}

char *act_line(
	const struct act *a, const struct act_wish *w, const char **field, struct mlr_error *err)
{
	auto_free char *directory = NULL, *service = NULL;
	auto_strv struct strv argv = STRV_INIT;

	if (check_wish(a, w, field, err) < 0)
		return NULL;
	directory = xasprintf("%s/%s/%s", w->directory, w->experiment, w->name);
	service = run_service(directory);
	fill_argv("mlrun", directory, service, w->image, w->command, &argv);
	return line_of(&argv);
}

char *act_line_of(const struct run *r)
{
	auto_strv struct strv argv = STRV_INIT;

	if (!r->wish.service || !r->wish.image)
		return NULL;
	fill_argv("mlrun", r->directory, r->wish.service, r->wish.image, &r->wish.command, &argv);
	return line_of(&argv);
}

/* Make the run's directory. Returns a descriptor of it, or -errno. */
static int make_directory(const struct act_wish *w, const char **field, struct mlr_error *err)
{
	auto_close int root = open(w->directory, O_PATH | O_DIRECTORY | O_CLOEXEC), at = -1;
	int fd;

	*field = "directory";
	if (root < 0 &&
		(errno != ENOENT || file_mkdir_p(AT_FDCWD, w->directory, 0777, err) < 0 ||
			(root = open(w->directory, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0))
		return mlr_fail_errno(err, "open '%s'", w->directory);
	*field = "experiment";
	if (mkdirat(root, w->experiment, 0777) < 0 && errno != EEXIST)
		return mlr_fail_errno(err, "make '%s/%s'", w->directory, w->experiment);
	at = openat(root, w->experiment, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	*field = "name";
	if (at < 0 || mkdirat(at, w->name, 0777) < 0)
		return mlr_fail_errno(err, "make '%s/%s/%s'", w->directory, w->experiment, w->name);
	*field = NULL;
	fd = openat(at, w->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? mlr_fail_errno(err, "open '%s'", w->name) : fd;
}

/* Take away what a start that failed has left. */
static void unmake(int dir, const char *directory)
{
	unlinkat(dir, "run.json", 0);
	unlinkat(dir, "log", 0);
	rmdir(directory);
}

static int start_once(struct act *a, const struct act_wish *w, char id[RUN_ID_SIZE],
	const char **field, struct mlr_error *err)
{
	auto_free char *directory = xasprintf("%s/%s/%s", w->directory, w->experiment, w->name),
		       *service = NULL, *said = NULL;
	auto_strv struct strv argv = STRV_INIT;
	auto_close int dir = -1;
	struct run_wish run = { .name = (char *)w->name,
		.experiment = (char *)w->experiment,
		.image = (char *)w->image,
		.note = (char *)"",
		.command = *w->command,
		.place = (char *)"here",
		.node = a->node,
		.created = mlr_epoch() };
	int r;

	run_id(directory, id);
	run.service = service = run_service(directory);
	dir = make_directory(w, field, err);
	if (dir < 0)
		return dir;
	fill_argv(command_mlrun(), directory, service, w->image, w->command, &argv);
	r = run_write_wish(dir, &run, 1, err);
	if (r == 0)
		r = command_run(strv_argv(&argv), START_MS, &said, err);
	if (r < 0) {
		unmake(dir, directory);
		return r;
	}
	index_touch(a->index, directory);
	return 0;
}

/* Find the start with this key, or begin it. Returns whether it is new. */
static int begin(struct act *a, const char *key, struct start **ret)
{
	struct start *s;

	for (size_t i = 0; i < KEYS_MAX && i < a->n_starts; i++)
		if (strcmp(a->starts[i].key, key) == 0) {
			*ret = &a->starts[i];
			return 0;
		}
	s = &a->starts[a->n_starts++ % KEYS_MAX];
	*s = (struct start){ 0 };
	snprintf(s->key, sizeof(s->key), "%s", key);
	*ret = s;
	return 1;
}

int act_start(struct act *a, const struct act_wish *w, const char *key, char id[RUN_ID_SIZE],
	const char **field, struct mlr_error *err)
{
	struct start *s = NULL;
	int r = check_wish(a, w, field, err);

	if (r < 0 || !key || !*key)
		return r < 0 ? r : start_once(a, w, id, field, err);
	if (strlen(key) >= sizeof(s->key))
		return mlr_fail(err, EINVAL, "an Idempotency-Key has at most 127 characters");
	pthread_mutex_lock(&a->lock);
	if (!begin(a, key, &s)) {
		while (!s->is_done)
			pthread_cond_wait(&a->changed, &a->lock);
		memcpy(id, s->id, RUN_ID_SIZE);
		pthread_mutex_unlock(&a->lock);
		return 0;
	}
	pthread_mutex_unlock(&a->lock);
	r = start_once(a, w, id, field, err);
	pthread_mutex_lock(&a->lock);
	s->is_done = 1;
	memcpy(s->id, id, RUN_ID_SIZE);
	if (r < 0)
		s->key[0] = '\0'; /* it may be tried again */
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	return r;
}

/* --- a run that is there ----------------------------------------------------------------- */

/* What is needed of a run without the index's lock. */
struct held {
	char *directory, *service;
	int dir, is_open;
};

static int hold(struct act *a, const char *id, struct held *ret, struct mlr_error *err)
{
	struct run *r;
	int was_there, code = 0;

	index_lock(a->index);
	r = index_find(a->index, id, &was_there);
	if (!r)
		code = mlr_fail(err, ENOENT, "there is no such run");
	else if (!r->is_own)
		code = mlr_fail(
			err, EROFS, "the run '%s' was not started by you here", r->wish.name);
	else
		*ret = (struct held){ xstrdup(r->directory),
			r->wish.service ? xstrdup(r->wish.service) : NULL, -1, !r->has_end };
	index_unlock(a->index);
	if (code < 0)
		return code;
	ret->dir = open(ret->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret->dir < 0)
		return mlr_fail_errno(err, "open '%s'", ret->directory);
	return run_is_own(ret->dir)
		? 0
		: mlr_fail(err, EROFS, "'%s': others may write this run, or it is another's",
			  ret->directory);
}

static void held_done(struct held *h)
{
	free(h->directory);
	free(h->service);
	fd_close(&h->dir);
}

int act_stop(struct act *a, const char *id, struct mlr_error *err)
{
	auto_call(held_done) struct held h = { .dir = -1 };
	struct run end = { .state = RUN_STOPPED };
	auto_free char *said = NULL;

	TRY(hold(a, id, &h, err));
	if (!h.is_open || !h.service)
		return mlr_fail(err, EROFS, "the run has ended already");
	char *argv[] = { (char *)command_mlrun(), "stop", h.service, NULL };
	TRY(command_run(argv, STOP_MS, &said, err));
	end.ended = mlr_epoch();
	TRY(run_write_end(h.dir, &end, 0, err));
	index_touch(a->index, h.directory);
	return 0;
}

static int is_list(const struct strv *a, const struct strv *b)
{
	size_t i = 0;

	while (i < a->n && i < b->n && strcmp(a->v[i], b->v[i]) == 0)
		i++;
	return i == a->n && i == b->n;
}

int act_note(struct act *a, const char *id, const char *note, const struct strv *tags,
	const char *was_note, const struct strv *was_tags, struct mlr_error *err)
{
	auto_call(held_done) struct held h = { .dir = -1 };
	auto_call(run_wish_done) struct run_wish wish = { 0 };

	TRY(hold(a, id, &h, err));
	TRY(run_read_wish(h.dir, &wish, err));
	if (strcmp(wish.note ? wish.note : "", was_note) != 0 || !is_list(&wish.tags, was_tags))
		return mlr_fail(err, EEXIST, "somebody has changed note or tags meanwhile");
	set_ptr(&wish.note, xstrdup(note));
	strv_done(&wish.tags);
	strv_add_all(&wish.tags, tags);
	TRY(run_write_wish(h.dir, &wish, 0, err));
	index_touch(a->index, h.directory);
	return 0;
}

/* --- the machine ------------------------------------------------------------------------- */

static json_t *room_of(const struct strv *roots)
{
	json_t *list = json_array();

	for (size_t i = 0; i < roots->n; i++) {
		struct statvfs st = { 0 };
		int r = statvfs(roots->v[i], &st);

		json_array_append_new(list,
			json_pack("{so so so}", "path", mlr_json_text(roots->v[i]), "free",
				r ? json_null()
				  : json_real((double)st.f_bavail * (double)st.f_frsize),
				"size",
				r ? json_null()
				  : json_real((double)st.f_blocks * (double)st.f_frsize)));
	}
	return list;
}

static json_t *list_or_empty(json_t *v)
{
	return json_is_array(v) ? json_incref(v) : json_array();
}

json_t *act_machine(struct act *a)
{
	json_t *services = command_json("ps", "--all", "--json"),
	       *gpus = command_json("gpu", "list", "--json"),
	       *images = command_json("images", "--json", NULL);
	json_t *ret = json_pack("{so so so so}", "services", list_or_empty(services), "gpus",
		list_or_empty(json_object_get(gpus, "gpus")), "images", list_or_empty(images),
		"directories", room_of(a->roots));

	json_decref(services);
	json_decref(gpus);
	json_decref(images);
	return ret;
}
