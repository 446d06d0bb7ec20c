#include "load/results.h"

#define MOMENT_S 0.5 /* a shorter rest of a second is no row: its rate would say little */

const char *const results_kinds[RESULTS_KINDS] = { "connection", "tls", "closed", "timeout",
	"garbage", "size", "status" };

void results_init(struct results *r)
{
	*r = (struct results){ .all = histogram_new(), .second = histogram_new() };
}

void results_done(struct results *r)
{
	for (int i = 0; i < RESULTS_KINDS; i++)
		free(r->examples[i]);
	free(r->all);
	free(r->second);
	free(r->rows);
}

static void fail(struct results *r, enum results_kind k)
{
	r->failed++;
	r->row.failed++;
	r->kinds[k]++;
}

void results_answer(struct results *r, int status, uint64_t us)
{
	r->requests++;
	r->row.requests++;
	r->statuses[status]++;
	histogram_record(r->second, us);
	if (status >= 400)
		fail(r, RESULTS_STATUS);
}

void results_failure(struct results *r, enum results_kind k, uint64_t us, const char *detail)
{
	r->requests++;
	r->row.requests++;
	fail(r, k);
	if (k == RESULTS_TIMEOUT)
		histogram_record(r->second, us);
	if (detail && !r->examples[k])
		r->examples[k] = xstrdup(detail);
}

void results_not_sent(struct results *r, uint64_t us)
{
	r->requests++;
	r->failed++;
	r->kinds[RESULTS_TIMEOUT]++;
	r->not_sent++;
	histogram_record(r->all, us);
	if (!r->examples[RESULTS_TIMEOUT])
		r->examples[RESULTS_TIMEOUT] = xstrdup("no connection was free");
}

void results_row_end(struct results *r, double time)
{
	double before = r->n_rows ? r->rows[r->n_rows - 1].time : 0;

	histogram_add(r->all, r->second);
	r->seconds = r->row.time = time;
	r->row.seconds = time - before;
	r->row.p50 = histogram_percentile(r->second, 50);
	r->row.p95 = histogram_percentile(r->second, 95);
	r->row.p99 = histogram_percentile(r->second, 99);
	r->row.most = r->second->most;
	histogram_clear(r->second);
	if (r->row.seconds >= MOMENT_S || !r->n_rows) {
		*xadd(r->rows, r->n_rows) = r->row;
	}
	r->row = (struct results_row){ 0 };
}

double results_rate(const struct results *r)
{
	return r->seconds > 0 ? (double)(r->requests - r->not_sent) / r->seconds : 0;
}

double results_busy(const struct results *r)
{
	return r->seconds > 0 ? r->cpu_seconds / r->seconds : 0;
}
