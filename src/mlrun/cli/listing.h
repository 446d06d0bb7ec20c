/*
 * Prints listings as a table or as JSON: each row's values are put once, with the table's title and
 * JSON's key. A value without a title is in JSON only, one without a key in the table only.
 *
 *   struct listing l = { .as_json = a.json };
 *
 *   for (each image) {
 *           listing_row(&l);
 *           listing_text(&l, "NAME", "name", im->name);
 *           listing_text(&l, NULL, "digest", im->digest);
 *           listing_size(&l, "SIZE", "size", im->size);
 *   }
 *   return listing_end(&l);
 *
 * All rows put the same values in the same order. For the titles of a list without rows one is put
 * that listing_heads() begins.
 */
#pragma once

#include "base/base.h"

#include <jansson.h>

#define LISTING_COLUMNS 32

struct listing {
	int as_json;

	/* The rest is listing's. */
	json_t *rows, *row;
	struct strv heads, cells;
	size_t column; /* of the row, put next */
	int to_right[LISTING_COLUMNS], is_optional[LISTING_COLUMNS];
	int only_heads;
};

/* Begin a row. */
void listing_row(struct listing *l);
/* Begin a row that is not printed. */
void listing_heads(struct listing *l);

/* Put a value of the row. Unknown ones, null in JSON, are "-" in the table: a text that is NULL, a
 * time of 0 or less (seconds since 1970), a number that is not known. */
void listing_text(struct listing *l, const char *title, const char *key, const char *text);
void listing_number(struct listing *l, const char *title, const char *key, int64_t n);
void listing_known(struct listing *l, const char *title, const char *key, int64_t n, int is_known);
void listing_size(struct listing *l, const char *title, const char *key, uint64_t bytes);
void listing_time(struct listing *l, const char *title, const char *key, int64_t seconds);

/* Put a value that only JSON has, or only the table; takes it. */
void listing_json(struct listing *l, const char *key, json_t *value);
void listing_cell(struct listing *l, const char *title, char *text);

/* The column that was put last is left out of a table that knows none of its values. */
void listing_optional(struct listing *l);

/* Write the table, and free the rows. */
void listing_write(struct listing *l, FILE *out);
/* The array of the rows, to json_decref(); the rest is freed. */
json_t *listing_take(struct listing *l);

/* Print the rows on standard output, and free them. Returns 0 or CLI_FAILED. */
int listing_end(struct listing *l);
