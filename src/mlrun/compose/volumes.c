/* Volumes, secrets and configs of a service (05-services.md, 07-volumes.md, 08-configs.md and
 * 09-secrets.md of the specification). */
#include "compose/parts.h"

#include "base/config_value.h"

/* A name of the file's mapping "volumes", "secrets" or "configs"; NULL: it is not there. */
static const json_t *find(const struct record_reader *r, const char *kind, const char *name)
{
	const struct compose_reader *c = r->ctx;

	return json_object_get(json_object_get(c->top, kind), name);
}

static int refuse_unknown(const struct record_reader *r, const char *kind, const char *name)
{
	record_wrong(r, "'%s' is not among the file's %s", name, kind);
	return strcmp(kind, "volumes") == 0
		? mlr_hint(r->err,
			  "'volumes: {%s: }' beside 'services' makes it a volume, './%s' is a directory here",
			  name, name)
		: mlr_hint(r->err, "'%s: {%s: {file: ./FILE}}' beside 'services' says what it is",
			  kind, name);
}

/* --- named volumes --------------------------------------------------------------------------- */

struct named {
	char *name, *driver, *device, *type;
	int external;
};

static int read_external(const struct record_reader *r, const json_t *v, void *to)
{
	static const struct record_row rows[] = {
		{ "name", RECORD_TEXT, RECORD_AT(struct named, name) },
		{ NULL },
	};
	auto_free char *text = NULL;
	struct named *n = to;

	n->external = 1;
	if (json_is_object(v))
		return record_read(r, rows, v, n);
	TRY(record_text(r, v, &text));
	n->external = config_truth(text);
	return n->external < 0 ? record_expected(r, "true or false", v) : 0;
}

static const struct record_row driver_rows[] = {
	{ "type", RECORD_TEXT, RECORD_AT(struct named, type) },
	{ "o", RECORD_OWN },
	{ "device", RECORD_TEXT, RECORD_AT(struct named, device) },
	{ NULL },
};
static const struct record_row named_rows[] = {
	{ "name", RECORD_TEXT, RECORD_AT(struct named, name) },
	{ "external", RECORD_OWN, .read = read_external },
	{ "driver", RECORD_TEXT, RECORD_AT(struct named, driver) },
	{ "driver_opts", RECORD_STRUCT, .rows = driver_rows },
	{ "labels", RECORD_OWN },
	{ NULL },
};

/* Write a volume's place: a directory of the machine, "@/NAME" of the project's volumes, or
 * "_/NAME" of those that projects share. */
static int place_named(
	const struct record_reader *r, const struct named *n, const char *key, char **ret)
{
	int is_bind = n->device && (!n->type || strcmp(n->type, "none") == 0);

	if ((n->driver && strcmp(n->driver, "local") != 0) || (n->device && !is_bind) ||
		(n->type && !n->device)) {
		record_wrong(r, "volume '%s' has a driver or type that is not supported", key);
		return mlr_hint(
			r->err, "mount it on this machine, and name the directory: /DIR:/PATH");
	}
	*ret = is_bind
		? compose_absolute(r, n->device)
		: xasprintf("%s/%s", n->external || n->name ? "_" : "@", n->name ? n->name : key);
	if (!is_bind && (strchr(*ret + 2, '/') || (*ret)[2] == '.' || !(*ret)[2]))
		return record_wrong(r, "invalid name '%s' of a volume", *ret + 2);
	return 0;
}

static int find_named(const struct record_reader *r, const char *key, char **ret)
{
	const json_t *v = find(r, "volumes", key);
	struct named n = { 0 };
	int e = v ? 0 : refuse_unknown(r, "volumes", key);

	if (e == 0 && !json_is_null(v))
		e = record_read(r, named_rows, v, &n);
	if (e == 0)
		e = place_named(r, &n, key, ret);
	record_done(named_rows, &n);
	record_done(driver_rows, &n);
	return e;
}

