#include "base/record.h"

#include "base/base.h"
#include "base/json.h"

int record_wrong(const struct record_reader *r, const char *fmt, ...)
{
	auto_free char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	return mlr_fail(r->err, EPROTO, "%s", text);
}

int record_expected(const struct record_reader *r, const char *wanted, const json_t *found)
{
	static const char *const names[] = { [JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "a list",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number",
		[JSON_REAL] = "a fractional number",
		[JSON_TRUE] = "true",
		[JSON_FALSE] = "false",
		[JSON_NULL] = "null" };

	return record_wrong(r, "expected %s, found %s", wanted, names[json_typeof(found)]);
}

/* --- numbers of any type --------------------------------------------------------------- */

static int64_t number_of(const struct record_row *row, const void *from)
{
	int64_t v = 0;
	int bits = 64 - 8 * row->size;

	memcpy(&v, from, row->size); /* little-endian, as all processors that mlrun knows */
	return row->min < 0 || row->none < 0 ? (int64_t)((uint64_t)v << bits) >> bits : v;
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

	if (!json_is_number(v) || (json_is_real(v) && (double)n != real))
		return record_expected(r, "a whole number", v);
	if (n < row->min || n > limit(row))
		return record_wrong(r, "%" PRId64 " is not between %" PRId64 " and %" PRId64, n,
			row->min, limit(row));
	memcpy(to, &n, row->size);
	return 0;
}

/* --- reading ----------------------------------------------------------------------------- */

/* Go's strconv.FormatFloat(v, 'g', -1, 64): the fewest digits that identify v. */
static char *print_real(double v)
{
	char text[40];

	for (int digits = 1; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	return xstrdup(text);
}

/* A string without zeros in it; NULL. */
static const char *text_of(const json_t *v)
{
	const char *s = json_string_value(v);

	return s && strlen(s) == json_string_length(v) ? s : NULL;
}

int record_text(const struct record_reader *r, const json_t *v, void *to)
{
	char *text = NULL, **ret = to;

	if (text_of(v))
		text = xstrdup(text_of(v));
	else if (r->manner & RECORD_AS_YAML && json_is_integer(v))
		text = xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else if (r->manner & RECORD_AS_YAML && json_is_real(v))
		text = print_real(json_real_value(v));
	else if (r->manner & RECORD_AS_YAML && json_is_boolean(v))
		text = xstrdup(json_is_true(v) ? "true" : "false");
	else
		return json_is_string(v) ? record_wrong(r, "a string with a zero byte")
					 : record_expected(r, "a string", v);
	free(*ret);
	*ret = text;
	return 0;
}

static int read_word(
	const struct record_reader *r, const struct record_row *row, const json_t *v, void *to)
{
	const char *word = text_of(v);

	for (unsigned i = 0; i < row->n; i++)
		if (row->words[i] ? word && strcmp(word, row->words[i]) == 0 : json_is_null(v)) {
			memcpy(to, &i, row->size);
			return 0;
		}
	return word ? record_wrong(r, "unknown word '%.100s'", word)
		    : record_expected(r, "a word", v);
}

/* Add a struct to a list. */
static int read_item(
	const struct record_reader *r, const struct record_row *row, const json_t *v, void *owner)
{
	char **list = (char **)((char *)owner + row->at), *item;
	size_t *count = (size_t *)((char *)owner + row->count);

	*list = xgrow(*list, *count, row->item);
	item = *list + (*count)++ * row->item;
	memset(item, 0, row->item);
	if (row->init)
		memcpy(item, row->init, row->item);
	TRY(record_read(r, row->rows, v, item));
	return row->rule ? row->rule(r, item) : 0;
}

static int read_text_item(const struct record_reader *r, const json_t *v, struct strv *to)
{
	char *text = NULL;

	if (!(r->manner & RECORD_AS_YAML && json_is_null(v)))
		TRY(record_text(r, v, &text));
	strv_take(to, text ? text : xstrdup(""));
	return 0;
}

static int read_items(
	const struct record_reader *r, const struct record_row *row, const json_t *v, void *owner)
{
	void *member = (char *)owner + row->at;
	const json_t *item;
	size_t i;

	if (!json_is_array(v))
		return record_expected(r, "a list", v);
	json_array_foreach(v, i, item) {
		int e = row->kind == RECORD_TEXTS ? read_text_item(r, item, member)
			: row->kind == RECORD_OWN ? row->read(r, item, member)
						  : read_item(r, row, item, owner);

		if (e < 0)
			return mlr_wrap(r->err, "[%zu]", i), e;
	}
	return 0;
}

int record_value(
	const struct record_reader *r, const struct record_row *row, const json_t *v, void *owner)
{
	void *to = (char *)owner + row->at;

	switch (row->kind) {
	case RECORD_TEXT:
		TRY(record_text(r, v, to));
		return row->flags & RECORD_ABSOLUTE && **(char **)to != '/'
			? record_wrong(r, "'%.100s' is no absolute path", *(char **)to)
			: 0;
	case RECORD_NUMBER:
		return read_number(r, row, v, to);
	case RECORD_FLAG:
		if (!json_is_boolean(v))
			return record_expected(r, "true or false", v);
		*(int *)to = json_is_true(v);
		return 0;
	case RECORD_WORD:
		return read_word(r, row, v, to);
	case RECORD_STRUCT:
		return record_read(r, row->rows, v, to);
	case RECORD_OWN:
		if (!(row->flags & RECORD_EACH))
			return row->read(r, v, to);
		/* fall through */
	default:
		return read_items(r, row, v, owner);
	}
}

/* Does the row count this value as absent? */
static int is_nothing(const struct record_reader *r, const struct record_row *row, const json_t *v)
{
	if (json_is_string(v))
		return json_string_length(v) == 0 &&
			(row->flags & RECORD_MUST || r->manner & RECORD_AS_YAML);
	return !v || (json_is_null(v) && row->kind != RECORD_WORD);
}

static int read_row(
	const struct record_reader *r, const struct record_row *row, const json_t *v, void *owner)
{
	int e = 0;

	if (!is_nothing(r, row, v))
		e = record_value(r, row, v, owner);
	else if (!v && (row->flags & RECORD_MUST || r->manner & RECORD_ALL))
		e = record_wrong(r, "missing");
	else if (v && row->flags & RECORD_MUST)
		e = record_wrong(r, "empty");
	else if (v && r->manner & RECORD_ALL && !(row->flags & RECORD_NULL))
		e = record_expected(r, "a value", v);
	else if (v && row->kind == RECORD_NUMBER && row->flags & RECORD_NULL)
		memcpy((char *)owner + row->at, &row->none, row->size);
	if (e == 0 && v && row->rule && row->kind != RECORD_LIST)
		e = row->rule(r, (char *)owner + row->at);
	if (e < 0)
		mlr_wrap(r->err, "%s", row->key);
	return e;
}

static const struct record_row *find(
	const struct record_reader *r, const struct record_row *rows, const char *key)
{
	int (*compare)(const char *, const char *) = r->manner & RECORD_ONLY ? strcasecmp : strcmp;

	while (rows->key && compare(rows->key, key) != 0)
		rows++;
	return rows->key ? rows : NULL;
}

int record_read(
	const struct record_reader *r, const struct record_row *rows, const json_t *o, void *to)
{
	uint64_t seen = 0;
	const char *key;
	json_t *v;

	if (!json_is_object(o))
		return o ? record_expected(r, "an object", o) : record_wrong(r, "missing");
	json_object_foreach((json_t *)o, key, v) {
		const struct record_row *row = find(r, rows, key);
		uint64_t bit = row ? (uint64_t)1 << (row - rows) : 0;

		if (!row && r->manner & RECORD_ONLY)
			return record_wrong(r, "unknown key '%.100s'", key);
		if (seen & bit)
			return record_wrong(r, "the key '%s' appears twice", row->key);
		seen |= bit;
		if (row)
			TRY(read_row(r, row, v, to));
	}
	for (size_t i = 0; rows[i].key; i++)
		if (!(seen & (uint64_t)1 << i))
			TRY(read_row(r, &rows[i], NULL, to));
	return 0;
}

/* --- writing, freeing -------------------------------------------------------------------- */

static json_t *write_list(const struct record_row *row, const void *from)
{
	const char *items = *(char *const *)((const char *)from + row->at);
	size_t n = *(const size_t *)((const char *)from + row->count);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, record_write(row->rows, items + i * row->item));
	return list;
}

static json_t *write_member(const struct record_row *row, const void *owner)
{
	const void *from = (const char *)owner + row->at;
	unsigned word = 0;

	switch (row->kind) {
	case RECORD_TEXT:
		return mlr_json_text(*(char *const *)from);
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
		return row->write ? row->write(from) : NULL;
	}
}

json_t *record_write(const struct record_row *rows, const void *from)
{
	json_t *o = json_object();

	for (; rows->key; rows++) {
		json_t *v = write_member(rows, from);

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
