/*
 * The requests of a run as bytes, made in turn from one list of bodies. A share of them may have a
 * body that was never sent before, so that a cache can't have its answer: k6's load tests of a
 * cache do that.
 *
 * In a body "{unique}" stands for a number: 0 in known bodies, another one in each unique body.
 * Where there are pictures, "{base64}" stands for a picture's file and "{pixels}" for its bytes as
 * a JSON array; a body with neither is a picture's file itself.
 */
#ifndef MLT_LOAD_REQUEST_H
#define MLT_LOAD_REQUEST_H

#include "load/pictures.h"
#include "load/target.h"

#define REQUEST_BYTES_MAX ((size_t)256 << 20) /* of all known requests together */

struct request_body {
	char *bytes; /* owned */
	size_t len;
};

/* Borrowed until requests_free(). */
struct request_options {
	const struct target *target;
	const char *method;                /* NULL: POST with a body, GET without */
	const struct strv *also;           /* paths that are asked for by GET before each request;
					    NULL: none */
	const struct strv *headers;        /* "Name: value" */
	const char *token;                 /* sent as "Authorization: Bearer …"; NULL: none */
	const struct request_body *bodies; /* [n_bodies] */
	size_t n_bodies;
	const struct pictures *pictures; /* NULL: none */
	double cache_rate;               /* the share of known bodies, 1: all */
	uint64_t seed;                   /* chooses which requests are unique */
	int close;                       /* a connection for each */
};

struct requests;

/* A request to send. */
struct request {
	const char *bytes; /* [len], valid until the next one for the same buffer */
	size_t len;
	int is_unique;
	int is_also; /* another request of the same turn follows */
};

/* Where a unique request is made, and how far a user's turn is; zeroed before the first. */
struct request_buffer {
	char *bytes; /* owned */
	size_t len, room;
	size_t turn; /* requests of "also" that it has had */
};

/*
 * Returns 0, -EINVAL for an invalid header, path or method, a cache rate without {unique} in a
 * body, or {base64} without pictures, or -EFBIG above REQUEST_BYTES_MAX.
 */
int requests_new(const struct request_options *o, struct requests **ret, struct mlr_error *err);
void requests_free(struct requests **q);

/* Take the next request. Fails only if a picture can't be varied. */
int requests_next(struct requests *q, struct request_buffer *buffer, struct request *ret,
	struct mlr_error *err);

const char *requests_method(const struct requests *q);

#endif
