#include "recipe/derive.h"

#include "base/json.h"
#include "oci/config.h"
#include "oci/json.h"
#include "oci/manifest.h"
#include "recipe/health.h"

struct derivation {
	json_t *root, *run; /* the document and its "config"; borrowed */
	const struct derive *d;
	int has_cmd; /* the changes include a CMD */
};

/* A change, with its expanded arguments. */
struct change {
	const struct instruction *in;
	struct strv args;
};

/* Steals the value. */
static void set(json_t *obj, const char *key, json_t *value)
{
	if (!value || json_object_set_new(obj, key, value) < 0)
		mlr_oom();
}

/* Get a member of the type that make() makes; make it if it is missing or, in a base image, of
 * another type. */
static json_t *need(json_t *obj, const char *key, json_t *(*make)(void))
{
	json_t *v = json_object_get(obj, key), *made = make();

	if (made && json_typeof(v ? v : json_null()) == json_typeof(made)) {
		json_decref(made);
		return v;
	}
	set(obj, key, made);
	return made;
}

/* --- instructions ---------------------------------------------------------- */

/* The member of "Env" that sets a name, or the array's size. */
static size_t find_env(json_t *env, const char *name)
{
	size_t i, len = strlen(name);
	json_t *v;

	json_array_foreach(env, i, v) {
		const char *s = json_string_value(v);

		if (s && strncmp(s, name, len) == 0 && s[len] == '=')
			break;
	}
	return i;
}

static int do_env(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	for (size_t i = 0; i + 1 < c->args.n; i += 2) {
		auto_free char *text = xasprintf("%s=%s", c->args.v[i], c->args.v[i + 1]);
		json_t *env;
		size_t at;

		if (!json_is_array(json_object_get(d->run, "Env")))
			set(d->run, "Env", json_array());
		env = json_object_get(d->run, "Env");
		at = find_env(env, c->args.v[i]);
		if (at < json_array_size(env))
			json_array_set_new(env, at, json_string(text));
		else
			json_array_append_new(env, json_string(text));
	}
	return 0;
}

static int do_label(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	json_t *labels = need(d->run, "Labels", json_object);

	for (size_t i = 0; i + 1 < c->args.n; i += 2)
		set(labels, c->args.v[i], json_string(c->args.v[i + 1]));
	return 0;
}

/* A command: the words of an array, or a line for the image's shell. */
static json_t *command(const struct derivation *d, const struct change *c)
{
	json_t *list, *shell = json_object_get(d->run, "Shell");

	if (c->in->is_json)
		return mlr_json_texts(&c->args);
	if (json_array_size(shell) == 0)
		return json_pack("[s, s, s]", "/bin/sh", "-c", c->args.v[0]);
	list = json_copy(shell);
	json_array_append_new(list, json_string(c->args.v[0]));
	return list;
}

static int do_cmd(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	set(d->run, "Cmd", command(d, c));
	return 0;
}

static int do_entrypoint(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	set(d->run, "Entrypoint", command(d, c));
	if (!d->has_cmd)
		json_object_del(d->run, "Cmd");
	return 0;
}

/* A relative directory is relative to the current one. */
static int do_workdir(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	const char *was = json_string_value(json_object_get(d->run, "WorkingDir"));
	const char *text = c->args.v[0];
	auto_free char *path =
		*text == '/' ? xstrdup(text) : xasprintf("/%s/%s", was ? was : "", text);
	auto_free char *clean = path_clean(path);

	if (!*text)
		return mlr_fail(err, EINVAL, "the directory is empty");
	set(d->run, "WorkingDir", json_string(clean));
	return 0;
}

static int do_user(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	if (!*c->args.v[0] || strpbrk(c->args.v[0], " \t"))
		return mlr_fail(
			err, EINVAL, "invalid user '%.100s': use USER[:GROUP]", c->args.v[0]);
	set(d->run, "User", json_string(c->args.v[0]));
	return 0;
}

/* Parse a port's number; *end is what follows it. -1 for an invalid one. */
static long port(const char *s, char **end)
{
	long n = isdigit((unsigned char)*s) ? strtol(s, end, 10) : -1;

	return n >= 1 && n <= 65535 ? n : -1;
}

