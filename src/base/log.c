
#include "base/base.h"
#include "base/escape.h"

#define HINT "\nhint: "

enum mlr_level mlr_log_level = MLR_INFO;
static const char *program = "mlrun";

void mlr_log_init(const char *name)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	const char *env = getenv("MLRUN_LOG");

	program = name;
	if (!env || !*env)
		return;
	for (int i = 0; i < 4; i++) {
		if (strcmp(env, names[i]) == 0) {
			mlr_log_level = (enum mlr_level)i;
			return;
		}
	}
	mlr_log(MLR_WARNING, "ignoring MLRUN_LOG='%s': use error, warning, info or debug", env);
}

/* Text from images and servers must not forge lines. */
static size_t put_escaped(char *out, size_t room, const char *s, size_t len)
{
	const char *end = s + len;
	size_t n = 0;

	while (s < end && *s && n + ESCAPE_SIZE <= room) {
		if (*s == '\t') {
			out[n++] = *s++;
		} else {
			s += escape_next(s, out + n);
			n += strlen(out + n);
		}
	}
	return n;
}

/* Write a line whose first n bytes are already set. */
static void put_line(char *line, size_t n, size_t room, const char *words, size_t len)
{
	ssize_t w;

	n += put_escaped(line + n, room - n - 1, words, len);
	line[n++] = '\n';
	w = write(STDERR_FILENO, line, n);
	(void)w; /* failing to write to stderr is no error */
}

void mlr_log(enum mlr_level level, const char *fmt, ...)
{
	static const char *const prefix[] = { "", "warning: ", "", "debug: " };
	char words[2048], line[4096];
	va_list ap;
	size_t n;

	if (level > mlr_log_level)
		return;
	va_start(ap, fmt);
	vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);

	n = (size_t)snprintf(line, sizeof(line), "%s: %s", program, prefix[level]);
	put_line(line, n, sizeof(line), words, strlen(words));
}

void mlr_log_failure(enum mlr_level level, const struct mlr_error *err, const char *then)
{
	const char *hint = strstr(err->text, HINT);
	char line[4096];

	if (level > mlr_log_level)
		return;
	mlr_log(level, "%.*s%s", (int)(hint ? (size_t)(hint - err->text) : strlen(err->text)),
		err->text, then);
	while (hint) {
		const char *words = hint + 1;

		hint = strstr(words, HINT);
		put_line(line, 0, sizeof(line), words,
			hint ? (size_t)(hint - words) : strlen(words));
	}
}
