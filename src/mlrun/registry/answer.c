#include "registry/answer.h"

#include "oci/json.h"

/* The text of an element of S3's answers: "<Code>AccessDenied</Code>". */
static void element(const char *xml, const char *name, char *ret, size_t size)
{
	auto_free char *begin = xasprintf("<%s>", name);
	const char *at = strstr(xml, begin);

	if (at)
		snprintf(ret, size, "%.*s", (int)strcspn(at + strlen(begin), "<"),
			at + strlen(begin));
}

struct problem {
	char *code, *message, *details, *description;
	int n; /* errors */
};

#define AT(member) RECORD_AT(struct problem, member)

/* Read a text, and ignore any other value. */
static int read_words(const struct record_reader *r, const json_t *v, void *to)
{
	return json_is_string(v) ? record_text(r, v, to) : 0;
}

static const struct record_row error_rows[] = {
	{ "code", RECORD_TEXT, AT(code), .read = read_words },
	{ "message", RECORD_TEXT, AT(message), .read = read_words },
	{ NULL },
};

/* The first error counts. */
static int read_error(const struct record_reader *r, const json_t *v, void *to)
{
	struct problem *p = to;

	return p->n++ == 0 ? record_read(r, error_rows, v, p) : 0;
}

/* Registries use "errors"; token servers use "details" (Docker Hub) or "error_description"
 * (OAuth2). */
static const struct record_row problem_rows[] = {
	{ "errors", RECORD_STRUCT, .rows = error_rows, .flags = RECORD_EACH, .read = read_error },
	{ "details", RECORD_TEXT, AT(details), .read = read_words },
	{ "error_description", RECORD_TEXT, AT(description), .read = read_words },
	{ NULL },
};

void answer_problem(const struct http_exchange *x, char code[ANSWER_CODE_SIZE],
	char message[ANSWER_MESSAGE_SIZE])
{
	struct problem p = { NULL };
	const char *m;

	code[0] = message[0] = '\0';
	if (x->problem && *x->problem == '<') {
		element(x->problem, "Code", code, ANSWER_CODE_SIZE);
		element(x->problem, "Message", message, ANSWER_MESSAGE_SIZE);
		return;
	}
	if (x->problem &&
		oci_json_read(x->problem, strlen(x->problem), 1 << 20, problem_rows, &p, NULL) ==
			0) {
		m = p.n ? p.message : p.details ? p.details : p.description;
		snprintf(code, ANSWER_CODE_SIZE, "%s", p.code ? p.code : "");
		snprintf(message, ANSWER_MESSAGE_SIZE, "%s", m ? m : "");
	}
	record_done(problem_rows, &p);
}

static int hint_refused(const struct answer_to *to, struct mlr_error *err)
{
	if (strstr(err->text, "\nhint: "))
		return -err->code;
	if (to->is_upload && to->user)
		return mlr_hint(err,
			"may '%s' push to '%s'? Check the spelling, ask its owner for the right, or log "
			"in anew: mlrun login %s",
			to->user, to->repository, to->registry);
	if (to->is_upload)
		return mlr_hint(err, "log in first: mlrun login %s", to->registry);
	if (to->user)
		return mlr_hint(err,
			"a wrong name, or one that '%s' may not pull? Check the spelling, ask its owner "
			"for the right, or log in anew: mlrun login %s",
			to->user, to->registry);
	return mlr_hint(err,
		"a wrong name or a private image? Check the spelling, or log in: mlrun login %s",
		to->registry);
}

int answer_refused(const struct answer_to *to, struct mlr_error *err)
{
	err->code = EACCES;
	if (*to->repository)
		mlr_wrap(err, "'%s' refuses '%s'", to->registry, to->repository);
	else
		mlr_wrap(err, "'%s' refuses", to->registry);
	return hint_refused(to, err);
}

static int fail_missing(const struct answer_to *to, const char *code, struct mlr_error *err)
{
	if (!*to->repository) {
		mlr_fail(err, ENOENT, "'%s' is not a registry: it has no /v2/", to->registry);
		return mlr_hint(err, "check the name; a registry's is often not its web site's");
	}
	if (strcmp(code, "NAME_UNKNOWN") == 0)
		mlr_fail(err, ENOENT, "'%s' has no repository '%s'", to->registry, to->repository);
	else
		mlr_fail(err, ENOENT, "'%s' has no %s in '%s'", to->registry, to->what,
			to->repository);
	if (to->is_upload)
		return mlr_hint(err,
			"some registries want a project or a repository to be made on their web page "
			"before the first push");
	if (strncmp(to->what, "blob ", 5) == 0)
		return mlr_hint(
			err, "a part of the image is missing there: its owner must push it again");
	if (strcmp(code, "MANIFEST_UNKNOWN") == 0)
		return mlr_hint(err,
			"check the spelling of the name; mlrun tags %s/%s lists the tags that there are",
			to->registry, to->repository);
	return mlr_hint(err,
		"check the spelling of the name and the tag; a registry other than Docker Hub "
		"stands before the first '/'");
}

