/*
 * Fuzz target: results of `mltrain load`, as `mltrain report` reads and draws them.
 */
#include "report/report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void draw(const struct traffic *t)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		abort();
	traffic_write(f, t);
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
	struct traffic t = { 0 };
	char *text = malloc(size ? size : 1); /* exactly as long, so that a read beyond is seen */

	if (!text)
		abort();
	memcpy(text, data, size);
	if (traffic_parse(&t, text, size, "input", &err) < 0 && !err.text[0])
		abort(); /* a refusal says why */
	if (t.n)
		draw(&t);
	traffic_done(&t);
	free(text);
	return 0;
}
