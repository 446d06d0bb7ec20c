#include "oci/derive.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "base/path.h"
#include "oci/config.h"
#include "oci/json.h"
#include "oci/manifest.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct derivation {
	json_t *run; /* "config", borrowed */
	int has_cmd; /* the changes include a CMD */
};

/* Steals the value. */
static void set(json_t *obj, const char *key, json_t *value)
{
	if (!value || json_object_set_new(obj, key, value) < 0)
		mlr_oom();
}

/* Get a member that is an object or an array; make it if it is missing or null. */
static json_t *need(json_t *obj, const char *key, json_t *(*make)(void))
{
	json_t *v = json_object_get(obj, key);

	if (!json_is_object(v) && !json_is_array(v)) {
		set(obj, key, make());
		v = json_object_get(obj, key);
	}
	return v;
}

/* --- words ---------------------------------------------------------------- */

/* Read one word, without its quotes and backslashes: a"b c"d\ e is one word. NULL at the end. */
static int next_word(const char **text, char **ret, struct mlr_error *err)
{
	const char *s = *text + strspn(*text, " \t");
	char *word, *to, quote = '\0';

	*ret = NULL;
	if (!*s)
		return 0;
	word = to = xmalloc(strlen(s) + 1);
	for (; *s && (quote || !strchr(" \t", *s)); s++) {
		if (quote ? *s == quote : *s == '"' || *s == '\'') {
			quote = quote ? '\0' : *s;
			continue;
		}
		if (*s == '\\' && quote != '\'' && s[1])
			s++;
		*to++ = *s;
	}
	*to = '\0';
	*text = s;
	*ret = word;
	return quote ? mlr_fail(err, EINVAL, "a %c is not closed", quote) : 0;
}

typedef void (*put_fn)(json_t *run, const char *key, const char *value);

/* "K=V K2='v w'", or "K the rest of the line". */
static int each_pair(json_t *run, const char *text, put_fn put, struct mlr_error *err)
{
	size_t first = strcspn(text, "= \t");

	if (first == 0)
		return mlr_fail(err, EINVAL, "a name is missing");
	if (text[first] != '=') {
		auto_free char *key = xstrndup(text, first);
		const char *value = text + first + strspn(text + first, " \t");

		if (!*value)
			return mlr_fail(err, EINVAL, "'%s' has no value", key);
		put(run, key, value);
		return 0;
	}
	for (;;) {
		auto_free char *word = NULL;
		char *equals;
		int r = next_word(&text, &word, err);

		if (r < 0 || !word)
			return r;
		equals = strchr(word, '=');
		if (!equals || equals == word)
			return mlr_fail(err, EINVAL, "'%s' is not NAME=VALUE", word);
		*equals = '\0';
		put(run, word, equals + 1);
	}
}

/* --- instructions --------------------------------------------------------- */

static int is_instruction(const char *text, const char *word)
{
	size_t len = strlen(word);

	return strncasecmp(text, word, len) == 0 && strchr(" \t", text[len]);
}

static void put_env(json_t *run, const char *key, const char *value)
{
	auto_free char *text = xasprintf("%s=%s", key, value);
	json_t *env = json_object_get(run, "Env"), *v;
	size_t i;

	if (!json_is_array(env)) {
		set(run, "Env", json_array());
		env = json_object_get(run, "Env");
	}
	json_array_foreach(env, i, v) {
		const char *s = json_string_value(v);

		if (s && strncmp(s, text, strlen(key) + 1) == 0)
			break;
	}
	if (i < json_array_size(env))
		json_array_set_new(env, i, json_string(text));
	else
		json_array_append_new(env, json_string(text));
}

static void put_label(json_t *run, const char *key, const char *value)
{
	set(need(run, "Labels", json_object), key, json_string(value));
}

static int do_env(struct derivation *d, const char *text, struct mlr_error *err)
{
	return each_pair(d->run, text, put_env, err);
}

static int do_label(struct derivation *d, const char *text, struct mlr_error *err)
{
	return each_pair(d->run, text, put_label, err);
}

