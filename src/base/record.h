/*
 * Describes the fields of a struct, a row each. By its rows a struct is read from JSON (or YAML, as
 * base/yaml.h gives it), written as JSON, and freed.
 *
 *   static const struct record_row rows[] = {
 *           { "image", RECORD_TEXT, RECORD_AT(struct worker, image), .flags = RECORD_MUST },
 *           { "gpus", RECORD_NUMBER, RECORD_AT(struct worker, gpus), .max = 64 },
 *           { "restart", RECORD_WORD, RECORD_AT(struct worker, restart), RECORD_WORDS(names) },
 *           { NULL },
 *   };
 *
 * An error names the place: "devices: [2]: hostPath: expected a string, found []".
 */
#pragma once

#include "base/error.h"
#include "base/strv.h"

#include <jansson.h>
#include <stdint.h>

enum record_kind {
	RECORD_TEXT,   /* char *, allocated */
	RECORD_CHARS,  /* char [size]: a text that fits, is not empty and can be printed */
	RECORD_TEXTS,  /* struct strv */
	RECORD_NUMBER, /* any integer type, from min to max */
	RECORD_REAL,   /* double or float, from least to most; what is not finite is written as null
			*/
	RECORD_FLAG,   /* int: true or false */
	RECORD_WORD,   /* enum: an index of words, of which NULL stands for null */
	RECORD_STRUCT, /* a struct in place, with rows of its own */
	RECORD_LIST,   /* a pointer to structs with rows of their own; their number is at `count` */
	RECORD_JSON,   /* const json_t *: the value itself, which stays the document's */
	RECORD_OWN,    /* none of these: what the row's own functions make of it */
};

enum {
	RECORD_MUST = 1, /* a key that may not be missing, nor null, nor "" */
	RECORD_NULL = 2, /* null is `none` (numbers), no pointer (RECORD_TEXT), or a struct whose
			    first row, a text, is none */
	RECORD_ABSOLUTE = 4, /* a text that begins with '/' */
	RECORD_EACH = 8,     /* read() takes an item of the key's array */
	RECORD_SPARE = 16,   /* without a value no key is written: `none` of numbers, no text */
	RECORD_OR_ONE = 32,  /* a text may stand for a list of one (RECORD_TEXTS) */
};

/* How an object is read. */
struct record_reader {
	enum {
		RECORD_ALL = 1,  /* each key but spare ones is there; null only where RECORD_NULL
				     allows it */
		RECORD_ONLY = 2, /* no others are, and none twice */
		RECORD_ANY_CASE = 4,   /* of keys */
		RECORD_AS_YAML = 8,    /* numbers and booleans serve as texts; "" is null */
		RECORD_OF_TEXTS = 16,  /* texts serve as numbers and booleans (MLR_YAML_TEXTS) */
		RECORD_PRINTABLE = 32, /* texts, but those of lists, have no control characters */
		RECORD_X_KEYS = 64,    /* keys that begin with "x-" are ignored */
		RECORD_NO_NULL = 128,  /* null is an error, not an absent value */
		RECORD_SECRET = 256,   /* errors do not show values */
	} manner;
	void *ctx; /* the owner's */
	struct mlr_error *err;
	int code; /* of errors; 0: EPROTO */
	/* Puts the place of a value in an object, or with key NULL in a list, before the error.
	 * Without it that is "key: " or "[1]: ". */
	void (*place)(const struct record_reader *r, const json_t *in, const char *key, size_t at);
};

struct record_row {
	const char *key; /* NULL ends the rows, which are 64 at most */
	enum record_kind kind;
	unsigned short at, size; /* of the member */
	unsigned flags;
	int64_t min, max, none;   /* max 0: what the member's type holds */
	double least, most;       /* both 0: any */
	const char *const *words; /* [n] */
	const struct record_row *rows;
	unsigned short n, count, item; /* item: bytes of a list's struct */
	const void *init;              /* a list's new struct; NULL: zeros */
	/* In place of the kind's; to and from are the member. write() returns NULL for no key. */
	int (*read)(const struct record_reader *r, const json_t *v, void *to);
	json_t *(*write)(const void *from);
	/* A rule of its own for what has been read: of a struct, once it is whole. */
	int (*rule)(const struct record_reader *r, void *member);
	/* For documents of strangers: why a key, of RECORD_OWN without read(), is refused; NULL:
	 * it is ignored. And what it reaches (base/reach.h). */
	const char *refusal;
	unsigned reach;
};

#define RECORD_AT(type, member) .at = offsetof(type, member), .size = sizeof(((type *)NULL)->member)
#define RECORD_WORDS(list)      .words = (list), .n = sizeof(list) / sizeof((list)[0])
#define RECORD_ITEMS(type, member, number, its_rows)                                       \
	.at = offsetof(type, member), .count = offsetof(type, number), .rows = (its_rows), \
	.item = sizeof(*((type *)NULL)->member)

/* Read an object's keys into a struct. A key that is missing or null leaves its member as it is.
 * Returns 0, or -EPROTO. */
int record_read(
	const struct record_reader *r, const struct record_row *rows, const json_t *o, void *to);

/* Read one value into the struct that a row is of. */
int record_value(
	const struct record_reader *r, const struct record_row *row, const json_t *v, void *owner);

/* Make an object. */
json_t *record_write(const struct record_row *rows, const void *from);

/* Make one value of the struct that a row is of; NULL: no key. */
json_t *record_write_value(const struct record_row *row, const void *owner);

/* Free what the rows' members own. */
void record_done(const struct record_row *rows, void *of);

#define RECORD_REAL_SIZE 40
/* Print the fewest digits that identify v, as Go's strconv.FormatFloat(v, 'g', -1, 64): files have
 * 0.1, not 0.100000001. */
void record_print_real(double v, int is_float, char text[RECORD_REAL_SIZE]);

/* For the owner's functions, or as one: read a text into a char *, as RECORD_TEXT does. */
int record_text(const struct record_reader *r, const json_t *v, void *to);

/* Add a list of texts to a struct strv, as RECORD_TEXTS does. */
int record_texts(const struct record_reader *r, const json_t *v, struct strv *to);

/* Find the word that v is. Returns its index, or an error that lists all n. */
int record_word(
	const struct record_reader *r, const char *const *words, unsigned n, const json_t *v);

/* Read each item of a list; what fails is placed. */
int record_each(const struct record_reader *r, const json_t *v,
	int (*read)(const struct record_reader *r, const json_t *v, void *to), void *to);

/* Set the error. Return it negative. */
int record_wrong(const struct record_reader *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int record_expected(const struct record_reader *r, const char *wanted, const json_t *found);
