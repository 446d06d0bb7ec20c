#include "cli/listing.h"

#include "base/escape.h"
#include "base/json.h"
#include "cli/common.h"

#define UNKNOWN "-"

void listing_row(struct listing *l)
{
	if (!l->rows)
		l->rows = json_array();
	l->row = json_object();
	json_array_append_new(l->rows, l->row);
	l->column = 0;
}

void listing_heads(struct listing *l)
{
	listing_row(l);
	l->only_heads = 1;
}

void listing_cell(struct listing *l, const char *title, char *text)
{
	size_t at = l->column++;

	if (at == l->heads.n) /* of the first row */
		strv_add(&l->heads, title);
	if (text)
		strv_take(&l->cells, text);
	else
		strv_add(&l->cells, UNKNOWN);
}

void listing_optional(struct listing *l)
{
	l->is_optional[l->column - 1] = 1;
}

void listing_json(struct listing *l, const char *key, json_t *value)
{
	json_object_set_new(l->row, key, value);
}

/* Put both forms of a value; takes them. */
static void put(
	struct listing *l, const char *title, const char *key, char *text, json_t *value, int right)
{
	if (title) {
		l->to_right[l->column] = right;
		listing_cell(l, title, text);
	} else {
		free(text);
	}
	if (key)
		listing_json(l, key, value);
	else
		json_decref(value);
}

void listing_text(struct listing *l, const char *title, const char *key, const char *text)
{
	put(l, title, key, text ? xstrdup(text) : NULL, mlr_json_text(text), 0);
}

void listing_number(struct listing *l, const char *title, const char *key, int64_t n)
{
	put(l, title, key, xasprintf("%" PRId64, n), json_integer(n), 1);
}

void listing_known(struct listing *l, const char *title, const char *key, int64_t n, int is_known)
{
	if (is_known)
		listing_number(l, title, key, n);
	else
		put(l, title, key, NULL, json_null(), 1);
}

void listing_size(struct listing *l, const char *title, const char *key, uint64_t bytes)
{
	char text[CLI_SIZE_SIZE];

	cli_size(bytes, text);
	put(l, title, key, xstrdup(text), json_integer((json_int_t)bytes), 1);
}

void listing_time(struct listing *l, const char *title, const char *key, int64_t seconds)
{
	char local[CLI_TIME_SIZE], utc[CLI_TIME_SIZE];

	cli_time_local(seconds, local);
	mlr_time_utc(seconds, utc);
	put(l, title, key, seconds > 0 ? xstrdup(local) : NULL,
		seconds > 0 ? json_string(utc) : json_null(), 0);
}

/* --- the table -------------------------------------------------------------------------------- */

/* How many columns of a terminal a text takes, once control characters are escaped. */
static int width_of(const char *text)
{
	char shown[ESCAPE_SIZE];
	size_t n = 0;

	for (; *text; n += strlen(shown))
		text += escape_next(text, shown);
	return (int)n;
}

/* The i-th text of the table, row after row, the heads first. */
static const char *text_at(const struct listing *l, size_t i)
{
	return i < l->heads.n ? l->heads.v[i] : l->cells.v[i - l->heads.n];
}

void listing_write(struct listing *l, FILE *out)
{
	size_t columns = l->heads.n, n = columns + (l->only_heads ? 0 : l->cells.n), last = 0;
	int width[LISTING_COLUMNS] = { 0 }, any[LISTING_COLUMNS] = { 0 };

	for (size_t i = 0; i < n; i++) {
		size_t c = i % columns;
		int w = width_of(text_at(l, i));

		width[c] = w > width[c] ? w : width[c];
		any[c] |=
			!l->is_optional[c] || (i >= columns && strcmp(text_at(l, i), UNKNOWN) != 0);
		last = any[c] && c > last ? c : last;
	}
	for (size_t i = 0; i < n; i++) {
		size_t c = i % columns;
		int fill = width[c] - width_of(text_at(l, i));

		if (any[c]) {
			fprintf(out, "%*s", l->to_right[c] ? fill : 0, "");
			escape_print(out, text_at(l, i));
			fprintf(out, "%*s", c == last ? 0 : l->to_right[c] ? 2 : fill + 2, "");
		}
		if (c + 1 == columns)
			putc('\n', out);
	}
	json_decref(listing_take(l));
}

json_t *listing_take(struct listing *l)
{
	json_t *rows = l->rows ? l->rows : json_array();

	if (l->only_heads)
		json_array_clear(rows);
	strv_done(&l->heads);
	strv_done(&l->cells);
	*l = (struct listing){ .as_json = l->as_json };
	return rows;
}

int listing_end(struct listing *l)
{
	if (l->as_json)
		return cli_print_json(listing_take(l));
	listing_write(l, stdout);
	return 0;
}
