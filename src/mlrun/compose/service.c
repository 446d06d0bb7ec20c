/* One service of a compose file (05-services.md of the specification). */
#include "compose/parts.h"

#include "base/base.h"
#include "base/signal_name.h"
#include "compose/ports.h"

#define ENV_FILE_MAX (1u << 20) /* bytes */
#define REPLICAS_MAX 1000

#define AT(member) RECORD_AT(struct compose_service, member)

static int read_one(const struct record_reader *r, const struct record_row *rows, const json_t *v,
	void *to, char **text)
{
	return json_is_object(v) ? record_read(r, rows, v, to) : record_text(r, v, text);
}

/* --- build ----------------------------------------------------------------------------------- */

static const struct record_row build_rows[] = {
	{ "context", RECORD_TEXT, AT(context), .reach = REACH_FILES },
	{ "dockerfile", RECORD_TEXT, AT(dockerfile), .reach = REACH_FILES },
	{ "args", RECORD_TEXTS, AT(build_args), .read = compose_read_pairs },
	{ "target", RECORD_TEXT, AT(target) },
	{ NULL },
};

static int read_build(const struct record_reader *r, const json_t *v, void *to)
{
	struct compose_service *s = to;
	char *whole;

	TRY(read_one(r, build_rows, v, s, &s->context));
	if (!s->context)
		return record_wrong(r, "the key 'context' is missing");
	if (strstr(s->context, "://"))
		return record_wrong(r, "'%s' is no directory of this machine", s->context);
	whole = compose_absolute(r, s->context);
	free(s->context);
	s->context = whole;
	return 0;
}

/* null is the image's own. */
static int read_entrypoint(const struct record_reader *r, const json_t *v, void *to)
{
	struct compose_service *s = to;

	s->has_entrypoint = !json_is_null(v);
	return compose_read_words(r, v, &s->entrypoint);
}

/* --- environment ----------------------------------------------------------------------------- */

static int read_env_text(const struct record_reader *r, const char *name, struct strv *ret)
{
	const struct compose_reader *c = r->ctx;
	auto_free char *path = compose_absolute(r, name), *text = NULL;
	auto_strv struct strv pairs = STRV_INIT;
	struct mlr_error why = MLR_ERROR_INIT;
	size_t len = 0;

	if (file_read_regular(AT_FDCWD, path, ENV_FILE_MAX, &text, &len, &why) < 0)
		return record_wrong(r, "%s", why.text);
	if (strlen(text) != len)
		return record_wrong(r, "'%s' has a NUL byte", path);
	if (compose_env_parse(text, path, c->look, c->ctx, &pairs, &why) < 0)
		return record_wrong(r, "%s", why.text);
	for (size_t i = 0; i < pairs.n; i++) {
		char *eq = strchr(pairs.v[i], '=');

		*eq = '\0';
		if (strpbrk(eq + 1, "\r\n"))
			return record_wrong(
				r, "the value of %s has more than one line", pairs.v[i]);
		strv_env_set(ret, pairs.v[i], eq + 1);
	}
	return 0;
}

struct env_file {
	char *path;
	int required;
};

static const struct record_row env_file_rows[] = {
	{ "path", RECORD_TEXT, RECORD_AT(struct env_file, path), .reach = REACH_FILES },
	{ "required", RECORD_FLAG, RECORD_AT(struct env_file, required) },
	{ NULL },
};

static int read_one_env_file(const struct record_reader *r, const json_t *v, void *to)
{
	struct env_file f = { NULL, 1 };
	int e = read_one(r, env_file_rows, v, &f, &f.path);

	if (e == 0 && !f.path)
		e = record_wrong(r, "the key 'path' is missing");
	if (e == 0) {
		auto_free char *path = compose_absolute(r, f.path);

		if (f.required || access(path, F_OK) == 0)
			e = read_env_text(r, f.path, to);
	}
	free(f.path);
	return e;
}

static int read_env_file(const struct record_reader *r, const json_t *v, void *to)
{
	auto_strv struct strv pairs = STRV_INIT;
	struct compose_service *s = to;

	TRY(json_is_array(v) ? record_each(r, v, read_one_env_file, &pairs)
			     : read_one_env_file(r, v, &pairs));
	/* environment wins, wherever it stands. */
	for (size_t i = 0; i < s->environment.n; i++) {
		const char *eq = strchr(s->environment.v[i], '=');
		auto_free char *key =
			xstrndup(s->environment.v[i], (size_t)(eq - s->environment.v[i]));

		strv_env_set(&pairs, key, eq + 1);
	}
	strv_done(&s->environment);
	s->environment = pairs;
	pairs = (struct strv)STRV_INIT;
	return 0;
}

