
#include "base/base.h"

#define LONG 5200 /* a path (PATH_MAX) and words */

/* The code of this thread's last failure without a struct, for the words that are added to it. */
static __thread int last_code = EIO;

/* Keep the code. Returns -code. */
static int keep_code(struct mlr_error *err, int code)
{
	*(err ? &err->code : &last_code) = code;
	return -code;
}

/* Cut a text that is too long at its front: the cause and the hint are at its end. */
static void set_text(struct mlr_error *err, const char *s)
{
	size_t n = strlen(s), room = sizeof(err->text) - 1;

	if (n <= room) {
		memcpy(err->text, s, n + 1);
		return;
	}
	s += n - (room - 3);
	/* Do not start within a UTF-8 character or at the dots of an earlier cut. */
	while (((unsigned char)*s & 0xc0) == 0x80 || *s == '.')
		s++;
	snprintf(err->text, sizeof(err->text), "...%s", s);
}

/* vsnprintf(3) into out, on one line. */
__attribute__((format(printf, 3, 0))) static void say(
	char *out, size_t room, const char *fmt, va_list ap)
{
	static const char shown[] = "\\x0a";
	const size_t more = sizeof(shown) - 2;
	size_t len;

	vsnprintf(out, room, fmt, ap);
	len = strlen(out);
	for (char *s = out; (s = strchr(s, '\n'));) {
		if (len + more >= room) {
			*s = ' ';
			continue;
		}
		memmove(s + 1 + more, s + 1, strlen(s + 1) + 1);
		memcpy(s, shown, 1 + more);
		len += more;
	}
}

int mlr_fail(struct mlr_error *err, int code, const char *fmt, ...)
{
	char words[LONG];
	va_list ap;

	if (err) {
		va_start(ap, fmt);
		say(words, sizeof(words), fmt, ap);
		va_end(ap);
		set_text(err, words);
	}
	return keep_code(err, code);
}

/* The words and the errno value's text. */
__attribute__((format(printf, 3, 0))) static void fail_code(
	struct mlr_error *err, int code, const char *fmt, va_list ap)
{
	char words[LONG + 100];
	size_t n;

	keep_code(err, code);
	if (!err)
		return;
	say(words, LONG, fmt, ap);
	n = strlen(words);
	snprintf(words + n, sizeof(words) - n, ": %s", strerror(code));
	set_text(err, words);
}

int mlr_fail_errno(struct mlr_error *err, const char *fmt, ...)
{
	int code = errno;
	va_list ap;

	va_start(ap, fmt);
	fail_code(err, code, fmt, ap);
	va_end(ap);
	return -code;
}

int mlr_result(struct mlr_error *err, int r, const char *fmt, ...)
{
	va_list ap;

	if (r >= 0)
		return r;
	va_start(ap, fmt);
	fail_code(err, -r, fmt, ap);
	va_end(ap);
	return r;
}

int mlr_wrap(struct mlr_error *err, const char *fmt, ...)
{
	char words[LONG + sizeof(err->text) + 2];
	va_list ap;
	size_t n;

	if (!err)
		return -last_code;
	va_start(ap, fmt);
	say(words, LONG, fmt, ap);
	va_end(ap);
	n = strlen(words);
	snprintf(words + n, sizeof(words) - n, ": %s", err->text);
	set_text(err, words);
	return -err->code;
}

const char *mlr_hint_of(const struct mlr_error *err)
{
	const char *hint = strstr(err->text, "\nhint: ");

	return hint ? hint + strlen("\nhint: ") : NULL;
}

int mlr_hint(struct mlr_error *err, const char *fmt, ...)
{
	char words[sizeof(err->text) + LONG];
	va_list ap;
	int n;

	if (!err)
		return -last_code;
	n = snprintf(words, sizeof(words), "%s\nhint: ", err->text);
	va_start(ap, fmt);
	say(words + n, sizeof(words) - (size_t)n, fmt, ap);
	va_end(ap);
	set_text(err, words);
	return -err->code;
}

int mlr_pass(struct mlr_error *err, int code, const char *text)
{
	if (err)
		set_text(err, text);
	return keep_code(err, code);
}
