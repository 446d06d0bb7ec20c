/*
 * Turns a registry's response with a status other than 200 (distribution-spec, "Error Codes") into
 * one sentence that says what is wrong, with a hint if the user can act. docs/pull-failures.md
 * lists them.
 */
#pragma once

#include "registry/http.h"

#define ANSWER_CODE_SIZE    64
#define ANSWER_MESSAGE_SIZE 200

/* The request that failed. */
struct answer_to {
	const char *registry;   /* as the user wrote it, "docker.io" */
	const char *repository; /* "library/debian"; "" for the registry itself */
	const char *what;       /* "tag 'latest'", "blob sha256:…" */
	const char *user;       /* whose credentials were sent, or NULL */
	int is_upload;          /* the words are a push's, not a pull's */
};

/* Sets x->transient. Returns -ENOENT (404), -EACCES (401, 403), -EBUSY (429), -EPROTO or -EIO. */
int answer_fail(struct http_exchange *x, const struct answer_to *to, struct mlr_error *err);

/* The same for a 401 after which there is nothing left to try; err holds the reason. Returns
 * -EACCES. */
int answer_refused(const struct answer_to *to, struct mlr_error *err);

/* The first error's code and message in a JSON body; "" for what is missing. */
void answer_problem(const struct http_exchange *x, char code[ANSWER_CODE_SIZE],
	char message[ANSWER_MESSAGE_SIZE]);