/* --- volumes --------------------------------------------------------------------------------- */

struct volume {
	char *type, *source, *target;
	int read_only;
};

static const struct record_row volume_rows[] = {
	{ "type", RECORD_TEXT, RECORD_AT(struct volume, type) },
	{ "source", RECORD_TEXT, RECORD_AT(struct volume, source), .reach = REACH_FILES },
	{ "target", RECORD_TEXT, RECORD_AT(struct volume, target) },
	{ "read_only", RECORD_FLAG, RECORD_AT(struct volume, read_only) },
	{ NULL },
};

/* "SRC:DST[:MODE]"; SRC begins with "/", "./", "../" or "~". */
static int split_volume(const struct record_reader *r, const char *text, struct volume *v)
{
	const char *colon = strchr(text, ':'), *mode = colon ? strchr(colon + 1, ':') : NULL;

	if (!colon) {
		record_wrong(r, "'%s' has no source", text);
		return mlr_hint(r->err, "tmpfs: [%s] is a directory that is forgotten", text);
	}
	v->source = xstrndup(text, (size_t)(colon - text));
	v->target = mode ? xstrndup(colon + 1, (size_t)(mode - colon - 1)) : xstrdup(colon + 1);
	v->read_only = mode && strcmp(mode, ":ro") == 0;
	if (mode && !v->read_only && strcmp(mode, ":rw") != 0)
		return record_wrong(r, "unknown mode '%s': use ro or rw", mode + 1);
	return 0;
}

static int add_volume(
	const struct record_reader *r, const struct volume *v, struct compose_service *s)
{
	const struct compose_reader *c = r->ctx;
	const char *home = c->look(c->ctx, "HOME");
	auto_free char *expanded = NULL, *source = NULL;

	if (!v->source || !v->target)
		return record_wrong(r, "source or target is missing");
	if (strchr("./~", v->source[0]) == NULL || !v->source[0]) {
		record_wrong(r, "'%s' is a named volume", v->source);
		return mlr_hint(r->err, "mlrun has no volumes but directories: ./%s", v->source);
	}
	if (v->source[0] == '~' && (!home || (v->source[1] && v->source[1] != '/')))
		return record_wrong(r, "'%s': whose home directory?", v->source);
	expanded =
		v->source[0] == '~' ? xasprintf("%s%s", home, v->source + 1) : xstrdup(v->source);
	if (v->target[0] != '/' || strchr(v->target, ':'))
		return record_wrong(r, "'%s' is no absolute path in the container", v->target);
	source = compose_absolute(r, expanded);
	if (strchr(source, ':'))
		return record_wrong(r, "'%s': the path has a colon", source);
	strv_addf(&s->volumes, "%s:%s%s", source, v->target, v->read_only ? ":ro" : "");
	return 0;
}

static int read_one_volume(const struct record_reader *r, const json_t *v, void *to)
{
	struct volume volume = { NULL, NULL, NULL, 0 };
	auto_free char *text = NULL;
	int e = read_one(r, volume_rows, v, &volume, &text);

	if (e == 0 && text)
		e = split_volume(r, text, &volume);
	if (e == 0 && volume.type && strcmp(volume.type, "tmpfs") == 0 && volume.target)
		strv_add(&((struct compose_service *)to)->tmpfs, volume.target);
	else if (e == 0 && volume.type && strcmp(volume.type, "bind") != 0)
		e = record_wrong(r, "unsupported type '%s': use bind or tmpfs", volume.type);
	else if (e == 0)
		e = add_volume(r, &volume, to);
	record_done(volume_rows, &volume);
	return e;
}

/* --- ports ----------------------------------------------------------------------------------- */

struct port {
	char *target, *published, *address;
};

static const struct record_row port_rows[] = {
	{ "target", RECORD_TEXT, RECORD_AT(struct port, target) },
	{ "published", RECORD_TEXT, RECORD_AT(struct port, published) },
	{ "host_ip", RECORD_TEXT, RECORD_AT(struct port, address) },
	{ "protocol", RECORD_OWN },
	{ "app_protocol", RECORD_OWN },
	{ "mode", RECORD_OWN },
	{ "name", RECORD_OWN },
	{ NULL },
};

static int read_one_port(const struct record_reader *r, const json_t *v, void *to)
{
	struct port port = { NULL, NULL, NULL };
	auto_free char *text = NULL;
	int e = read_one(r, port_rows, v, &port, &text);

	if (e == 0 && !text)
		text = xasprintf("%s%s%s%s%s", port.address ? port.address : "",
			port.address ? ":" : "", port.published ? port.published : "",
			port.published ? ":" : "", port.target ? port.target : "");
	if (e == 0 && !compose_port_is_so(text)) {
		record_wrong(r, "port '%s' cannot be had", text);
		e = mlr_hint(r->err,
			"services use the host's network: a port is open under the number and on the addresses "
			"that the command opens, so both numbers must be equal");
	}
	record_done(port_rows, &port);
	return e;
}

