#include "registry/answer.h"

#include "base/cleanup.h"
#include "base/memory.h"
#include "oci/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The first error's code, and its message where there is one; both "" when the body is none. */
static void read_problem(const struct http_exchange *x, char code[64], char message[200])
{
	json_auto_t *root = NULL;
	const char *c = NULL, *m = NULL;
	json_t *list = NULL, *first;

	code[0] = message[0] = '\0';
	if (!x->problem ||
		oci_json_load(x->problem, strlen(x->problem), 1 << 20, &root, NULL) < 0 ||
		oci_json_array(root, "errors", &list, NULL) < 0)
		return;
	first = json_array_get(list, 0);
	if (!json_is_object(first) || oci_json_text(first, "code", &c, NULL) < 0 ||
		oci_json_text(first, "message", &m, NULL) < 0)
		return;
	snprintf(code, 64, "%s", c ? c : "");
	snprintf(message, 200, "%s", m ? m : "");
}

int answer_refused(const char *registry, const char *repository, struct mlr_error *err)
{
	err->code = EACCES;
	mlr_wrap(err, "'%s' refuses '%s'", registry, repository);
	return mlr_hint(err,
		"a wrong name or a private image? mlrun has no login yet: check the spelling, or "
		"copy a private image with skopeo to a registry that needs none");
}

static int fail_missing(const char *registry, const char *repository, const char *what,
	const char *code, struct mlr_error *err)
{
	if (strcmp(code, "NAME_UNKNOWN") == 0)
		mlr_fail(err, ENOENT, "'%s' has no repository '%s'", registry, repository);
	else
		mlr_fail(err, ENOENT, "'%s' has no %s in '%s'", registry, what, repository);
	return mlr_hint(err,
		"check the spelling of the name and the tag; a registry other than Docker Hub "
		"stands before the first '/'");
}

int answer_fail(struct http_exchange *x, const char *registry, const char *repository,
	const char *what, struct mlr_error *err)
{
	char code[64], message[200];

	read_problem(x, code, message);
	x->transient = x->status == 408 || x->status == 429 || x->status >= 500;
	switch (x->status) {
	case 401:
	case 403:
		/* Signed addresses, which redirects lead to, run out; new ones are made. */
		x->transient = x->redirected;
		mlr_fail(err, EACCES, "HTTP status %d%s%s", x->status, *message ? ": " : "",
			message);
		if (x->redirected)
			return mlr_wrap(err, "%s: the registry's storage refuses it", what);
		return answer_refused(registry, repository, err);
	case 404:
		return fail_missing(registry, repository, what, code, err);
	case 429:
		mlr_fail(err, EBUSY, "'%s' says: too many requests%s%s", registry,
			*message ? ": " : "", message);
		return mlr_hint(err,
			"registries limit anonymous pulls by address: wait, or pull once and "
			"share the store");
	default:
		return mlr_fail(err, x->status >= 500 ? EIO : EPROTO,
			"'%s' answers HTTP status %d for %s%s%s", registry, x->status, what,
			*message ? ": " : "", message);
	}
}
