
#include "base/base.h"

char *path_clean(const char *path)
{
	char *out, *end;

	if (path[0] != '/')
		return NULL;
	out = end = xmalloc(strlen(path) + 2);
	for (const char *s = path; *s;) {
		size_t len;

		s += strspn(s, "/");
		len = strcspn(s, "/");
		if (len == 2 && s[0] == '.' && s[1] == '.') {
			while (end > out && *--end != '/')
				;
		} else if (len > 0 && !(len == 1 && s[0] == '.')) {
			*end++ = '/';
			end = mempcpy(end, s, len);
		}
		s += len;
	}
	if (end == out)
		*end++ = '/';
	*end = '\0';
	return out;
}

int path_below(const char *path, const char *prefix)
{
	size_t len = strlen(prefix);

	if (strcmp(prefix, "/") == 0)
		return 1;
	return strncmp(path, prefix, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

char *path_dir(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : xstrdup(".");
}

int path_ends(const char *path, const char *end)
{
	size_t n = strlen(path), len = strlen(end);

	return n > len && strcmp(path + n - len, end) == 0;
}
