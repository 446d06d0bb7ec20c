/* "linux.resources" as files of a control group (cgroup v2), a row each. */
#include "bundle/parts.h"

#include "base/base.h"
#include "runtime/limits.h"

#include <sys/param.h>

#define PERIOD_US 100000 /* cpu.max's usual period */

static const struct row {
	const char *object, *key; /* key NULL: all of the object */
	const char *file;         /* NULL: nothing is to be done */
	enum { TEXT, NUMBER, WEIGHT, SWAP } kind;
} rows[] = {
	{ "memory", "limit" }, /* read_limits() */
	{ "memory", "checkBeforeUpdate" }, { "memory", "reservation", "memory.low", NUMBER },
	{ "memory", "swap", "memory.swap.max", SWAP }, { "cpu", "quota" }, /* read_limits() */
	{ "cpu", "period" }, { "cpu", "shares", "cpu.weight", WEIGHT },
	{ "cpu", "cpus", "cpuset.cpus", TEXT }, { "cpu", "mems", "cpuset.mems", TEXT },
	{ "pids", "limit", "pids.max", NUMBER },
	{ "devices" }, /* a container has those that are mounted, and no others */
};

/* A file's text, to free(); "" asks for nothing, NULL is no such value. */
static char *text_of(const struct row *row, const json_t *v, const json_t *in)
{
	json_int_t n = json_integer_value(v);

	if (row->kind == TEXT)
		return json_is_string(v) ? xstrdup(json_string_value(v)) : NULL;
	if (row->kind == SWAP && n > 0) /* version 1's is memory and swap together */
		n = n - json_integer_value(json_object_get(in, "limit")) + 1;
	else if (row->kind == WEIGHT && n > 0) /* 2 to 262144 as 1 to 10000, as crun and runc do */
		n = n >= 262144 ? 10000 : n < 2 ? 1 : 1 + (n - 2) * 9999 / 262142;
	return !json_is_integer(v) ? NULL
		: n <= 0           ? xstrdup("")
				   : xasprintf("%" JSON_INTEGER_FORMAT, n - (row->kind == SWAP));
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
	for (int i = 0; i < 2; i++)
		free(take_ptr(&p->cgroup.v[--p->cgroup.n]));
	return -ENOTSUP;
}

/* Add what a member asks for. Returns 0 if that is possible. */
static int add_member(
	const char *object, const char *key, const json_t *v, const json_t *in, struct plan *p)
{
	auto_free char *text = NULL;

	if (json_object_size(v) + json_array_size(v) + json_string_length(v) == 0 &&
		!json_is_true(v) && !json_integer_value(v))
		return 0;
	if (strcmp(object, "unified") == 0 && json_is_string(v))
		return add(p, key, json_string_value(v));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strcmp(rows[i].object, object) != 0 ||
			(rows[i].key && strcmp(rows[i].key, key) != 0))
			continue;
		text = rows[i].file ? text_of(&rows[i], v, in) : xstrdup("");
		return !text ? -ENOTSUP : *text ? add(p, rows[i].file, text) : 0;
	}
	return -ENOTSUP;
}

static int number(const json_t *resources, const char *object, const char *key, json_int_t *ret,
	struct mlr_error *err)
{
	const json_t *v = json_object_get(json_object_get(resources, object), key);

	if (v && !json_is_integer(v) && !json_is_null(v))
		return mlr_fail(
			err, EPROTO, "'resources': '%s': '%s': expected a number", object, key);
	*ret = json_is_integer(v) ? json_integer_value(v) : *ret;
	return 0;
}

/* Those without which a container does not start. */
static int read_limits(const json_t *resources, struct plan *p, struct mlr_error *err)
{
	json_int_t memory = 0, quota = 0, period = PERIOD_US;

	TRY(number(resources, "memory", "limit", &memory, err));
	TRY(number(resources, "cpu", "quota", &quota, err));
	TRY(number(resources, "cpu", "period", &period, err));
	if (quota > INT64_MAX / 100 || period <= 0)
		return mlr_fail(err, EPROTO, "'resources': 'cpu': no such quota or period");
	p->memory = memory > 0 ? (uint64_t)memory : 0;
	if (quota > 0)
		p->cpus = (unsigned)MIN(MAX(quota * 100 / period, 1), UINT_MAX);
	return 0;
}

int resources_plan(const json_t *resources, struct plan *p, struct mlr_error *err)
{
	auto_strv struct strv left = STRV_INIT;
	auto_free char *names = NULL;
	const char *object, *key;
	json_t *members, *v;

	p->has_cgroup = 1;
	if (!resources)
		return 0;
	TRY(read_limits(resources, p, err));
	json_object_foreach((json_t *)resources, object, members) {
		json_auto_t *alone = json_is_object(members) ? json_incref(members)
							     : json_pack("{s:O}", "", members);

		json_object_foreach(alone, key, v)
			if (add_member(object, key, v, alone, p) < 0)
				strv_addf(&left, "%s%s%s", object, *key ? "." : "", key);
	}
	names = strv_join(&left, left.n, ", ");
	if (left.n)
		mlr_warning(
			"'resources': %s: no control group of yours can have it, ignoring", names);
	return 0;
}
