#include "work/service_parts.h"

#include "base/base.h"
#include "base/json.h"
#include "base/proc.h"
#include "base/spelling.h"
#include "store/json.h"

#define TOP        "services"
#define NAME_BYTES 128
#define HOSTS_MAX  (1u << 20)

const char *const service_status_names[] = {
	[SERVICE_STARTING] = "starting",
	[SERVICE_RUNNING] = "running",
	[SERVICE_RESTARTING] = "restarting",
	[SERVICE_EXITED] = "exited",
	[SERVICE_LOST] = "lost",
};

const char *const service_health_names[] = {
	[SERVICE_UNCHECKED] = NULL,
	[SERVICE_NOT_YET] = "starting",
	[SERVICE_HEALTHY] = "healthy",
	[SERVICE_UNHEALTHY] = "unhealthy",
};

const char *const service_restart_names[] = {
	[SERVICE_NO_RESTART] = "no",
	[SERVICE_ON_FAILURE] = "on-failure",
	[SERVICE_ALWAYS] = "always",
};

void service_done(struct service *s)
{
	char **const texts[] = { &s->name, &s->image, &s->directory, &s->project, &s->part,
		&s->digest, &s->process, &s->said };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		free(*texts[i]);
	strv_done(&s->options);
	strv_done(&s->command);
	strv_done(&s->env);
	strv_done(&s->hosts);
	strv_done(&s->check.test);
	*s = (struct service)SERVICE_INIT;
}

void service_list_done(struct service_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		service_done(&l->v[i]);
	free(l->v);
	*l = (struct service_list)SERVICE_LIST_INIT;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS  "0123456789"

static int is_name(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= NAME_BYTES && strchr(LETTERS DIGITS, name[0]) &&
		strspn(name, LETTERS DIGITS "_.-") == n && strspn(name, DIGITS) < n;
}

int service_name_check(const char *name, struct mlr_error *err)
{
	if (is_name(name))
		return 0;
	return mlr_fail(err, EINVAL,
		"invalid name '%.200s' of a service: use letters, digits, '_', '.' and '-', %d at most, "
		"first a letter or digit, not digits alone",
		name, NAME_BYTES);
}

int service_has_ended(const struct service *s)
{
	return s->status >= SERVICE_EXITED;
}

/* --- paths ------------------------------------------------------------------------------- */

char *service_top(struct mlr_error *err)
{
	struct store_process self;
	int r = store_process_self(&self);

	if (r < 0) {
		mlr_fail(err, -r, "read '/proc/self': %s", strerror(-r));
		return NULL;
	}
	return xasprintf(TOP "/%s", self.host);
}

static char *below(const char *name, const char *file, struct mlr_error *err)
{
	auto_free char *top = service_top(err);

	return top ? xasprintf("%s/%s/%s", top, name, file) : NULL;
}

char *service_path(const struct store *st, const char *name, const char *file)
{
	auto_free char *path = below(name, file, NULL);

	return xasprintf("%s/%s", store_path(st), path ? path : "");
}

/* --- service.json ------------------------------------------------------------------------ */

static json_t *wish_to_json(const struct service *s)
{
	const struct service_check *c = &s->check;

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:I, s:i, s:I, s:I, s:b, "
			 "s:I, s:I, s:I, s:{s:o, s:I, s:I, s:I, s:I, s:I}}",
		"name", mlr_json_text(s->name), "image", mlr_json_text(s->image), "directory",
		mlr_json_text(s->directory), "options", mlr_json_texts(&s->options), "command",
		mlr_json_texts(&s->command), "project", mlr_json_text(s->project), "part",
		mlr_json_text(s->part), "digest", mlr_json_text(s->digest), "restart",
		service_restart_names[s->restart], "restarts_max", (json_int_t)s->restarts_max,
		"stop_signal", s->stop_signal, "stop_ms", (json_int_t)s->stop_ms, "log_size",
		(json_int_t)s->log_size, "remove", s->remove, "replica", (json_int_t)s->replica,
		"order", (json_int_t)s->order, "created", (json_int_t)s->created, "check", "test",
		mlr_json_texts(&c->test), "interval", (json_int_t)c->interval, "timeout",
		(json_int_t)c->timeout, "start_period", (json_int_t)c->start_period,
		"start_interval", (json_int_t)c->start_interval, "retries", (json_int_t)c->retries);
}

static int64_t number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

struct text {
	const char *key;
	char **to;
};

static int read_texts(const json_t *o, const struct text *texts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (store_json_string(o, texts[i].key, texts[i].to) < 0)
			return -EPROTO;
	return 0;
}

/* The index of a word in a table; first if it is none of its words. */
static int word_of(const json_t *o, const char *key, const char *const *words, int n, int first)
{
	const char *word = json_string_value(json_object_get(o, key));

	for (int i = 0; word && i < n; i++)
		if (words[i] && strcmp(words[i], word) == 0)
			return i;
	return first;
}

