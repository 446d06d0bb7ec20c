/*
 * base: the words every room speaks - errors, cleanup, memory, files, logging. Knows no containers.
 *
 * This header: how errors are reported. The function that detects a failure starts a sentence with
 * mlr_fail(); callers that know more put words before it with mlr_wrap(); only cli/ and the mains
 * print it:
 *
 *   mlrun: pull 'demo:1': layer sha256:ab…: short read: Connection reset by peer
 */
#pragma once

struct mlr_error {
	int code;        /* errno value: the kind of failure; 0 = none */
	char text[1020]; /* one sentence, lower case, no full stop; a hint may follow after '\n' */
};

#define MLR_ERROR_INIT \
	{              \
		0, ""  \
	}

/*
 * Start a sentence. It is one line: newlines in the arguments appear as "\x0a", here and in all
 * calls below but mlr_pass(). Otherwise a name that a stranger chose could forge a line of ours, or
 * a hint. If the cause is an errno value, use mlr_fail_errno() or mlr_result().
 *
 *   err   may be NULL if the caller only needs the number
 *   code  positive errno value; HTTP and format failures borrow one: 404 ENOENT, 401/403 EACCES,
 *         bad digest EBADMSG, malformed EPROTO, unknown media type ENOTSUP
 *
 * Returns -code.
 */
int mlr_fail(struct mlr_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same with ": strerror(errno)" appended; returns -errno. */
int mlr_fail_errno(struct mlr_error *err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The same for the result of a call that returns -errno, whose text is appended. Returns r; one
 * that is not negative is no failure, and sets nothing. */
int mlr_result(struct mlr_error *err, int r, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Put "words: " before the text; returns -err->code, with err NULL that of this thread's last
 * failure that had none either. If the text gets too long, its front is cut. */
int mlr_wrap(struct mlr_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Append "\nhint: words", which says what the user can do. Returns like mlr_wrap(). */
int mlr_hint(struct mlr_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The text without hints: two arguments of printf(3)'s "%.*s". */
#define MLR_SENTENCE(err) (int)strcspn((err)->text, "\n"), (err)->text

/* The words of the first hint, which the text's own end; NULL: there is none. */
const char *mlr_hint_of(const struct mlr_error *err);

/* Pass on a text that was made elsewhere with these functions, such as in a child, including hints.
 * Returns -code. */
int mlr_pass(struct mlr_error *err, int code, const char *text);

/* Return a call's negative result to the caller. What the function owns has cleanup attributes. */
#define TRY(call)                          \
	do {                               \
		int try_result = (call);   \
                                           \
		if (try_result < 0)        \
			return try_result; \
	} while (0)