/* --- volumes of a service -------------------------------------------------------------------- */

struct volume {
	char *type, *source, *target, *size;
	int read_only;
};

static const struct record_row tmpfs_rows[] = {
	{ "size", RECORD_TEXT, RECORD_AT(struct volume, size) },
	{ "mode", RECORD_OWN },
	{ NULL },
};
const struct record_row compose_volume_rows[] = {
	{ "type", RECORD_TEXT, RECORD_AT(struct volume, type) },
	{ "source", RECORD_TEXT, RECORD_AT(struct volume, source), .reach = REACH_FILES },
	{ "target", RECORD_TEXT, RECORD_AT(struct volume, target) },
	{ "read_only", RECORD_FLAG, RECORD_AT(struct volume, read_only) },
	{ "tmpfs", RECORD_STRUCT, .rows = tmpfs_rows },
	{ "bind", RECORD_OWN },
	{ "volume", RECORD_OWN },
	{ "consistency", RECORD_OWN },
	{ NULL },
};

/* Flags of Docker's that say how it caches, labels or propagates mounts change nothing here. */
static int read_flags(const struct record_reader *r, char *flags, struct volume *v)
{
	static const char so[] =
		" rw z Z cached delegated consistent nocopy copy shared slave private rshared "
		"rslave rprivate ";

	for (char *word; (word = strsep(&flags, ","));) {
		auto_free char *padded = xasprintf(" %s ", word);

		if (strcmp(word, "ro") == 0)
			v->read_only = 1;
		else if (!strstr(so, padded))
			return record_wrong(r, "unknown mode '%s': use ro or rw", word);
	}
	return 0;
}

/* "SRC:DST[:FLAG,...]", or "DST" for a volume without a name. */
static int split(const struct record_reader *r, char *text, struct volume *v)
{
	char *first = strsep(&text, ":"), *second = strsep(&text, ":");

	v->source = second ? xstrdup(first) : NULL;
	v->target = xstrdup(second ? second : first);
	return text ? read_flags(r, text, v) : 0;
}

/* Find where a volume's files are, as compose_service.volumes has it. */
static int find_source(const struct record_reader *r, const struct volume *v,
	const struct compose_service *s, char **ret)
{
	const struct compose_reader *c = r->ctx;
	const char *home = c->wish->look(c->wish->ctx, "HOME");
	auto_free char *expanded = NULL;

	if (!v->source) { /* the service's own */
		*ret = xasprintf("@/%s:%s", s->name, v->target);
		for (char *p = *ret; *p; p++)
			*p = *p == ':' || (*p == '/' && p > *ret + 1) ? '+' : *p;
		return 0;
	}
	if (!*v->source) {
		record_wrong(r, "the source before ':%s' is empty", v->target);
		return mlr_hint(r->err, "a variable in it may be unset: ${NAME:-./DIR}");
	}
	if (!strchr("./~", *v->source))
		return find_named(r, v->source, ret);
	if (*v->source == '~' && (!home || (v->source[1] && v->source[1] != '/')))
		return record_wrong(r, "'%s': whose home directory?", v->source);
	expanded = *v->source == '~' ? xasprintf("%s%s", home, v->source + 1) : xstrdup(v->source);
	*ret = compose_absolute(r, expanded);
	return 0;
}

static int add(const struct record_reader *r, const struct volume *v, struct compose_service *s)
{
	auto_free char *source = NULL;

	if (!v->target || *v->target != '/' || strchr(v->target, ':'))
		return record_wrong(
			r, "'%s' is no absolute path in the container", v->target ? v->target : "");
	if (v->type && strcmp(v->type, "tmpfs") == 0) {
		strv_addf(&s->tmpfs, "%s%s%s", v->target, v->size ? ":size=" : "",
			v->size ? v->size : "");
		return 0;
	}
	if (v->type && strcmp(v->type, "bind") != 0 && strcmp(v->type, "volume") != 0)
		return record_wrong(r, "unsupported type '%s': use bind, volume or tmpfs", v->type);
	TRY(find_source(r, v, s, &source));
	if (strchr(source, ':'))
		return record_wrong(r, "'%s': the path has a colon", source);
	strv_addf(&s->volumes, "%s:%s%s", source, v->target, v->read_only ? ":ro" : "");
	return 0;
}

