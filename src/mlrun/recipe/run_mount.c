#include "recipe/run_mount.h"

#include "base/config_value.h"
#include "base/spelling.h"

/* A mount being parsed. */
struct parsing {
	struct run_mount m;
	int is_truth_given; /* ro or rw */
	int is_deferred;    /* a value has variables that are not expanded yet */
};

static const char *const types[RUN_MOUNT_TYPES + 1] = { "bind", "cache", "tmpfs", "secret", "ssh" };
static const enum reach type_reaches[RUN_MOUNT_TYPES] = { REACH_CONTEXT, REACH_CACHES,
	REACH_NOTHING, REACH_SECRETS, REACH_SECRETS };
static const char *const sharings[RUN_MOUNT_SHARINGS + 1] = { "shared", "private", "locked" };

void run_mount_done(struct run_mount *m)
{
	free(m->from);
	free(m->source);
	free(m->target);
	free(m->id);
	free(m->env);
	*m = (struct run_mount)RUN_MOUNT_INIT;
}

static int word_of(const char *const *words, const char *value)
{
	for (int i = 0; words[i]; i++)
		if (strcasecmp(words[i], value) == 0)
			return i;
	return -EINVAL;
}

static int read_type(struct parsing *p, const char *value)
{
	int i = word_of(types, value);

	if (i >= 0)
		p->m.type = (enum run_mount_type)i;
	return i;
}

static int read_sharing(struct parsing *p, const char *value)
{
	int i = word_of(sharings, value);

	if (i >= 0)
		p->m.sharing = (enum run_mount_sharing)i;
	return i;
}

static int read_only(struct parsing *p, const char *value)
{
	p->is_truth_given = 1;
	return p->m.read_only = config_truth(value);
}

static int read_write(struct parsing *p, const char *value)
{
	int truth = config_truth(value);

	p->is_truth_given = 1;
	p->m.read_only = !truth;
	return truth;
}

static int read_required(struct parsing *p, const char *value)
{
	return p->m.required = config_truth(value);
}

static int read_size(struct parsing *p, const char *value)
{
	return config_bytes(value, &p->m.size);
}

static int number(const char *value, int base, int64_t *ret)
{
	const char *digits = base == 8 ? "01234567" : "0123456789";

	if (!*value || value[strspn(value, digits)] || strlen(value) > 10)
		return -EINVAL;
	*ret = strtoll(value, NULL, base);
	return *ret > UINT32_MAX ? -EINVAL : 0;
}

static int read_mode(struct parsing *p, const char *value)
{
	return number(value, 8, &p->m.mode);
}

static int read_uid(struct parsing *p, const char *value)
{
	return number(value, 10, &p->m.uid);
}

static int read_gid(struct parsing *p, const char *value)
{
	return number(value, 10, &p->m.gid);
}

#define OF(type) (1u << RUN_MOUNT_##type)
#define PLACES   (OF(BIND) | OF(CACHE) | OF(TMPFS)) /* that may be written to */
#define EACH     (PLACES | OF(SECRET) | OF(SSH))

static const struct key {
	const char *name;
	unsigned types; /* that know it */
	size_t at;      /* the field that gets the text; 0: read does it */
	int (*read)(struct parsing *p, const char *value);
	const char *expected;
	int alone;        /* may stand without a value, and is true then */
	enum reach reach; /* beyond the type's */
} keys[] = {
	{ "type", EACH, 0, read_type, "bind, cache, tmpfs, secret or ssh", 0 },
	{ "target", EACH, offsetof(struct run_mount, target), NULL, NULL, 0 },
	{ "dst", EACH, offsetof(struct run_mount, target), NULL, NULL, 0 },
	{ "destination", EACH, offsetof(struct run_mount, target), NULL, NULL, 0 },
	{ "source", OF(BIND) | OF(CACHE) | OF(SECRET), offsetof(struct run_mount, source), NULL,
		NULL, 0 },
	{ "src", OF(BIND) | OF(CACHE) | OF(SECRET), offsetof(struct run_mount, source), NULL, NULL,
		0 },
	{ "from", OF(BIND) | OF(CACHE), offsetof(struct run_mount, from), NULL, NULL, 0,
		REACH_IMAGES },
	{ "id", OF(CACHE) | OF(SECRET) | OF(SSH), offsetof(struct run_mount, id), NULL, NULL, 0 },
	{ "env", OF(SECRET), offsetof(struct run_mount, env), NULL, NULL, 0 },
	{ "readonly", PLACES, 0, read_only, "true or false", 1 },
	{ "ro", PLACES, 0, read_only, "true or false", 1 },
	{ "readwrite", PLACES, 0, read_write, "true or false", 1 },
	{ "rw", PLACES, 0, read_write, "true or false", 1 },
	{ "required", OF(SECRET) | OF(SSH), 0, read_required, "true or false", 1 },
	{ "sharing", OF(CACHE), 0, read_sharing, "shared, private or locked", 0 },
	{ "size", OF(TMPFS), 0, read_size, "a size such as 512m or 2g", 0 },
	{ "mode", OF(CACHE) | OF(SECRET) | OF(SSH), 0, read_mode, "an octal mode such as 0755", 0 },
	{ "uid", OF(CACHE) | OF(SECRET) | OF(SSH), 0, read_uid, "a number", 0 },
	{ "gid", OF(CACHE) | OF(SECRET) | OF(SSH), 0, read_gid, "a number", 0 },
};