/* Add a port or a range, "80", "443/udp", "8000-8010/tcp": one member "80/tcp" each. */
static int expose(json_t *ports, const char *word)
{
	static const char *const protocols[] = { "tcp", "udp", "sctp" };
	const char *protocol = NULL;
	char *end = NULL;
	long first = port(word, &end), last = first;

	if (first >= 0 && *end == '-')
		last = port(end + 1, &end);
	if (first < 0 || last < first || (*end && *end != '/'))
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_LEN(protocols); i++)
		if (strcasecmp(*end ? end + 1 : "tcp", protocols[i]) == 0)
			protocol = protocols[i];
	if (!protocol)
		return -EINVAL;
	for (long n = first; n <= last; n++) {
		auto_free char *key = xasprintf("%ld/%s", n, protocol);

		set(ports, key, json_object());
	}
	return 0;
}

static int do_expose(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	json_t *ports = need(d->run, "ExposedPorts", json_object);

	for (size_t i = 0; i < c->args.n; i++)
		if (expose(ports, c->args.v[i]) < 0)
			return mlr_fail(err, EINVAL,
				"invalid port '%.100s': use PORT[-PORT][/tcp|udp|sctp]",
				c->args.v[i]);
	return 0;
}

static int do_volume(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	json_t *volumes = need(d->run, "Volumes", json_object);

	for (size_t i = 0; i < c->args.n; i++) {
		if (c->args.v[i][0] != '/')
			return mlr_fail(
				err, EINVAL, "'%.200s' is not an absolute path", c->args.v[i]);
		set(volumes, c->args.v[i], json_object());
	}
	return 0;
}

