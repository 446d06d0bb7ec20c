#include "serve/counts.h"

static const int codes[SERVE_CODES] = { 200, 400, 401, 403, 404, 405, 411, 413, 415, 421, 422, 429,
	500, 501, 503 };
static const double seconds_at[SERVE_BUCKETS] = { 50e-6, 100e-6, 150e-6, 250e-6, 500e-6, 1e-3, 2e-3,
	5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2.5 };
static const double rows_at[SERVE_BUCKETS] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128,
	256, 512 };

static void note(struct serve_histogram *h, const double *bounds, double v, double sum)
{
	int i = 0;

	while (i < SERVE_BUCKETS && v > bounds[i])
		i++;
	atomic_fetch_add_explicit(&h->bucket[i], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum, (uint_fast64_t)sum, memory_order_relaxed);
}

void serve_counts_request(struct serve_counts *c, int route, int status, double seconds)
{
	int code = 0;

	while (code < SERVE_CODES - 1 && codes[code] != status)
		code++;
	atomic_fetch_add_explicit(&c->requests[route][code], 1, memory_order_relaxed);
	note(&c->latency, seconds_at, seconds, seconds * 1e6);
}

void serve_counts_batch(struct serve_counts *c, int rows)
{
	note(&c->batches, rows_at, rows, rows);
}

static void print_histogram(FILE *f, const char *name, const char *help, struct serve_histogram *h,
	const double *bounds, double unit)
{
	uint64_t total = 0;

	fprintf(f, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
	for (int i = 0; i < SERVE_BUCKETS; i++) {
		total += atomic_load(&h->bucket[i]);
		fprintf(f, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, bounds[i], total);
	}
	total += atomic_load(&h->bucket[SERVE_BUCKETS]);
	fprintf(f, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.9g\n%s_count %" PRIu64 "\n", name,
		total, name, (double)atomic_load(&h->sum) * unit, name, total);
}

static void print_requests(FILE *f, struct serve_counts *c, const char *(*route_name)(int route))
{
	fputs("# HELP mltrain_requests_total Requests by path and status.\n"
	      "# TYPE mltrain_requests_total counter\n",
		f);
	for (int r = 0; r < SERVE_ROUTES_MAX && route_name(r); r++)
		for (int i = 0; i < SERVE_CODES; i++) {
			uint64_t n = atomic_load(&c->requests[r][i]);

			if (n && codes[i])
				fprintf(f,
					"mltrain_requests_total{path=\"%s\",code=\"%d\"} %" PRIu64
					"\n",
					route_name(r), codes[i], n);
			else if (n)
				fprintf(f,
					"mltrain_requests_total{path=\"%s\",code=\"other\"} %" PRIu64
					"\n",
					route_name(r), n);
		}
}

char *serve_counts_text(struct serve_counts *c, const char *(*route_name)(int route))
{
	const struct {
		const char *name, *type, *help;
		int64_t v;
	} rows[] = {
		{ "queue_images", "gauge", "Images that wait.", atomic_load(&c->queued) },
		{ "connections", "gauge", "Open connections.", atomic_load(&c->http.connections) },
		{ "request_bytes", "gauge", "Memory of bodies and images.",
			atomic_load(&c->http.memory) },
		{ "cache_hits_total", "counter", "Answers from the cache.",
			(int64_t)atomic_load(&c->hits) },
		{ "cache_misses_total", "counter", "Answers that were not in the cache.",
			(int64_t)atomic_load(&c->misses) },
		{ "cache_errors_total", "counter", "Failures of the cache's server.",
			(int64_t)atomic_load(&c->cache_errors) },
		{ "reloads_total", "counter", "Reloads asked for.",
			(int64_t)atomic_load(&c->reloads) },
		{ "reloads_failed_total", "counter", "Checkpoints that could not be read again.",
			(int64_t)atomic_load(&c->reloads_failed) },
	};
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	print_requests(f, c, route_name);
	print_histogram(f, "mltrain_request_seconds", "From the header to the answer.", &c->latency,
		seconds_at, 1e-6);
	print_histogram(
		f, "mltrain_batch_images", "Images computed at once.", &c->batches, rows_at, 1);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		fprintf(f, "# HELP mltrain_%s %s\n# TYPE mltrain_%s %s\nmltrain_%s %" PRId64 "\n",
			rows[i].name, rows[i].help, rows[i].name, rows[i].type, rows[i].name,
			rows[i].v);
	return fclose(f) == 0 ? text : NULL;
}
