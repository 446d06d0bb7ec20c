#include "base/yaml.h"

#include "base/base.h"

#include <math.h>
#include <yaml.h>

#define MAX_DEPTH   32
#define MAX_VALUES  200000
#define MAX_ANCHORS 1000 /* each alias searches all of them */

struct anchor {
	char *name;
	json_t *value;
	size_t values; /* in its value, which counts too */
};

struct reader {
	yaml_parser_t parser;
	struct anchor *anchors;
	size_t n_anchors;
	size_t values; /* read so far */
	enum mlr_yaml_how how;
	struct mlr_yaml_lines *lines; /* NULL: nobody wants them */
	struct mlr_error *err;
};

void mlr_yaml_lines_done(struct mlr_yaml_lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].key);
	free(l->v);
	*l = (struct mlr_yaml_lines){ 0 };
}

/* A merged key or item stands where its mapping has it: there the value is the same one. */
const struct mlr_yaml_place *mlr_yaml_place(
	const struct mlr_yaml_lines *l, const json_t *in, const char *key, size_t at)
{
	const json_t *value = key ? json_object_get(in, key) : json_array_get(in, at);

	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].in == in && (key ? strcmp(l->v[i].key, key) == 0 : l->v[i].at == at))
			return &l->v[i];
	for (size_t i = 0; value && i < l->n; i++)
		if (l->v[i].value == value && !key == !l->v[i].key &&
			(!key || strcmp(l->v[i].key, key) == 0))
			return &l->v[i];
	return NULL;
}

/* key NULL: of a list's item. */
static void note_line(struct reader *r, const json_t *in, const char *key, size_t at,
	const json_t *item, size_t line)
{
	struct mlr_yaml_lines *l = r->lines;

	if (!l)
		return;
	*xadd(l->v, l->n) = (struct mlr_yaml_place){ in, item, key ? xstrdup(key) : NULL, at,
		l->file, line + 1 };
}

static void reader_done(struct reader *r)
{
	for (size_t i = 0; i < r->n_anchors; i++) {
		free(r->anchors[i].name);
		json_decref(r->anchors[i].value);
	}
	free(r->anchors);
	yaml_parser_delete(&r->parser);
}

static int wrong(struct reader *r, const yaml_event_t *e, const char *what)
{
	return mlr_fail(r->err, EPROTO, "line %zu: %s", e->start_mark.line + 1, what);
}

static int next(struct reader *r, yaml_event_t *e)
{
	if (yaml_parser_parse(&r->parser, e))
		return 0;
	if (r->parser.error == YAML_MEMORY_ERROR)
		return mlr_fail(r->err, ENOMEM, "read YAML: %s", strerror(ENOMEM));
	return mlr_fail(r->err, EPROTO, "line %zu: %s",
		(r->parser.problem_mark.line ? r->parser.problem_mark.line
					     : r->parser.context_mark.line) +
			1,
		r->parser.problem ? r->parser.problem : "not YAML");
}

/* Count values against the limit. */
static int count(struct reader *r, const yaml_event_t *e, size_t values)
{
	r->values += values;
	return r->values > MAX_VALUES ? wrong(r, e, "too many values") : 0;
}

static int is_one_of(const char *s, const char *const *words)
{
	while (*words && strcmp(s, *words) != 0)
		words++;
	return *words != NULL;
}

/* Integers of YAML 1.1 as Go's parser takes them: 0x, 0o, 0b, a bare 0 before octal digits, and
 * '_' between digits. */
static int read_integer(const char *s, json_int_t *ret)
{
	char digits[72];
	size_t n = 0;
	int base = 10, negative = *s == '-';
	unsigned long long v;
	char *end;

	s += *s == '-' || *s == '+';
	for (; *s && n < sizeof(digits) - 1; s++)
		if (*s != '_')
			digits[n++] = *s;
	if (*s)
		return 0;
	digits[n] = '\0';
	s = digits;
	if (s[0] == '0' && s[1]) {
		base = s[1] == 'x' || s[1] == 'X' ? 16 : s[1] == 'b' || s[1] == 'B' ? 2 : 8;
		s += strchr("xXbBoO", s[1]) ? 2 : 1;
	}
	if (!strchr("0123456789abcdefABCDEF", *s) || !*s)
		return 0;
	errno = 0;
	v = strtoull(s, &end, base);
	if (*end || errno || v > (unsigned long long)INT64_MAX)
		return 0;
	*ret = negative ? -(json_int_t)v : (json_int_t)v;
	return 1;
}