/* A signal's name or number, like kill(1)'s; systems differ in their names. */
static int do_stopsignal(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	const char *text = c->args.v[0];
	size_t digits = strspn(text, "0123456789");
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	int is_number = digits && !text[digits] && atoi(text) >= 1 && atoi(text) <= 64;

	if (!is_number &&
		(!isalpha((unsigned char)*name) ||
			name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-")]))
		return mlr_fail(err, EINVAL,
			"unknown signal '%.100s': use a name, SIGTERM, or a number, 15", text);
	set(d->run, "StopSignal", json_string(text));
	return 0;
}

static int do_shell(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	set(d->run, "Shell", mlr_json_texts(&c->args));
	return 0;
}

/* Add an instruction for builds from this image, unparsed. */
static int do_onbuild(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	json_array_append_new(need(d->run, "OnBuild", json_array), json_string(c->args.v[0]));
	return 0;
}

static int do_healthcheck(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	set(d->run, "Healthcheck", health_config(c->in));
	return 0;
}

static int do_maintainer(struct derivation *d, const struct change *c, struct mlr_error *err)
{
	set(d->root, "author", json_string(c->args.v[0]));
	return 0;
}

static int (*const acts[INSTRUCTION_WORDS])(
	struct derivation *d, const struct change *c, struct mlr_error *err) = {
	[INSTRUCTION_CMD] = do_cmd,
	[INSTRUCTION_ENTRYPOINT] = do_entrypoint,
	[INSTRUCTION_ENV] = do_env,
	[INSTRUCTION_EXPOSE] = do_expose,
	[INSTRUCTION_HEALTHCHECK] = do_healthcheck,
	[INSTRUCTION_LABEL] = do_label,
	[INSTRUCTION_MAINTAINER] = do_maintainer,
	[INSTRUCTION_ONBUILD] = do_onbuild,
	[INSTRUCTION_SHELL] = do_shell,
	[INSTRUCTION_STOPSIGNAL] = do_stopsignal,
	[INSTRUCTION_USER] = do_user,
	[INSTRUCTION_VOLUME] = do_volume,
	[INSTRUCTION_WORKDIR] = do_workdir,
};

static int parse_line(const char *line, struct instruction *ret, struct mlr_error *err)
{
	int r = instruction_parse(line, '\\', ret, err);

	TRY(r);
	if (!acts[ret->word])
		r = mlr_fail(err, EINVAL,
			"--change does not support %s; use CMD, ENTRYPOINT, ENV, EXPOSE, HEALTHCHECK, LABEL, MAINTAINER, ONBUILD, "
			"SHELL, STOPSIGNAL, USER, VOLUME or WORKDIR",
			instruction_name(ret->word));
	if (r == 0)
		r = instruction_check(ret, '\\', err);
	if (r < 0)
		instruction_done(ret);
	return r;
}

int derive_parse(
	const struct strv *lines, struct instruction **ret, size_t *n, struct mlr_error *err)
{
	for (size_t i = 0; lines && i < lines->n; i++) {
		struct instruction in;
		int r = parse_line(lines->v[i], &in, err);

		if (r < 0)
			return mlr_wrap(err, "change '%.200s'", lines->v[i]);
		*xadd(*ret, *n) = in;
	}
	return 0;
}

/* A variable: of the new configuration, else the caller's. */
static const char *variable(void *derivation, const char *name)
{
	const struct derivation *d = derivation;
	json_t *env = json_object_get(d->run, "Env");
	const char *s = json_string_value(json_array_get(env, find_env(env, name)));

	if (s)
		return s + strlen(name) + 1;
	return d->d->get ? d->d->get(d->d->ctx, name) : NULL;
}

static int change(struct derivation *d, const struct instruction *in, struct mlr_error *err)
{
	const struct expand e = { d->d->escape ? d->d->escape : '\\', 0, variable, d };
	struct change c = { in, STRV_INIT };
	int r = instruction_expand(in, &e, &c.args, err);

	if (r == 0)
		r = acts[in->word](d, &c, err);
	strv_done(&c.args);
	return r < 0 ? mlr_wrap(err, "change '%.200s'", in->text) : 0;
}

static int change_all(json_t *root, const struct derive *d, struct mlr_error *err)
{
	struct derivation m = { root, need(root, "config", json_object), d, d->keep_cmd };
	int r = 0;

	for (size_t i = 0; i < d->n_changes; i++)
		m.has_cmd |= d->changes[i].word == INSTRUCTION_CMD;
	if (d->drop_triggers)
		json_object_del(m.run, "OnBuild");
	for (size_t i = 0; i < d->n_changes && r == 0; i++)
		r = change(&m, &d->changes[i], err);
	return r;
}

/* --- the document --------------------------------------------------------- */

static int add_text(json_t *o, const char *key, const char *text, struct mlr_error *err)
{
	json_t *v = text ? json_string(text) : NULL;

	if (text && !v)
		return mlr_fail(err, EINVAL, "the %s is not UTF-8", key);
	if (v)
		set(o, key, v);
	return 0;
}

/* Complete the history: it must have an entry for every layer. */
static int fill_history(json_t *history, size_t layers)
{
	json_t *v;
	size_t i, told = 0;

	json_array_foreach(history, i, v)
		told += !json_is_true(json_object_get(v, "empty_layer"));
	for (; told < layers; told++)
		if (json_array_append_new(
			    history, json_pack("{s:s}", "created_by", "not recorded")) < 0)
			return -1;
	return 0;
}

static int add_history(json_t *root, size_t layers, const struct derive *d, struct mlr_error *err)
{
	json_t *history = need(root, "history", json_array), *o = json_object();

	if (fill_history(history, layers) < 0 || json_array_append_new(history, o) < 0)
		return mlr_fail(err, EPROTO, "\"history\" is not an array");
	TRY(add_text(o, "created", d->created, err));
	TRY(add_text(o, "created_by", d->created_by, err));
	TRY(add_text(o, "author", d->author, err));
	TRY(add_text(o, "comment", d->comment, err));
	if (!d->diff_id)
		set(o, "empty_layer", json_true());
	return 0;
}

int derive_config(
	const char *json, size_t len, const struct derive *d, char **ret, struct mlr_error *err)
{
	/* Docker's builder describes here the container in which it made the last layer. */
	static const char *const gone[] = { "container", "container_config", "docker_version", "id",
		"parent" };
	auto_call(oci_config_done) struct oci_config c = { 0 };
	json_auto_t *root = NULL;

	TRY(oci_config_parse(json, len, &c, err));
	TRY(oci_json_load(json, len, OCI_DOCUMENT_MAX, &root, err));
	TRY(change_all(root, d, err));
	TRY(add_text(root, "created", d->created, err));
	TRY(add_text(root, "author", d->author, err));
	TRY(add_history(root, c.diff_ids.n, d, err));
	for (size_t i = 0; i < ARRAY_LEN(gone); i++)
		json_object_del(root, gone[i]);
	if (d->diff_id)
		json_array_append_new(
			need(need(root, "rootfs", json_object), "diff_ids", json_array),
			json_string(d->diff_id));
	*ret = mlr_json_print(take_ptr(&root), JSON_COMPACT);
	return 0;
}
