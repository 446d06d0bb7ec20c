/*
 * The requests of a run as bytes, made in turn from one list of bodies. A share of them may have a
 * body that was never sent before, so that a cache can't have its answer: k6's load tests of a
 * cache do that.
 *
 * In a body "{unique}" stands for a number: 0 in known bodies, another one in each unique body.
 * Where there are pictures, "{base64}" stands for a picture's file and "{pixels}" for its bytes as
 * a JSON array; a body with neither is a picture's file itself.
 */
#pragma once

#include "data/image.h"

#include <sys/socket.h>

/* --- target.c: the destination of requests --- */

struct target {
	int tls;
	char *host, *port; /* owned; NULL of a socket in the file system */
	char *socket;      /* its path, owned; NULL otherwise */
	char *authority;   /* for the header Host: "localhost:8000", owned */
	char *path;        /* with the query, at least "/"; owned */
	struct sockaddr_storage address;
	socklen_t len; /* 0: not known yet */
};

void target_done(struct target *t);

/* Returns 0, or -EINVAL with a text that names the URL and what is wrong with it. */
int target_parse(const char *url, struct target *ret, struct mlr_error *err);

/*
 * Look up the address. Of several it takes the first that accepts a connection, else the first.
 *
 * Returns 0, -EHOSTUNREACH if there is no such host, or -ENAMETOOLONG for a socket's path.
 */
int target_find(struct target *t, struct mlr_error *err);

/* Make "127.0.0.1:8000" or "unix:/run/s" for messages, to free(). */
char *target_shown(const struct target *t);

/* --- pictures.c: pictures to send, a folder's files, or the test images of a data set --- */

#define PICTURES_MAX       10000
#define PICTURES_BYTES_MAX ((size_t)256 << 20)

struct picture {
	uint8_t *file; /* PNG or JPEG [len], owned */
	size_t len;
	const char *type; /* "image/png", "image/jpeg" */
};

struct pictures {
	struct picture *v; /* [n], owned; at least one */
	size_t n;
	size_t max, bytes; /* how many to read; of all files */
};

void pictures_done(struct pictures *p);

/*
 * Read pictures, in the order of their names; the first that fit into the limits above.
 *
 *   max     at most so many, up to PICTURES_MAX
 *   where   a directory with files *.png, *.jpg and *.jpeg, or a data set as dataset_load() finds
 *           it, whose images become PNG
 *
 * Returns 0, or an error of dataset_load(), or -ENOTSUP without libpng.
 */
int pictures_read(const char *where, size_t max, struct pictures *ret, struct mlr_error *err);

/* The size and the bytes [channels][height][width], to free(), of a picture. An error of
 * image_read_bytes(), or -ENOMEM. */
int picture_decode(
	const struct picture *p, struct image_size *size, uint8_t **ret, struct mlr_error *err);

/*
 * Make a picture that differs from this one, and from those of other numbers, in the lowest bits of
 * some bytes: nobody sees it, but no cache has it. Pictures of fewer than 32 bytes are not enough
 * for all numbers.
 *
 * Returns 0 and a PNG, or an error of picture_decode().
 */
int picture_vary(
	const struct picture *p, uint32_t number, struct picture *ret, struct mlr_error *err);

/* --- requests --- */

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