static int wish_from_json(const json_t *o, struct service *s)
{
	const struct text texts[] = { { "image", &s->image }, { "directory", &s->directory },
		{ "project", &s->project }, { "part", &s->part }, { "digest", &s->digest } };
	const json_t *check = json_object_get(o, "check");

	if (read_texts(o, texts, ARRAY_LEN(texts)) < 0 ||
		store_json_strv(o, "options", &s->options) < 0 ||
		store_json_strv(o, "command", &s->command) < 0 ||
		store_json_strv(check, "test", &s->check.test) < 0 || !s->image || !s->directory)
		return -EPROTO;
	s->restart = (enum service_restart)word_of(o, "restart", service_restart_names,
		ARRAY_LEN(service_restart_names), SERVICE_NO_RESTART);
	s->restarts_max = (long)number(o, "restarts_max");
	s->stop_signal = (int)number(o, "stop_signal");
	s->stop_ms = number(o, "stop_ms");
	s->log_size = (uint64_t)number(o, "log_size");
	s->remove = json_is_true(json_object_get(o, "remove"));
	s->replica = (long)number(o, "replica");
	s->order = (long)number(o, "order");
	s->created = number(o, "created");
	s->check.interval = number(check, "interval");
	s->check.timeout = number(check, "timeout");
	s->check.start_period = number(check, "start_period");
	s->check.start_interval = number(check, "start_interval");
	s->check.retries = (long)number(check, "retries");
	return 0;
}

/* --- state.json -------------------------------------------------------------------------- */

static json_t *state_to_json(const struct service *s)
{
	return json_pack("{s:o, s:I, s:I, s:I, s:s, s:s?, s:I, s:o, s:I, s:I, s:I, s:I, s:i}",
		"process", mlr_json_text(s->process), "pid", (json_int_t)s->pid, "start",
		(json_int_t)s->start, "inside", (json_int_t)s->inside, "status",
		service_status_names[s->status], "health", service_health_names[s->health],
		"failures", (json_int_t)s->failures, "said", mlr_json_text(s->said), "restarts",
		(json_int_t)s->restarts, "runs", (json_int_t)s->runs, "started",
		(json_int_t)s->started, "ended", (json_int_t)s->ended, "exit_status",
		s->exit_status);
}

static int state_from_json(const json_t *o, struct service *s)
{
	const struct text texts[] = { { "process", &s->process }, { "said", &s->said } };

	if (read_texts(o, texts, ARRAY_LEN(texts)) < 0)
		return -EPROTO;
	s->pid = (pid_t)number(o, "pid");
	s->start = (uint64_t)number(o, "start");
	s->inside = (uint64_t)number(o, "inside");
	s->status = (enum service_status)word_of(o, "status", service_status_names,
		ARRAY_LEN(service_status_names), SERVICE_STARTING);
	s->health = (enum service_health)word_of(o, "health", service_health_names,
		ARRAY_LEN(service_health_names), SERVICE_UNCHECKED);
	s->failures = (long)number(o, "failures");
	s->restarts = (long)number(o, "restarts");
	s->runs = (long)number(o, "runs");
	s->started = number(o, "started");
	s->ended = number(o, "ended");
	s->exit_status = (int)number(o, "exit_status");
	return 0;
}

/* --- files ------------------------------------------------------------------------------- */

static int write_json(
	struct store *st, const char *name, const char *file, json_t *taken, struct mlr_error *err)
{
	json_auto_t *o = taken;
	auto_free char *path = below(name, file, err), *text = NULL;

	if (!path)
		return -err->code;
	text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	if (!text)
		return mlr_fail(err, ENOMEM, "a service's record");
	return file_replace(store_fd(st), path, text, strlen(text), 0600, err);
}

static int write_env(struct store *st, const struct service *s, struct mlr_error *err)
{
	auto_free char *path = below(s->name, "env", err),
		       *text = strv_join(&s->env, s->env.n, "\n");

	if (!path)
		return -err->code;
	return s->env.n ? file_replace(store_fd(st), path, text, strlen(text), 0600, err) : 0;
}

