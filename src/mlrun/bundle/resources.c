/* "linux.resources" as files of a control group (cgroup v2), a row each. */
#include "bundle/parts.h"

#include "base/base.h"
#include "runtime/limits.h"

#define PERIOD_US 100000 /* cpu.max's usual period */

/* Turns a value, with the object around it, into a file's text. Returns NULL: it asks for nothing.
 */
typedef char *(*to_text)(json_int_t n, const json_t *in);

static char *positive(json_int_t n, const json_t *in)
{
	return n > 0 ? xasprintf("%" JSON_INTEGER_FORMAT, n) : NULL;
}

/* From 2 to 262144, and the kernel's from 1 to 10000, as crun and runc do. */
static char *weight(json_int_t n, const json_t *in)
{
	return n < 2 ? NULL
		     : xasprintf("%" JSON_INTEGER_FORMAT,
			       n >= 262144 ? 10000 : 1 + (n - 2) * 9999 / 262142);
}

/* Version 1's is memory and swap together. */
static char *swap(json_int_t n, const json_t *in)
{
	json_int_t limit = json_integer_value(json_object_get(in, "limit"));

	return n > 0 && limit > 0 && n >= limit ? xasprintf("%" JSON_INTEGER_FORMAT, n - limit)
						: NULL;
}

static const struct row {
	const char *object, *key; /* key NULL: all of the object */
	const char *file;         /* NULL: nothing is to be done */
	to_text text;             /* NULL: the value is a text */
} rows[] = {
	{ "memory", "limit", NULL, NULL }, /* read_limits() */
	{ "memory", "checkBeforeUpdate", NULL, NULL },
	{ "memory", "reservation", "memory.low", positive },
	{ "memory", "swap", "memory.swap.max", swap },
	{ "cpu", "quota", NULL, NULL }, /* read_limits() */
	{ "cpu", "period", NULL, NULL }, { "cpu", "shares", "cpu.weight", weight },
	{ "cpu", "cpus", "cpuset.cpus", NULL }, { "cpu", "mems", "cpuset.mems", NULL },
	{ "pids", "limit", "pids.max", positive },
	{ "devices", NULL, NULL, NULL }, /* a container has those that are mounted, and no others */
};

/* 0, false, null, "", {} and [] ask for nothing. */
static int is_nothing(const json_t *v)
{
	return json_is_string(v)     ? json_string_length(v) == 0
		: json_is_integer(v) ? json_integer_value(v) == 0
		: json_is_object(v)  ? json_object_size(v) == 0
		: json_is_array(v)   ? json_array_size(v) == 0
				     : !json_is_true(v) && !json_is_real(v);
}

static const struct row *find(const char *object, const char *key)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].object, object) == 0 &&
			(!rows[i].key || strcmp(rows[i].key, key) == 0))
			return &rows[i];
	return NULL;
}

/* Add a file, unless no group of the caller's has it. */
static int add(struct plan *p, const char *file, const char *text)
{
	auto_free char *group = NULL;
	struct mlr_error none = MLR_ERROR_INIT;

	strv_add(&p->cgroup, file);
	strv_add(&p->cgroup, text);
	if (!strchr(file, '/') && cgroup_find("/", p, &group, &none) == 0)
		return 0;
	free(p->cgroup.v[--p->cgroup.n]);
	free(p->cgroup.v[--p->cgroup.n]);
	p->cgroup.v[p->cgroup.n] = NULL;
	return -ENOTSUP;
}

/* Add what a member asks for. Returns 0 if that is possible. */
static int add_member(
	const char *object, const char *key, const json_t *v, const json_t *in, struct plan *p)
{
	const struct row *row = find(object, key);
	auto_free char *text = NULL;

	if (is_nothing(v) || (row && !row->file))
		return 0;
	if (strcmp(object, "unified") == 0 && json_is_string(v))
		return add(p, key, json_string_value(v));
	if (!row || (row->text ? !json_is_integer(v) : !json_is_string(v)))
		return -ENOTSUP;
	text = row->text ? row->text(json_integer_value(v), in) : xstrdup(json_string_value(v));
	return text ? add(p, row->file, text) : 0;
}

/* Those without which a container does not start. */
static int read_limits(const json_t *resources, struct plan *p, struct mlr_error *err)
{
	json_int_t memory = 0, quota = 0, period = PERIOD_US, cpus;
	json_error_t e;

	if (json_unpack_ex((json_t *)resources, &e, 0, "{s?:{s?:I}, s?:{s?:I, s?:I}}", "memory",
		    "limit", &memory, "cpu", "quota", &quota, "period", &period) < 0)
		return mlr_fail(err, EPROTO, "'resources': %s", e.text);
	if (quota > INT64_MAX / 100 || period <= 0)
		return mlr_fail(err, EPROTO, "'resources': 'cpu': no such quota or period");
	p->memory = memory > 0 ? (uint64_t)memory : 0;
	cpus = quota > 0 ? quota * 100 / period : 0;
	if (quota > 0)
		p->cpus = cpus < 1 ? 1 : cpus > UINT_MAX ? UINT_MAX : (unsigned)cpus;
	return 0;
}

int resources_plan(const json_t *resources, struct plan *p, struct mlr_error *err)
{
	auto_free char *left = NULL;
	const char *object, *key;
	json_t *members, *v;

	p->has_cgroup = 1;
	if (!resources)
		return 0;
	TRY(read_limits(resources, p, err));
	json_object_foreach((json_t *)resources, object, members) {
		json_auto_t *alone = json_is_object(members) ? json_incref(members)
							     : json_pack("{s:O}", "", members);

		json_object_foreach(alone, key, v) {
			auto_free char *before = NULL;

			if (add_member(object, key, v, alone, p) == 0)
				continue;
			before = take_ptr(&left);
			left = xasprintf("%s%s%s%s%s", before ? before : "", before ? ", " : "",
				object, *key ? "." : "", key);
		}
	}
	if (left)
		mlr_warning(
			"'resources': %s: no control group of yours can have it, ignoring", left);
	return 0;
}
