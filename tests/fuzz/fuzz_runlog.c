/*
 * Fuzz target: one log of training runs, as `mltrain report` reads and draws it.
 */
#include "report/report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void draw(const struct runs *runs)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		abort();
	report_write(f, runs);
	fclose(f);
	/* The page's own script is the only one that runs; the others hold data. */
	for (char *p = text; (p = strstr(p, "<script>")); p++)
		if (strncmp(p + strlen("<script>"), report_js, strlen(report_js)) != 0)
			abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct runs runs = { 0 };
	char *text = malloc(size ? size : 1); /* exactly as long, so that a read beyond is seen */

	if (!text)
		abort();
	memcpy(text, data, size);
	if (runs_parse(&runs, text, size, "input", &err) < 0 && !err.text[0])
		abort(); /* a refusal says why */
	if (runs.n)
		draw(&runs);
	runs_done(&runs);
	free(text);
	return 0;
}
