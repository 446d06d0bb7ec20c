#include "report/test_record.h"

#include "report/html.h"

#include <math.h>

#define NAME_MAX_BYTES 60

void test_done(struct test *t)
{
	for (int i = 0; i < t->classes && t->names; i++)
		free(t->names[i]);
	for (size_t i = 0; i < t->n_mistakes; i++)
		free(t->mistakes[i].png);
	free(t->names);
	free(t->confusion);
	free(t->mistakes);
	*t = (struct test){ 0 };
}

int test_is_png(const char *s)
{
	static const char head[] = "iVBORw0KGgo"; /* 89 50 4e 47 0d 0a 1a 0a */
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t n = strlen(s), body = strspn(s, alphabet);

	return strncmp(s, head, sizeof(head) - 1) == 0 && n <= RUNS_PNG_MAX && n % 4 == 0 &&
		n - body <= 2 && strspn(s + body, "=") == n - body;
}

static int read_confusion(const json_t *rows, struct test *t)
{
	size_t n = json_array_size(rows);

	if (n < 1 || n > RUNS_CLASSES_MAX)
		return -EPROTO;
	t->confusion = calloc(n * n, sizeof(*t->confusion));
	if (!t->confusion)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const json_t *row = json_array_get(rows, i);

		if (json_array_size(row) != n)
			return -EPROTO;
		for (size_t k = 0; k < n; k++) {
			const json_t *v = json_array_get(row, k);
			json_int_t count = json_integer_value(v);

			/* limited, so that a sum of a thousand does not overflow */
			if (!json_is_integer(v) || count < 0 || count > INT64_C(1) << 40)
				return -EPROTO;
			t->confusion[i * n + k] = count;
		}
	}
	t->classes = (int)n;
	return 0;
}

static void read_names(const json_t *names, struct test *t)
{
	t->names = xcalloc((size_t)t->classes, sizeof(*t->names));
	for (int i = 0; i < t->classes; i++) {
		const char *name = json_string_value(json_array_get(names, (size_t)i));

		t->names[i] = name ? html_cut(name, NAME_MAX_BYTES) : xasprintf("%d", i);
	}
}

static int read_mistake(const json_t *record, int classes, struct mistake *ret)
{
	const json_t *label = json_object_get(record, "label");
	const json_t *guess = json_object_get(record, "guess");
	const json_t *probability = json_object_get(record, "probability");
	const char *png = json_string_value(json_object_get(record, "png"));
	double p = json_number_value(probability);

	if (!json_is_integer(label) || !json_is_integer(guess) || json_integer_value(label) < 0 ||
		json_integer_value(guess) < 0 || json_integer_value(label) >= classes ||
		json_integer_value(guess) >= classes)
		return -EPROTO;
	*ret = (struct mistake){ .index = json_integer_value(json_object_get(record, "index")),
		.label = (int)json_integer_value(label),
		.guess = (int)json_integer_value(guess),
		.probability = json_is_number(probability) && p >= 0 && p <= 1 ? p : NAN,
		.png = png && test_is_png(png) ? xstrdup(png) : NULL };
	return 0;
}

static void read_mistakes(const json_t *list, struct test *t)
{
	size_t n = json_array_size(list);

	if (n > RUNS_MISTAKES_MAX)
		n = RUNS_MISTAKES_MAX;
	t->mistakes = xcalloc(n ? n : 1, sizeof(*t->mistakes));
	for (size_t i = 0; i < n; i++)
		if (read_mistake(
			    json_array_get(list, i), t->classes, &t->mistakes[t->n_mistakes]) == 0)
			t->n_mistakes++;
}

int test_read(const json_t *record, struct test *ret)
{
	int r;

	test_done(ret);
	r = read_confusion(json_object_get(record, "confusion"), ret);
	if (r < 0) {
		test_done(ret);
		return r;
	}
	read_names(json_object_get(record, "names"), ret);
	read_mistakes(json_object_get(record, "mistakes"), ret);
	return 0;
}
