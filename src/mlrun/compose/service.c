/* One service of a compose file (05-services.md of the specification). */
#include "compose/parts.h"

#include "base/base.h"
#include "base/signal_name.h"
#include "compose/ports.h"

#define ENV_FILE_MAX (1u << 20) /* bytes */
#define REPLICAS_MAX 1000

#define READER(name)     \
	static int name( \
		struct compose_reader *r, const struct compose_at *at, const json_t *v, void *to)

/* A reader that puts a value into one member. */
#define READ_TEXT(name, member)                                                              \
	READER(name)                                                                         \
	{                                                                                    \
		return compose_read_text(r, at, v, &((struct compose_service *)to)->member); \
	}
#define READ_BOOL(name, member)                                                              \
	READER(name)                                                                         \
	{                                                                                    \
		return compose_read_bool(r, at, v, &((struct compose_service *)to)->member); \
	}
#define READ_SPAN(name, member)                                                              \
	READER(name)                                                                         \
	{                                                                                    \
		return compose_read_span(r, at, v, &((struct compose_service *)to)->member); \
	}

READ_TEXT(read_image, image)
READ_TEXT(read_container_name, container_name)
READ_TEXT(read_working_dir, working_dir)
READ_TEXT(read_user, user)
READ_TEXT(read_hostname, hostname)
READ_TEXT(read_context, context)
READ_TEXT(read_dockerfile, dockerfile)
READ_TEXT(read_target, target)
READ_BOOL(read_read_only, read_only)
READ_BOOL(read_init, init)
READ_BOOL(read_no_check, no_check)
READ_SPAN(read_interval, interval)
READ_SPAN(read_timeout, timeout)
READ_SPAN(read_start_period, start_period)
READ_SPAN(read_start_interval, start_interval)
READ_SPAN(read_stop_ms, stop_ms)

READER(read_tmpfs)
{
	return compose_read_texts(r, at, v, &((struct compose_service *)to)->tmpfs);
}

READER(read_retries)
{
	return compose_read_number(r, at, v, 1, INT_MAX, &((struct compose_service *)to)->retries);
}

READER(read_replicas)
{
	return compose_read_number(
		r, at, v, 0, REPLICAS_MAX, &((struct compose_service *)to)->replicas);
}

/* --- build ----------------------------------------------------------------------------------- */

READER(read_args)
{
	return compose_read_pairs(r, at, v, &((struct compose_service *)to)->build_args);
}

static const struct compose_key build_keys[] = { { "context", read_context, NULL, REACH_FILES },
	{ "dockerfile", read_dockerfile, NULL, REACH_FILES }, { "args", read_args },
	{ "target", read_target }, { 0 } };

READER(read_build)
{
	struct compose_service *s = to;
	int e = json_is_object(v) ? compose_read_map(r, at, v, build_keys, s)
				  : compose_read_text(r, at, v, &s->context);
	char *whole;

	if (e < 0)
		return e;
	if (!s->context)
		return compose_wrong(r, at, "the key 'context' is missing");
	if (strstr(s->context, "://"))
		return compose_wrong(r, at, "'%s' is no directory of this machine", s->context);
	whole = compose_absolute(r, s->context);
	free(s->context);
	s->context = whole;
	return 0;
}

/* --- command --------------------------------------------------------------------------------- */

/* null is the image's own. */
READER(read_command)
{
	struct compose_service *s = to;

	return json_is_null(v) ? 0 : compose_read_words(r, at, v, &s->command);
}

READER(read_entrypoint)
{
	struct compose_service *s = to;

	s->has_entrypoint = !json_is_null(v);
	return s->has_entrypoint ? compose_read_words(r, at, v, &s->entrypoint) : 0;
}

/* --- environment ----------------------------------------------------------------------------- */

READER(read_environment)
{
	return compose_read_pairs(r, at, v, &((struct compose_service *)to)->environment);
}

