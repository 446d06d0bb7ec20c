/* One service of a compose file (05-services.md of the specification). */
#include "compose/parts.h"

#include "base/proc.h"

#define ENV_FILE_MAX (1u << 20) /* bytes */

#define AT(member) RECORD_AT(struct compose_service, member)

/* --- build ----------------------------------------------------------------------------------- */

static const struct record_row build_rows[] = {
	{ "context", RECORD_TEXT, AT(context), .reach = REACH_FILES },
	{ "dockerfile", RECORD_TEXT, AT(dockerfile), .reach = REACH_FILES },
	{ "args", RECORD_TEXTS, AT(build_args), .read = compose_read_pairs },
	{ "target", RECORD_TEXT, AT(target) },
	{ "dockerfile_inline", RECORD_TEXT, AT(recipe) },
	{ NULL },
};

static int read_build(const struct record_reader *r, const json_t *v, void *to)
{
	struct compose_service *s = to;
	char *whole;

	TRY(compose_read_one(r, build_rows, v, s, &s->context));
	if (!s->context)
		s->context = xstrdup(".");
	if (strstr(s->context, "://"))
		return record_wrong(r, "'%s' is no directory of this machine", s->context);
	if (s->dockerfile && s->recipe)
		return record_wrong(r, "dockerfile and dockerfile_inline exclude each other");
	whole = compose_absolute(r, s->context);
	set_ptr(&s->context, whole);
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
	if (compose_env_parse(text, path, c->wish->look, c->wish->ctx, &pairs, &why) < 0)
		return record_wrong(r, "%s", why.text);
	for (size_t i = 0; i < pairs.n; i++) {
		char *eq = strchr(pairs.v[i], '=');

		*eq = '\0';
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
	{ "format", RECORD_OWN },
	{ NULL },
};

static int read_one_env_file(const struct record_reader *r, const json_t *v, void *to)
{
	struct env_file f = { NULL, 1 };
	int e = compose_read_one(r, env_file_rows, v, &f, &f.path);

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

/* --- networks --------------------------------------------------------------------------------- */

/* Of the networks only "none" differs from what services have: this machine's. */
static int read_network_mode(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;

	TRY(record_text(r, v, &text));
	if (strcmp(text, "none") == 0)
		strv_add(&((struct compose_service *)to)->options, "--net=none");
	else if (strcmp(text, "host") != 0)
		compose_ignore(r, "network_mode");
	return 0;
}

static int add_host(const struct record_reader *r, const char *name, struct compose_service *s)
{
	if (!*name || name[strcspn(name, " \t\r\n#")])
		return record_wrong(r, "invalid name '%s' of a host", name);
	strv_add(&s->hosts, name);
	return 0;
}

static int read_alias(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *name = NULL;

	TRY(record_text(r, v, &name));
	return add_host(r, name, to);
}

static const struct record_row network_rows[] = {
	{ "aliases", RECORD_OWN, .flags = RECORD_EACH, .read = read_alias },
	{ "ipv4_address", RECORD_OWN },
	{ "ipv6_address", RECORD_OWN },
	{ "priority", RECORD_OWN },
	{ "mac_address", RECORD_OWN },
	{ NULL },
};

static int read_network(const struct record_reader *r, const char *name, const json_t *v, void *to)
{
	return json_is_null(v) ? 0 : record_read(r, network_rows, v, to);
}

static int read_networks(const struct record_reader *r, const json_t *v, void *to)
{
	compose_ignore(r, "networks");
	return json_is_object(v) ? compose_read_keys(r, v, read_network, to) : 0;
}

/* "SERVICE:ALIAS" */
static int read_link(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;
	const char *colon;

	TRY(record_text(r, v, &text));
	colon = strchr(text, ':');
	return colon ? add_host(r, colon + 1, to) : 0;
}

static int add_extra_host(
	const struct record_reader *r, const char *name, const char *address, void *to)
{
	if (strcmp(address, "host-gateway") == 0 || strncmp(address, "127.", 4) == 0)
		return add_host(r, name, to);
	compose_ignore(r, "extra_hosts");
	return 0;
}

static int read_named_host(
	const struct record_reader *r, const char *name, const json_t *v, void *to)
{
	auto_free char *address = NULL;

	TRY(record_text(r, v, &address));
	return add_extra_host(r, name, address, to);
}

/* "NAME:ADDRESS" or "NAME=ADDRESS" */
static int read_extra_host(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;
	char *address;

	TRY(record_text(r, v, &text));
	address = text + strcspn(text, ":=");
	if (!*address)
		return record_wrong(r, "'%s' has no address", text);
	*address++ = '\0';
	return add_extra_host(r, text, address, to);
}

static int read_extra_hosts(const struct record_reader *r, const json_t *v, void *to)
{
	return json_is_object(v) ? compose_read_keys(r, v, read_named_host, to)
				 : record_each(r, v, read_extra_host, to);
}

/* --- depends_on ------------------------------------------------------------------------------ */

static void add_need(struct compose_service *s, const char *name, struct compose_need need)
{
	need.service = xstrdup(name);
	*xadd(s->needs, s->n_needs) = need;
}

static int read_need(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *name = NULL;

	TRY(record_text(r, v, &name));
	add_need(to, name, (struct compose_need){ .condition = COMPOSE_STARTED, .required = 1 });
	return 0;
}

static const char *const conditions[] = { [COMPOSE_STARTED] = "service_started",
	[COMPOSE_HEALTHY] = "service_healthy",
	[COMPOSE_COMPLETED] = "service_completed_successfully" };
static const struct record_row need_rows[] = {
	{ "condition", RECORD_WORD, RECORD_AT(struct compose_need, condition),
		RECORD_WORDS(conditions) },
	{ "required", RECORD_FLAG, RECORD_AT(struct compose_need, required) },
	{ "restart", RECORD_FLAG, RECORD_AT(struct compose_need, restart) },
	{ NULL },
};

static int read_named_need(
	const struct record_reader *r, const char *name, const json_t *v, void *to)
{
	struct compose_need need = { .condition = COMPOSE_STARTED, .required = 1 };

	TRY(record_read(r, need_rows, v, &need));
	add_need(to, name, need);
	return 0;
}

static int read_depends_on(const struct record_reader *r, const json_t *v, void *to)
{
	return json_is_object(v) ? compose_read_keys(r, v, read_named_need, to)
				 : record_each(r, v, read_need, to);
}

/* "SERVICE[:ro|rw]", which starts before this one */
static int read_volumes_from(const struct record_reader *r, const json_t *v, void *to)
{
	struct compose_service *s = to;
	auto_free char *text = NULL, *name = NULL;
	const char *mode;

	TRY(record_text(r, v, &text));
	name = xstrndup(text, strcspn(text, ":"));
	mode = text + strlen(name);
	if (strcmp(name, "container") == 0 && *mode) {
		record_wrong(r, "'%s' is no service of the file", text);
		return mlr_hint(r->err, "write the container's directories into 'volumes'");
	}
	if (*mode && strcmp(mode, ":ro") != 0 && strcmp(mode, ":rw") != 0)
		return record_wrong(r, "unknown mode '%s': use ro or rw", mode + 1);
	add_need(s, name, (struct compose_need){ .condition = COMPOSE_STARTED, .required = 1 });
	strv_addf(&s->volumes_from, "%s%s", name, strcmp(mode, ":ro") == 0 ? mode : "");
	return 0;
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
	strv_add_words(&s->test, "/bin/sh", "-c", words.v[words.n - 1]);
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

/* --- limits and devices ---------------------------------------------------------------------- */

struct limit {
	char *soft, *hard;
};

static int read_limit(const struct record_reader *r, const char *name, const json_t *v, void *to)
{
	static const struct record_row rows[] = {
		{ "soft", RECORD_TEXT, RECORD_AT(struct limit, soft) },
		{ "hard", RECORD_TEXT, RECORD_AT(struct limit, hard) },
		{ NULL },
	};
	struct limit l = { NULL, NULL };
	int e = compose_read_one(r, rows, v, &l, &l.soft);

	if (e == 0 && !l.soft)
		e = record_wrong(r, "the key 'soft' is missing");
	if (e == 0)
		strv_addf(&((struct compose_service *)to)->options, "--ulimit=%s=%s%s%s", name,
			l.soft, l.hard ? ":" : "", l.hard ? l.hard : "");
	record_done(rows, &l);
	return e;
}

static int read_ulimits(const struct record_reader *r, const json_t *v, void *to)
{
	return compose_read_keys(r, v, read_limit, to);
}

static int read_device(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;

	TRY(record_text(r, v, &text));
	strv_addf(&((struct compose_service *)to)->options, "--device=%s", text);
	return 0;
}

struct gpus {
	char *count;
	struct strv ids, capabilities;
};

static const struct record_row gpu_rows[] = {
	{ "count", RECORD_TEXT, RECORD_AT(struct gpus, count) },
	{ "device_ids", RECORD_TEXTS, RECORD_AT(struct gpus, ids) },
	{ "capabilities", RECORD_TEXTS, RECORD_AT(struct gpus, capabilities) },
	{ "driver", RECORD_OWN },
	{ "options", RECORD_OWN },
	{ NULL },
};

/* The first `count` GPUs, those that are named, or all. */
static int add_gpus(const struct record_reader *r, const struct gpus *g, struct compose_service *s)
{
	/* And what NVIDIA's driver is divided into. */
	static const char *const of_gpus[] = { "gpu", "nvidia", "compute", "utility", "graphics",
		"video", "display", "compat32" };
	int is_gpu = g->capabilities.n == 0;
	auto_free char *ids = strv_join(&g->ids, g->ids.n, ",");
	int64_t n = g->count && strcmp(g->count, "all") != 0 ? strtol(g->count, NULL, 10) : -1;
	auto_strv struct strv first = STRV_INIT;

	for (size_t i = 0; i < ARRAY_LEN(of_gpus); i++)
		is_gpu |= strv_has(&g->capabilities, of_gpus[i]);
	if (!is_gpu)
		return record_wrong(r, "only GPUs can be had: capabilities: [gpu]");
	if (n > 64 || n == 0)
		return record_wrong(r, "invalid count '%s' of GPUs", g->count);
	for (int64_t i = 0; i < n; i++)
		strv_addf(&first, "%d", (int)i);
	if (g->ids.n == 0 && n > 0)
		set_ptr(&ids, strv_join(&first, first.n, ","));
	strv_addf(&s->options, "--gpu=%s", *ids ? ids : "all");
	return 0;
}

static int read_gpu(const struct record_reader *r, const json_t *v, void *to)
{
	struct gpus g = { NULL, STRV_INIT, STRV_INIT };
	int e = record_read(r, gpu_rows, v, &g);

	if (e == 0)
		e = add_gpus(r, &g, to);
	record_done(gpu_rows, &g);
	return e;
}

/* A text is a count. */
static int read_gpus(const struct record_reader *r, const json_t *v, void *to)
{
	struct gpus g = { NULL, STRV_INIT, STRV_INIT };
	int e;

	if (json_is_array(v))
		return record_each(r, v, read_gpu, to);
	e = record_text(r, v, &g.count);
	if (e == 0)
		e = add_gpus(r, &g, to);
	free(g.count);
	return e;
}

static int read_runtime(const struct record_reader *r, const json_t *v, void *to)
{
	auto_free char *text = NULL;

	TRY(record_text(r, v, &text));
	if (strcmp(text, "nvidia") == 0)
		strv_add(&((struct compose_service *)to)->options, "--gpu=auto");
	else
		compose_ignore(r, "runtime");
	return 0;
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

static const struct record_row reservation_rows[] = {
	{ "devices", RECORD_OWN, .rows = gpu_rows, .flags = RECORD_EACH, .read = read_gpu },
	{ NULL },
};
static const struct record_row resources_rows[] = {
	{ "reservations", RECORD_STRUCT, .rows = reservation_rows },
	{ NULL },
};
static const struct record_row deploy_rows[] = {
	{ "replicas", REPLICAS },
	{ "resources", RECORD_STRUCT, .rows = resources_rows },
	{ NULL },
};

/* What only Docker's daemon, its networks or its rights could do. */
static const char *const deploy_ignored[] = { "endpoint_mode", "labels", "mode", "placement",
	"restart_policy", "rollback_config", "update_config", NULL };
static const char *const resources_ignored[] = { "limits", NULL };
static const char *const reservations_ignored[] = { "cpus", "memory", "generic_resources", NULL };
static const char *const build_ignored[] = { "cache_from", "cache_to", "labels", "network",
	"no_cache", "platform", "platforms", "privileged", "provenance", "pull", "sbom", "shm_size",
	"tags", "ulimits", NULL };
static const char *const service_ignored[] = { "annotations", "attach", "blkio_config", "cap_add",
	"cap_drop", "cgroup", "cgroup_parent", "cpu_count", "cpu_percent", "cpu_period",
	"cpu_quota", "cpu_rt_period", "cpu_rt_runtime", "cpu_shares", "cpus", "cpuset",
	"credential_spec", "device_cgroup_rules", "develop", "dns", "dns_opt", "dns_search",
	"domainname", "group_add", "ipc", "isolation", "label_file", "labels", "logging",
	"mac_address", "mem_limit", "mem_reservation", "mem_swappiness", "memswap_limit",
	"oom_kill_disable", "oom_score_adj", "pid", "pids_limit", "platform", "privileged",
	"pull_policy", "security_opt", "shm_size", "stdin_open", "storage_opt", "sysctls", "tty",
	"userns_mode", "uts", NULL };

static void drop_ignored(const struct record_reader *r, const json_t *v)
{
	const json_t *deploy = json_object_get(v, "deploy"),
		     *resources = json_object_get(deploy, "resources");

	compose_drop(r, json_object_get(resources, "reservations"), reservations_ignored);
	compose_drop(r, resources, resources_ignored);
	compose_drop(r, deploy, deploy_ignored);
	compose_drop(r, json_object_get(v, "build"), build_ignored);
	compose_drop(r, v, service_ignored);
}

const struct record_row compose_service_rows[] = {
	{ "image", RECORD_TEXT, AT(image), .reach = REACH_FILES },
	{ "extends", RECORD_OWN, .reach = REACH_FILES },
	{ "build", RECORD_STRUCT, .rows = build_rows, .read = read_build, .reach = REACH_FILES },
	{ "command", RECORD_TEXTS, AT(command), .read = compose_read_words,
		.reach = REACH_SERVERS },
	{ "entrypoint", RECORD_OWN, .read = read_entrypoint, .reach = REACH_SERVERS },
	{ "environment", RECORD_TEXTS, AT(environment), .read = compose_read_pairs,
		.reach = REACH_VARIABLES },
	{ "env_file", RECORD_OWN, .rows = env_file_rows, .read = read_env_file,
		.reach = REACH_FILES },
	{ "volumes", RECORD_OWN, .rows = compose_volume_rows, .flags = RECORD_EACH,
		.read = compose_read_volume, .reach = REACH_FILES },
	{ "tmpfs", RECORD_TEXTS, AT(tmpfs), .flags = RECORD_OR_ONE },
	{ "working_dir", RECORD_TEXT, AT(working_dir) },
	{ "user", RECORD_TEXT, AT(user) },
	{ "hostname", RECORD_TEXT, AT(hostname) },
	{ "read_only", RECORD_FLAG, AT(read_only) },
	{ "init", RECORD_FLAG, AT(init) },
	{ "ports", RECORD_OWN, .rows = compose_port_rows, .read = compose_read_ports,
		.reach = REACH_SERVERS },
	{ "expose", RECORD_OWN },
	{ "network_mode", RECORD_OWN, .read = read_network_mode, .reach = REACH_SERVERS },
	{ "networks", RECORD_OWN, .rows = network_rows, .read = read_networks },
	{ "links", RECORD_OWN, .flags = RECORD_EACH, .read = read_link },
	{ "extra_hosts", RECORD_OWN, .read = read_extra_hosts },
	{ "depends_on", RECORD_OWN, .rows = need_rows, .read = read_depends_on },
	{ "healthcheck", RECORD_STRUCT, .rows = check_rows, .read = read_healthcheck,
		.reach = REACH_SERVERS },
	{ "restart", RECORD_OWN, .read = read_restart },
	{ "deploy", RECORD_STRUCT, .rows = deploy_rows },
	{ "scale", REPLICAS },
	{ "stop_grace_period", RECORD_OWN, AT(stop_ms), .read = compose_read_span },
	{ "stop_signal", RECORD_OWN, AT(stop_signal), .read = read_stop_signal },
	{ "container_name", RECORD_TEXT, AT(container_name) },
	{ "secrets", RECORD_OWN, .rows = compose_file_rows, .flags = RECORD_EACH,
		.read = compose_read_secret, .reach = REACH_FILES },
	{ "configs", RECORD_OWN, .rows = compose_file_rows, .flags = RECORD_EACH,
		.read = compose_read_config, .reach = REACH_FILES },
	{ "ulimits", RECORD_OWN, .read = read_ulimits },
	{ "devices", RECORD_OWN, .flags = RECORD_EACH, .read = read_device,
		.reach = REACH_DEVICES },
	{ "gpus", RECORD_OWN, .rows = gpu_rows, .read = read_gpus, .reach = REACH_DEVICES },
	{ "runtime", RECORD_OWN, .read = read_runtime },
	{ "volumes_from", RECORD_OWN, .flags = RECORD_EACH, .read = read_volumes_from },
	{ "external_links", RECORD_OWN,
		.refusal = "services of one file find each other by their names" },
	{ "post_start", RECORD_OWN, .refusal = "a service that depends on this one can do it" },
	{ "pre_stop", RECORD_OWN, .refusal = "have the command do it at 'stop_signal'" },
	{ "profiles", RECORD_TEXTS, AT(profiles) },
	{ NULL },
};

int compose_read_service(
	const struct record_reader *r, const json_t *v, struct compose_service *ret)
{
	ret->replicas = 1;
	ret->stop_ms = -1;
	drop_ignored(r, v);
	TRY(record_read(r, compose_service_rows, v, ret));
	if (ret->container_name)
		TRY(add_host(r, ret->container_name, ret));
	if (!ret->image && !ret->context)
		return record_wrong(r, "neither image nor build says what it is");
	if (ret->container_name && ret->replicas > 1)
		return record_wrong(r, "several replicas cannot have one container_name");
	return 0;
}
