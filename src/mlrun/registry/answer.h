/*
 * What it means when a registry answers with another status than 200 (distribution-spec, "Error
 * Codes"): one sentence that says what is wrong and, where the user can act, how.
 * docs/pull-failures.md lists them.
 */
#ifndef MLR_REGISTRY_ANSWER_H
#define MLR_REGISTRY_ANSWER_H

#include "base/error.h"
#include "registry/http.h"

#define ANSWER_CODE_SIZE    64
#define ANSWER_MESSAGE_SIZE 200

/* Who was asked, by whom, for what. */
struct answer_to {
	const char *registry;   /* as the user wrote it, "docker.io" */
	const char *repository; /* "library/debian"; "": the registry as such */
	const char *what;       /* "tag 'latest'", "blob sha256:…" */
	const char *user;       /* whose credentials were sent, NULL: nobody's */
};

/* Sets x->transient. Returns -ENOENT (404), -EACCES (401, 403), -EBUSY (429), -EPROTO or -EIO. */
int answer_fail(struct http_exchange *x, const struct answer_to *to, struct mlr_error *err);

/* The same for a 401 that nothing can cure; err holds why. Returns -EACCES. */
int answer_refused(const struct answer_to *to, struct mlr_error *err);

/* The first error's code in a body that is JSON, and its message; "" when there is none. */
void answer_problem(const struct http_exchange *x, char code[ANSWER_CODE_SIZE],
	char message[ANSWER_MESSAGE_SIZE]);

#endif