static int read_env_text(
	struct compose_reader *r, const struct compose_at *at, const char *name, struct strv *ret)
{
	auto_free char *path = compose_absolute(r, name), *text = NULL;
	auto_strv struct strv pairs = STRV_INIT;
	struct mlr_error why = MLR_ERROR_INIT;
	size_t len = 0;

	if (file_read_regular(AT_FDCWD, path, ENV_FILE_MAX, &text, &len, &why) < 0)
		return compose_wrong(r, at, "%s", why.text);
	if (strlen(text) != len)
		return compose_wrong(r, at, "'%s' has a NUL byte", path);
	if (compose_env_parse(text, path, r->look, r->ctx, &pairs, &why) < 0)
		return compose_wrong(r, at, "%s", why.text);
	for (size_t i = 0; i < pairs.n; i++) {
		char *eq = strchr(pairs.v[i], '=');

		*eq = '\0';
		if (strpbrk(eq + 1, "\r\n"))
			return compose_wrong(
				r, at, "the value of %s has more than one line", pairs.v[i]);
		strv_env_set(ret, pairs.v[i], eq + 1);
	}
	return 0;
}

struct env_file {
	char *path;
	int required;
};

READER(read_path)
{
	return compose_read_text(r, at, v, &((struct env_file *)to)->path);
}

READER(read_required)
{
	return compose_read_bool(r, at, v, &((struct env_file *)to)->required);
}

static const struct compose_key env_file_keys[] = { { "path", read_path, NULL, REACH_FILES },
	{ "required", read_required }, { 0 } };

READER(read_one_env_file)
{
	struct env_file f = { NULL, 1 };
	int e = json_is_object(v) ? compose_read_map(r, at, v, env_file_keys, &f)
				  : compose_read_text(r, at, v, &f.path);

	if (e == 0 && !f.path)
		e = compose_wrong(r, at, "the key 'path' is missing");
	if (e == 0) {
		auto_free char *path = compose_absolute(r, f.path);

		if (f.required || access(path, F_OK) == 0)
			e = read_env_text(r, at, f.path, to);
	}
	free(f.path);
	return e;
}

READER(read_env_file)
{
	auto_strv struct strv pairs = STRV_INIT;
	struct compose_service *s = to;
	int e = json_is_array(v) ? compose_read_list(r, at, v, read_one_env_file, &pairs)
				 : read_one_env_file(r, at, v, &pairs);

	/* environment wins, wherever it stands. */
	for (size_t i = 0; e == 0 && i < s->environment.n; i++) {
		const char *eq = strchr(s->environment.v[i], '=');
		auto_free char *key =
			xstrndup(s->environment.v[i], (size_t)(eq - s->environment.v[i]));

		strv_env_set(&pairs, key, eq + 1);
	}
	strv_done(&s->environment);
	s->environment = pairs;
	pairs = (struct strv)STRV_INIT;
	return e;
}

/* --- volumes --------------------------------------------------------------------------------- */

struct volume {
	char *type, *source, *target;
	int read_only;
};

READER(read_type)
{
	return compose_read_text(r, at, v, &((struct volume *)to)->type);
}

READER(read_source)
{
	return compose_read_text(r, at, v, &((struct volume *)to)->source);
}

READER(read_volume_target)
{
	return compose_read_text(r, at, v, &((struct volume *)to)->target);
}

READER(read_volume_mode)
{
	return compose_read_bool(r, at, v, &((struct volume *)to)->read_only);
}

/* "SRC:DST[:MODE]"; SRC begins with "/", "./", "../" or "~". */
static int split_volume(
	struct compose_reader *r, const struct compose_at *at, const char *text, struct volume *v)
{
	const char *colon = strchr(text, ':'), *mode = colon ? strchr(colon + 1, ':') : NULL;

