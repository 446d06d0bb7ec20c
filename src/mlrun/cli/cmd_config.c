/* mlrun config: prints the settings in effect and their source. */
#include "cli/cli.h"
#include "cli/options.h"

#include "base/escape.h"
#include "base/config.h"
#include "base/json.h"
#include "store/stores.h"

#define REGISTRY "registry"
#define NOT_SET  1 /* exit status: the requested setting has no value */

struct args {
	const char *key;
	int json;
};

static void check(void *args, struct argp_state *state)
{
	const struct args *a = args;

	if (a->key && a->json)
		argp_error(state, "--json prints all settings, a KEY one value");
}

static const struct option_row options[] = { CLI_OPTION_JSON(struct args), { 0 } };
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "[KEY]",
	.s.doc =
		"Print the settings in effect, each with its source: file and line, environment variable, or default; or print the value of one.\v"
		"KEY is store, exec.pull, registry.HOST.mirror and so on. The exit status is 1 if it is not set.",
	.no_store = 1,
	.s.operands = { OPT(struct args, key) },
	.s.surplus =
		"expected at most one KEY; a setting is a line of ~/.config/mlrun/mlrun.conf, mlrun.conf(5)",
	.s.check = check,
};

/* A value of a setting. */
struct said {
	char *value, *where; /* "FILE:LINE", "MLRUN_PULL", or NULL for a default */
	const char *origin;  /* "site", "config", "environment", "default" */
};

/* A setting of one section with its values; only a list has several. */
struct setting {
	const char *section; /* "", "exec", "registry quay.io": borrowed */
	const struct config_key *key;
	struct said *v;
	size_t n;
};

struct settings {
	struct setting *v;
	size_t n;
};

static void drop_values(struct setting *s)
{
	for (; s->n > 0; s->n--) {
		free(s->v[s->n - 1].value);
		free(s->v[s->n - 1].where);
	}
}

static void settings_done(struct settings *s)
{
	for (size_t i = 0; i < s->n; i++) {
		drop_values(&s->v[i]);
		free(s->v[i].v);
	}
	free(s->v);
}

static void say(struct setting *s, const char *value, const char *origin, char *take_where)
{
	if (!s->key->is_list)
		drop_values(s);
	s->v = xreallocarray(s->v, s->n + 1, sizeof(*s->v));
	s->v[s->n++] = (struct said){ xstrdup(value), take_where, origin };
}

/* Add each of a list of directories separated by ':'. */
static void say_all(struct setting *s, const char *value, const char *origin, const char *where)
{
	auto_free char *copy = xstrdup(value);
	char *at = NULL;

	if (s->key->kind != CONFIG_PATHS) {
		say(s, value, origin, xstrdup(where));
		return;
	}
	for (char *w = strtok_r(copy, ":", &at); w; w = strtok_r(NULL, ":", &at))
		say(s, w, origin, xstrdup(where));
}

static int is_it(const struct config_value *v, const struct setting *s)
{
	return strcasecmp(v->section, s->section) == 0 && strcmp(v->key, s->key->key) == 0;
}

/* The store's path has rules of its own. */
static int fill_store(const struct config *c, struct setting *s, struct mlr_error *err)
{
	auto_free char *path = NULL, *by = NULL;
	const struct config_value *v = config_get(c, "", "store");

	TRY(store_place(c, &path, &by, err));
	if (strcmp(by, "MLRUN_STORE") == 0 || strcmp(by, "XDG_DATA_HOME") == 0)
		say(s, path, "environment", take_ptr(&by));
	else if (v)
		say(s, path, config_origin(v), take_ptr(&by));
	else
		say(s, path, "default", NULL);
	return 0;
}

static int fill(const struct config *c, struct setting *s, struct mlr_error *err)
{
	const char *env = s->key->variable ? getenv(s->key->variable) : NULL;

	if (!*s->section && strcmp(s->key->key, "store") == 0)
		return fill_store(c, s, err);
	if (env && (*env || s->key->is_list)) { /* set but empty: no value */
		auto_free char *judged =
			s->key->is_list ? xstrdup(env) : config_judge(s->key->kind, env, err);

		if (!judged)
			return mlr_wrap(err, "environment variable %s", s->key->variable);
		say_all(s, judged, "environment", s->key->variable);
		return 0;
	}
	if (s->key->standard)
		say(s, s->key->standard, "default", NULL);
	for (size_t i = 0; i < c->n; i++)
		if (is_it(&c->v[i], s)) {
			auto_free char *where = xasprintf("%s:%d", c->v[i].file, c->v[i].line);

			say_all(s, c->v[i].value, config_origin(&c->v[i]), where);
		}
	return 0;
}

static int add_section(const struct config *c, const char *section, const char *kind,
	struct settings *ret, struct mlr_error *err)
{
	size_t n;
	const struct config_key *keys = config_keys(&n);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(keys[i].section, kind) != 0)
			continue;
		ret->v = xreallocarray(ret->v, ret->n + 1, sizeof(*ret->v));
		ret->v[ret->n] = (struct setting){ .section = section, .key = &keys[i] };
		TRY(fill(c, &ret->v[ret->n++], err));
	}
	return 0;
}

