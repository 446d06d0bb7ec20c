#include "base/record.h"

#include "base/base.h"
#include "base/escape.h"
#include "base/json.h"
#include "base/spelling.h"

#define SHOWN_MAX 40 /* bytes of a value in an error */

int record_wrong(const struct record_reader *r, const char *fmt, ...)
{
	auto_free char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	return mlr_fail(r->err, r->code ? r->code : EPROTO, "%s", text);
}

int record_expected(const struct record_reader *r, const char *wanted, const json_t *found)
{
	auto_free char *text = r->manner & RECORD_SECRET
		? NULL
		: json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
	const char *shown = text ? text : "something else";

	return record_wrong(r, "expected %s, found %.*s%s", wanted, SHOWN_MAX, shown,
		strlen(shown) > SHOWN_MAX ? "..." : "");
}

/* Place an error. Returns e. */
static int wrap(const struct record_reader *r, const json_t *in, const char *key, size_t at, int e)
{
	if (r->place)
		r->place(r, in, key, at);
	else if (key)
		mlr_wrap(r->err, "%s", key);
	else
		mlr_wrap(r->err, "[%zu]", at);
	return e;
}

/* --- numbers of any type --------------------------------------------------------------- */

static void set_real(const struct record_row *row, double v, void *to)
{
	if (row->size == sizeof(float))
		*(float *)to = (float)v;
	else
		*(double *)to = v;
}

static int64_t limit(const struct record_row *row)
{
	return row->max          ? row->max
		: row->size >= 8 ? INT64_MAX
				 : ((int64_t)1 << (8 * row->size - 1)) - 1;
}

/* "195.0" is a whole number, too: YAML's writers give some. */
static int read_number(
	const struct record_reader *r, const struct record_row *row, const json_t *v, void *to)
{
	double real = json_number_value(v);
	int64_t n = json_is_integer(v)     ? json_integer_value(v)
		: real >= 0 && real < 1e15 ? (int64_t)real
					   : -1;
	auto_free char *wanted = NULL;

	if (json_is_number(v) && (json_is_integer(v) || (double)n == real) && n >= row->min &&
		n <= limit(row)) {
		memcpy(to, &n, row->size);
		return 0;
	}
	wanted = xasprintf("a whole number from %" PRId64 " to %" PRId64, row->min, limit(row));
	return record_expected(r, wanted, v);
}

static int read_real(
	const struct record_reader *r, const struct record_row *row, const json_t *v, void *to)
{
	int has_limits = row->least < 0 || row->most > 0;
	double real = json_number_value(v);
	auto_free char *wanted = NULL;

	if (json_is_number(v) && (!has_limits || (real >= row->least && real <= row->most))) {
		set_real(row, real, to);
		return 0;
	}
	wanted = has_limits ? xasprintf("a number from %g to %g", row->least, row->most)
			    : xstrdup("a number");
	return record_expected(r, wanted, v);
}

/* --- texts ------------------------------------------------------------------------------- */

void record_print_real(double v, int is_float, char text[RECORD_REAL_SIZE])
{
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, RECORD_REAL_SIZE, "%.*g", digits, v);
		if (is_float ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v)
			return;
	}
}

/* A string without zeros in it; NULL. */
static const char *text_of(const json_t *v)
{
	const char *s = json_string_value(v);

	return s && strlen(s) == json_string_length(v) ? s : NULL;
}

static int is_printable(const char *s)
{
	char shown[ESCAPE_SIZE];

	while (*s && escape_next(s, shown) == 1 && shown[0] == *s)
		s++; /* a control character is shown as something else */
	return !*s;
}

/* C1's control characters are letters of old code pages: passwords may have them. */
static int has_controls(const char *s)
{
	while (*s && (unsigned char)*s >= 0x20 && *s != 0x7f)
		s++;
	return *s;
}

int record_text(const struct record_reader *r, const json_t *v, void *to)
{
	char *text = NULL, **ret = to, real[RECORD_REAL_SIZE];

	if (text_of(v))
		text = xstrdup(text_of(v));
	else if (r->manner & RECORD_AS_YAML && json_is_integer(v))
		text = xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else if (r->manner & RECORD_AS_YAML && json_is_real(v)) {
		record_print_real(json_real_value(v), 0, real);
		text = xstrdup(real);
	} else if (r->manner & RECORD_AS_YAML && json_is_boolean(v))
		text = xstrdup(json_is_true(v) ? "true" : "false");
	else
		return json_is_string(v) ? record_wrong(r, "a string with a zero byte")
					 : record_expected(r, "a string", v);
	set_ptr(ret, text);
	return 0;
}

