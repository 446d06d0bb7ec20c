/* Text in HTML. Untrusted text enters a page only through these functions. */
#pragma once

#include "base/base.h"

/*
 * As text or as a quoted attribute's value: & < > " and ' as references, control characters as
 * U+FFFD. s is UTF-8.
 */
void html_text(FILE *f, const char *s);

/* printf(3) for the page's own words. It escapes string arguments; %s is the only conversion. */
void html_format(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define HTML_NUMBER 64 /* bytes of a number as text */

/* A way to write numbers. */
typedef char *html_number(double v, char buf[HTML_NUMBER]);

/* A duration: "0.82 s", "12.3 s", "3 min 20 s", "2 h 05 min". "–" for NAN. */
char *html_duration(double s, char buf[HTML_NUMBER]);

/* Milliseconds: "0.123 ms", "12.3 ms", "1.23 s". "–" for NAN. */
char *html_latency(double ms, char buf[HTML_NUMBER]);

/* A count with thin spaces between thousands: "55 000". "–" for NAN. */
char *html_count(double n, char buf[HTML_NUMBER]);

/* A fraction in percent, with a number of decimals: "9.02 %". "–" for NAN. */
char *html_percent(double share, int decimals, char buf[HTML_NUMBER]);

/* The same with two decimals. */
char *html_share(double share, char buf[HTML_NUMBER]);

/* Copy a text, cut between two characters to at most max bytes; to free(). */
char *html_cut(const char *s, size_t max);

/* Bytes as base64 (RFC 4648, section 4); to free(). */
char *html_base64(const uint8_t *bytes, size_t n);

/* A script's digest for Content-Security-Policy: base64 of its bytes (W3C, CSP 3, 2.3.1); to
 * free(). */
char *html_script_hash(const char *script);

/* Begin a section with a heading and a table. section and table are ids. */
void html_table_begin(FILE *f, const char *section, const char *title, const char *table);

/* The heading of a run's column, with the dot that has the colour of its curves. */
void html_column(FILE *f, size_t run, const char *name);

/*
 * Write a row of a table of runs: their numbers v [n], each with how it compares with that of the
 * base, "×2.0" or "÷2.0" (n: none is compared).
 */
void html_row(
	FILE *f, const char *name, html_number *shown, const double *v, size_t n, size_t base);

/* The frame of every page: head, style, policy, footer and script. */

/* Write everything up to the body's first element. The title is untrusted. */
void html_page_begin(FILE *f, const char *title);

/* End <main> and the page. */
void html_page_end(FILE *f);
