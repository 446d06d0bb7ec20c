#include "cli/arg.h"

#include "base/json.h"
#include "data/picture.h"
#include "report/html.h"

#include <math.h>

static json_t *confusion(const struct evaluation *e)
{
	size_t n = (size_t)e->classes;

	return e->confusion
		? MLR_JSON_LIST(i, n, MLR_JSON_LIST(k, n, json_integer(e->confusion[i * n + k])))
		: json_null();
}

/* Make the picture of one test image, or null. */
static json_t *picture(const struct dataset *data, uint32_t index)
{
	auto_free uint8_t *png = NULL;
	auto_free char *text = NULL;
	size_t len;

	if (picture_png(data, &data->test, index, &png, &len) < 0)
		return json_null();
	text = html_base64(png, len);
	return json_string(text);
}

static json_t *mistake(const struct mistake *m, const struct dataset *data)
{
	return json_pack("{s:I, s:i, s:i, s:f, s:o}", "index", (json_int_t)m->index, "label",
		m->label, "guess", m->guess, "probability", (double)m->probability, "png",
		picture(data, m->index));
}

json_t *test_record(
	const struct evaluation *e, const struct dataset *data, char *const *names, uint64_t step)
{
	char buf[12];
	double error = e->count ? (double)e->wrong / e->count : 0;

	return json_pack("{s:s, s:I, s:o, s:I, s:I, s:f, s:f, s:o, s:o, s:o, s:o}", "event", "test",
		"step", (json_int_t)step, "data", mlr_json_text(data->dir), "images",
		(json_int_t)e->count, "wrong", (json_int_t)e->wrong, "error", error, "accuracy",
		1 - error, "cross_entropy", mlr_json_real(e->cross_entropy), "names",
		MLR_JSON_LIST(i, e->classes,
			mlr_json_text(names ? names[i] : dataset_class(data, i, buf))),
		"confusion", confusion(e), "mistakes",
		MLR_JSON_LIST(i, e->mistaken, mistake(&e->mistakes[i], data)));
}
