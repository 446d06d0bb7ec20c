#include "compose/parts.h"

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
	strv_done(&s->volumes_from);
	strv_done(&s->options);
	strv_done(&s->hosts);
	strv_done(&s->test);
	strv_done(&s->ports);
	for (size_t i = 0; i < s->n_needs; i++)
		free(s->needs[i].service);
	free(s->needs);
}

void compose_project_done(struct compose_project *p)
{
	free_all(p->services, p->n, service_done);
	free(p->name);
	free(p->text);
	strv_done(&p->others);
	strv_done(&p->ignored);
	*p = (struct compose_project){ 0 };
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
	return *name && strlen(name) <= 63 && name[0] != '.' && name[0] != '-' &&
		!name[strspn(name, LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ" DIGITS "._-")];
}

/* Is the service named, or one of its profiles asked for? */
static int is_there(const struct record_reader *r, const struct compose_service *s)
{
	const struct compose_wish *w = ((const struct compose_reader *)r->ctx)->wish;
	const char *asked = w->look(w->ctx, "COMPOSE_PROFILES");
	auto_free char *copy = xstrdup(asked ? asked : "");
	char *rest = copy, *word;
	int is_there = s->profiles.n == 0 || strv_has(&w->names, s->name);

	while (!is_there && (word = strsep(&rest, ",")))
		is_there = strcmp(word, "*") == 0 || strv_has(&s->profiles, word);
	return is_there;
}

/* Put the file and line of a place before an error, and what is there. */
static int wrap(const struct record_reader *r, const struct mlr_yaml_place *at, const char *where)
{
	const struct compose_reader *c = r->ctx;
	const char *gap = *where ? ": " : "";

	/* What several files give has no line. */
	return at ? mlr_wrap(r->err, "'%s' line %zu%s%s", at->file, at->line, gap, where)
		  : mlr_wrap(r->err, "'%s'%s%s", c->files.v[0], gap, where);
}

static int wrap_service(
	const struct record_reader *r, const struct compose_service *s, const char *key)
{
	const struct compose_reader *c = r->ctx;
	auto_free char *where = xasprintf("services.%s.%s", s->name, key);

	return wrap(r, mlr_yaml_place(&c->lines, json_object_get(c->top, "services"), s->name, 0),
		where);
}

/* Note why a key of a service is refused, and take the key away: what else is wrong shows then.
 * Returns 0 where that cannot be. */
static int refuse_key(const struct record_reader *r, const char *service, const json_t *v)
{
	struct compose_reader *c = r->ctx;
	auto_free char *where = take_ptr(&c->where), *whole = NULL,
		       *key = where ? xstrndup(where, strcspn(where, ".")) : NULL;
	const struct mlr_yaml_place *at =
		c->line || !key ? c->line : mlr_yaml_place(&c->lines, v, key, 0);

	if (!key || json_object_del((json_t *)v, key) < 0) {
		c->where = take_ptr(&where);
		return 0;
	}
	whole = xasprintf("services.%s.%s", service, where);
	wrap(r, at, whole);
	strv_add(c->refused, r->err->text);
	c->line = NULL;
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
		if (e == 0 && is_there(r, &s)) {
			*xadd(p->services, p->n) = s;
			return 0;
		}
		if (e == 0)
			strv_add(&p->others, name);
		service_done(&s);
	} while (e < 0 && refuse_key(r, name, v));
	/* That a key is missing may follow from what was refused. */
	return c->refused->n > before ? 0 : e;
}

static int read_services(const struct record_reader *r, const json_t *v, void *to)
{
	return compose_read_keys(r, v, read_service, to);
}

static const struct record_row rows[] = {
	{ "version", RECORD_OWN }, /* informative, says the specification */
	{ "name", RECORD_TEXT, RECORD_AT(struct compose_project, name), .rule = check_name },
	{ "services", RECORD_OWN, .read = read_services },
	{ "include", RECORD_OWN, .reach = REACH_FILES },
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

struct compose_service *compose_find(const struct compose_project *p, const char *name)
{
	int at = index_of(p, name);

	return at < 0 ? NULL : &p->services[at];
}

static int refuse_unknown(
	const struct record_reader *r, const struct compose_project *p, const char *name)
{
	struct spelling near = spelling_of(name, strlen(name));

	for (size_t i = 0; i < p->n; i++)
		spelling_try(&near, p->services[i].name);
	mlr_fail(r->err, EINVAL, "there is no service '%s'", name);
	return near.near ? mlr_hint(r->err, "is %s meant?", near.near) : -EINVAL;
}

static int refuse_need(const struct record_reader *r, const struct compose_project *p,
	const struct compose_service *s, const char *name)
{
	refuse_unknown(r, p, name);
	return wrap_service(r, s, "depends_on");
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
	if (seen[at] == BEGUN) {
		mlr_fail(r->err, EINVAL, "it needs itself, directly or by others");
		return wrap_service(r, s, "depends_on");
	}
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
	set_ptr(&p->services, sorted);
	return 0;
}

/* What a service takes them from stands before it, and has all of its own. */
static void take_volumes(const struct compose_project *p)
{
	for (size_t i = 0; i < p->n; i++)
		for (size_t k = 0; k < p->services[i].volumes_from.n; k++) {
			const char *from = p->services[i].volumes_from.v[k];
			auto_free char *name = xstrndup(from, strcspn(from, ":"));

			compose_take_volumes(&p->services[i], &p->services[index_of(p, name)],
				strchr(from, ':') != NULL);
		}
}

/* Mark a service, and what it needs: that stands before it. */
static void want(const struct compose_project *p, size_t at, int alone)
{
	struct compose_service *s = &p->services[at];

	for (s->is_wanted = 1; at-- > 0 && !alone;)
		for (size_t i = 0; i < s->n_needs; i++)
			if (!p->services[at].is_wanted &&
				strcmp(p->services[at].name, s->needs[i].service) == 0)
				want(p, at, 0);
}

/* "SERVICE=NUMBER" */
static int scale(const struct record_reader *r, struct compose_project *p, const char *text)
{
	const char *eq = text + strcspn(text, "=");
	auto_free char *name = xstrndup(text, (size_t)(eq - text));
	char *end = NULL;
	int at = index_of(p, name);
	long n = *eq ? strtol(eq + 1, &end, 10) : -1;

	if (at < 0)
		return refuse_unknown(r, p, name);
	if (n < 0 || n > REPLICAS_MAX || *end || end == eq + 1)
		return mlr_fail(r->err, EINVAL, "'%s': expected SERVICE=NUMBER, up to %d", text,
			REPLICAS_MAX);
	if (n > 1 && p->services[at].container_name)
		return mlr_fail(r->err, EINVAL,
			"service '%s': several replicas cannot have one container_name", name);
	p->services[at].replicas = n;
	return 0;
}

static int choose(const struct record_reader *r, struct compose_project *p)
{
	const struct compose_wish *w = ((const struct compose_reader *)r->ctx)->wish;

	for (size_t i = 0; i < w->scale.n; i++)
		TRY(scale(r, p, w->scale.v[i]));
	for (size_t i = 0; i < p->n && w->names.n == 0; i++)
		p->services[i].is_wanted = 1;
	for (size_t i = 0; i < w->names.n; i++) {
		int at = index_of(p, w->names.v[i]);

		if (at < 0)
			return refuse_unknown(r, p, w->names.v[i]);
		want(p, (size_t)at, w->alone);
	}
	return 0;
}

/* All that is refused has been noted; the last one is the error. */
static int pass_refused(const struct record_reader *r)
{
	struct strv *l = ((const struct compose_reader *)r->ctx)->refused;
	auto_free char *last = l->n > 0 ? take_ptr(&l->v[--l->n]) : NULL;

	return last ? mlr_pass(r->err, EINVAL, last) : 0;
}

static int refuse_port(const struct record_reader *r, const struct compose_service *a,
	const struct compose_service *b, unsigned port)
{
	struct compose_reader *c = r->ctx;

	if (a == b) {
		mlr_fail(r->err, EINVAL, "several replicas cannot have the one port %u", port);
		mlr_hint(r->err,
			"MLRUN_REPLICA in the command tells them apart: $$((8000 + MLRUN_REPLICA))");
	} else {
		mlr_fail(r->err, EINVAL, "port %u is that of service '%s', too", port, a->name);
		mlr_hint(r->err,
			"services share this machine's ports: have one of them listen on another, by its "
			"command or its variables, and write that one in 'ports'");
	}
	wrap_service(r, b, "ports");
	strv_add(c->refused, r->err->text);
	return 0;
}

/* Services share the machine's ports: those on which their commands listen, and those from which
 * connections are passed on. */
static int check_ports(const struct record_reader *r, const struct compose_project *p)
{
	auto_free const struct compose_service **owners = xcalloc(65536, sizeof(*owners));

	for (size_t i = 0; i < p->n; i++) {
		const struct compose_service *s = &p->services[i];

		for (size_t k = 0; s->is_wanted && s->replicas > 0 && k < s->ports.n; k++) {
			unsigned ports[2] = { 0, 0 };

			if (sscanf(s->ports.v[k], "%u %u", &ports[0], &ports[1]) != 2)
				continue;
			if (ports[0] != ports[1] && s->replicas > 1)
				refuse_port(r, s, s, ports[0]);
			for (int m = 0; m < 1 + (ports[0] != ports[1]); m++)
				if (!owners[ports[m]])
					owners[ports[m]] = s;
				else if (owners[ports[m]] != s)
					refuse_port(r, owners[ports[m]], s, ports[m]);
		}
	}
	return pass_refused(r);
}

static int refuse_empty(const struct record_reader *r, const json_t *services)
{
	if (json_object_size(services) == 0)
		return record_wrong(r, "it has no services");
	record_wrong(r, "every service has a profile");
	return mlr_hint(r->err, "--profile NAME starts those of one");
}

static int parse(const struct record_reader *r, const json_t *v, struct compose_project *p)
{
	struct compose_reader *c = r->ctx;
	static const char *const ignored[] = { "networks", "models", NULL };
	int e;

	p->text = c->wish->with_text ? compose_print(v) : NULL;
	c->top = v;
	compose_drop(r, v, ignored);
	e = record_read(r, rows, v, p);
	if (e == 0 && p->n == 0 && c->refused->n == 0)
		e = refuse_empty(r, json_object_get(v, "services"));
	if (e < 0)
		return wrap(r, c->line, c->where ? c->where : "");
	TRY(pass_refused(r));
	TRY(sort(r, p));
	take_volumes(p);
	TRY(choose(r, p));
	return check_ports(r, p);
}

static void reader_done(struct compose_reader *c)
{
	mlr_yaml_lines_done(&c->lines);
	strv_done(&c->files);
	json_decref(c->read);
	free(c->where);
}

int compose_parse(const struct compose_wish *w, struct compose_project *ret, struct strv *refused,
	struct mlr_error *err)
{
	auto_call(compose_project_done) struct compose_project p = { 0 };
	auto_call(reader_done) struct compose_reader c = {
		.wish = w, .read = json_array(), .ignored = &p.ignored, .refused = refused
	};
	const struct record_reader r = {
		.manner = RECORD_ONLY | RECORD_OF_TEXTS | RECORD_NO_NULL | RECORD_X_KEYS,
		.ctx = &c,
		.err = err,
		.code = EINVAL,
		.place = compose_place,
	};
	json_auto_t *v = NULL;

	TRY(compose_load(&c, &v, err));
	TRY(pass_refused(&r));
	TRY(parse(&r, v, &p));
	*ret = take_struct(&p, { 0 });
	return 0;
}

int compose_parse_name(const struct compose_wish *w, char **ret, struct mlr_error *err)
{
	for (size_t i = w->n; i-- > 0 && !*ret;) {
		const struct compose_text *f = &w->files[i];
		json_auto_t *v = NULL;
		const char *name;

		if (mlr_yaml_load(f->text, f->size, MLR_YAML_TEXTS, NULL, &v, err) < 0)
			return mlr_wrap(err, "'%s'", f->name);
		name = json_string_value(json_object_get(v, "name"));
		*ret = name ? compose_interpolate(name, w->look, w->ctx, err) : NULL;
		if (name && !*ret)
			return mlr_wrap(err, "'%s': name", f->name);
	}
	return 0;
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
