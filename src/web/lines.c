#include "web/lines.h"

#include "base/json.h"

#include <math.h>

#define BLOCK          ((size_t)256 << 10)
#define LINE_MAX_BYTES ((size_t)4 << 20) /* longer ones are skipped */

/* Replace NaN, Infinity and -Infinity outside of texts by an empty text. Returns whether there were
 * any. */
static int blank_nan(char *s)
{
	static const char *const words[] = { "-Infinity", "Infinity", "NaN" };
	int in_text = 0, found = 0;

	for (; *s; s++) {
		if (in_text && *s == '\\' && s[1])
			s++;
		else if (*s == '"')
			in_text = !in_text;
		for (size_t i = 0; !in_text && i < ARRAY_LEN(words); i++) {
			size_t n = strlen(words[i]);

			if (strncmp(s, words[i], n) != 0)
				continue;
			memset(s, ' ', n);
			memcpy(s, "\"\"", 2); /* a text is no number; "NaN" has no room for null */
			s += n - 1;
			found = 1;
		}
	}
	return found;
}

json_t *lines_parse(const char *line, size_t len, int *has_nan)
{
	json_t *o = mlr_json_load(line, len, 0, NULL);

	*has_nan = 0;
	if (!o && (memmem(line, len, "NaN", 3) || memmem(line, len, "Infinity", 8))) {
		auto_free char *copy = xstrndup(line, len);

		*has_nan = blank_nan(copy);
		o = mlr_json_load(copy, strlen(copy), 0, NULL);
	}
	if (json_is_object(o))
		return o;
	json_decref(o);
	return NULL;
}

double lines_step(const json_t *o)
{
	static const char *const keys[] = { "step", "_step", "iteration", "epoch" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (json_is_number(json_object_get(o, keys[i])))
			return json_number_value(json_object_get(o, keys[i]));
	return NAN;
}

off_t lines_read(int fd, off_t from, off_t to,
	void (*line)(void *ctx, const char *text, size_t len), void *ctx)
{
	size_t room = BLOCK, have = 0;
	auto_free char *buf = xmalloc(room);
	int skips = 0; /* within a line that is too long */

	while (from + (off_t)have < to) {
		char *begin = buf, *end;
		off_t want;
		ssize_t n;

		if (have == room && room < LINE_MAX_BYTES)
			buf = xreallocarray(buf, room *= 2, 1);
		else if (have == room) {
			from += (off_t)have;
			have = 0;
			skips = 1;
		}
		want = to - from - (off_t)have;
		n = pread(fd, buf + have, want < (off_t)(room - have) ? (size_t)want : room - have,
			from + (off_t)have);
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
		for (begin = buf; (end = memchr(begin, '\n', have - (size_t)(begin - buf)));
			begin = end + 1) {
			size_t len = (size_t)(end - begin);

			if (!skips)
				line(ctx, begin, len && begin[len - 1] == '\r' ? len - 1 : len);
			skips = 0;
		}
		have -= (size_t)(begin - buf);
		from += begin - buf;
		memmove(buf, begin, have);
	}
	return from;
}
