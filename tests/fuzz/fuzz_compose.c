/* Compose files and .env files. What is taken is whole. */
#include "base/cleanup.h"
#include "base/memory.h"
#include "compose/compose.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *look(void *ctx, const char *name)
{
	(void)ctx;
	return strlen(name) % 2 ? "value" : NULL;
}

static void check_service(const struct compose_project *p, size_t at)
{
	const struct compose_service *s = &p->services[at];

	if (!s->name || (!s->image && !s->context) || s->replicas < 0 || strchr(s->name, '/'))
		abort();
	for (size_t i = 0; i < s->environment.n; i++)
		if (!strchr(s->environment.v[i], '='))
			abort();
	for (size_t i = 0; i < s->volumes.n; i++)
		if (!strchr("/@_", s->volumes.v[i][0]))
			abort();
	for (size_t i = 0; i < s->n_needs; i++) {
		size_t k = 0;

		while (k < at && strcmp(p->services[k].name, s->needs[i].service) != 0)
			k++;
		if (k == at && s->needs[i].required)
			abort();
	}
}

static void check(const struct compose_project *p)
{
	if (p->n == 0 || (p->name && !compose_is_project(p->name)))
		abort();
	for (size_t i = 0; i < p->n; i++)
		check_service(p, i);
}

/* What is printed can be read again, and is the same. */
static void check_again(const char *text)
{
	auto_call(compose_project_done) struct compose_project p = { 0 };
	auto_strv struct strv refused = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	const struct compose_text file = { "f", text, strlen(text) };
	const struct compose_wish w = {
		.files = &file, .n = 1, .directory = "/nowhere", .with_text = 1, .look = look
	};

	if (compose_parse(&w, &p, &refused, &err) == 0 && strcmp(p.text, text) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_strv struct strv variables = STRV_INIT;
	auto_free char *text = xstrndup((const char *)data, size), *expanded = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	/* A file; and the bytes before "%%%" as one that those behind it are merged into. */
	const char *cut = strstr(text, "%%%");
	const struct compose_text one = { "f", (const char *)data, size };
	const struct compose_text two[] = { { "f", text, cut ? (size_t)(cut - text) : 0 },
		{ "g", cut ? cut + 3 : "", cut ? strlen(cut + 3) : 0 } };

	if (compose_env_parse(text, ".env", look, NULL, &variables, &err) < 0 && !*err.text)
		abort();
	expanded = compose_interpolate(text, look, NULL, &err);
	for (int i = 0; i < 1 + (cut != NULL); i++) {
		auto_call(compose_project_done) struct compose_project p = { 0 };
		auto_strv struct strv refused = STRV_INIT;
		const struct compose_wish w = { .files = i ? two : &one,
			.n = 1 + (size_t)i,
			.directory = "/nowhere",
			.with_text = 1,
			.look = look };

		if (compose_parse(&w, &p, &refused, &err) == 0) {
			check(&p);
			check_again(p.text);
		} else if (!*err.text) {
			abort();
		}
	}
	return 0;
}