/* "; 0 of 100 pulls left in 6 h" from "100;w=21600" and "0;w=21600" (Docker Hub's headers). */
static void describe_quota(const struct http_exchange *x, char ret[80])
{
	const char *window = x->quota_left ? strstr(x->quota_left, ";w=") : NULL;
	long seconds = window ? strtol(window + 3, NULL, 10) : 0;
	char of[32] = "", within[32] = "";

	ret[0] = '\0';
	if (!x->quota_left)
		return;
	if (x->quota)
		snprintf(of, sizeof(of), " of %ld", strtol(x->quota, NULL, 10));
	if (seconds >= 3600)
		snprintf(within, sizeof(within), " in %ld h", seconds / 3600);
	else if (seconds > 0)
		snprintf(within, sizeof(within), " in %ld s", seconds);
	snprintf(ret, 80, "; %ld%s pulls left%s", strtol(x->quota_left, NULL, 10), of, within);
}

static int fail_busy(struct http_exchange *x, const struct answer_to *to, const char *message,
	struct mlr_error *err)
{
	char quota[80];

	describe_quota(x, quota);
	/* An exhausted quota takes hours to come back, so do not retry. */
	if (x->quota_left && strtol(x->quota_left, NULL, 10) == 0 && x->retry_after < 0)
		x->transient = 0;
	mlr_fail(err, EBUSY, "'%s' says: too many requests%s%s%s", to->registry,
		*message ? ": " : "", message, quota);
	if (to->is_upload)
		return mlr_hint(err, "wait, and push again: what is there is not sent again");
	if (to->user)
		return mlr_hint(err,
			"the registry limits the pulls of '%s': wait, or pull once and share the "
			"store",
			to->user);
	return mlr_hint(err,
		"registries limit anonymous pulls by address: log in (mlrun login %s), wait, or "
		"pull once and share the store",
		to->registry);
}

static int fail_refused(struct http_exchange *x, const struct answer_to *to, const char *message,
	struct mlr_error *err)
{
	mlr_fail(err, EACCES, "HTTP status %d%s%s", x->status, *message ? ": " : "", message);
	/* Redirects lead to signed URLs, which expire; a retry gets a new one. */
	x->transient = x->redirected;
	if (x->redirected)
		return mlr_wrap(err, "%s: the registry's storage refuses it", to->what);
	return answer_refused(to, err);
}

static int fail_read_only(const struct answer_to *to, const char *message, struct mlr_error *err)
{
	mlr_fail(err, EROFS, "'%s' takes no images%s%s", to->registry, *message ? ": " : "",
		message);
	return mlr_hint(err, "it is a mirror or read-only: push to the registry behind it");
}

static int fail_too_large(const struct answer_to *to, struct mlr_error *err)
{
	mlr_fail(err, EMSGSIZE, "'%s' finds %s too large for one request", to->registry, to->what);
	return mlr_hint(err,
		"a proxy before the registry limits requests: ask its administrator for more "
		"(nginx: client_max_body_size)");
}

int answer_fail(struct http_exchange *x, const struct answer_to *to, struct mlr_error *err)
{
	char code[ANSWER_CODE_SIZE], message[ANSWER_MESSAGE_SIZE];

	answer_problem(x, code, message);
	x->transient = x->status == 408 || x->status == 429 || x->status >= 500;
	if (to->is_upload && x->status == 405)
		return fail_read_only(to, message, err);
	if (to->is_upload && x->status == 413)
		return fail_too_large(to, err);
	switch (x->status) {
	case 401:
	case 403:
		return fail_refused(x, to, message, err);
	case 404:
		return fail_missing(to, code, err);
	case 429:
		return fail_busy(x, to, message, err);
	default:
		/* An expired signature; and a registry that reads a file which another push of the
		 * same image is writing (docker-registry's links) finds another digest in it. */
		x->transient |= x->status == 400 &&
			(x->redirected || (to->is_upload && strcmp(code, "DIGEST_INVALID") == 0));
		return mlr_fail(err, x->status >= 500 ? EIO : EPROTO,
			"'%s' answers HTTP status %d for %s%s%s", to->registry, x->status, to->what,
			*message ? ": " : "", message);
	}
}