static int has_section(const struct settings *s, const char *section)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcasecmp(s->v[i].section, section) == 0)
			return 1;
	return 0;
}

static int collect(const struct config *c, struct settings *ret, struct mlr_error *err)
{
	static const char *const sections[] = { "", "exec", "build", "mpi", "apptainer" };

	for (size_t i = 0; i < ARRAY_LEN(sections); i++)
		TRY(add_section(c, sections[i], sections[i], ret, err));
	for (size_t i = 0; i < c->n; i++)
		if (strncmp(c->v[i].section, REGISTRY " ", strlen(REGISTRY " ")) == 0 &&
			!has_section(ret, c->v[i].section))
			TRY(add_section(c, c->v[i].section, REGISTRY, ret, err));
	return 0;
}

/* Print a setting as in the file, so that the output could be one. Registries' defaults are
 * omitted. */
static void print_setting(const struct setting *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct said *v = &s->v[i];
		auto_free char *line = xasprintf("%s = %s", s->key->key, v->value);

		if (*s->section && strncmp(s->section, REGISTRY, strlen(REGISTRY)) == 0 &&
			!v->where)
			continue;
		escape_print(stdout, line);
		printf("%*s ; ", strlen(line) < 48 ? 48 - (int)strlen(line) : 0, "");
		cli_print_line(v->where ? v->where : v->origin);
	}
	if (s->n == 0 && strncmp(s->section, REGISTRY, strlen(REGISTRY)) != 0)
		printf("# %s is not set\n", s->key->key);
}

static void print_text(const struct settings *s)
{
	const char *section = "";

	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->v[i].section, section) != 0) {
			section = s->v[i].section;
			fputs("\n[", stdout);
			escape_print(stdout, section);
			fputs("]\n", stdout);
		}
		print_setting(&s->v[i]);
	}
}

static json_t *said_json(const struct said *v)
{
	return json_pack("{s:o, s:s, s:o}", "value", mlr_json_text(v->value), "origin", v->origin,
		"where", mlr_json_text(v->where));
}

static json_t *setting_json(const struct setting *s)
{
	return json_pack("{s:o, s:s, s:b, s:s?, s:o}", "section", mlr_json_text(s->section), "key",
		s->key->key, "list", s->key->is_list, "variable", s->key->variable, "values",
		MLR_JSON_LIST(j, s->n, said_json(&s->v[j])));
}

static int print_json(const struct settings *s)
{
	auto_strv struct strv files = STRV_INIT;

	config_files(&files);
	return cli_print_json(json_pack("{s:o, s:o}", "files",
		MLR_JSON_LIST(i, files.n,
			json_pack("{s:o, s:b}", "path", mlr_json_text(files.v[i]), "exists",
				access(files.v[i], F_OK) == 0)),
		"settings", MLR_JSON_LIST(i, s->n, setting_json(&s->v[i]))));
}

/* Is name "exec.pull", "registry.quay.io:443.mirror"? A key outside of registries is unique without
 * its section. */
static int is_named(const struct config_key *key, const char *section, const char *name)
{
	auto_free char *dotted = NULL;

	if (strcmp(key->section, REGISTRY) != 0 && strcmp(key->key, name) == 0)
		return 1;
	dotted = xasprintf("%s%s%s", section, *section ? "." : "", key->key);
	if (strchr(dotted, ' '))
		*strchr(dotted, ' ') = '.';
	return strcasecmp(dotted, name) == 0;
}

/* Is it a registry's setting that is not in the configuration? */
static int is_unsaid(const char *name)
{
	const char *dot = strrchr(name, '.');
	size_t n;
	const struct config_key *keys = config_keys(&n);

	for (size_t i = 0; dot && i < n; i++)
		if (strcmp(keys[i].section, REGISTRY) == 0 && strcmp(keys[i].key, dot + 1) == 0 &&
			strncasecmp(name, REGISTRY ".", strlen(REGISTRY ".")) == 0 &&
			dot > name + strlen(REGISTRY "."))
			return 1;
	return 0;
}

static int print_one(const struct settings *s, const char *name)
{
	struct mlr_error err = MLR_ERROR_INIT;

	for (size_t i = 0; i < s->n; i++) {
		if (!is_named(s->v[i].key, s->v[i].section, name))
			continue;
		for (size_t j = 0; j < s->v[i].n; j++)
			puts(s->v[i].v[j].value); /* for scripts: unquoted */
		return s->v[i].n > 0 ? 0 : NOT_SET;
	}
	if (is_unsaid(name))
		return NOT_SET;
	mlr_fail(&err, EINVAL, "config: mlrun knows no setting '%s'", name);
	mlr_hint(&err, "mlrun config lists them; mlrun.conf(5) explains them");
	return cli_fail(&err);
}

int cmd_config(int argc, char **argv)
{
	auto_call(config_done) struct config c = { 0 };
	auto_call(settings_done) struct settings s = { NULL, 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct args a = { 0 };

	cli_options_parse(argc, argv, &syntax, &a);
	if (config_load(&c, &err) < 0 || collect(&c, &s, &err) < 0)
		return cli_fail(&err);
	if (a.key)
		return print_one(&s, a.key);
	if (a.json)
		return print_json(&s);
	print_text(&s);
	return 0;
}
