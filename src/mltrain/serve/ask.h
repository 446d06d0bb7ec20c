/* A request of a client, its answer, and the memory of both. */
#pragma once

#include "http/http.h"
#include "serve/models.h"

#include <jansson.h>

#define SERVE_ID_MAX 128 /* of v2's "id", with a NUL */

/* v2's outputs, in the order of the answer. */
enum serve_output { SERVE_PROBABILITIES, SERVE_LOGITS, SERVE_CLASS, SERVE_OUTPUTS };

struct serve_ask {
	/* From the server. All borrowed. */
	const char *body;
	size_t len;
	const char *type; /* Content-Type, or "" */
	int64_t json_len; /* Inference-Header-Content-Length; -1: not there */
	struct serve_model *model;
	struct http_use *memory;
	int rows_max;
	int takes_long; /* permission to; else parse() returns -EAGAIN for large pictures */

	/* From the dialect's parse(). */
	int rows;
	uint8_t *images; /* [rows], owned */
	size_t taken;    /* bytes of memory */
	size_t parsed;   /* of it for the JSON's values, until parse() returns */
	size_t picture_pixels;
	int by_columns; /* TensorFlow's "inputs" */
	char id[SERVE_ID_MAX];
	enum serve_output outputs[SERVE_OUTPUTS];
	int binary[SERVE_OUTPUTS];
	int n_outputs;

	char json_text[24]; /* write()'s own */
};

/* A way of speaking about predictions. */
struct serve_dialect {
	int invalid; /* the status for JSON that is not a request */

	/*
	 * Read a body: fill in ask. Returns 0, -EPROTO for what is not JSON, -EINVAL for what is no
	 * request, -EFBIG for too many images, -EBUSY for too little memory just now, -ENOTSUP,
	 * -ENOMEM.
	 */
	int (*parse)(struct serve_ask *ask, struct mlr_error *err);

	/* Write the answer: fill in body, len, type and headers. Returns 0, or -EDOM for logits
	 * that are not numbers, -ENOMEM. */
	int (*write)(struct serve_ask *ask, const float *logits, struct http_reply *ret,
		struct mlr_error *err);

	/* A failure's body. */
	json_t *(*fail)(const char *text);
};

extern const struct serve_dialect serve_seed, serve_v2, serve_tfs;

/* Allocate the images. Returns 0, -EINVAL for none, -EFBIG, -EBUSY, -ENOMEM. */
int serve_ask_images(struct serve_ask *ask, size_t rows, struct mlr_error *err);

/* Free what parse() made; it may run again. */
void serve_ask_done(struct serve_ask *ask);

/* Is the body a picture, by its type? */
int serve_ask_is_picture(const struct serve_ask *ask);

/*
 * Parse the first bytes of the body as JSON. Takes the memory of its values, which may be 80 times
 * the text, before it makes them; serve_ask_parsed() gives that back after the last json_decref().
 *
 * Returns NULL, and in err -EPROTO, -EFBIG for more than all requests may have, or -EBUSY.
 */
json_t *serve_ask_json(struct serve_ask *ask, size_t len, struct mlr_error *err);
void serve_ask_parsed(struct serve_ask *ask);

/* Take a JSON value as the answer; frees it. Returns 0 or -ENOMEM. */
int serve_reply_json(struct http_reply *ret, json_t *value, struct mlr_error *err);

/* Make {"error": text}, the failures of v2 and TensorFlow Serving. */
json_t *serve_reply_error(const char *text);

/*
 * Read one image.
 *
 *   v    numbers, whole and from 0 to 255: flat, [channels][height][width], [height][width] of one
 *        channel, or [height][width][channels] as TensorFlow has it; a PNG or JPEG in base64, as a
 *        string or as {"b64": string}
 *   to   [ask->model->pixels]
 *
 * Returns 0, or -EINVAL, -EFBIG when the request's pictures so far have more than
 * SERVE_PICTURE_PIXELS, -ENOTSUP for a format that this program was built without.
 */
int serve_values_image(const json_t *v, struct serve_ask *ask, uint8_t *to, struct mlr_error *err);

/* Take memory for the images of an array, and read each: one() gives an
 * item's value, NULL: the item itself; what: the word for an item in messages. */
int serve_values_images(const json_t *images, struct serve_ask *ask,
	const json_t *(*one)(const json_t *item), const char *what, struct mlr_error *err);

/* Read a PNG's or JPEG's bytes; scales them as mltrain predict does. */
int serve_values_picture(
	const void *bytes, size_t len, struct serve_ask *ask, uint8_t *to, struct mlr_error *err);

/* Read so many numbers, in order, however they are nested. Returns 0 or -EINVAL. */
int serve_values_flat(const json_t *v, size_t count, uint8_t *to, struct mlr_error *err);

/* Set *to to a number, if it is whole and from 0 to 255. Returns 0 or -EINVAL. */
int serve_values_byte(double v, uint8_t *to, struct mlr_error *err);

/* --- v2.c: the metadata of models in the v2 protocol --- */

extern const struct serve_v2_output {
	const char *name, *datatype;
	int by_class; /* [n][classes], else [n] */
} serve_v2_outputs[SERVE_OUTPUTS];