static int read_chars(
	const struct record_reader *r, const struct record_row *row, const json_t *v, char *to)
{
	const char *s = text_of(v);
	auto_free char *wanted = NULL;

	if (s && *s && strlen(s) < row->size && is_printable(s)) {
		memcpy(to, s, strlen(s) + 1);
		return 0;
	}
	wanted = xasprintf("a text of 1 to %d letters", row->size - 1);
	return record_expected(r, wanted, v);
}

static int refuse_word(
	const struct record_reader *r, const char *const *words, unsigned n, const json_t *v)
{
	const char *word = text_of(v);
	struct spelling near = spelling_of(word ? word : "", word ? strlen(word) : 0);
	auto_free char *wanted = xstrdup(n > 1 ? "one of" : "");
	int e;

	for (unsigned i = 0; i < n; i++) {
		auto_free char *before = take_ptr(&wanted);

		wanted = xasprintf("%s%s %s", before, i ? "," : "", words[i] ? words[i] : "null");
		spelling_try(&near, words[i] ? words[i] : "null");
	}
	e = record_expected(r, wanted, v);
	return near.near ? mlr_hint(r->err, "is '%s' meant?", near.near) : e;
}

int record_word(
	const struct record_reader *r, const char *const *words, unsigned n, const json_t *v)
{
	const char *word = text_of(v);

	for (unsigned i = 0; i < n; i++)
		if (words[i] ? word && strcmp(word, words[i]) == 0 : json_is_null(v))
			return (int)i;
	return refuse_word(r, words, n, v);
}

/* --- lists ------------------------------------------------------------------------------- */

int record_each(const struct record_reader *r, const json_t *v,
	int (*read)(const struct record_reader *r, const json_t *v, void *to), void *to)
{
	const json_t *item;
	size_t i;

	if (!json_is_array(v))
		return record_expected(r, "a list", v);
	json_array_foreach(v, i, item) {
		int e = read(r, item, to);

		if (e < 0)
			return wrap(r, v, NULL, i, e);
	}
	return 0;
}

static int read_text_item(const struct record_reader *r, const json_t *v, void *to)
{
	char *text = NULL;

	if (!(r->manner & RECORD_AS_YAML && json_is_null(v)))
		TRY(record_text(r, v, &text));
	strv_take(to, text ? text : xstrdup(""));
	return 0;
}

int record_texts(const struct record_reader *r, const json_t *v, struct strv *to)
{
	return record_each(r, v, read_text_item, to);
}

struct list {
	const struct record_row *row;
	char **items;
	size_t *n;
};

static int read_struct_item(const struct record_reader *r, const json_t *v, void *to)
{
	const struct list *l = to;
	const struct record_row *row = l->row;
	char *item;

	*l->items = xgrow(*l->items, *l->n, row->item);
	item = *l->items + (*l->n)++ * row->item;
	memset(item, 0, row->item);
	if (row->init)
		memcpy(item, row->init, row->item);
	TRY(record_read(r, row->rows, v, item));
	return row->rule ? row->rule(r, item) : 0;
}

/* --- objects ----------------------------------------------------------------------------- */

int record_value(
	const struct record_reader *r, const struct record_row *row, const json_t *v, void *owner)
{
	void *to = (char *)owner + row->at;
	struct list list = { row, to, (size_t *)((char *)owner + row->count) };
	int which;

	if (row->read)
		return row->flags & RECORD_EACH ? record_each(r, v, row->read, to)
						: row->read(r, v, to);
	switch (row->kind) {
	case RECORD_TEXT:
		TRY(record_text(r, v, to));
		if (r->manner & RECORD_PRINTABLE && has_controls(*(char **)to))
			return record_wrong(r, "contains control characters");
		return row->flags & RECORD_ABSOLUTE && **(char **)to != '/'
			? record_wrong(r, "'%.100s' is no absolute path", *(char **)to)
			: 0;
	case RECORD_CHARS:
		return read_chars(r, row, v, to);
	case RECORD_TEXTS:
		return row->flags & RECORD_OR_ONE && !json_is_array(v) ? read_text_item(r, v, to)
								       : record_texts(r, v, to);
	case RECORD_NUMBER:
		return read_number(r, row, v, to);
	case RECORD_REAL:
		return read_real(r, row, v, to);
	case RECORD_FLAG:
		if (!json_is_boolean(v))
			return record_expected(r, "true or false", v);
		*(int *)to = json_is_true(v);
		return 0;
	case RECORD_WORD:
		which = record_word(r, row->words, row->n, v);
		if (which >= 0)
			memcpy(to, &which, row->size);
		return which < 0 ? which : 0;
	case RECORD_STRUCT:
		return record_read(r, row->rows, v, to);
	case RECORD_LIST:
		return record_each(r, v, read_struct_item, &list);
	case RECORD_JSON:
		*(const json_t **)to = v;
		return 0;
	default:
		if (!row->refusal)
			return 0;
		record_wrong(r, "this key is not supported");
		return mlr_hint(r->err, "%s", row->refusal);
	}
}

