/*
 * Parses the WWW-Authenticate header (RFC 9110, 11.6.1), which says how to authenticate to a
 * registry (distribution-spec's token authentication, RFC 6750 for "Bearer").
 */
#ifndef MLR_REGISTRY_CHALLENGE_H
#define MLR_REGISTRY_CHALLENGE_H

#include "base/error.h"

#define CHALLENGE_MAX 8192 /* bytes of header to parse at most */

enum challenge_scheme { CHALLENGE_OTHER, CHALLENGE_BASIC, CHALLENGE_BEARER };

struct challenge {
	enum challenge_scheme scheme;
	char *realm;   /* of Bearer: the token server's URL, not yet checked, never NULL */
	char *service; /* NULL when absent */
	char *scope;   /* NULL when absent */
};

#define CHALLENGE_INIT                            \
	{                                         \
		CHALLENGE_OTHER, NULL, NULL, NULL \
	}

/*
 * Parse a header's value. It may hold several challenges, separated by commas like their
 * parameters; the first Bearer with a realm wins, then Basic.
 *
 * Returns 0 or -EPROTO.
 */
int challenge_parse(const char *value, struct challenge *ret, struct mlr_error *err);
void challenge_done(struct challenge *c);

#endif
