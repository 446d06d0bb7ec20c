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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_call(compose_project_done) struct compose_project p = COMPOSE_PROJECT_INIT;
	auto_strv struct strv variables = STRV_INIT, refused = STRV_INIT;
	auto_free char *text = xstrndup((const char *)data, size), *expanded = NULL;
	struct mlr_error err = MLR_ERROR_INIT;

	if (compose_env_parse(text, ".env", look, NULL, &variables, &err) < 0 && !*err.text)
		abort();
	expanded = compose_interpolate(text, look, NULL, &err);
	if (compose_parse((const char *)data, size, "f", "/nowhere", look, NULL, &p, &refused,
		    &err) < 0) {
		if (!*err.text)
			abort();
		return 0;
	}
	if (p.n == 0 || (p.name && !compose_is_project(p.name)))
		abort();
	for (size_t i = 0; i < p.n; i++)
		check_service(&p, i);
	return 0;
}
