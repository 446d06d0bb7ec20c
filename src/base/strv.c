
#include "base/base.h"

void strv_done(struct strv *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	l->v = NULL;
	l->n = 0;
}

void strv_add_array(struct strv *l, const char *const *words)
{
	while (*words)
		strv_add(l, *words++);
}

void strv_take(struct strv *l, char *s)
{
	/* The array doubles: its size is a power of two, including the final NULL. */
	if (!l->v || ((l->n + 1) & l->n) == 0)
		l->v = xreallocarray(l->v, 2 * (l->n + 1), sizeof(*l->v));
	l->v[l->n++] = s;
	l->v[l->n] = NULL;
}

void strv_add(struct strv *l, const char *s)
{
	strv_take(l, xstrdup(s));
}

void strv_add_all(struct strv *to, const struct strv *from)
{
	for (size_t i = 0; i < from->n; i++)
		strv_add(to, from->v[i]);
}

void strv_addf(struct strv *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	strv_take(l, xvasprintf(fmt, ap));
	va_end(ap);
}

int strv_has(const struct strv *l, const char *s)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], s) == 0)
			return 1;
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void strv_sort(struct strv *l)
{
	sort_all(l->v, l->n, by_bytes);
}

int strv_has_sorted(const struct strv *l, const char *s)
{
	return l->n > 0 && bsearch(&s, l->v, l->n, sizeof(*l->v), by_bytes);
}

char *const *strv_argv(const struct strv *l)
{
	static char *const none[] = { NULL };

	return l->v ? l->v : none;
}

char *strv_join(const struct strv *l, size_t max, const char *sep)
{
	size_t n = l->n < max ? l->n : max, size = 1;
	char *all, *at;

	for (size_t i = 0; i < n; i++)
		size += strlen(l->v[i]) + strlen(sep);
	all = at = xcalloc(size, 1);
	for (size_t i = 0; i < n; i++)
		at = stpcpy(stpcpy(at, i ? sep : ""), l->v[i]);
	return all;
}

char *strv_join_within(const struct strv *l, size_t bytes, const char *sep)
{
	char *all, *more;
	size_t n = 0;

	for (size_t len = 0; n < l->n; n++) {
		len += strlen(l->v[n]) + (n ? strlen(sep) : 0);
		if (len > bytes)
			break;
	}
	all = strv_join(l, n, sep);
	if (n == l->n)
		return all;
	more = xasprintf("%s%s…", all, n ? sep : "");
	free(all);
	return more;
}

static size_t env_find(const struct strv *l, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < l->n; i++)
		if (strncmp(l->v[i], key, len) == 0 && l->v[i][len] == '=')
			return i;
	return l->n;
}

void strv_env_set(struct strv *l, const char *key, const char *value)
{
	size_t i = env_find(l, key);
	char *s = xasprintf("%s=%s", key, value);

	if (i == l->n) {
		strv_take(l, s);
		return;
	}
	set_ptr(&l->v[i], s);
}

const char *strv_env_get(char *const *env, const char *key)
{
	size_t len = strlen(key);

	for (; env && *env; env++)
		if (strncmp(*env, key, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}
