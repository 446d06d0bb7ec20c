/* The results of a run, for people and as JSON. */
#ifndef MLT_LOAD_SUMMARY_H
#define MLT_LOAD_SUMMARY_H

#include "load/load.h"
#include "load/threshold.h"

struct summary {
	const struct load_options *o;
	const struct results *results;
	const char *url, *name; /* name: what a reader calls this run */
	const struct threshold *thresholds;
	size_t n_thresholds;
	double cache_rate, began; /* seconds since 1970 */
	const char *images;       /* NULL: none */
	int interrupted;
};

/* Write a table of some lines. Text of the server is escaped. */
void summary_write(FILE *f, const struct summary *s);

/* "20 virtual users", "stages 30s:20,30s:0", "2000 requests a second"; to free(). */
char *summary_loop(const struct load_options *o);

/*
 * Make a line of JSON, with a newline at its end, to free(). `mltrain report` reads it, and
 * mltrain-load(1) lists its keys, which are always there, null if unknown.
 */
char *summary_json(const struct summary *s, size_t *len);

/* Print a line about the latest second, at most so many columns, for a terminal. */
void summary_line(
	char *buf, size_t size, const struct load_options *o, const struct results_row *row);

#endif
