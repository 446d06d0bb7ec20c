#include "compose/parts.h"

#include "base/base.h"
#include "base/spelling.h"

#define SERVICES_MAX 1000
#define LETTERS      "abcdefghijklmnopqrstuvwxyz"
#define DIGITS       "0123456789"

static void service_done(struct compose_service *s)
{
	record_done(compose_service_rows, s);
	free(s->name);
	strv_done(&s->entrypoint);
	strv_done(&s->volumes);
	strv_done(&s->options);
	strv_done(&s->hosts);
	strv_done(&s->test);
	for (size_t i = 0; i < s->n_needs; i++)
		free(s->needs[i].service);
	free(s->needs);
}

void compose_project_done(struct compose_project *p)
{
	for (size_t i = 0; i < p->n; i++)
		service_done(&p->services[i]);
	free(p->services);
	free(p->name);
	strv_done(&p->ignored);
	*p = (struct compose_project)COMPOSE_PROJECT_INIT;
}

int compose_is_project(const char *name)
{
	return *name && strlen(name) <= 63 && strchr(LETTERS DIGITS, *name) &&
		!name[strspn(name, LETTERS DIGITS "_-")];
}

/* --- the file -------------------------------------------------------------------------------- */

static int check_name(const struct record_reader *r, void *member)
{
	const char *name = *(char **)member;

	return compose_is_project(name)
		? 0
		: record_wrong(r,
			  "invalid name '%s': use small letters, digits, '_' and '-', first a letter or "
			  "digit",
			  name);
}

/* Replicas are named PROJECT-SERVICE-1. */
static int is_service_name(const char *name)
{
	return *name && strlen(name) <= 50 && name[0] != '.' && name[0] != '-' &&
		!name[strspn(name, LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "._-")];
}

/* Is one of the service's profiles asked for? */
static int is_wanted(const struct record_reader *r, const struct compose_service *s)
{
	const struct compose_reader *c = r->ctx;
	const char *asked = c->look(c->ctx, "COMPOSE_PROFILES");
	auto_free char *copy = xstrdup(asked ? asked : "");
	char *rest = copy, *word;
	int is_wanted = s->profiles.n == 0;

	while (!is_wanted && (word = strsep(&rest, ",")))
		is_wanted = strcmp(word, "*") == 0 || strv_has(&s->profiles, word);
	return is_wanted;
}

/* Note why a key of a service is refused, and take the key away: what else is wrong shows then.
 * Returns 0 where that cannot be. */
static int refuse_key(const struct record_reader *r, const char *service, const json_t *v)
{
	struct compose_reader *c = r->ctx;
	auto_free char *where = take_ptr(&c->where),
		       *key = where ? xstrndup(where, strcspn(where, ".")) : NULL;
	size_t line = c->line ? c->line : key ? mlr_yaml_line(&c->lines, v, key, 0) : 0;

	if (!key || json_object_del((json_t *)v, key) < 0) {
		c->where = take_ptr(&where);
		return 0;
	}
	mlr_wrap(r->err, "'%s' line %zu: services.%s.%s", c->file, line ? line : 1, service, where);
	strv_add(c->refused, r->err->text);
	c->line = 0;
	return 1;
}

static int read_service(const struct record_reader *r, const char *name, const json_t *v, void *to)
{
	const struct compose_reader *c = r->ctx;
	struct compose_project *p = to;
	struct compose_service s;
	size_t before = c->refused->n;
	int e;

	if (!is_service_name(name))
		return record_wrong(r, "invalid name of a service");
	if (p->n == SERVICES_MAX)
		return record_wrong(r, "more than %d services", SERVICES_MAX);
	do {
		s = (struct compose_service){ .name = xstrdup(name) };
		e = compose_read_service(r, v, &s);
		if (e == 0 && is_wanted(r, &s)) {
			p->services = xgrow(p->services, p->n, sizeof(*p->services));
			p->services[p->n++] = s;
			return 0;
		}
		service_done(&s);
	} while (e < 0 && refuse_key(r, name, v));
	/* That a key is missing may follow from what was refused. */
	return c->refused->n > before ? 0 : e;
}

static int read_services(const struct record_reader *r, const json_t *v, void *to)
{
	const struct compose_reader *c = r->ctx;
	struct compose_project *p = to;

	TRY(compose_read_keys(r, v, read_service, p));
	for (size_t i = 0; i < p->n; i++)
		p->services[i].line = mlr_yaml_line(&c->lines, v, p->services[i].name, 0);
	return 0;
}

static const struct record_row rows[] = {
	{ "version", RECORD_OWN }, /* informative, says the specification */
	{ "name", RECORD_TEXT, RECORD_AT(struct compose_project, name), .rule = check_name },
	{ "services", RECORD_OWN, .read = read_services },
	{ "networks", RECORD_OWN }, /* services use the machine's, and meet by their names */
	/* What these have is read where a service names it. */
	{ "volumes", RECORD_OWN, .reach = REACH_FILES },
	{ "secrets", RECORD_OWN, .reach = REACH_FILES },
	{ "configs", RECORD_OWN, .reach = REACH_FILES },
	{ NULL },
};

/* --- the order ------------------------------------------------------------------------------- */

static int index_of(const struct compose_project *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->services[i].name, name) == 0)
			return (int)i;
	return -1;
}

