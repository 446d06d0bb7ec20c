/*
 * Bearer tokens (distribution-spec's token authentication): asked for when a registry answers 401,
 * kept for the next request, asked for again when one has run out. Any thread may call.
 */
#ifndef MLR_REGISTRY_TOKEN_H
#define MLR_REGISTRY_TOKEN_H

#include "base/error.h"
#include "registry/http.h"

struct token_cache;

struct token_cache *token_cache_new(void);
void token_cache_free(struct token_cache *t);

/* The token to send, NULL when none was asked for yet. To free(). */
char *token_get(struct token_cache *t);

/*
 * Get a new token because a registry refused a request.
 *
 *   refused    the token that was sent, or NULL; 0 at once when another thread has replaced it
 *   challenge  the WWW-Authenticate header, or NULL
 *   base       the registry's URL, by which the token server's is judged
 *   scope      asked for when the challenge names none, "repository:library/debian:pull"
 *   transient  set to 1 when trying again may help
 *
 * Returns 0; -EACCES when no token is to be had without a login; -EPROTO; http_perform()'s errors.
 */
int token_renew(struct token_cache *t, struct http *h, const char *refused, const char *challenge,
	const char *base, const char *scope, int *transient, struct mlr_error *err);

#endif
