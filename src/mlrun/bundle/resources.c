/* "linux.resources" as files of a control group (cgroup v2), a row each. */
#include "bundle/parts.h"

#include "runtime/limits.h"

static const struct row {
	const char *object, *key; /* key NULL: all of the object */
	const char *file;         /* NULL: nothing is to be done */
	enum { TEXT, NUMBER, QUOTA, WEIGHT, SWAP } kind;
	int must; /* without it a container does not start */
} rows[] = {
	{ "memory", "limit", "memory.max", NUMBER, 1 },
	{ "memory", "reservation", "memory.low", NUMBER },
	{ "memory", "swap", "memory.swap.max", SWAP }, { "memory", "checkBeforeUpdate" },
	{ "cpu", "quota", "cpu.max", QUOTA, 1 }, { "cpu", "period" },
	{ "cpu", "shares", "cpu.weight", WEIGHT }, { "cpu", "cpus", "cpuset.cpus", TEXT },
	{ "cpu", "mems", "cpuset.mems", TEXT }, { "pids", "limit", "pids.max", NUMBER },
	{ "devices" }, /* a container has those that are mounted, and no others */
};

/* A file's text, to free(); NULL: it asks for nothing. */
static char *text_of(const struct row *row, const json_t *v, const json_t *in)
{
	json_int_t n = json_integer_value(v), beside = 0;

	if (row->kind == TEXT)
		return xstrdup(json_string_value(v));
	if (row->kind == QUOTA)
		beside = json_integer_value(json_object_get(in, "period"));
	if (row->kind == SWAP) /* version 1's is memory and swap together */
		beside = json_integer_value(json_object_get(in, "limit"));
	if (row->kind == WEIGHT && n == 1024) /* as every process has */
		return NULL;
	if (row->kind == WEIGHT) /* 2 to 262144 as 1 to 10000, as crun and runc do */
		n = n >= 262144 ? 10000 : n < 2 ? n : 1 + (n - 2) * 9999 / 262142;
	if (n <= 0 || (row->kind == SWAP && n < beside))
		return NULL;
	return row->kind == QUOTA
		? xasprintf("%" PRId64 " %" PRId64, (int64_t)n, (int64_t)(beside ? beside : 100000))
		: xasprintf("%" PRId64, (int64_t)(n - beside));
}

/* Add a file, unless no group of the caller's has it. */
static int add(struct plan *p, const char *file, const char *text, struct mlr_error *err)
{
	auto_free char *group = NULL;
	int r;

	if (strchr(file, '/'))
		return mlr_fail(err, EINVAL, "'%s' is not a file of a control group", file);
	strv_add_words(&p->cgroup, file, text);
	r = cgroup_find("/", p, &group, err);
	for (int i = 0; r < 0 && i < 2; i++)
		free(take_ptr(&p->cgroup.v[--p->cgroup.n]));
	return r;
}

/* Add what a member asks for. Returns 0 if that is possible; -EPROTO for a wrong one; -EPERM for
 * one that must be possible. */
static int add_member(const char *object, const char *key, const json_t *v, const json_t *in,
	struct plan *p, struct mlr_error *err)
{
	auto_free char *text = NULL;
	const struct row *row = rows, *end = rows + ARRAY_LEN(rows);
	int r;

	if (json_object_size(v) + json_array_size(v) + json_string_length(v) == 0 &&
		!json_is_true(v) && !json_number_value(v))
		return 0;
	if (strcmp(object, "unified") == 0 && json_is_string(v))
		return add(p, key, json_string_value(v), err);
	while (row < end && (strcmp(row->object, object) || (row->key && strcmp(row->key, key))))
		row++;
	if (row == end || !row->file)
		return row == end ? mlr_fail(err, ENOTSUP, "not supported") : 0;
	if (row->kind == TEXT ? !json_is_string(v) : !json_is_integer(v))
		return mlr_fail(err, EPROTO, "expected a %s", row->kind ? "number" : "string");
	text = text_of(row, v, in);
	r = text ? add(p, row->file, text, err) : 0;
	return r < 0 && row->must ? -EPERM : r;
}

int resources_plan(const json_t *resources, struct plan *p, struct mlr_error *err)
{
	auto_strv struct strv left = STRV_INIT;
	auto_free char *names = NULL;
	const char *object, *key;
	json_t *members, *v;

	p->has_cgroup = 1;
	if (resources && !json_is_object(resources) && !json_is_null(resources))
		return mlr_fail(err, EPROTO, "'resources': expected an object");
	json_object_foreach((json_t *)resources, object, members) {
		json_auto_t *alone = json_is_object(members) ? json_incref(members)
							     : json_pack("{s:O}", "", members);

		json_object_foreach(alone, key, v) {
			struct mlr_error why = MLR_ERROR_INIT;
			int r = add_member(object, key, v, alone, p, &why);

			if (r == -EPROTO || r == -EPERM) {
				mlr_pass(err, why.code, why.text);
				return mlr_wrap(err, "'resources': %s.%s", object, key);
			}
			if (r < 0)
				strv_addf(&left, "%s%s%s", object, *key ? "." : "", key);
		}
	}
	names = strv_join(&left, left.n, ", ");
	if (left.n)
		mlr_warning(
			"'resources': %s: no control group of yours can have it, ignoring", names);
	return 0;
}