static int refuse_need(const struct record_reader *r, const struct compose_project *p,
	const struct compose_service *s, const char *name)
{
	struct spelling near = spelling_of(name, strlen(name));

	for (size_t i = 0; i < p->n; i++)
		spelling_try(&near, p->services[i].name);
	mlr_fail(r->err, EINVAL, "'%s' line %zu: services.%s.depends_on: there is no service '%s'",
		((const struct compose_reader *)r->ctx)->file, s->line, s->name, name);
	return near.near ? mlr_hint(r->err, "is %s meant?", near.near) : -EINVAL;
}

enum { UNSEEN, BEGUN, PLACED };

/* Place a service behind all that it needs. The depth is that of the longest chain, at most
 * SERVICES_MAX. */
static int visit(const struct record_reader *r, const struct compose_project *p, size_t at,
	int *seen, size_t *order, size_t *n)
{
	const struct compose_service *s = &p->services[at];

	if (seen[at] == PLACED)
		return 0;
	if (seen[at] == BEGUN)
		return mlr_fail(r->err, EINVAL,
			"'%s' line %zu: services.%s.depends_on: it needs itself, directly or by others",
			((const struct compose_reader *)r->ctx)->file, s->line, s->name);
	seen[at] = BEGUN;
	for (size_t i = 0; i < s->n_needs; i++) {
		int need = index_of(p, s->needs[i].service),
		    e = need < 0 && !s->needs[i].required ? 0
			: need < 0 ? refuse_need(r, p, s, s->needs[i].service)
				   : visit(r, p, (size_t)need, seen, order, n);

		if (e < 0)
			return e;
	}
	seen[at] = PLACED;
	order[(*n)++] = at;
	return 0;
}

static int sort(const struct record_reader *r, struct compose_project *p)
{
	auto_free int *seen = xcalloc(p->n + 1, sizeof(*seen));
	auto_free size_t *order = xcalloc(p->n + 1, sizeof(*order));
	struct compose_service *sorted;
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++) {
		int e = visit(r, p, i, seen, order, &n);

		if (e < 0)
			return e;
	}
	sorted = xcalloc(p->n + 1, sizeof(*sorted));
	for (size_t i = 0; i < p->n; i++)
		sorted[i] = p->services[order[i]];
	free(p->services);
	p->services = sorted;
	return 0;
}

static int parse(const struct record_reader *r, const json_t *v, struct compose_project *p)
{
	struct compose_reader *c = r->ctx;
	static const char *const ignored[] = { "networks", "models", NULL };
	int e;

	c->top = v;
	compose_drop(r, v, ignored);
	e = record_read(r, rows, v, p);
	if (e == 0 && p->n == 0 && c->refused->n == 0)
		e = record_wrong(r, "it has no services");
	if (e == 0 && c->refused->n > 0) {
		auto_free char *last = take_ptr(&c->refused->v[--c->refused->n]);

		return mlr_pass(r->err, EINVAL, last);
	}
	if (e == 0)
		return sort(r, p);
	mlr_wrap(r->err, "'%s' line %zu%s%s", c->file, c->line ? c->line : 1, c->where ? ": " : "",
		c->where ? c->where : "");
	return e;
}

static int load(const char *text, size_t size, const char *file, struct mlr_yaml_lines *lines,
	json_t **ret, struct mlr_error *err)
{
	return mlr_yaml_load(text, size, MLR_YAML_TEXTS, lines, ret, err) < 0
		? mlr_wrap(err, "'%s'", file)
		: 0;
}

int compose_parse(const char *text, size_t size, const char *file, const char *directory,
	compose_lookup look, void *ctx, struct compose_project *ret, struct strv *refused,
	struct mlr_error *err)
{
	auto_call(compose_project_done) struct compose_project p = COMPOSE_PROJECT_INIT;
	struct compose_reader c = { .file = file,
		.directory = directory,
		.look = look,
		.ctx = ctx,
		.ignored = &p.ignored,
		.refused = refused };
	const struct record_reader r = {
		.manner = RECORD_ONLY | RECORD_OF_TEXTS | RECORD_NO_NULL | RECORD_X_KEYS,
		.ctx = &c,
		.err = err,
		.code = EINVAL,
		.expand = compose_expand,
		.place = compose_place,
	};
	json_auto_t *v = NULL;
	int e = load(text, size, file, &c.lines, &v, err);

	if (e == 0)
		e = parse(&r, v, &p);
	mlr_yaml_lines_done(&c.lines);
	free(c.where);
	if (e < 0)
		return e;
	*ret = p;
	p = (struct compose_project)COMPOSE_PROJECT_INIT;
	return 0;
}

int compose_parse_name(const char *text, size_t size, const char *file, compose_lookup look,
	void *ctx, char **ret, struct mlr_error *err)
{
	json_auto_t *v = NULL;
	const char *name;

	TRY(load(text, size, file, NULL, &v, err));
	name = json_string_value(json_object_get(v, "name"));
	*ret = name ? compose_interpolate(name, look, ctx, err) : NULL;
	return name && !*ret ? mlr_wrap(err, "'%s': name", file) : 0;
}

static void each_reach(const struct record_row *row, const char *above, reach_fn fn, void *ctx)
{
	for (; row->key; row++) {
		auto_free char *name =
			xasprintf("%s%s%s", above ? above : "", above ? "." : "", row->key);

		fn(ctx, name, (enum reach)row->reach);
		if (row->rows)
			each_reach(row->rows, name, fn, ctx);
	}
}

void compose_each_reach(reach_fn fn, void *ctx)
{
	each_reach(rows, NULL, fn, ctx);
	each_reach(compose_service_rows, "services.NAME", fn, ctx);
}