static int read_real(const char *s, double *ret)
{
	const char *p = s + (*s == '-' || *s == '+');
	size_t whole = strspn(p, "0123456789"), part = 0;
	char *end;

	p += whole;
	if (*p == '.') {
		part = strspn(++p, "0123456789");
		p += part;
	}
	if (whole + part == 0)
		return 0;
	if (*p == 'e' || *p == 'E') {
		p += 1 + (p[1] == '-' || p[1] == '+');
		whole = strspn(p, "0123456789");
		if (whole == 0)
			return 0;
		p += whole;
	}
	if (*p)
		return 0;
	*ret = strtod(s, &end);
	return isfinite(*ret);
}

/* The value of a plain scalar; NULL: a string. */
static json_t *resolve(const char *s, enum mlr_yaml_how how)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL", NULL };
	static const char *const yes[] = { "true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES",
		"on", "On", "ON", NULL };
	static const char *const no[] = { "false", "False", "FALSE", "n", "N", "no", "No", "NO",
		"off", "Off", "OFF", NULL };
	json_int_t integer;
	double real;

	if (is_one_of(s, nulls))
		return json_null();
	if (how == MLR_YAML_TEXTS)
		return NULL;
	if (is_one_of(s, yes))
		return json_true();
	if (is_one_of(s, no))
		return json_false();
	if (read_integer(s, &integer))
		return json_integer(integer);
	return read_real(s, &real) ? json_real(real) : NULL;
}

/* The tags of compose files that say how files are merged; NULL: another. */
static const char *wrapping_of(const struct reader *r, const yaml_char_t *tag)
{
	static const char *const tags[] = { "!reset", "!override", NULL };

	return r->how == MLR_YAML_TEXTS && tag && is_one_of((const char *)tag, tags)
		? (const char *)tag
		: NULL;
}

/* Refuse all but the known tags of YAML's own types: the value would be misread. */
static int check_tag(
	struct reader *r, const yaml_event_t *e, const char *tag, const char *const *known)
{
	static const char prefix[] = "tag:yaml.org,2002:";
	const char *word =
		strncmp(tag, prefix, sizeof(prefix) - 1) == 0 ? tag + sizeof(prefix) - 1 : tag;

	return is_one_of(word, known) || wrapping_of(r, (const yaml_char_t *)tag)
		? 0
		: wrong(r, e, "unsupported tag");
}

/* Let the reader of the lines change a text. */
static int change(struct reader *r, const yaml_event_t *e, json_t *v)
{
	struct mlr_yaml_lines *l = r->lines;
	auto_free char *text = NULL;

	if (!l || !l->text || !json_is_string(v))
		return 0;
	TRY(l->text(l->ctx, e->start_mark.line + 1, json_string_value(v), &text, r->err));
	json_string_set_nocheck(v, text);
	return 0;
}

static int scalar(struct reader *r, const yaml_event_t *e, json_t **ret)
{
	static const char *const tags[] = { "!", "str", "int", "bool", "null", "float", NULL };
	const char *s = (const char *)e->data.scalar.value, *tag = (const char *)e->data.scalar.tag;
	size_t n = e->data.scalar.length;
	int plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	int is_text = tag && (strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0);
	json_t *v = NULL;
	int err = tag ? check_tag(r, e, tag, tags) : 0;

	if (err < 0)
		return err;
	if (memchr(s, '\0', n))
		return wrong(r, e, "text contains a NUL");
	if ((plain || tag) && !is_text)
		v = resolve(s, r->how);
	if (!v)
		v = json_stringn(s, n);
	if (!v)
		return wrong(r, e, "text is not UTF-8");
	*ret = v;
	return change(r, e, v);
}

