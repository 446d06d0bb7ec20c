#include "gpu/choice/variable.h"

#define SHOWN_MAX 200 /* bytes of a value quoted in messages */

struct gpu_variable gpu_variable_get(
	const struct gpu_request *q, const struct plan *p, const char *key)
{
	struct gpu_variable v = { key, plan_env_get(p, key), plan_env_origin(p, key) };
	const char *callers = strv_env_get(q->caller, key);

	/* --clearenv drops the caller's value. */
	if (v.value && v.origin == PLAN_FROM_IMAGE && callers && !strv_has(&p->dropped, key)) {
		v.value = callers;
		v.origin = PLAN_FROM_CALLER;
	}
	return v;
}

char *gpu_variable_print(const char *key, const char *value)
{
	return xasprintf("%s=%.*s%s", key, SHOWN_MAX, value, strlen(value) > SHOWN_MAX ? "…" : "");
}

char *gpu_variable_who(const struct gpu_variable *v)
{
	static const char *const owners[] = { [PLAN_FROM_USER] = "-e ",
		[PLAN_FROM_SITE] = "the site's ",
		[PLAN_FROM_CONFIG] = "the configuration's ",
		[PLAN_FROM_CALLER] = "the caller's ",
		[PLAN_FROM_IMAGE] = "the image's " };
	auto_free char *text = gpu_variable_print(v->key, v->value);

	if (v->origin < ARRAY_LEN(owners) && owners[v->origin])
		return xasprintf("%s%s", owners[v->origin], text);
	return take_ptr(&text);
}

void gpu_variable_items(const char *text, struct strv *ret)
{
	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ","), from = strspn(at, " \t");

		while (len > from && isblank((unsigned char)at[len - 1]))
			len--;
		if (len > from)
			strv_take(ret, xstrndup(at + from, len - from));
		at += strcspn(at, ",");
		if (!*at)
			return;
	}
}
