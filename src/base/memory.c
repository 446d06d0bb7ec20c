
#include "base/base.h"

static void oom_exit(void)
{
	static const char msg[] = "mlrun: out of memory\n";
	ssize_t n = write(2, msg, sizeof(msg) - 1);

	(void)n;
	_exit(125);
}

void (*mlr_oom)(void) = oom_exit;

static void *need(void *p)
{
	if (!p) {
		mlr_oom();
		abort();
	}
	return p;
}

void *xmalloc(size_t size)
{
	return need(malloc(size ? size : 1));
}

void *xcalloc(size_t n, size_t size)
{
	return need(calloc(n ? n : 1, size ? size : 1));
}

void *xreallocarray(void *p, size_t n, size_t size)
{
	return need(reallocarray(p, n ? n : 1, size ? size : 1));
}

void *xgrow(void *p, size_t n, size_t size)
{
	if (p && (n < 8 || (n & (n - 1)) != 0))
		return p;
	return xreallocarray(p, n < 8 ? 8 : 2 * n, size);
}

char *xstrdup(const char *s)
{
	return need(strdup(s));
}

char *xstrndup(const char *s, size_t n)
{
	return need(strndup(s, n));
}

char *xreplace(const char *text, const char *old, const char *by)
{
	size_t n = strlen(old), m = strlen(by), len = strlen(text) + 1;
	char *ret, *out;

	for (const char *s = text; (s = strstr(s, old)); s += n)
		len += m;
	ret = out = xmalloc(len);
	for (const char *s; (s = strstr(text, old)); text = s + n) {
		out = mempcpy(out, text, (size_t)(s - text));
		out = mempcpy(out, by, m);
	}
	strcpy(out, text);
	return ret;
}

char *xvasprintf(const char *fmt, va_list ap)
{
	char *s = NULL;

	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	return need(s);
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	s = xvasprintf(fmt, ap);
	va_end(ap);
	return s;
}