	if (!colon) {
		compose_wrong(r, at, "'%s' has no source", text);
		return mlr_hint(r->err, "tmpfs: [%s] is a directory that is forgotten", text);
	}
	v->source = xstrndup(text, (size_t)(colon - text));
	v->target = mode ? xstrndup(colon + 1, (size_t)(mode - colon - 1)) : xstrdup(colon + 1);
	v->read_only = mode && strcmp(mode, ":ro") == 0;
	if (mode && !v->read_only && strcmp(mode, ":rw") != 0)
		return compose_wrong(r, at, "unknown mode '%s': use ro or rw", mode + 1);
	return 0;
}

static int add_volume(struct compose_reader *r, const struct compose_at *at, const struct volume *v,
	struct compose_service *s)
{
	const char *home = r->look(r->ctx, "HOME");
	auto_free char *expanded = NULL, *source = NULL;

	if (!v->source || !v->target)
		return compose_wrong(r, at, "source or target is missing");
	if (strchr("./~", v->source[0]) == NULL || !v->source[0]) {
		compose_wrong(r, at, "'%s' is a named volume", v->source);
		return mlr_hint(r->err, "mlrun has no volumes but directories: ./%s", v->source);
	}
	if (v->source[0] == '~' && (!home || (v->source[1] && v->source[1] != '/')))
		return compose_wrong(r, at, "'%s': whose home directory?", v->source);
	expanded =
		v->source[0] == '~' ? xasprintf("%s%s", home, v->source + 1) : xstrdup(v->source);
	if (v->target[0] != '/' || strchr(v->target, ':'))
		return compose_wrong(r, at, "'%s' is no absolute path in the container", v->target);
	source = compose_absolute(r, expanded);
	if (strchr(source, ':'))
		return compose_wrong(r, at, "'%s': the path has a colon", source);
	strv_addf(&s->volumes, "%s:%s%s", source, v->target, v->read_only ? ":ro" : "");
	return 0;
}

static const struct compose_key volume_keys[] = { { "type", read_type },
	{ "source", read_source, NULL, REACH_FILES }, { "target", read_volume_target },
	{ "read_only", read_volume_mode }, { 0 } };

READER(read_one_volume)
{
	struct volume volume = { NULL, NULL, NULL, 0 };
	auto_free char *text = NULL;
	int e = json_is_object(v) ? compose_read_map(r, at, v, volume_keys, &volume)
				  : compose_read_text(r, at, v, &text);

	if (e == 0 && text)
		e = split_volume(r, at, text, &volume);
	if (e == 0 && volume.type && strcmp(volume.type, "tmpfs") == 0 && volume.target)
		strv_add(&((struct compose_service *)to)->tmpfs, volume.target);
	else if (e == 0 && volume.type && strcmp(volume.type, "bind") != 0)
		e = compose_wrong(r, at, "unsupported type '%s': use bind or tmpfs", volume.type);
	else if (e == 0)
		e = add_volume(r, at, &volume, to);
	free(volume.type);
	free(volume.source);
	free(volume.target);
	return e;
}

READER(read_volumes)
{
	return compose_read_list(r, at, v, read_one_volume, to);
}

/* --- ports ----------------------------------------------------------------------------------- */

struct port {
	char *target, *published, *address;
};

READER(read_port_target)
{
	return compose_read_text(r, at, v, &((struct port *)to)->target);
}

READER(read_published)
{
	return compose_read_text(r, at, v, &((struct port *)to)->published);
}

READER(read_address)
{
	return compose_read_text(r, at, v, &((struct port *)to)->address);
}

static const struct compose_key port_keys[] = { { "target", read_port_target },
	{ "published", read_published }, { "host_ip", read_address }, { "protocol", NULL },
	{ "app_protocol", NULL }, { "mode", NULL }, { "name", NULL }, { 0 } };

