/* Merges the values of several files (13-merge.md of the specification). */
#include "compose/parts.h"

#define LONG  1000 /* items: what such a list repeats stays */
#define OTHER 10   /* a depth without services */

enum manner {
	PLAIN,   /* mappings by their keys; a list behind the other; else the later one */
	REPLACE, /* the later one */
	PAIRS,   /* "K=V" by K */
	HOSTS,   /* the same with "K:V" */
	NAMES,   /* a list of names stands for a mapping without values */
	TARGETS, /* items by where they are in the container */
	ONE,     /* a text may stand for a list of one */
	CONTEXT, /* a text is the key "context" */
};

/* where: a key of a service, such as "build.args"; "" elsewhere. */
static enum manner manner_of(const char *where)
{
	static const struct {
		const char *where;
		enum manner manner;
	} rows[] = { { "command", REPLACE }, { "entrypoint", REPLACE },
		{ "healthcheck.test", REPLACE }, { "environment", PAIRS }, { "labels", PAIRS },
		{ "build.args", PAIRS }, { "extra_hosts", HOSTS }, { "depends_on", NAMES },
		{ "networks", NAMES }, { "volumes", TARGETS }, { "devices", TARGETS },
		{ "secrets", TARGETS }, { "configs", TARGETS }, { "env_file", ONE },
		{ "tmpfs", ONE }, { "build", CONTEXT } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcmp(rows[i].where, where) == 0)
			return rows[i].manner;
	return PLAIN;
}

/* "K=V" or "K" into a mapping, in which a K alone is the caller's. */
static void put_pair(json_t *map, const char *text, const char *ends)
{
	size_t len = strcspn(text, ends);
	auto_free char *key = xstrndup(text, len);

	json_object_set_new(map, key, text[len] ? json_string(text + len + 1) : json_null());
}

/* The value in the form that can be merged with another. */
static json_t *spread(const json_t *v, enum manner manner)
{
	json_t *ret, *item;
	size_t i;

	if (manner == ONE && !json_is_array(v))
		return json_pack("[O]", v);
	if (manner == CONTEXT && json_is_string(v))
		return json_pack("{s:O}", "context", v);
	if (!json_is_array(v) || (manner != PAIRS && manner != HOSTS && manner != NAMES))
		return json_incref((json_t *)v);
	ret = json_object();
	json_array_foreach((json_t *)v, i, item) {
		const char *text = json_string_value(item);

		if (!text) { /* it is wrong: let its reader say so */
			json_decref(ret);
			return json_incref((json_t *)v);
		}
		if (manner == NAMES)
			json_object_set_new(ret, text, json_object());
		else
			put_pair(ret, text, manner == HOSTS ? ":=" : "=");
	}
	return ret;
}

/* Where an item of volumes, devices, secrets or configs is in the container; to free(). */
static char *target_of(const json_t *item)
{
	const char *text = json_string_value(item),
		   *target = json_string_value(json_object_get(item, "target")),
		   *source = json_string_value(json_object_get(item, "source"));
	const char *colon = text ? strchr(text, ':') : NULL;

	if (colon)
		return xstrndup(colon + 1, strcspn(colon + 1, ":"));
	return xstrdup(text ? text : target ? target : source ? source : "");
}

static int is_same(const json_t *a, const json_t *b, enum manner manner)
{
	auto_free char *x = manner == TARGETS ? target_of(a) : NULL,
		       *y = manner == TARGETS ? target_of(b) : NULL;

	return x ? *x && strcmp(x, y) == 0 : json_equal(a, b);
}

static json_t *append(const json_t *base, const json_t *over, enum manner manner)
{
	json_t *ret = json_array(), *item;
	size_t i, k;

	json_array_extend(ret, (json_t *)base);
	json_array_foreach((json_t *)over, i, item) {
		size_t n = json_array_size(ret);

		for (k = n > LONG ? n : 0; k < n; k++)
			if (is_same(json_array_get(ret, k), item, manner))
				break;
		if (k < n)
			json_array_set(ret, k, item);
		else
			json_array_append(ret, item);
	}
	return ret;
}

/* depth: 0 the file, 1 its services, 2 a service, 3 a key of it. */
static json_t *merge(const json_t *base, const json_t *over, int depth, const char *where);

/* Where a value is, below a mapping at a place. */
static char *place_of(int depth, const char *where, const char *key)
{
	return depth == 2    ? xstrdup(key)
		: depth == 3 ? xasprintf("%s.%s", where, key)
			     : xstrdup("");
}

/* Without a base the mapping itself is taken as long as nothing in it changes. */
static json_t *update(const json_t *base, const json_t *over, int depth, const char *where)
{
	json_t *ret = json_copy((json_t *)(base ? base : over)), *item;
	int is_new = base != NULL;
	const char *key;

	json_object_foreach((json_t *)over, key, item) {
		auto_free char *place = place_of(depth, where, key);
		int below = depth == 0 && strcmp(key, "services") != 0 ? OTHER : depth + 1;
		json_t *merged =
			merge(base ? json_object_get(base, key) : NULL, item, below, place);

		is_new |= merged != item;
		if (merged)
			json_object_set_new(ret, key, merged);
		else
			json_object_del(ret, key);
	}
	if (is_new)
		return ret;
	json_decref(ret);
	return json_incref((json_t *)over);
}

/* Returns NULL for a value that is to go. */
static json_t *merge(const json_t *base, const json_t *over, int depth, const char *where)
{
	enum manner manner = manner_of(where);
	const json_t *instead = json_object_get(over, "!override");
	json_auto_t *a = NULL, *b = NULL;

	if (json_object_get(over, "!reset"))
		return NULL;
	if (instead)
		return merge(NULL, instead, depth, where);
	if (json_is_null(over) && (json_is_object(base) || json_is_array(base)))
		return json_incref((json_t *)base);
	if (!base || manner == REPLACE)
		return json_is_object(over) ? update(NULL, over, depth, where)
					    : json_incref((json_t *)over);
	a = spread(base, manner);
	b = spread(over, manner);
	if (json_is_object(a) && json_is_object(b))
		return update(a, b, depth, where);
	if (json_is_array(a) && json_is_array(b))
		return append(a, b, manner);
	return json_is_object(b) ? update(NULL, b, depth, where) : json_incref(b);
}

json_t *compose_merge(const json_t *base, const json_t *over, enum compose_level level)
{
	return merge(base, over, (int)level, "");
}