/* Parse ["a", "b"]; NULL if the text is something else. */
static json_t *words(const char *text)
{
	json_t *list = json_loads(text, 0, NULL), *v;
	size_t i;

	json_array_foreach(list, i, v)
		if (!json_is_string(v))
			break;
	if (json_is_array(list) && i == json_array_size(list))
		return list;
	json_decref(list);
	return NULL;
}

/* Parse a command: an array of words, or a line for the image's shell. */
static json_t *command(const struct derivation *d, const char *text)
{
	json_t *list = words(text), *shell = json_object_get(d->run, "Shell");

	if (list)
		return list;
	if (json_array_size(shell) == 0)
		return json_pack("[s, s, s]", "/bin/sh", "-c", text);
	list = json_copy(shell);
	json_array_append_new(list, json_string(text));
	return list;
}

static int do_cmd(struct derivation *d, const char *text, struct mlr_error *err)
{
	(void)err;
	set(d->run, "Cmd", command(d, text));
	return 0;
}

static int do_entrypoint(struct derivation *d, const char *text, struct mlr_error *err)
{
	(void)err;
	set(d->run, "Entrypoint", command(d, text));
	if (!d->has_cmd)
		json_object_del(d->run, "Cmd");
	return 0;
}

/* A relative directory is relative to the current one. */
static int do_workdir(struct derivation *d, const char *text, struct mlr_error *err)
{
	const char *was = json_string_value(json_object_get(d->run, "WorkingDir"));
	auto_free char *path =
		*text == '/' ? xstrdup(text) : xasprintf("/%s/%s", was ? was : "", text);
	auto_free char *clean = path_clean(path);

	(void)err;
	set(d->run, "WorkingDir", json_string(clean));
	return 0;
}

static int do_user(struct derivation *d, const char *text, struct mlr_error *err)
{
	if (strpbrk(text, " \t"))
		return mlr_fail(err, EINVAL, "invalid user '%s': use USER[:GROUP]", text);
	set(d->run, "User", json_string(text));
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

static int do_expose(struct derivation *d, const char *text, struct mlr_error *err)
{
	json_t *ports = need(d->run, "ExposedPorts", json_object);

	for (;;) {
		auto_free char *word = NULL;
		int r = next_word(&text, &word, err);

		if (r < 0 || !word)
			return r;
		if (expose(ports, word) < 0)
			return mlr_fail(err, EINVAL,
				"invalid port '%s': use PORT[-PORT][/tcp|udp|sctp]", word);
	}
}

static int put_volume(json_t *volumes, const char *path, struct mlr_error *err)
{
	if (path[0] != '/')
		return mlr_fail(err, EINVAL, "'%s' is not an absolute path", path);
	set(volumes, path, json_object());
	return 0;
}

static int do_volume(struct derivation *d, const char *text, struct mlr_error *err)
{
	json_auto_t *list = words(text);
	json_t *volumes = need(d->run, "Volumes", json_object), *v;
	int r = 0;
	size_t i;

	json_array_foreach(list, i, v) {
		r = put_volume(volumes, json_string_value(v), err);
		if (r < 0)
			return r;
	}
	while (!list && r == 0) {
		auto_free char *word = NULL;

		r = next_word(&text, &word, err);
		if (r < 0 || !word)
			return r;
		r = put_volume(volumes, word, err);
	}
	return r;
}

/* A signal's name or number, like kill(1)'s; systems differ in their names. */
static int do_stopsignal(struct derivation *d, const char *text, struct mlr_error *err)
{
	size_t digits = strspn(text, "0123456789");
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	int is_number = digits && !text[digits] && atoi(text) >= 1 && atoi(text) <= 64;

	if (!is_number &&
		(!isalpha((unsigned char)*name) ||
			name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-")]))
		return mlr_fail(err, EINVAL,
			"unknown signal '%s': use a name, SIGTERM, or a number, 15", text);
	set(d->run, "StopSignal", json_string(text));
	return 0;
}

static int do_shell(struct derivation *d, const char *text, struct mlr_error *err)
{
	json_t *list = words(text);

	if (json_array_size(list) == 0) {
		json_decref(list);
		return mlr_fail(
			err, EINVAL, "expected a JSON array, as in SHELL [\"/bin/bash\", \"-c\"]");
	}
	set(d->run, "Shell", list);
	return 0;
}

/* Add an instruction for builds from this image, unparsed. */
static int do_onbuild(struct derivation *d, const char *text, struct mlr_error *err)
{
	size_t len = strcspn(text, " \t");

	if (len == strlen(text))
		return mlr_fail(err, EINVAL, "expected an instruction, as in ONBUILD RUN make");
	if ((len == 7 && strncasecmp(text, "ONBUILD", 7) == 0) ||
		(len == 4 && strncasecmp(text, "FROM", 4) == 0))
		return mlr_fail(err, EINVAL, "%.*s may not follow ONBUILD", (int)len, text);
	json_array_append_new(need(d->run, "OnBuild", json_array), json_string(text));
	return 0;
}

/* Parse a duration like Go's time.ParseDuration(), "1m30s", "1.5h", "500ms", to nanoseconds; -1 for
 * an invalid or negative one. */
static json_int_t duration(const char *s)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 },
		{ "h", 3600e9 } };
	double sum = 0;

	if (strcmp(s, "0") == 0)
		return 0;
	do {
		size_t digits = strspn(s, "0123456789."), letters = strspn(s + digits, "nusmh"), i;
		double n = atof(s);

		for (i = 0; i < ARRAY_LEN(units); i++)
			if (strlen(units[i].name) == letters &&
				strncmp(units[i].name, s + digits, letters) == 0)
				break;
		if (digits == 0 || i == ARRAY_LEN(units))
			return -1;
		sum += n * units[i].ns;
		s += digits + letters;
	} while (*s);
	return sum < 9e18 ? (json_int_t)(sum + 0.5) : -1;
}

