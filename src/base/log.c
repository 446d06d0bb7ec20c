#include "base/log.h"

#include "base/escape.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	mlr_log(MLR_WARNING, "MLRUN_LOG='%s' is none of error, warning, info, debug, ignoring", env);
}

/* Text from images and servers comes along here and must forge no line: only a hint gets its own. */
static size_t put_escaped(char *out, size_t room, const char *s)
{
	size_t n = 0;

	while (*s && n + ESCAPE_SIZE <= room) {
		if (*s == '\t' || strncmp(s, "\nhint: ", strlen("\nhint: ")) == 0) {
			out[n++] = *s++;
		} else {
			s += escape_next(s, out + n);
			n += strlen(out + n);
		}
	}
	return n;
}

/* Write a line whose first n bytes stand already. */
static void put_line(char *line, size_t n, size_t room, const char *words)
{
	ssize_t w;

	n += put_escaped(line + n, room - n - 1, words);
	line[n++] = '\n';
	w = write(STDERR_FILENO, line, n);
	(void)w; /* a closed stderr is nobody's failure */
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
	put_line(line, n, sizeof(line), words);
}

void mlr_log_error(const struct mlr_error *err)
{
	const char *hint = strstr(err->text, "\nhint: ");
	char line[4096];

	if (!hint) {
		mlr_log(MLR_ERROR, "%s", err->text);
		return;
	}
	mlr_log(MLR_ERROR, "%.*s", (int)(hint - err->text), err->text);
	put_line(line, 0, sizeof(line), hint + 1);
}