READER(read_one_port)
{
	struct port port = { NULL, NULL, NULL };
	auto_free char *text = NULL;
	int e = json_is_object(v) ? compose_read_map(r, at, v, port_keys, &port)
				  : compose_read_text(r, at, v, &text);

	(void)to;
	if (e == 0 && !text)
		text = xasprintf("%s%s%s%s%s", port.address ? port.address : "",
			port.address ? ":" : "", port.published ? port.published : "",
			port.published ? ":" : "", port.target ? port.target : "");
	if (e == 0 && !compose_port_is_so(text)) {
		compose_wrong(r, at, "port '%s' cannot be had", text);
		e = mlr_hint(r->err,
			"services use the host's network: a port is open under the number and on the addresses "
			"that the command opens, so both numbers must be equal");
	}
	free(port.target);
	free(port.published);
	free(port.address);
	return e;
}

READER(read_ports)
{
	((struct compose_service *)to)->has_ports = 1;
	return compose_read_list(r, at, v, read_one_port, to);
}

READER(read_network_mode)
{
	auto_free char *text = NULL;
	int e = compose_read_text(r, at, v, &text);

	(void)to;
	if (e < 0 || strcmp(text, "host") == 0)
		return e;
	return compose_wrong(r, at, "'%s' is not supported: services use the host's network", text);
}

/* --- depends_on ------------------------------------------------------------------------------ */

static void add_need(struct compose_service *s, const char *name, enum compose_condition condition)
{
	s->needs = xgrow(s->needs, s->n_needs, sizeof(*s->needs));
	s->needs[s->n_needs++] = (struct compose_need){ xstrdup(name), condition };
}

READER(read_condition)
{
	static const char *const words[] = { [COMPOSE_STARTED] = "service_started",
		[COMPOSE_HEALTHY] = "service_healthy",
		[COMPOSE_COMPLETED] = "service_completed_successfully" };
	auto_free char *text = NULL;
	int e = compose_read_text(r, at, v, &text);

	for (int i = 0; e == 0 && i < (int)ARRAY_LEN(words); i++)
		if (strcmp(text, words[i]) == 0) {
			*(enum compose_condition *)to = (enum compose_condition)i;
			return 0;
		}
	return e < 0 ? e
		     : compose_wrong(r, at,
			       "unknown condition '%s': use service_started, service_healthy or "
			       "service_completed_successfully",
			       text);
}

READER(read_need)
{
	auto_free char *name = NULL;
	int e = compose_read_text(r, at, v, &name);

	if (e == 0)
		add_need(to, name, COMPOSE_STARTED);
	return e;
}

static const struct compose_key need_keys[] = { { "condition", read_condition }, { 0 } };

READER(read_depends_on)
{
	const char *name;
	json_t *item;

	if (!json_is_object(v))
		return compose_read_list(r, at, v, read_need, to);
	json_object_foreach((json_t *)v, name, item) {
		struct compose_at here = { at, v, name, 0 };
		enum compose_condition condition = COMPOSE_STARTED;
		int e = compose_read_map(r, &here, item, need_keys, &condition);

		if (e < 0)
			return e;
		add_need(to, name, condition);
	}
	return 0;
}

/* --- healthcheck ----------------------------------------------------------------------------- */

/* A text is a line for a shell; the kinds of lists are HEALTHCHECK's. */
READER(read_test)
{
	struct compose_service *s = to;
	auto_strv struct strv words = STRV_INIT;
	int e = compose_read_texts(r, at, v, &words);

	if (e < 0)
		return e;
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
		return compose_wrong(r, at, "expected [CMD, WORD...], [CMD-SHELL, LINE] or [NONE]");
	strv_add(&s->test, "/bin/sh");
	strv_add(&s->test, "-c");
	strv_add(&s->test, words.v[words.n - 1]);
	return 0;
}

static const struct compose_key check_keys[] = { { "test", read_test },
	{ "interval", read_interval }, { "timeout", read_timeout }, { "retries", read_retries },
	{ "start_period", read_start_period }, { "start_interval", read_start_interval },
	{ "disable", read_no_check }, { 0 } };