static int read_ports(const struct record_reader *r, const json_t *v, void *to)
{
	((struct compose_service *)to)->has_ports = 1;
	return record_each(r, v, read_one_port, to);
}

static int read_network_mode(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;

	TRY(record_text(r, v, &text));
	return strcmp(text, "host") == 0
		? 0
		: record_wrong(r, "'%s' is not supported: services use the host's network", text);
}

/* --- depends_on ------------------------------------------------------------------------------ */

static void add_need(struct compose_service *s, const char *name, enum compose_condition condition)
{
	s->needs = xgrow(s->needs, s->n_needs, sizeof(*s->needs));
	s->needs[s->n_needs++] = (struct compose_need){ xstrdup(name), condition };
}

static int read_need(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *name = NULL;

	TRY(record_text(r, v, &name));
	add_need(to, name, COMPOSE_STARTED);
	return 0;
}

static const char *const conditions[] = { [COMPOSE_STARTED] = "service_started",
	[COMPOSE_HEALTHY] = "service_healthy",
	[COMPOSE_COMPLETED] = "service_completed_successfully" };
static const struct record_row need_rows[] = {
	{ "condition", RECORD_WORD, RECORD_AT(struct compose_need, condition),
		RECORD_WORDS(conditions) },
	{ NULL },
};

static int read_named_need(
	const struct record_reader *r, const char *name, const json_t *v, void *to)
{
	struct compose_need need = { .condition = COMPOSE_STARTED };

	TRY(record_read(r, need_rows, v, &need));
	add_need(to, name, need.condition);
	return 0;
}

static int read_depends_on(const struct record_reader *r, const json_t *v, void *to)
{
	return json_is_object(v) ? compose_read_keys(r, v, read_named_need, to)
				 : record_each(r, v, read_need, to);
}

/* --- healthcheck ----------------------------------------------------------------------------- */

/* A text is a line for a shell; the kinds of lists are HEALTHCHECK's. */
static int read_test(const struct record_reader *r, const json_t *v, void *to)
{
	static const struct record_row row = { .kind = RECORD_TEXTS, .flags = RECORD_OR_ONE };
	struct compose_service *s = to;
	auto_strv struct strv words = STRV_INIT;

	TRY(record_value(r, &row, v, &words));
	if (json_is_array(v) && words.n == 1 && strcmp(words.v[0], "NONE") == 0) {
		s->no_check = 1;
		return 0;
	}
	if (json_is_array(v) && words.n > 1 && strcmp(words.v[0], "CMD") == 0) {
		for (size_t i = 1; i < words.n; i++)
			strv_add(&s->test, words.v[i]);
		return 0;
	}
	if (json_is_array(v) && (words.n != 2 || strcmp(words.v[0], "CMD-SHELL") != 0))
		return record_wrong(r, "expected [CMD, WORD...], [CMD-SHELL, LINE] or [NONE]");
	strv_add(&s->test, "/bin/sh");
	strv_add(&s->test, "-c");
	strv_add(&s->test, words.v[words.n - 1]);
	return 0;
}

static const struct record_row check_rows[] = {
	{ "test", RECORD_OWN, .read = read_test },
	{ "interval", RECORD_OWN, AT(interval), .read = compose_read_span },
	{ "timeout", RECORD_OWN, AT(timeout), .read = compose_read_span },
	{ "retries", RECORD_NUMBER, AT(retries), .min = 1, .max = INT_MAX },
	{ "start_period", RECORD_OWN, AT(start_period), .read = compose_read_span },
	{ "start_interval", RECORD_OWN, AT(start_interval), .read = compose_read_span },
	{ "disable", RECORD_FLAG, AT(no_check) },
	{ NULL },
};

static int read_healthcheck(const struct record_reader *r, const json_t *v, void *to)
{
	((struct compose_service *)to)->has_check = 1;
	return record_read(r, check_rows, v, to);
}

/* --- the rest -------------------------------------------------------------------------------- */