int compose_read_volume(const struct record_reader *r, const json_t *v, void *to)
{
	struct volume volume = { 0 };
	auto_free char *text = NULL;
	int e = compose_read_one(r, compose_volume_rows, v, &volume, &text);

	if (e == 0 && text)
		e = split(r, text, &volume);
	if (e == 0)
		e = add(r, &volume, to);
	record_done(compose_volume_rows, &volume);
	record_done(tmpfs_rows, &volume);
	return e;
}

static int has_target(const struct compose_service *s, const char *target, size_t len)
{
	for (size_t i = 0; i < s->volumes.n; i++) {
		const char *its = strchr(s->volumes.v[i], ':') + 1;

		if (strcspn(its, ":") == len && strncmp(its, target, len) == 0)
			return 1;
	}
	return 0;
}

void compose_take_volumes(
	struct compose_service *to, const struct compose_service *from, int read_only)
{
	for (size_t i = 0; i < from->volumes.n; i++) {
		const char *v = from->volumes.v[i], *target = strchr(v, ':') + 1;
		size_t len = strcspn(target, ":");

		if (!has_target(to, target, len))
			strv_addf(&to->volumes, "%s%s", v, read_only && !target[len] ? ":ro" : "");
	}
}

/* --- secrets and configs --------------------------------------------------------------------- */

struct file {
	char *source, *target, *path;
};

const struct record_row compose_file_rows[] = {
	{ "source", RECORD_TEXT, RECORD_AT(struct file, source) },
	{ "target", RECORD_TEXT, RECORD_AT(struct file, target) },
	{ "uid", RECORD_OWN },
	{ "gid", RECORD_OWN },
	{ "mode", RECORD_OWN },
	{ NULL },
};

/* A read-only file: below dir, or where the target says. */
static int read_file(const struct record_reader *r, const json_t *v, const char *kind,
	const char *dir, struct compose_service *s)
{
	static const char file_only[] = "only a file can be had: file: ./FILE";
	static const struct record_row rows[] = {
		{ "file", RECORD_TEXT, RECORD_AT(struct file, path) },
		{ "environment", RECORD_OWN, .refusal = file_only },
		{ "content", RECORD_OWN, .refusal = file_only },
		{ "external", RECORD_OWN, .refusal = file_only },
		{ "name", RECORD_OWN },
		{ NULL },
	};
	struct file f = { NULL, NULL, NULL };
	const json_t *what;
	int e = compose_read_one(r, compose_file_rows, v, &f, &f.source);

	what = e == 0 && f.source ? find(r, kind, f.source) : NULL;
	if (e == 0)
		e = what ? record_read(r, rows, what, &f)
			 : refuse_unknown(r, kind, f.source ? f.source : "");
	if (e == 0 && !f.path)
		e = record_wrong(r, "'%s' of the file's %s has no file", f.source, kind);
	if (e == 0) {
		const char *target = f.target ? f.target : f.source;
		auto_free char *path = compose_absolute(r, f.path);

		if (access(path, R_OK) < 0)
			e = record_wrong(r, "'%s': %s", path, strerror(errno));
		strv_addf(&s->volumes, "%s:%s%s:ro", path, *target == '/' ? "" : dir, target);
	}
	record_done(compose_file_rows, &f);
	free(f.path);
	return e;
}

int compose_read_secret(const struct record_reader *r, const json_t *v, void *to)
{
	return read_file(r, v, "secrets", "/run/secrets/", to);
}

int compose_read_config(const struct record_reader *r, const json_t *v, void *to)
{
	return read_file(r, v, "configs", "/", to);
}
