#include "web/query.h"

#include <math.h>

void query_done(struct query *q)
{
	for (size_t i = 0; i < q->n; i++) {
		free(q->terms[i].key);
		free(q->terms[i].text);
	}
	free(q->sort);
	*q = (struct query){ 0 };
}

/* Parse the words after a key: "state:running". */
static int parse_named(struct query_term *t, const char *word, struct mlr_error *err)
{
	static const struct {
		const char *name;
		enum query_kind kind;
	} names[] = { { "state:", QUERY_STATE }, { "tag:", QUERY_TAG }, { "place:", QUERY_PLACE } };

	t->kind = QUERY_WORD;
	t->text = xstrdup(word);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i].name);

		if (strncmp(word, names[i].name, n) != 0)
			continue;
		t->kind = names[i].kind;
		set_ptr(&t->text, xstrdup(word + n));
	}
	if (t->kind != QUERY_STATE)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(run_state_names); i++)
		if (strcmp(t->text, run_state_names[i]) == 0)
			return 0;
	mlr_fail(err, EPROTO, "there is no state '%s'", t->text);
	return mlr_hint(
		err, "states are waiting, running, succeeded, failed, stopped, lost, unknown");
}

static int parse_term(struct query_term *t, const char *word, struct mlr_error *err)
{
	const char *at = strpbrk(word, "<>=");
	char *end;

	if (!at || at == word)
		return parse_named(t, word, err);
	t->key = xstrndup(word, (size_t)(at - word));
	t->kind = *at == '<' ? QUERY_LESS : *at == '>' ? QUERY_MORE : QUERY_EQUAL;
	if (*at != '=' && at[1] == '=') {
		t->kind = *at == '<' ? QUERY_AT_MOST : QUERY_AT_LEAST;
		at++;
	}
	t->text = xstrdup(at + 1);
	t->number = strtod(t->text, &end);
	if (*end || end == t->text)
		t->number = NAN;
	if (t->kind == QUERY_EQUAL || !isnan(t->number))
		return 0;
	return mlr_fail(err, EPROTO, "'%s': expected a number behind %.*s", word,
		(int)(at + 1 - word) - (int)strlen(t->key), word + strlen(t->key));
}

int query_parse(const char *text, const char *sort, struct query *ret, struct mlr_error *err)
{
	static const char blanks[] = " \t\r\n";
	struct query q = { 0 };
	auto_free char *copy = xstrdup(text ? text : "");
	char *save = NULL;
	int r = 0;

	for (char *w = strtok_r(copy, blanks, &save); w && r == 0;
		w = strtok_r(NULL, blanks, &save))
		r = q.n == QUERY_TERMS_MAX
			? mlr_fail(err, E2BIG, "a filter has at most %d words", QUERY_TERMS_MAX)
			: parse_term(&q.terms[q.n++], w, err);
	if (!sort || !*sort)
		sort = "-started";
	q.falls = *sort == '-';
	q.sort = xstrdup(sort + q.falls);
	if (r < 0)
		query_done(&q);
	else
		*ret = q;
	return r;
}

/* --- matching ---------------------------------------------------------------------------- */

static int has_word(const struct run *r, const char *word)
{
	return strcasestr(r->wish.name, word) || strcasestr(r->wish.experiment, word) ||
		strcasestr(r->directory, word);
}

static int compares(const struct query_term *t, const struct run *r)
{
	double v = run_number(r, t->key);
	const char *text;

	switch (t->kind) {
	case QUERY_LESS:
		return v < t->number;
	case QUERY_AT_MOST:
		return v <= t->number;
	case QUERY_AT_LEAST:
		return v >= t->number;
	case QUERY_MORE:
		return v > t->number;
	default:
		text = run_text(r, t->key);
		return v == t->number || (text && strcmp(text, t->text) == 0);
	}
}

static int term_matches(const struct query_term *t, const struct run *r)
{
	switch (t->kind) {
	case QUERY_WORD:
		return has_word(r, t->text);
	case QUERY_TAG:
		return strv_has(&r->wish.tags, t->text);
	case QUERY_STATE:
		return strcmp(run_state_names[r->state], t->text) == 0;
	case QUERY_PLACE:
		return r->wish.place && strcmp(r->wish.place, t->text) == 0;
	default:
		return compares(t, r);
	}
}

int query_matches(const struct query *q, const struct run *r)
{
	for (size_t i = 0; i < q->n; i++)
		if (!term_matches(&q->terms[i], r))
			return 0;
	return 1;
}

/* --- order ------------------------------------------------------------------------------- */

static double duration_of(const struct run *r)
{
	return (isnan(r->ended) ? run_changed(r) : r->ended) - r->started;
}

/* The text that a column orders by, or NULL for one of numbers. */
static const char *column_text(const struct run *r, const char *column)
{
	if (strcmp(column, "name") == 0)
		return r->wish.name;
	if (strcmp(column, "experiment") == 0)
		return r->wish.experiment;
	if (strcmp(column, "state") == 0)
		return run_state_names[r->state];
	return NULL;
}

static double column_number(const struct run *r, const char *column)
{
	if (strcmp(column, "started") == 0)
		return isnan(r->started) ? run_changed(r) : r->started;
	if (strcmp(column, "changed") == 0)
		return run_changed(r);
	if (strcmp(column, "duration") == 0)
		return duration_of(r);
	return run_number(r, column);
}

void query_key(const struct query *q, struct run *r, struct query_key *ret)
{
	*ret = (struct query_key){ r, NAN, column_text(r, q->sort) };
	if (ret->text)
		return;
	ret->number = column_number(r, q->sort);
	if (isnan(ret->number))
		ret->text = run_text(r, q->sort);
}

/* The kinds of keys in their order: numbers, texts, none. */
static int rank(const struct query_key *k)
{
	return !isnan(k->number) ? 0 : k->text ? 1 : 2;
}

int query_compare(const void *x, const void *y, void *falls)
{
	const struct query_key *a = x, *b = y;
	int kind = rank(a), r = kind - rank(b);

	if (r)
		return r;
	if (kind == 0)
		r = (a->number > b->number) - (a->number < b->number);
	else if (kind == 1)
		r = strcasecmp(a->text, b->text);
	if (*(const int *)falls)
		r = -r;
	return r ? r : strcmp(a->run->id, b->run->id);
}