static int read_restart(const struct record_reader *r, const json_t *v, void *to)
{
	static const char *const words[] = { [COMPOSE_NO_RESTART] = "no",
		[COMPOSE_ON_FAILURE] = "on-failure",
		[COMPOSE_ALWAYS] = "always" };
	struct compose_service *s = to;
	auto_free char *text = NULL;
	char *colon, *end = NULL;

	TRY(record_text(r, v, &text));
	colon = strchr(text, ':');
	if (colon) {
		*colon = '\0';
		s->restarts_max = strtol(colon + 1, &end, 10);
	}
	/* No daemon restarts, so there is no difference. */
	if (strcmp(text, "unless-stopped") == 0 && !colon) {
		s->restart = COMPOSE_ALWAYS;
		return 0;
	}
	for (int i = 0; i < (int)ARRAY_LEN(words); i++)
		if (strcmp(text, words[i]) == 0 &&
			(!colon ||
				(i == COMPOSE_ON_FAILURE && colon[1] && !*end &&
					s->restarts_max >= 0))) {
			s->restart = (enum compose_restart)i;
			return 0;
		}
	return record_wrong(r,
		"expected no, on-failure, on-failure:TIMES, always or unless-stopped, not '%s%s%s'",
		text, colon ? ":" : "", colon ? colon + 1 : "");
}

static int read_stop_signal(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;

	TRY(record_text(r, v, &text));
	*(int *)to = signal_number(text);
	return *(int *)to > 0 ? 0 : record_wrong(r, "unknown signal '%s'", text);
}

#define REPLICAS RECORD_NUMBER, AT(replicas), .max = REPLICAS_MAX

static const struct record_row deploy_rows[] = { { "replicas", REPLICAS }, { NULL } };

#define NETWORKS "services use the host's network and meet at localhost, by their names, too"

const struct record_row compose_service_rows[] = {
	{ "image", RECORD_TEXT, AT(image), .reach = REACH_FILES },
	{ "build", RECORD_STRUCT, .rows = build_rows, .read = read_build, .reach = REACH_FILES },
	{ "command", RECORD_TEXTS, AT(command), .read = compose_read_words,
		.reach = REACH_SERVERS },
	{ "entrypoint", RECORD_OWN, .read = read_entrypoint, .reach = REACH_SERVERS },
	{ "environment", RECORD_TEXTS, AT(environment), .read = compose_read_pairs,
		.reach = REACH_VARIABLES },
	{ "env_file", RECORD_OWN, .rows = env_file_rows, .read = read_env_file,
		.reach = REACH_FILES },
	{ "volumes", RECORD_OWN, .rows = volume_rows, .flags = RECORD_EACH, .read = read_one_volume,
		.reach = REACH_FILES },
	{ "tmpfs", RECORD_TEXTS, AT(tmpfs), .flags = RECORD_OR_ONE },
	{ "working_dir", RECORD_TEXT, AT(working_dir) },
	{ "user", RECORD_TEXT, AT(user) },
	{ "hostname", RECORD_TEXT, AT(hostname) },
	{ "read_only", RECORD_FLAG, AT(read_only) },
	{ "init", RECORD_FLAG, AT(init) },
	{ "ports", RECORD_OWN, .rows = port_rows, .read = read_ports, .reach = REACH_SERVERS },
	{ "expose", RECORD_OWN },
	{ "network_mode", RECORD_OWN, .read = read_network_mode, .reach = REACH_SERVERS },
	{ "networks", RECORD_OWN, .refusal = NETWORKS },
	{ "links", RECORD_OWN, .refusal = NETWORKS },
	{ "depends_on", RECORD_OWN, .rows = need_rows, .read = read_depends_on },
	{ "healthcheck", RECORD_STRUCT, .rows = check_rows, .read = read_healthcheck,
		.reach = REACH_SERVERS },
	{ "restart", RECORD_OWN, .read = read_restart },
	{ "deploy", RECORD_STRUCT, .rows = deploy_rows },
	{ "scale", REPLICAS },
	{ "stop_grace_period", RECORD_OWN, AT(stop_ms), .read = compose_read_span },
	{ "stop_signal", RECORD_OWN, AT(stop_signal), .read = read_stop_signal },
	{ "container_name", RECORD_TEXT, AT(container_name) },
	{ "secrets", RECORD_OWN, .refusal = "volumes: [./FILE:/run/secrets/NAME:ro]" },
	{ "configs", RECORD_OWN, .refusal = "volumes: [./FILE:/PATH:ro]" },
	{ "privileged", RECORD_OWN, .refusal = "mlrun has the caller's rights and no others" },
	{ NULL },
};

int compose_read_service(
	const struct record_reader *r, const json_t *v, struct compose_service *ret)
{
	ret->replicas = 1;
	ret->stop_ms = -1;
	TRY(record_read(r, compose_service_rows, v, ret));
	if (!ret->image && !ret->context)
		return record_wrong(r, "neither image nor build says what it is");
	if (ret->container_name && ret->replicas > 1)
		return record_wrong(r, "several replicas cannot have one container_name");
	return 0;
}
