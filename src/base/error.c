#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int mlr_fail(struct mlr_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		err->code = code;
		va_start(ap, fmt);
		vsnprintf(err->text, sizeof(err->text), fmt, ap);
		va_end(ap);
	}
	return -code;
}

int mlr_fail_errno(struct mlr_error *err, const char *fmt, ...)
{
	int code = errno;
	va_list ap;
	size_t n;

	if (err) {
		err->code = code;
		va_start(ap, fmt);
		vsnprintf(err->text, sizeof(err->text), fmt, ap);
		va_end(ap);
		n = strlen(err->text);
		snprintf(err->text + n, sizeof(err->text) - n, ": %s", strerror(code));
	}
	return -code;
}

int mlr_wrap(struct mlr_error *err, const char *fmt, ...)
{
	struct mlr_error old;
	va_list ap;
	size_t n;

	if (!err)
		return -EIO;
	old = *err;
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	n = strlen(err->text);
	snprintf(err->text + n, sizeof(err->text) - n, ": %s", old.text);
	return -err->code;
}

int mlr_hint(struct mlr_error *err, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (!err)
		return -EIO;
	n = strlen(err->text);
	n += (size_t)snprintf(err->text + n, sizeof(err->text) - n, "\nhint: ");
	if (n < sizeof(err->text)) {
		va_start(ap, fmt);
		vsnprintf(err->text + n, sizeof(err->text) - n, fmt, ap);
		va_end(ap);
	}
	return -err->code;
}
