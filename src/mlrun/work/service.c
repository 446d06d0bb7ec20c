#include "work/service.h"
#include "work/supervisor.h"
#include "work/work.h"

#include "base/proc.h"
#include "base/record.h"
#include "base/spelling.h"
#include "store/json.h"

#define TOP        "services"
#define NAME_BYTES 140 /* a project, a service and a number: 63 + 1 + 63 + 12 */
#define HOSTS_MAX  (1u << 20)
#define SPARE      8192 /* bytes; a state with what a failed check printed has less */

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

static const struct record_row check_rows[] = {
	{ "test", RECORD_TEXTS, RECORD_AT(struct service_check, test) },
	{ "interval", RECORD_NUMBER, RECORD_AT(struct service_check, interval) },
	{ "timeout", RECORD_NUMBER, RECORD_AT(struct service_check, timeout) },
	{ "start_period", RECORD_NUMBER, RECORD_AT(struct service_check, start_period) },
	{ "start_interval", RECORD_NUMBER, RECORD_AT(struct service_check, start_interval) },
	{ "retries", RECORD_NUMBER, RECORD_AT(struct service_check, retries) },
	{ NULL },
};

/* service.json; service_digest() rests on the order. */
static const struct record_row wish_rows[] = {
	{ "name", RECORD_TEXT, RECORD_AT(struct service, name) },
	{ "image", RECORD_TEXT, RECORD_AT(struct service, image), .flags = RECORD_MUST },
	{ "directory", RECORD_TEXT, RECORD_AT(struct service, directory), .flags = RECORD_MUST },
	{ "options", RECORD_TEXTS, RECORD_AT(struct service, options) },
	{ "command", RECORD_TEXTS, RECORD_AT(struct service, command) },
	{ "ports", RECORD_TEXTS, RECORD_AT(struct service, ports) },
	{ "project", RECORD_TEXT, RECORD_AT(struct service, project) },
	{ "part", RECORD_TEXT, RECORD_AT(struct service, part) },
	{ "digest", RECORD_TEXT, RECORD_AT(struct service, digest) },
	{ "restart", RECORD_WORD, RECORD_AT(struct service, restart),
		RECORD_WORDS(service_restart_names) },
	{ "restarts_max", RECORD_NUMBER, RECORD_AT(struct service, restarts_max) },
	{ "stop_signal", RECORD_NUMBER, RECORD_AT(struct service, stop_signal) },
	{ "stop_ms", RECORD_NUMBER, RECORD_AT(struct service, stop_ms) },
	{ "log_size", RECORD_NUMBER, RECORD_AT(struct service, log_size) },
	{ "log_file", RECORD_TEXT, RECORD_AT(struct service, log_file), .flags = RECORD_SPARE },
	{ "remove", RECORD_FLAG, RECORD_AT(struct service, remove) },
	{ "replica", RECORD_NUMBER, RECORD_AT(struct service, replica) },
	{ "order", RECORD_NUMBER, RECORD_AT(struct service, order) },
	{ "created", RECORD_NUMBER, RECORD_AT(struct service, created) },
	{ "check", RECORD_STRUCT, RECORD_AT(struct service, check), .rows = check_rows },
	{ NULL },
};

/* state.json */
static const struct record_row state_rows[] = {
	{ "process", RECORD_TEXT, RECORD_AT(struct service, process) },
	{ "pid", RECORD_NUMBER, RECORD_AT(struct service, pid) },
	{ "start", RECORD_NUMBER, RECORD_AT(struct service, start) },
	{ "inside", RECORD_NUMBER, RECORD_AT(struct service, inside) },
	{ "status", RECORD_WORD, RECORD_AT(struct service, status),
		RECORD_WORDS(service_status_names) },
	{ "health", RECORD_WORD, RECORD_AT(struct service, health),
		RECORD_WORDS(service_health_names) },
	{ "failures", RECORD_NUMBER, RECORD_AT(struct service, failures) },
	{ "said", RECORD_TEXT, RECORD_AT(struct service, said) },
	{ "restarts", RECORD_NUMBER, RECORD_AT(struct service, restarts) },
	{ "runs", RECORD_NUMBER, RECORD_AT(struct service, runs) },
	{ "started", RECORD_NUMBER, RECORD_AT(struct service, started) },
	{ "ended", RECORD_NUMBER, RECORD_AT(struct service, ended) },
	{ "exit_status", RECORD_NUMBER, RECORD_AT(struct service, exit_status), .min = -1 },
	{ NULL },
};

