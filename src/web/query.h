/* Which runs a list has, and in which order: "mnist lr<0.01 state:running tag:good". */
#pragma once

#include "web/run.h"

#define QUERY_TERMS_MAX 32

enum query_kind {
	QUERY_WORD, /* in name, experiment or directory */
	QUERY_TAG,
	QUERY_STATE,
	QUERY_PLACE,
	QUERY_LESS,
	QUERY_AT_MOST,
	QUERY_EQUAL,
	QUERY_AT_LEAST,
	QUERY_MORE,
};

struct query {
	struct query_term {
		enum query_kind kind;
		char *key, *text; /* owned */
		double number;    /* text's; NAN: it is none */
	} terms[QUERY_TERMS_MAX];
	size_t n;
	char *sort; /* a column or a metric; owned */
	int falls;
};

/*
 * Parse a filter and an order.
 *
 *   text, sort  may be NULL
 *
 * Returns 0 or -EPROTO.
 */
int query_parse(const char *text, const char *sort, struct query *ret, struct mlr_error *err);
void query_done(struct query *q);

int query_matches(const struct query *q, const struct run *r);

/* A run with what its list is ordered by. */
struct query_key {
	struct run *run;
	double number;    /* NAN: a text, or it has none */
	const char *text; /* borrowed; NULL: none */
};

void query_key(const struct query *q, struct run *r, struct query_key *ret);

/* Order two keys for qsort_r(3): numbers, then texts, then those without; equal ones by their run's
 * id. falls points at the query's. */
int query_compare(const void *a, const void *b, void *falls);
