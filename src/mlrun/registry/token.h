/*
 * Gets tokens from a token server (github.com/distribution/distribution, docs/spec/auth: token.md
 * and oauth.md): GET anonymously or with a password, POST with a refresh token. For auth.c.
 */
#pragma once

#include "registry/credential.h"
#include "registry/http.h"

#define TOKEN_LIFE_S 60 /* of a token without a given life */

struct token {
	char *text;     /* valid in a header */
	int64_t life_s; /* from now on */
};

void token_done(struct token *t);

struct token_request {
	struct http *http;
	const char *registry;                /* as the user knows it, for messages */
	const char *base;                    /* the registry's URL */
	const char *realm;                   /* the token server's, already checked */
	const char *service, *scope;         /* or NULL */
	const struct credential *credential; /* or NULL */
	int64_t total_ms;
};

/* Returns 0; -EACCES if the server refuses; -EPROTO; http_perform()'s errors. *transient as
 * there. */
int token_fetch(
	const struct token_request *q, struct token *ret, int *transient, struct mlr_error *err);

/* Parse the server's JSON. Returns 0 or -EPROTO. */
int token_parse(const char *text, size_t len, struct token *ret, struct mlr_error *err);

/* "Basic …" for a user and a password. To credential_free_secret(). */
char *token_basic(const struct credential *c);