/* Parse one option, "--interval=30s" and so on, into the check. */
static int health_option(json_t *check, const char *word, struct mlr_error *err)
{
	static const struct {
		const char *name, *key;
		json_int_t min; /* except 0, which means the default */
	} known[] = { { "--interval=", "Interval", 1000000 }, { "--timeout=", "Timeout", 1000000 },
		{ "--start-period=", "StartPeriod", 1000000 },
		{ "--start-interval=", "StartInterval", 1000000 }, { "--retries=", "Retries", 1 } };

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		size_t len = strlen(known[i].name);
		const char *value = word + len;
		json_int_t n;

		if (strncmp(word, known[i].name, len) != 0)
			continue;
		n = strcmp(known[i].key, "Retries") != 0                ? duration(value)
			: *value && !value[strspn(value, "0123456789")] ? atoi(value)
									: -1;
		if (n < 0 || (n > 0 && n < known[i].min))
			return mlr_fail(err, EINVAL,
				"'%s': expected a time such as 30s or 1m30s, or a number of retries",
				word);
		set(check, known[i].key, json_integer(n));
		return 0;
	}
	return mlr_fail(err, EINVAL,
		"unknown option '%s': use --interval=, --timeout=, --start-period=, --start-interval=, "
		"--retries=",
		word);
}

/* Docker's format (moby's image specification, config.md, "Healthcheck"); OCI has no such member.
 */
static int do_healthcheck(struct derivation *d, const char *text, struct mlr_error *err)
{
	json_auto_t *check = json_object();
	json_t *test;

	while (strncmp(text, "--", 2) == 0) {
		auto_free char *word = NULL;
		int r = next_word(&text, &word, err);

		if (r == 0)
			r = health_option(check, word, err);
		if (r < 0)
			return r;
		text += strspn(text, " \t");
	}
	if (strcasecmp(text, "NONE") == 0) {
		set(check, "Test", json_pack("[s]", "NONE"));
	} else if (is_instruction(text, "CMD") && text[3] && text[3 + strspn(text + 3, " \t")]) {
		text += 3 + strspn(text + 3, " \t");
		test = words(text);
		if (test)
			json_array_insert_new(test, 0, json_string("CMD"));
		set(check, "Test", test ? test : json_pack("[s, s]", "CMD-SHELL", text));
	} else {
		return mlr_fail(err, EINVAL, "expected NONE or [OPTION...] CMD COMMAND");
	}
	set(d->run, "Healthcheck", take_ptr(&check));
	return 0;
}

