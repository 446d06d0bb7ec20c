#include "compose/parts.h"

#include "base/base.h"
#include "base/spelling.h"

#define SERVICES_MAX 1000
#define LETTERS      "abcdefghijklmnopqrstuvwxyz"
#define DIGITS       "0123456789"

static void service_done(struct compose_service *s)
{
	char **const texts[] = { &s->name, &s->image, &s->container_name, &s->working_dir, &s->user,
		&s->hostname, &s->context, &s->dockerfile, &s->target };
	struct strv *const lists[] = { &s->build_args, &s->command, &s->entrypoint, &s->environment,
		&s->volumes, &s->tmpfs, &s->test };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		free(*texts[i]);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		strv_done(lists[i]);
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
	*p = (struct compose_project)COMPOSE_PROJECT_INIT;
}

int compose_is_project(const char *name)
{
	return *name && strlen(name) <= 63 && strchr(LETTERS DIGITS, *name) &&
		!name[strspn(name, LETTERS DIGITS "_-")];
}

/* --- the file -------------------------------------------------------------------------------- */

static int read_name(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, void *to)
{
	struct compose_project *p = to;
	int e = compose_read_text(r, at, v, &p->name);

	if (e < 0 || compose_is_project(p->name))
		return e;
	return compose_wrong(r, at,
		"invalid name '%s': use small letters, digits, '_' and '-', first a letter or digit",
		p->name);
}

/* Replicas are named PROJECT-SERVICE-1. */
static int is_service_name(const char *name)
{
	return *name && strlen(name) <= 50 && name[0] != '.' && name[0] != '-' &&
		!name[strspn(name, LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "._-")];
}

static int read_services(
	struct compose_reader *r, const struct compose_at *at, const json_t *v, void *to)
{
	struct compose_project *p = to;
	const char *name;
	json_t *item;

	if (!json_is_object(v))
		return compose_wrong(r, at, "expected a mapping");
	json_object_foreach((json_t *)v, name, item) {
		struct compose_at here = { at, v, name, 0 };
		struct compose_service *s;
		int e;

		if (!is_service_name(name))
			return compose_wrong(r, &here, "invalid name of a service");
		if (p->n == SERVICES_MAX)
			return compose_wrong(r, &here, "more than %d services", SERVICES_MAX);
		p->services = xgrow(p->services, p->n, sizeof(*p->services));
		s = &p->services[p->n++];
		*s = (struct compose_service){ .name = xstrdup(name) };
		e = compose_read_service(r, &here, item, s);
		if (e < 0)
			return e;
	}
	return 0;
}

static const struct compose_key keys[] = {
	{ "version", NULL, NULL }, /* informative, says the specification */
	{ "name", read_name, NULL },
	{ "services", read_services, NULL },
	{ "networks", NULL,
		"services use the host's network and meet at localhost, by their names, too" },
	{ "volumes", NULL, "mlrun has no volumes but directories: ./DIR:/PATH in the service" },
	{ "secrets", NULL, "volumes: [./FILE:/run/secrets/NAME:ro] in the service" },
	{ "configs", NULL, "volumes: [./FILE:/PATH:ro] in the service" },
	{ NULL, NULL, NULL },
};

/* --- the order ------------------------------------------------------------------------------- */

static int index_of(const struct compose_project *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->services[i].name, name) == 0)
			return (int)i;
	return -1;
}

static int refuse_need(struct compose_reader *r, const struct compose_project *p,
	const struct compose_service *s, const char *name)
{
	struct spelling near = spelling_of(name, strlen(name));

	for (size_t i = 0; i < p->n; i++)
		spelling_try(&near, p->services[i].name);
	mlr_fail(r->err, EINVAL, "'%s' line %zu: services.%s.depends_on: there is no service '%s'",
		r->file, s->line, s->name, name);
	return near.near ? mlr_hint(r->err, "is %s meant?", near.near) : -EINVAL;
}

enum { UNSEEN, BEGUN, PLACED };

/* Place a service behind all that it needs. The depth is that of the longest chain, at most
 * SERVICES_MAX. */
static int visit(struct compose_reader *r, const struct compose_project *p, size_t at, int *seen,
	size_t *order, size_t *n)
{
	const struct compose_service *s = &p->services[at];

	if (seen[at] == PLACED)
		return 0;
	if (seen[at] == BEGUN)
		return mlr_fail(r->err, EINVAL,
			"'%s' line %zu: services.%s.depends_on: it needs itself, directly or by others",
			r->file, s->line, s->name);
	seen[at] = BEGUN;
	for (size_t i = 0; i < s->n_needs; i++) {
		int need = index_of(p, s->needs[i].service),
		    e = need < 0 ? refuse_need(r, p, s, s->needs[i].service)
				 : visit(r, p, (size_t)need, seen, order, n);

		if (e < 0)
			return e;
	}
	seen[at] = PLACED;
	order[(*n)++] = at;
	return 0;
}

static int sort(struct compose_reader *r, struct compose_project *p)
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

int compose_parse(const char *text, size_t size, const char *file, const char *directory,
	compose_lookup look, void *ctx, struct compose_project *ret, struct mlr_error *err)
{
	auto_call(compose_project_done) struct compose_project p = COMPOSE_PROJECT_INIT;
	struct compose_reader r = {
		.file = file, .directory = directory, .look = look, .ctx = ctx
	};
	const struct compose_at top = { NULL, NULL, NULL, 0 };
	json_auto_t *v = NULL;
	int e;

	r.err = err;
	e = mlr_yaml_load(text, size, MLR_YAML_TEXTS, &r.lines, &v, err);
	if (e < 0)
		mlr_wrap(err, "'%s'", file);
	if (e == 0)
		e = compose_read_map(&r, &top, v, keys, &p);
	if (e == 0 && p.n == 0)
		e = compose_wrong(&r, &top, "it has no services");
	if (e == 0)
		e = sort(&r, &p);
	mlr_yaml_lines_done(&r.lines);
	if (e < 0)
		return e;
	*ret = p;
	p = (struct compose_project)COMPOSE_PROJECT_INIT;
	return 0;
}

void compose_each_reach(reach_fn fn, void *ctx)
{
	compose_keys_each_reach(keys, NULL, fn, ctx);
	compose_keys_each_reach(compose_service_keys, "services.NAME", fn, ctx);
}