READER(read_healthcheck)
{
	((struct compose_service *)to)->has_check = 1;
	return compose_read_map(r, at, v, check_keys, to);
}

/* --- the rest -------------------------------------------------------------------------------- */

READER(read_restart)
{
	static const char *const words[] = { [COMPOSE_NO_RESTART] = "no",
		[COMPOSE_ON_FAILURE] = "on-failure",
		[COMPOSE_ALWAYS] = "always" };
	struct compose_service *s = to;
	auto_free char *text = NULL;
	char *colon, *end = NULL;
	int e = compose_read_text(r, at, v, &text);

	if (e < 0)
		return e;
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
	return compose_wrong(r, at,
		"expected no, on-failure, on-failure:TIMES, always or unless-stopped, not '%s%s%s'",
		text, colon ? ":" : "", colon ? colon + 1 : "");
}

READER(read_stop_signal)
{
	struct compose_service *s = to;
	auto_free char *text = NULL;
	int e = compose_read_text(r, at, v, &text);

	if (e < 0)
		return e;
	s->stop_signal = signal_number(text);
	return s->stop_signal > 0 ? 0 : compose_wrong(r, at, "unknown signal '%s'", text);
}

static const struct compose_key deploy_keys[] = { { "replicas", read_replicas }, { 0 } };

READER(read_deploy)
{

	return compose_read_map(r, at, v, deploy_keys, to);
}

#define NETWORKS "services use the host's network and meet at localhost, by their names, too"

const struct compose_key compose_service_keys[] = {
	{ "image", read_image, NULL, REACH_FILES },
	{ "build", read_build, NULL, REACH_FILES, build_keys },
	{ "command", read_command, NULL, REACH_SERVERS },
	{ "entrypoint", read_entrypoint, NULL, REACH_SERVERS },
	{ "environment", read_environment, NULL, REACH_VARIABLES },
	{ "env_file", read_env_file, NULL, REACH_FILES, env_file_keys },
	{ "volumes", read_volumes, NULL, REACH_FILES, volume_keys },
	{ "tmpfs", read_tmpfs },
	{ "working_dir", read_working_dir },
	{ "user", read_user },
	{ "hostname", read_hostname },
	{ "read_only", read_read_only },
	{ "init", read_init },
	{ "ports", read_ports, NULL, REACH_SERVERS, port_keys },
	{ "expose", NULL },
	{ "network_mode", read_network_mode, NULL, REACH_SERVERS },
	{ "networks", NULL, NETWORKS },
	{ "links", NULL, NETWORKS },
	{ "depends_on", read_depends_on, NULL, REACH_NOTHING, need_keys },
	{ "healthcheck", read_healthcheck, NULL, REACH_SERVERS, check_keys },
	{ "restart", read_restart },
	{ "deploy", read_deploy, NULL, REACH_NOTHING, deploy_keys },
	{ "scale", read_replicas },
	{ "stop_grace_period", read_stop_ms },
	{ "stop_signal", read_stop_signal },
	{ "container_name", read_container_name },
	{ "secrets", NULL, "volumes: [./FILE:/run/secrets/NAME:ro]" },
	{ "configs", NULL, "volumes: [./FILE:/PATH:ro]" },
	{ "privileged", NULL, "mlrun has the caller's rights and no others" },
	{ 0 },
};

int compose_read_service(struct compose_reader *r, const struct compose_at *at, const json_t *v,
	struct compose_service *ret)
{
	int e;

	ret->replicas = 1;
	ret->stop_ms = -1;
	ret->line = compose_line(r, at);
	e = compose_read_map(r, at, v, compose_service_keys, ret);
	if (e < 0)
		return e;
	if (!ret->image && !ret->context)
		return compose_wrong(r, at, "neither image nor build says what it is");
	if (ret->container_name && ret->replicas > 1)
		return compose_wrong(r, at, "several replicas cannot have one container_name");
	return 0;
}