void service_done(struct service *s)
{
	record_done(wish_rows, s);
	record_done(state_rows, s);
	strv_done(&s->env);
	strv_done(&s->hosts);
	*s = (struct service)SERVICE_INIT;
}

void service_check_take(struct service_check *c, const struct service_check *said)
{
	if (said->test.n > 0) {
		strv_done(&c->test);
		strv_add_all(&c->test, &said->test);
	}
	c->interval = said->interval ? said->interval : c->interval;
	c->timeout = said->timeout ? said->timeout : c->timeout;
	c->start_period = said->start_period ? said->start_period : c->start_period;
	c->start_interval = said->start_interval ? said->start_interval : c->start_interval;
	c->retries = said->retries ? said->retries : c->retries;
}

void service_list_done(struct service_list *l)
{
	free_all(l->v, l->n, service_done);
	*l = (struct service_list){ 0 };
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

char *service_top(void)
{
	char host[STORE_HOST_SIZE];

	store_process_host(host);
	return xasprintf(TOP "/%s", host);
}

char *service_below(const char *name, const char *file)
{
	auto_free char *top = service_top();

	return xasprintf("%s/%s%s%s", top, name, *file ? "/" : "", file);
}

char *service_path(const struct store *st, const char *name, const char *file)
{
	auto_free char *path = service_below(name, file);

	return xasprintf("%s/%s", store_path(st), path);
}

/* --- files ------------------------------------------------------------------------------- */

static int write_json(struct store *st, const struct service *s, const char *file,
	const struct record_row *rows, struct mlr_error *err)
{
	json_auto_t *o = record_write(rows, s);
	auto_free char *path = service_below(s->name, file), *text = json_dumps(o, JSON_INDENT(2));

	if (!text)
		return mlr_fail(err, ENOMEM, "a service's record");
	return file_replace(store_fd(st), path, text, strlen(text), 0600, err);
}

char *service_hosts_text(const struct service *s)
{
	auto_free char *old = NULL, *names = strv_join(&s->hosts, s->hosts.n, " ");

	if (file_read(AT_FDCWD, "/etc/hosts", HOSTS_MAX, &old, NULL, NULL) < 0)
		old = xstrdup("127.0.0.1 localhost\n");
	return xasprintf("%s\n127.0.0.1 %s\n", old, names);
}

/* Rewrite the file in place: running containers have it mounted. */
int service_write_hosts(struct store *st, const struct service *s, struct mlr_error *err)
{
	auto_free char *path = service_below(s->name, "hosts"), *text = service_hosts_text(s);
	auto_close int fd = -1;
	int r;

	if (s->hosts.n == 0)
		return 0;
	fd = openat(
		store_fd(st), path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : file_write_all(fd, text, strlen(text));
	return mlr_result(err, r, "write '%s/%s'", store_path(st), path);
}

json_t *service_json(const struct service *s)
{
	json_t *o = record_write(wish_rows, s);
	json_auto_t *state = record_write(state_rows, s);

	json_object_update(o, state);
	return o;
}

char *service_digest(const struct service *s, const char *manifest)
{
	json_auto_t *o = record_write(wish_rows, s);
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
	auto_free char *env = service_path(st, s->name, "env");

	if (s->env.n > 0)
		TRY(file_replace_list(AT_FDCWD, env, &s->env, 0600, err));
	TRY(service_write_hosts(st, s, err));
	return write_json(st, s, "service.json", wish_rows, err);
}

int service_reserve(struct store *st, const struct service *s, struct mlr_error *err)
{
	auto_free char *path = service_below(s->name, "spare");
	char spaces[SPARE];

	memset(spaces, ' ', sizeof(spaces)); /* JSON may end with them */
	return file_replace(store_fd(st), path, spaces, sizeof(spaces), 0600, err);
}

/* Write the state into the file that has its room already. */
static int use_spare(struct store *st, const struct service *s)
{
	json_auto_t *o = record_write(state_rows, s);
	auto_free char *text = json_dumps(o, JSON_COMPACT), *from = service_below(s->name, "spare"),
		       *to = service_below(s->name, "state.json");
	auto_close int fd = openat(store_fd(st), from, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	if (!text || strlen(text) > SPARE || fd < 0)
		return -ENOSPC;
	TRY(file_write_all(fd, text, strlen(text)));
	return fsync(fd) < 0 || renameat(store_fd(st), from, store_fd(st), to) < 0 ? -errno : 0;
}

int service_write_state(struct store *st, const struct service *s, struct mlr_error *err)
{
	int r = write_json(st, s, "state.json", state_rows, err);

	return r < 0 && s->status == SERVICE_EXITED && use_spare(st, s) == 0 ? 0 : r;
}

int service_read(struct store *st, const char *name, struct service *ret, struct mlr_error *err)
{
	auto_call(service_done) struct service s = SERVICE_INIT;
	auto_free char *wish = service_below(name, "service.json"),
		       *state = service_below(name, "state.json");
	int r;

	TRY(store_json_take(st, wish, wish_rows, &s, err));
	r = store_json_take(st, state, state_rows, &s, err);
	if (r < 0 && r != -ENOENT)
		return r;
	set_ptr(&s.name, xstrdup(name));
	if (err)
		*err = (struct mlr_error)MLR_ERROR_INIT;
	*ret = take_struct(&s, SERVICE_INIT);
	return 0;
}

/* --- look -------------------------------------------------------------------------------- */

int service_is_inside(const struct service *s)
{
	return s->pid > 0 && proc_is_running(s->pid, s->start) > 0;
}

static void look(struct store *st, struct service *s)
{
	struct store_process p;

	if (s->status < SERVICE_EXITED && supervisor_judge(st, s->process, &p) == 0)
		s->status = SERVICE_LOST;
	if (service_has_ended(s))
		s->health = SERVICE_UNCHECKED;
}

static int refuse_missing(struct store *st, const char *name, struct mlr_error *err)
{
	auto_call(service_list_done) struct service_list l = { 0 };
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

/* Not by removing the file: its supervisor may run. */
static int refuse_damaged(const char *name, struct mlr_error *err)
{
	struct mlr_error why = err ? *err : (struct mlr_error)MLR_ERROR_INIT;

	mlr_fail(err, EPROTO, "%.*s", MLR_SENTENCE(&why));
	return mlr_hint(err, "mlrun rm %s ends and removes the service", name);
}

int service_get(struct store *st, const char *name, struct service *ret, struct mlr_error *err)
{
	int r;

	TRY(service_name_check(name, err));
	r = service_read(st, name, ret, err);
	if (r == -ENOENT)
		return refuse_missing(st, name, err);
	if (r == -EPROTO)
		return refuse_damaged(name, err);
	if (r == 0)
		look(st, ret);
	return r;
}

int service_list_read(struct store *st, struct service_list *ret, struct mlr_error *err)
{
	auto_strv struct strv names = STRV_INIT;
	auto_free char *top = service_top();
	int r = file_list(store_fd(st), top, O_NOFOLLOW, &names);

	if (r < 0 && r != -ENOENT)
		return mlr_result(err, r, "list '%s/%s'", store_path(st), top);
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