static const struct key *find_key(const char *field, struct mlr_error *err)
{
	size_t len = strcspn(field, "=");
	struct spelling s = spelling_of(field, len);

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		spelling_try(&s, keys[i].name);
		if (strlen(keys[i].name) == len && strncasecmp(keys[i].name, field, len) == 0)
			return &keys[i];
	}
	mlr_fail(err, EINVAL, "unknown key '%.*s'", (int)(len < 100 ? len : 100), field);
	if (s.near)
		mlr_hint(err, "is %s meant?", s.near);
	return NULL;
}

static int read_field(struct parsing *p, const struct key *k, const char *field,
	const struct expand *e, struct mlr_error *err)
{
	const char *raw = strchr(field, '=') ? strchr(field, '=') + 1 : NULL;
	auto_free char *value = NULL;
	char **to = (char **)((char *)&p->m + k->at);
	int r = 0;

	if (!raw && !k->alone)
		return mlr_fail(err, EINVAL, "'%.100s' needs a value", field);
	if (raw && strchr(raw, '$') && !e) {
		if (strcmp(k->name, "from") == 0)
			return mlr_fail(err, EINVAL,
				"'%.100s': variables are not expanded there; name a stage: FROM %.100s AS NAME",
				field, raw);
		p->is_deferred = 1;
		return 0;
	}
	if (raw && e)
		r = expand_word(e, raw, &value, err);
	else
		value = xstrdup(raw ? raw : "true");
	TRY(r);
	if (k->read)
		return k->read(p, value) < 0
			? mlr_fail(err, EINVAL, "'%.100s': expected %s", field, k->expected)
			: 0;
	set_ptr(to, take_ptr(&value));
	return 0;
}

/* The type first: keys depend on it. */
static int read_fields(struct parsing *p, const char *text, const struct expand *e, int want_type,
	struct mlr_error *err)
{
	auto_free char *copy = xstrdup(text);
	char *rest = copy, *field;

	while ((field = strsep(&rest, ","))) {
		const struct key *k;

		if (!*field)
			continue;
		k = find_key(field, err);
		if (!k)
			return -EINVAL;
		if ((k->read == read_type) != want_type)
			continue;
		if (!p->is_deferred && !(k->types & (1u << p->m.type)))
			return mlr_fail(err, EINVAL, "a mount of type %s has no key '%s'",
				types[p->m.type], k->name);
		TRY(read_field(p, k, field, e, err));
	}
	return 0;
}

static int check(struct parsing *p, struct mlr_error *err)
{
	struct run_mount *m = &p->m;

	if (!p->is_truth_given)
		m->read_only = m->type != RUN_MOUNT_CACHE && m->type != RUN_MOUNT_TMPFS;
	if (p->is_deferred)
		return 0;
	if (m->type == RUN_MOUNT_SECRET) {
		if (!m->source && !m->target && !m->id && !m->env)
			return mlr_fail(err, EINVAL, "a secret needs an id");
		if (m->source && m->id)
			return mlr_fail(err, EINVAL, "a secret has either 'id' or 'source'");
		return 0;
	}
	/* As in BuildKit, WORKDIR is the target then. */
	if (!m->target && m->type != RUN_MOUNT_SSH)
		m->target = xstrdup(".");
	return 0;
}

int run_mount_parse(
	const char *text, const struct expand *e, struct run_mount *ret, struct mlr_error *err)
{
	struct parsing p = { .m = RUN_MOUNT_INIT };
	int r = read_fields(&p, text, e, 1, err);

	if (r == 0)
		r = read_fields(&p, text, e, 0, err);
	if (r == 0)
		r = check(&p, err);
	if (r < 0) {
		run_mount_done(&p.m);
		return r;
	}
	*ret = p.m;
	return 0;
}

void run_mount_each_reach(reach_fn fn, void *ctx)
{
	for (size_t t = 0; t < RUN_MOUNT_TYPES; t++) {
		auto_free char *type = xasprintf("RUN --mount=type=%s", types[t]);

		fn(ctx, type, type_reaches[t]);
		for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
			auto_free char *row = xasprintf("%s,%s", type, keys[i].name);

			if (keys[i].types & (1u << t))
				fn(ctx, row, keys[i].reach);
		}
	}
}
