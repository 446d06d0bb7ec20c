#include "shifter/volume.h"

#define CACHE "perNodeCache="

/* One volume's parts, cut out of a copy of its text. */
struct volume {
	char *from, *to;
	const char *cache; /* what perNodeCache is, or NULL */
	int is_read_only;
};

/* Shifter's sizes: a number and one of b, k, m, g, t, p, e, powers of 1024. Returns 0 for others.
 */
static unsigned long long parse_size(const char *text, size_t len)
{
	static const char units[] = "bkmgtpe";
	char *end;
	unsigned long long n = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
	const char *unit;

	if (n == 0)
		return 0;
	if (end == text + len)
		return n;
	unit = strchr(units, tolower((unsigned char)*end));
	if (!unit || end + 1 != text + len || n >= 1ull << (63 - 10 * (unit - units)))
		return 0;
	return n << (10 * (unit - units));
}

/* The value of KEY= among words that commas separate; NULL if there is none. */
static const char *find_value(const char *words, const char *key, size_t *len)
{
	size_t n = strlen(key);

	for (const char *s = words; *s; s += strcspn(s, ","), s += *s == ',')
		if (strncmp(s, key, n) == 0 && s[n] == '=') {
			*len = strcspn(s + n + 1, ",");
			return s + n + 1;
		}
	return NULL;
}

/* A cache of the node becomes a directory in memory: a file system in a file needs root. */
static int add_cache(
	const char *to, const char *words, struct exec_options *o, struct mlr_error *err)
{
	size_t len = 0;
	const char *text = find_value(words, "size", &len);
	unsigned long long size = text ? parse_size(text, len) : 0;

	if (size == 0)
		return mlr_fail(err, EINVAL, "a cache needs a size, as in size=200G");
	strv_addf(&o->tmpfs, "%s:size=%llu", to, size);
	return 0;
}

static int parse_flag(const char *flag, struct volume *v, struct mlr_error *err)
{
	static const char *const no_effect[] = { "rw", "rec", "slave", "private" };

	if (strcmp(flag, "ro") == 0) {
		v->is_read_only = 1;
		return 0;
	}
	if (strncmp(flag, CACHE, strlen(CACHE)) == 0) {
		v->cache = flag + strlen(CACHE);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(no_effect); i++)
		if (strcmp(flag, no_effect[i]) == 0)
			return 0;
	return mlr_fail(err, EINVAL, "invalid flag '%s': use ro or perNodeCache=size=SIZE", flag);
}

/* text is cut into pieces. */
static int parse(char *text, int is_site, struct volume *v, struct mlr_error *err)
{
	char *rest = text, *flag;

	v->from = strsep(&rest, ":");
	v->to = strsep(&rest, ":");
	while ((flag = strsep(&rest, ":")))
		TRY(parse_flag(flag, v, err));
	if (!v->to && is_site)
		v->to = v->from;
	if (!*v->from || !v->to || !*v->to)
		return mlr_fail(err, EINVAL, "expected FROM:TO[:FLAG]");
	return 0;
}

static int add_one(const char *text, int is_site, struct exec_options *o, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(text);
	struct volume v = { 0 };
	int r = parse(copy, is_site, &v, err);

	if (r == 0 && v.cache)
		r = add_cache(v.to, v.cache, o, err);
	if (r < 0)
		return mlr_wrap(err, "volume '%s'", text);
	if (!v.cache)
		strv_addf(&o->volumes, "%s:%s%s", v.from, v.to, v.is_read_only ? ":ro" : "");
	return 0;
}

int shifter_volumes_add(
	const char *text, int is_site, struct exec_options *o, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(text);
	char *rest = copy, *one;

	while ((one = strsep(&rest, ";"))) {

		TRY(*one ? add_one(one, is_site, o, err) : 0);
	}
	return 0;
}

int shifter_mount_add(const char *text, struct exec_options *o, struct mlr_error *err)
{
	static const char *const names[] = { "destination", "dst", "target" };
	auto_free char *to = NULL;
	size_t len = 0;
	const char *type = find_value(text, "type", &len), *value = NULL;

	if (!type || len != strlen("per-node-cache") || strncmp(type, "per-node-cache", len) != 0) {
		strv_add(&o->mounts, text);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(names) && !value; i++)
		value = find_value(text, names[i], &len);
	if (!value)
		return mlr_fail(err, EINVAL, "--mount '%s': destination= is missing", text);
	to = xstrndup(value, len);
	return add_cache(to, text, o, err) < 0 ? mlr_wrap(err, "--mount '%s'", text) : 0;
}
