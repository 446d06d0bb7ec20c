/*
 * Fuzz target: what a user of `mltrain load` writes: stages, thresholds, checks, URLs. The first
 * letter says which.
 */
#include "load/check.h"
#include "load/request.h"
#include "load/stages.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int try_stages(const char *text, struct mlr_error *err)
{
	struct stages s;
	int r = stages_parse(text, &s, err);
	double t = 0;

	if (r < 0)
		return r;
	/* Time goes on, and never are there more users than the most. */
	for (int i = 0; i < 1000 && !isinf(t); i++) {
		double then = stages_change(&s, t);

		if (!(then > t) || stages_users(&s, t) > (stages_most(&s) ? stages_most(&s) : 1))
			abort();
		t = then;
	}
	return 0;
}

static int try_threshold(const char *text, struct mlr_error *err)
{
	struct threshold t;
	struct results r;
	char buf[48];

	if (threshold_parse(text, &t, err) < 0)
		return -err->code;
	if (!isfinite(t.value) || t.value < 0)
		abort();
	results_init(&r);
	results_answer(&r, 200, 5);
	results_row_end(&r, 1);
	threshold_kept(&t, &r);
	threshold_shown(&t, threshold_seen(&t, &r), buf);
	results_done(&r);
	threshold_done(&t);
	return 0;
}

static int try_check(const char *text, struct mlr_error *err)
{
	struct check c;

	if (check_parse(text, &c, err) < 0)
		return -err->code;
	check_status(&c, 200);
	check_bytes(&c, text, strlen(text));
	check_done(&c);
	return 0;
}

static int try_target(const char *text, struct mlr_error *err)
{
	struct target t;

	if (target_parse(text, &t, err) < 0)
		return -err->code;
	/* What goes into a request's lines cannot end them. */
	if (strpbrk(t.path, " \r\n") || strpbrk(t.authority, " \r\n/") || *t.path != '/')
		abort();
	if (!t.socket == !t.host)
		abort();
	target_done(&t);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mlr_error err = MLR_ERROR_INIT;
	char *text = calloc(size + 1, 1);
	int r = 0;

	if (!text)
		abort();
	memcpy(text, data, size);
	if (*text == 's')
		r = try_stages(text + 1, &err);
	else if (*text == 't')
		r = try_threshold(text + 1, &err);
	else if (*text == 'c')
		r = try_check(text + 1, &err);
	else if (*text == 'u')
		r = try_target(text + 1, &err);
	if (r < 0 && !err.text[0])
		abort(); /* a refusal says why */
	free(text);
	return 0;
}