static int value(struct reader *r, const yaml_event_t *e, unsigned depth, json_t **ret);

static int sequence(struct reader *r, const yaml_event_t *start, unsigned depth, json_t **ret)
{
	static const char *const tags[] = { "!", "seq", NULL };
	json_auto_t *list = json_array();
	const char *tag = (const char *)start->data.sequence_start.tag;
	int err = tag ? check_tag(r, start, tag, tags) : 0;

	while (err == 0) {
		auto_call(yaml_event_delete) yaml_event_t e = { YAML_NO_EVENT };
		json_t *item = NULL;

		err = next(r, &e);
		if (err == 0 && e.type == YAML_SEQUENCE_END_EVENT) {
			*ret = take_ptr(&list);
			return 0;
		}
		if (err == 0)
			err = value(r, &e, depth, &item);
		if (err == 0)
			note_line(r, list, NULL, json_array_size(list), item, e.start_mark.line);
		if (err == 0 && json_array_append_new(list, item) < 0)
			err = mlr_fail(r->err, ENOMEM, "read YAML: %s", strerror(ENOMEM));
	}
	return err;
}

static int put(struct reader *r, const yaml_event_t *key, json_t *map, json_t *item)
{
	const char *name = (const char *)key->data.scalar.value;

	if (json_object_get(map, name)) {
		json_decref(item);
		return mlr_fail(r->err, EPROTO, "line %zu: the key '%s' appears twice",
			key->start_mark.line + 1, name);
	}
	if (json_object_set_new(map, name, item) < 0)
		return wrong(r, key, "key is not UTF-8");
	note_line(r, map, name, 0, item, key->start_mark.line);
	return 0;
}

/* "<<" adds the keys that the mapping itself lacks; of several merged mappings the first with a key
 * wins. */
static int merge(struct reader *r, const yaml_event_t *at, json_t *map, const json_t *from)
{
	json_t *item;
	size_t i;

	if (json_is_object(from))
		return json_object_update_missing(map, (json_t *)from) < 0
			? mlr_fail(r->err, ENOMEM, "read YAML: %s", strerror(ENOMEM))
			: 0;
	if (!json_is_array(from))
		return wrong(r, at, "'<<' can only merge mappings");
	json_array_foreach((json_t *)from, i, item) {
		int err = json_is_object(item) ? merge(r, at, map, item)
					       : wrong(r, at, "'<<' can only merge mappings");

		if (err < 0)
			return err;
	}
	return 0;
}

static int pair(
	struct reader *r, const yaml_event_t *key, unsigned depth, json_t *map, json_t **merged)
{
	auto_call(yaml_event_delete) yaml_event_t e = { YAML_NO_EVENT };
	json_t *item = NULL;
	int err;

	if (key->type != YAML_SCALAR_EVENT || key->data.scalar.anchor)
		return wrong(r, key, "key is not a string");
	if (memchr(key->data.scalar.value, '\0', key->data.scalar.length))
		return wrong(r, key, "text contains a NUL");
	err = next(r, &e);
	if (err == 0)
		err = value(r, &e, depth, &item);
	if (err < 0)
		return err;
	if (key->data.scalar.style != YAML_PLAIN_SCALAR_STYLE ||
		strcmp((const char *)key->data.scalar.value, "<<") != 0)
		return put(r, key, map, item);
	if (*merged) {
		json_decref(item);
		return wrong(r, key, "the key '<<' appears twice");
	}
	*merged = item;
	return 0;
}

static int mapping(struct reader *r, const yaml_event_t *start, unsigned depth, json_t **ret)
{
	static const char *const tags[] = { "!", "map", NULL };
	json_auto_t *map = json_object(), *merged = NULL;
	const char *tag = (const char *)start->data.mapping_start.tag;
	int err = tag ? check_tag(r, start, tag, tags) : 0;

	while (err == 0) {
		auto_call(yaml_event_delete) yaml_event_t key = { YAML_NO_EVENT };

		err = next(r, &key);
		if (err == 0 && key.type == YAML_MAPPING_END_EVENT) {
			err = merged ? merge(r, &key, map, merged) : 0;
			if (err == 0)
				*ret = take_ptr(&map);
			return err;
		}
		if (err == 0)
			err = pair(r, &key, depth, map, &merged);
	}
	return err;
}