static const struct {
	const char *word;
	int (*run)(struct derivation *d, const char *text, struct mlr_error *err);
} instructions[] = {
	{ "ENV", do_env },
	{ "LABEL", do_label },
	{ "CMD", do_cmd },
	{ "ENTRYPOINT", do_entrypoint },
	{ "WORKDIR", do_workdir },
	{ "USER", do_user },
	{ "EXPOSE", do_expose },
	{ "VOLUME", do_volume },
	{ "HEALTHCHECK", do_healthcheck },
	{ "STOPSIGNAL", do_stopsignal },
	{ "SHELL", do_shell },
	{ "ONBUILD", do_onbuild },
};

static int change(struct derivation *d, const char *text, struct mlr_error *err)
{
	/* JSON cannot represent text that is not UTF-8. */
	json_auto_t *probe = json_string(text);

	for (size_t i = 0; i < ARRAY_LEN(instructions); i++) {
		const char *word = instructions[i].word, *rest;

		if (!is_instruction(text, word))
			continue;
		rest = text + strlen(word);
		rest += strspn(rest, " \t");
		if (!*rest)
			return mlr_fail(err, EINVAL, "'%s': missing arguments", text);
		if (!probe)
			return mlr_fail(err, EINVAL, "'%s': it is not UTF-8", word);
		return instructions[i].run(d, rest, err);
	}
	return mlr_fail(err, EINVAL,
		"no instruction that can be changed: ENV, LABEL, CMD, ENTRYPOINT, WORKDIR, USER, EXPOSE, VOLUME, "
		"HEALTHCHECK, STOPSIGNAL, SHELL and ONBUILD are");
}

static int change_all(json_t *run, const struct strv *changes, struct mlr_error *err)
{
	struct derivation d = { run, 0 };

	for (size_t i = 0; changes && i < changes->n; i++)
		d.has_cmd |= is_instruction(changes->v[i], "CMD");
	for (size_t i = 0; changes && i < changes->n; i++) {
		int r = change(&d, changes->v[i], err);

		if (r < 0)
			return mlr_wrap(err, "change '%.200s'", changes->v[i]);
	}
	return 0;
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

static int add_history(
	json_t *root, size_t layers, const struct oci_derive *d, struct mlr_error *err)
{
	json_t *history = need(root, "history", json_array), *o = json_object();
	int r;

	if (fill_history(history, layers) < 0 || json_array_append_new(history, o) < 0)
		return mlr_fail(err, EPROTO, "\"history\" is not an array");
	r = add_text(o, "created", d->created, err);
	if (r == 0)
		r = add_text(o, "created_by", d->created_by, err);
	if (r == 0)
		r = add_text(o, "author", d->author, err);
	if (r == 0)
		r = add_text(o, "comment", d->comment, err);
	if (r == 0 && !d->diff_id)
		set(o, "empty_layer", json_true());
	return r;
}

int oci_derive_config(
	const char *json, size_t len, const struct oci_derive *d, char **ret, struct mlr_error *err)
{
	/* Docker's builder describes here the container in which it made the last layer. */
	static const char *const gone[] = { "container", "container_config", "docker_version", "id",
		"parent" };
	auto_call(oci_config_done) struct oci_config c = OCI_CONFIG_INIT;
	json_auto_t *root = NULL;
	int r = oci_config_parse(json, len, &c, err);

	if (r == 0)
		r = oci_json_load(json, len, OCI_DOCUMENT_MAX, &root, err);
	if (r == 0)
		r = change_all(need(root, "config", json_object), d->changes, err);
	if (r == 0)
		r = add_text(root, "created", d->created, err);
	if (r == 0)
		r = add_text(root, "author", d->author, err);
	if (r == 0)
		r = add_history(root, c.diff_ids.n, d, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(gone); i++)
		json_object_del(root, gone[i]);
	if (d->diff_id)
		json_array_append_new(
			need(need(root, "rootfs", json_object), "diff_ids", json_array),
			json_string(d->diff_id));
	*ret = json_dumps(root, JSON_COMPACT);
	if (!*ret)
		mlr_oom();
	return 0;
}
