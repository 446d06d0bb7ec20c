/* Writes records, and frees them. */
#include "base/record.h"

#include "base/base.h"
#include "base/json.h"

#include <math.h>

static int64_t number_of(const struct record_row *row, const void *from)
{
	int64_t v = 0;
	int bits = 64 - 8 * row->size;

	memcpy(&v, from, row->size); /* little-endian, as all processors that mlrun knows */
	return row->min < 0 || row->none < 0 ? (int64_t)((uint64_t)v << bits) >> bits : v;
}

static double real_of(const struct record_row *row, const void *from)
{
	return row->size == sizeof(float) ? (double)*(const float *)from : *(const double *)from;
}

static json_t *write_list(const struct record_row *row, const void *from)
{
	const char *items = *(char *const *)((const char *)from + row->at);
	size_t n = *(const size_t *)((const char *)from + row->count);

	return MLR_JSON_LIST(i, n, record_write(row->rows, items + i * row->item));
}

static json_t *write_real(const struct record_row *row, const void *from)
{
	double v = real_of(row, from);
	char text[RECORD_REAL_SIZE];

	if (!isfinite(v) || (row->flags & RECORD_NULL && v == (double)row->none))
		return json_null();
	record_print_real(v, row->size == sizeof(float), text);
	return json_real(strtod(text, NULL));
}

/* Has a member of RECORD_SPARE no value? */
static int is_spare(const struct record_row *row, const void *from)
{
	return row->kind == RECORD_TEXT      ? !*(char *const *)from
		: row->kind == RECORD_CHARS  ? !*(const char *)from
		: row->kind == RECORD_NUMBER ? number_of(row, from) == row->none
		: row->kind == RECORD_REAL   ? real_of(row, from) == (double)row->none
					     : 0;
}

json_t *record_write_value(const struct record_row *row, const void *owner)
{
	const void *from = (const char *)owner + row->at;
	unsigned word = 0;

	if (row->flags & RECORD_SPARE && is_spare(row, from))
		return NULL;
	if (row->write)
		return row->write(from);
	switch (row->kind) {
	case RECORD_TEXT:
		return mlr_json_text(*(char *const *)from);
	case RECORD_CHARS:
		return mlr_json_text(
			row->flags & RECORD_NULL && !*(const char *)from ? NULL : from);
	case RECORD_REAL:
		return write_real(row, from);
	case RECORD_TEXTS:
		return mlr_json_texts(from);
	case RECORD_NUMBER:
		return row->flags & RECORD_NULL && number_of(row, from) == row->none
			? json_null()
			: json_integer(number_of(row, from));
	case RECORD_FLAG:
		return json_boolean(*(const int *)from);
	case RECORD_WORD:
		memcpy(&word, from, row->size);
		return mlr_json_text(row->words[word]);
	case RECORD_STRUCT:
		return row->flags & RECORD_NULL &&
				!*(char *const *)((const char *)from + row->rows->at)
			? json_null()
			: record_write(row->rows, from);
	case RECORD_LIST:
		return write_list(row, owner);
	default:
		return NULL;
	}
}

json_t *record_write(const struct record_row *rows, const void *from)
{
	json_t *o = json_object();

	for (; rows->key; rows++) {
		json_t *v = record_write_value(rows, from);

		if (v)
			json_object_set_new(o, rows->key, v);
	}
	return o;
}

static void free_list(const struct record_row *row, void *of)
{
	char **items = (char **)((char *)of + row->at);
	size_t *n = (size_t *)((char *)of + row->count);

	for (size_t i = 0; i < *n; i++)
		record_done(row->rows, *items + i * row->item);
	free(*items);
	*items = NULL;
	*n = 0;
}

void record_done(const struct record_row *rows, void *of)
{
	for (; rows->key; rows++) {
		void *member = (char *)of + rows->at;

		if (rows->kind == RECORD_TEXT) {
			free(*(char **)member);
			*(char **)member = NULL;
		} else if (rows->kind == RECORD_TEXTS) {
			strv_done(member);
		} else if (rows->kind == RECORD_STRUCT) {
			record_done(rows->rows, member);
		} else if (rows->kind == RECORD_LIST) {
			free_list(rows, of);
		}
	}
}