/* Read a text as the number, the boolean or the word that it is. */
static int read_as(
	const struct record_reader *r, const struct record_row *row, const json_t *v, void *owner)
{
	auto_free char *text = NULL;
	json_auto_t *value = NULL;
	char *end;
	long long n;

	TRY(record_text(r, v, &text));
	errno = 0;
	n = strtoll(text, &end, 10);
	value = row->kind == RECORD_FLAG && strcmp(text, "true") == 0    ? json_true()
		: row->kind == RECORD_FLAG && strcmp(text, "false") == 0 ? json_false()
		: row->kind == RECORD_NUMBER && end != text && !*end && !errno
		? json_integer(n)
		: mlr_json_text(text);
	return record_value(r, row, value, owner);
}

/* Does the row count this value as absent? */
static int is_nothing(const struct record_reader *r, const struct record_row *row, const json_t *v)
{
	if (json_is_string(v))
		return json_string_length(v) == 0 &&
			(row->flags & RECORD_MUST || r->manner & RECORD_AS_YAML);
	return !v || (json_is_null(v) && row->kind != RECORD_WORD && !(r->manner & RECORD_NO_NULL));
}

static void set_none(const struct record_row *row, void *member)
{
	if (row->kind == RECORD_NUMBER)
		memcpy(member, &row->none, row->size);
	else if (row->kind == RECORD_REAL)
		set_real(row, (double)row->none, member);
	else if (row->kind == RECORD_CHARS)
		*(char *)member = '\0';
}

static int read_row(const struct record_reader *r, const struct record_row *row, const json_t *in,
	const json_t *v, void *owner)
{
	void *member = (char *)owner + row->at;
	int as_text = r->manner & RECORD_OF_TEXTS && json_is_string(v) &&
		(row->kind == RECORD_NUMBER || row->kind == RECORD_FLAG ||
			row->kind == RECORD_WORD);
	int e = 0;

	if (!is_nothing(r, row, v))
		e = as_text ? read_as(r, row, v, owner) : record_value(r, row, v, owner);
	else if (!v &&
		(row->flags & RECORD_MUST ||
			(r->manner & RECORD_ALL && !(row->flags & RECORD_SPARE))))
		e = record_wrong(r, "missing");
	else if (v && row->flags & RECORD_MUST)
		e = record_wrong(r, "empty");
	else if (v && r->manner & RECORD_ALL && !(row->flags & RECORD_NULL))
		e = record_expected(r, "a value", v);
	else if (v && row->flags & RECORD_NULL)
		set_none(row, member);
	if (e == 0 && v && row->rule && row->kind != RECORD_LIST)
		e = row->rule(r, member);
	return e < 0 ? wrap(r, in, row->key, 0, e) : 0;
}

static const struct record_row *find(
	const struct record_reader *r, const struct record_row *rows, const char *key)
{
	int (*compare)(const char *, const char *) =
		r->manner & RECORD_ANY_CASE ? strcasecmp : strcmp;

	while (rows->key && compare(rows->key, key) != 0)
		rows++;
	return rows->key ? rows : NULL;
}

static int refuse_key(const struct record_reader *r, const struct record_row *rows,
	const json_t *in, const char *key)
{
	struct spelling s = spelling_of(key, strlen(key));
	int e = r->place ? record_wrong(r, "this key is not supported")
			 : record_wrong(r, "unknown key '%.100s'", key);

	for (; rows->key; rows++)
		spelling_try(&s, rows->key);
	if (s.near)
		mlr_hint(r->err, "is '%s' meant?", s.near);
	return r->place ? wrap(r, in, key, 0, e) : e;
}

int record_read(
	const struct record_reader *r, const struct record_row *rows, const json_t *o, void *to)
{
	uint64_t seen = 0;
	const char *key;
	json_t *v;

	if (!json_is_object(o))
		return !o ? record_wrong(r, "missing")
			  : record_expected(
				    r, r->manner & RECORD_OF_TEXTS ? "a mapping" : "an object", o);
	json_object_foreach((json_t *)o, key, v) {
		const struct record_row *row = find(r, rows, key);
		uint64_t bit = row ? (uint64_t)1 << (row - rows) : 0;

		if (!row && r->manner & RECORD_X_KEYS && strncmp(key, "x-", 2) == 0)
			continue;
		if (!row && r->manner & RECORD_ONLY)
			return refuse_key(r, rows, o, key);
		if (seen & bit)
			return record_wrong(r, "the key '%s' appears twice", row->key);
		seen |= bit;
		if (row)
			TRY(read_row(r, row, o, v, to));
	}
	for (size_t i = 0; rows[i].key; i++)
		if (!(seen & (uint64_t)1 << i))
			TRY(read_row(r, &rows[i], o, NULL, to));
	return 0;
}