/* The latest anchor of a name counts. Within its own value an anchor is not yet known. */
static int alias(struct reader *r, const yaml_event_t *e, json_t **ret)
{
	for (size_t i = r->n_anchors; i-- > 0;)
		if (strcmp(r->anchors[i].name, (const char *)e->data.alias.anchor) == 0) {
			int err = count(r, e, r->anchors[i].values);

			if (err == 0)
				*ret = json_incref(r->anchors[i].value);
			return err;
		}
	return wrong(r, e, "alias of an unknown anchor");
}

static int remember(
	struct reader *r, const yaml_event_t *e, const yaml_char_t *name, json_t *v, size_t values)
{
	if (r->n_anchors == MAX_ANCHORS)
		return wrong(r, e, "too many anchors");
	*xadd(r->anchors, r->n_anchors) =
		(struct anchor){ xstrdup((const char *)name), json_incref(v), values };
	return 0;
}

static int value(struct reader *r, const yaml_event_t *e, unsigned depth, json_t **ret)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;
	size_t before = r->values;
	int err = depth >= MAX_DEPTH ? wrong(r, e, "nested too deeply") : count(r, e, 1);

	if (err < 0)
		return err;
	switch (e->type) {
	case YAML_SCALAR_EVENT:
		anchor = e->data.scalar.anchor;
		tag = e->data.scalar.tag;
		err = scalar(r, e, ret);
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = e->data.sequence_start.anchor;
		tag = e->data.sequence_start.tag;
		err = sequence(r, e, depth + 1, ret);
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = e->data.mapping_start.anchor;
		tag = e->data.mapping_start.tag;
		err = mapping(r, e, depth + 1, ret);
		break;
	case YAML_ALIAS_EVENT:
		return alias(r, e, ret);
	default:
		return wrong(r, e, "expected a value");
	}
	if (err == 0 && wrapping_of(r, tag))
		*ret = json_pack("{s:o}", (const char *)tag, *ret);
	if (err == 0 && anchor)
		err = remember(r, e, anchor, *ret, r->values - before);
	if (err < 0)
		json_decref(take_ptr(ret));
	return err;
}

static int expect(struct reader *r, yaml_event_type_t type, const char *what)
{
	auto_call(yaml_event_delete) yaml_event_t e = { YAML_NO_EVENT };
	int err = next(r, &e);

	return err == 0 && e.type != type ? wrong(r, &e, what) : err;
}

static int document(struct reader *r, json_t **ret)
{
	auto_call(yaml_event_delete) yaml_event_t e = { YAML_NO_EVENT };
	int err = expect(r, YAML_STREAM_START_EVENT, "not YAML");

	if (err == 0)
		err = expect(r, YAML_DOCUMENT_START_EVENT, "it is empty");
	if (err == 0)
		err = next(r, &e);
	if (err == 0)
		err = value(r, &e, 0, ret);
	if (err == 0)
		err = expect(r, YAML_DOCUMENT_END_EVENT, "the document does not end");
	if (err == 0)
		err = expect(r, YAML_STREAM_END_EVENT, "second document");
	return err;
}

int mlr_yaml_load(const char *text, size_t size, enum mlr_yaml_how how,
	struct mlr_yaml_lines *lines, json_t **ret, struct mlr_error *err)
{
	auto_call(reader_done) struct reader r = { .how = how, .lines = lines, .err = err };
	json_auto_t *v = NULL;
	int e;

	if (!yaml_parser_initialize(&r.parser))
		return mlr_fail(err, ENOMEM, "read YAML: %s", strerror(ENOMEM));
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, size);
	e = document(&r, &v);
	if (e == 0)
		*ret = take_ptr(&v);
	return e;
}
