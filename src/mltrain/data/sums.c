#include "data/sums.h"

#include "base/base.h"

int sums_is_digest(const char *hex)
{
	return strlen(hex) == HASH_HEX_SIZE - 1 &&
		strspn(hex, "0123456789abcdef") == HASH_HEX_SIZE - 1;
}

static int read_all(int dirfd, char **ret, struct mlr_error *err)
{
	int r = file_read(dirfd, SUMS_FILE, SUMS_BYTES_MAX, ret, NULL, err);

	if (r == -ENOENT) {
		*ret = xstrdup("");
		return 0;
	}
	return r;
}

/* Does a line belong to this file? Two blanks, or a blank and '*', precede the name. */
static int is_of(const char *line, size_t len, const char *name)
{
	size_t n = strlen(name), digits = HASH_HEX_SIZE - 1;

	return len == digits + 2 + n && line[digits] == ' ' &&
		(line[digits + 1] == ' ' || line[digits + 1] == '*') &&
		memcmp(line + digits + 2, name, n) == 0;
}

int sums_find(int dirfd, const char *name, char hex[HASH_HEX_SIZE], struct mlr_error *err)
{
	auto_free char *text = NULL;

	TRY(read_all(dirfd, &text, err));
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");

		if (is_of(line, len, name)) {
			memcpy(hex, line, HASH_HEX_SIZE - 1);
			hex[HASH_HEX_SIZE - 1] = '\0';
			return sums_is_digest(hex);
		}
		line += len + (line[len] == '\n');
	}
	return 0;
}

int sums_put(int dirfd, const char *name, const char *hex, struct mlr_error *err)
{
	auto_free char *text = NULL, *kept = NULL, *all = NULL;
	size_t n = 0;

	TRY(read_all(dirfd, &text, err));
	kept = xcalloc(strlen(text) + 2, 1);
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");

		if (!is_of(line, len, name)) {
			memcpy(kept + n, line, len);
			n += len;
			kept[n++] = '\n';
		}
		line += len + (line[len] == '\n');
	}
	all = xasprintf("%s%s  %s\n", kept, hex, name);
	return file_replace(dirfd, SUMS_FILE, all, strlen(all), 0644, err);
}