/* In place: containers that run have this very file. The machine's own stays what it is. */
int service_write_hosts(struct store *st, const struct service *s, struct mlr_error *err)
{
	auto_free char *path = below(s->name, "hosts", err), *old = NULL, *text = NULL,
		       *names = strv_join(&s->hosts, s->hosts.n, " ");
	auto_close int fd = -1;
	int r;

	if (!path)
		return -err->code;
	if (s->hosts.n == 0)
		return 0;
	if (file_read(AT_FDCWD, "/etc/hosts", HOSTS_MAX, &old, NULL, NULL) < 0)
		old = xstrdup("127.0.0.1 localhost\n");
	text = xasprintf("%s\n127.0.0.1 %s\n", old, names);
	fd = openat(
		store_fd(st), path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : file_write_all(fd, text, strlen(text));
	return r < 0 ? mlr_fail(err, -r, "write '%s/%s': %s", store_path(st), path, strerror(-r))
		     : 0;
}

char *service_digest(const struct service *s, const char *manifest)
{
	json_auto_t *o = wish_to_json(s);
	auto_free char *text = NULL;
	char hex[HASH_HEX_SIZE];

	json_object_set_new(o, "created", json_null());
	json_object_set_new(o, "order", json_null());
	json_object_set_new(o, "digest", json_null());
	json_object_set_new(o, "env", mlr_json_texts(&s->env));
	json_object_set_new(o, "manifest", mlr_json_text(manifest));
	text = json_dumps(o, JSON_COMPACT);
	hash_name(text ? text : "", hex);
	return xstrdup(hex);
}

int service_write_wish(struct store *st, const struct service *s, struct mlr_error *err)
{
	int r = write_env(st, s, err);

	if (r == 0)
		r = service_write_hosts(st, s, err);
	return r < 0 ? r : write_json(st, s->name, "service.json", wish_to_json(s), err);
}

int service_write_state(struct store *st, const struct service *s, struct mlr_error *err)
{
	return write_json(st, s->name, "state.json", state_to_json(s), err);
}

int service_read(struct store *st, const char *name, struct service *ret, struct mlr_error *err)
{
	auto_call(service_done) struct service s = SERVICE_INIT;
	auto_free char *wish = below(name, "service.json", err),
		       *state = below(name, "state.json", err);
	json_auto_t *o = NULL, *now = NULL;
	int r;

	if (!wish || !state)
		return -err->code;
	s.name = xstrdup(name);
	TRY(store_json_read(st, wish, &o, err));
	r = store_json_read(st, state, &now, err);
	if (r < 0 && r != -ENOENT)
		return r;
	if (wish_from_json(o, &s) < 0)
		return store_json_bad(st, wish, "something is missing", err);
	if (r == 0 && state_from_json(now, &s) < 0)
		return store_json_bad(st, state, "something is missing", err);
	if (err)
		*err = (struct mlr_error)MLR_ERROR_INIT;
	*ret = s;
	s = (struct service)SERVICE_INIT;
	return 0;
}

/* --- look -------------------------------------------------------------------------------- */

int service_judge(struct store *st, const struct service *s, struct store_process *ret)
{
	struct store_process self;

	if (!s->process || store_process_parse(s->process, ret) < 0 ||
		store_process_self(&self) < 0)
		return 0;
	return store_process_judge(st, ret, &self);
}

int service_is_inside(const struct service *s)
{
	return s->pid > 0 && proc_is_running(s->pid, s->start) > 0;
}

static void look(struct store *st, struct service *s)
{
	struct store_process p;

	if (s->status < SERVICE_EXITED && service_judge(st, s, &p) == 0)
		s->status = SERVICE_LOST;
	if (service_has_ended(s))
		s->health = SERVICE_UNCHECKED;
}

static int refuse_missing(struct store *st, const char *name, struct mlr_error *err)
{
	auto_call(service_list_done) struct service_list l = SERVICE_LIST_INIT;
	struct spelling near = spelling_of(name, strlen(name));

	service_list_read(st, &l, NULL);
	for (size_t i = 0; i < l.n; i++)
		spelling_try(&near, l.v[i].name);
	mlr_fail(err, ENOENT, "there is no service '%s' on this node", name);
	if (near.near)
		return mlr_hint(
			err, "is '%s' meant? mlrun ps --all lists what is there", near.near);
	return mlr_hint(
		err, "mlrun ps --all lists them, mlrun run -d --name %s IMAGE starts one", name);
}

int service_get(struct store *st, const char *name, struct service *ret, struct mlr_error *err)
{
	int r;

	TRY(service_name_check(name, err));
	r = service_read(st, name, ret, err);
	if (r == -ENOENT)
		return refuse_missing(st, name, err);
	if (r == 0)
		look(st, ret);
	return r;
}

int service_list_read(struct store *st, struct service_list *ret, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	auto_free char *top = service_top(err);
	int r = top ? file_list(store_fd(st), top, O_NOFOLLOW, &names) : -EIO;

	if (r < 0 && r != -ENOENT)
		return mlr_fail(
			err, -r, "list '%s/%s': %s", store_path(st), top ? top : TOP, strerror(-r));
	for (size_t i = 0; i < names.n; i++) {
		struct mlr_error why = MLR_ERROR_INIT;

		if (!is_name(names.v[i]))
			continue;
		ret->v = xgrow(ret->v, ret->n, sizeof(*ret->v));
		r = service_read(st, names.v[i], &ret->v[ret->n], &why);
		if (r == 0)
			look(st, &ret->v[ret->n++]);
		else if (r != -ENOENT) /* being made or removed */
			mlr_log_failure(MLR_WARNING, &why, ", ignoring");
	}
	return 0;
}
