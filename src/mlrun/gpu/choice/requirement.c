#include "gpu/choice/requirement.h"

#include "gpu/choice/choice.h"

#define SHOWN_MAX 120 /* bytes of a requirement quoted in messages */

enum truth { FALSE, TRUE, UNKNOWN };

enum operator{ EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL };

static const char *const operators[] = { "=", "!=", "<", "<=", ">", ">=" };

/* A part of the text. */
struct span {
	const char *at;
	size_t len;
};

struct condition {
	struct span property, value;
	enum operator op;
};

/* The next part up to a separator; *rest becomes NULL after the last. */
static struct span next(const char **rest, const char *end, char separator)
{
	const char *at = *rest, *stop = memchr(at, separator, (size_t)(end - at));

	*rest = stop ? stop + 1 : NULL;
	return (struct span){ at, (size_t)((stop ? stop : end) - at) };
}

static int shown(struct span s)
{
	return s.len > SHOWN_MAX ? SHOWN_MAX : (int)s.len;
}

static int is_word(struct span s, const char *word)
{
	return s.len == strlen(word) && strncasecmp(s.at, word, s.len) == 0;
}

static size_t count(struct span s, size_t from, const char *set, int in_set)
{
	size_t n = 0;

	while (from + n < s.len && !!strchr(set, s.at[from + n]) == in_set)
		n++;
	return n;
}

static int no_condition(struct span s, const char *why, struct mlr_error *err)
{
	return mlr_fail(err, EINVAL, "invalid condition '%.*s': %s", shown(s), s.at, why);
}

static int parse(struct span s, struct condition *ret, struct mlr_error *err)
{
	static const char set[] = "<>=!";
	size_t name = count(s, 0, set, 0), len = count(s, name, set, 1), op = 0;

	while (op < ARRAY_LEN(operators) &&
		(strlen(operators[op]) != len || memcmp(s.at + name, operators[op], len) != 0))
		op++;
	if (name == 0 || op == ARRAY_LEN(operators) || name + len == s.len)
		return no_condition(s, "use PROPERTY=VALUE, or with != < <= > >=", err);
	ret->property = (struct span){ s.at, name };
	ret->value = (struct span){ s.at + name + len, s.len - name - len };
	ret->op = (enum operator)op;
	return 0;
}

static enum truth compare(int order, enum operator op)
{
	switch (op) {
	case EQUAL:
		return order == 0 ? TRUE : FALSE;
	case NOT_EQUAL:
		return order != 0 ? TRUE : FALSE;
	case LESS:
		return order < 0 ? TRUE : FALSE;
	case LESS_EQUAL:
		return order <= 0 ? TRUE : FALSE;
	case GREATER:
		return order > 0 ? TRUE : FALSE;
	case GREATER_EQUAL:
		return order >= 0 ? TRUE : FALSE;
	}
	return FALSE;
}

/* Returns enum truth or -EINVAL. */
static int judge_brand(
	struct span s, const struct condition *c, const char *brand, struct mlr_error *err)
{
	if (c->op != EQUAL && c->op != NOT_EQUAL)
		return no_condition(s, "a brand has only = and !=", err);
	if (!brand)
		return UNKNOWN;
	return compare(!is_word(c->value, brand), c->op);
}

static int judge_version(struct span s, const struct condition *c, const struct gpu_version *have,
	struct mlr_error *err)
{
	auto_free char *text = xstrndup(c->value.at, c->value.len);
	struct gpu_version want;

	if (gpu_version_parse(text, &want) < 0)
		return no_condition(s, "its value is not a version", err);
	if (!gpu_version_is_known(have))
		return UNKNOWN;
	return compare(gpu_version_compare(have, &want), c->op);
}

static int judge(struct span s, const struct gpu_facts *f, struct mlr_error *err)
{
	struct condition c;

	TRY(parse(s, &c, err));
	if (is_word(c.property, "brand"))
		return judge_brand(s, &c, f->brand, err);
	if (is_word(c.property, "cuda"))
		return judge_version(s, &c, &f->cuda, err);
	if (is_word(c.property, "driver"))
		return judge_version(s, &c, &f->driver, err);
	if (is_word(c.property, "arch"))
		return judge_version(s, &c, &f->arch, err);
	return TRUE;
}

/* Evaluate all conditions. Unknown values come last: finding them out costs most. */
static int judge_alternative(struct span s, const struct gpu_facts *f, struct mlr_error *err)
{
	int all = TRUE;

	for (const char *rest = s.at; rest;) {
		struct span one = next(&rest, s.at + s.len, ',');
		int r = one.len ? judge(one, f, err) : TRUE;

		if (r < 0 || r == FALSE)
			return r;
		if (r == UNKNOWN)
			all = UNKNOWN;
	}
	return all;
}

static void print_facts(const struct gpu_facts *f, char *text, size_t size)
{
	char version[GPU_VERSION_TEXT];
	size_t n = 0;

	n += (size_t)snprintf(text + n, size - n, "CUDA %s", gpu_version_print(&f->cuda, version));
	n += (size_t)snprintf(
		text + n, size - n, ", driver %s", gpu_version_print(&f->driver, version));
	if (gpu_version_is_known(&f->arch))
		n += (size_t)snprintf(
			text + n, size - n, ", arch %s", gpu_version_print(&f->arch, version));
	if (f->brand)
		snprintf(text + n, size - n, ", brand %.40s", f->brand);
}

/* Report the first alternative: it is what the image's author meant. */
static int does_not_hold(struct span first, const struct gpu_facts *f, struct mlr_error *err)
{
	static const char newer[] = "cuda>=";
	char facts[256];

	print_facts(f, facts, sizeof(facts));
	mlr_fail(err, ENOTSUP, "requires '%.*s', but this machine has %s", shown(first), first.at,
		facts);
	if (first.len > strlen(newer) && strncasecmp(first.at, newer, strlen(newer)) == 0)
		mlr_hint(err,
			"a newer driver, or an image of an older CUDA, or one with the package "
			"cuda-compat where that serves this GPU");
	return 0;
}

int gpu_requirement_holds(const char *text, struct gpu_facts *facts,
	void (*more)(void *ctx, struct gpu_facts *facts), void *ctx, struct mlr_error *err)
{
	const char *end = text + strlen(text);
	struct span first = { NULL, 0 };

	for (const char *rest = text; rest;) {
		struct span one = next(&rest, end, ' ');
		int r;

		if (count(one, 0, ",", 1) == one.len)
			continue;
		if (!first.at)
			first = one;
		r = judge_alternative(one, facts, err);
		if (r == UNKNOWN && more) {
			more(ctx, facts);
			more = NULL;
			r = judge_alternative(one, facts, err);
		}
		TRY(r);
		if (r != FALSE)
			return 1;
	}
	return first.at ? does_not_hold(first, facts, err) : 1;
}

/* The source of the values, and the function that finds out more. */
struct source {
	struct gpu_machine *m;
	size_t gpu; /* index into m->gpus; n_gpus: none */
	int (*fill)(struct gpu_machine *m, struct mlr_error *err);
};

static void read_facts(const struct source *s, struct gpu_facts *ret)
{
	*ret = (struct gpu_facts){ .cuda = s->m->cuda, .driver = s->m->driver_version };
	if (s->gpu < s->m->n_gpus) {
		ret->arch = s->m->gpus[s->gpu].arch;
		ret->brand = s->m->gpus[s->gpu].brand;
	}
}

/* Ask NVML; what it does not know stays unknown. */
static void ask(void *ctx, struct gpu_facts *facts)
{
	struct source *s = ctx;

	if (s->fill)
		s->fill(s->m, NULL);
	s->fill = NULL;
	read_facts(s, facts);
}

/* Check "NVIDIA_REQUIRE_CUDA=cuda>=12.4". */
static int check(const char *variable, struct source *s, struct mlr_error *err)
{
	const char *eq = strchr(variable, '=');
	struct gpu_facts facts;
	int r;

	if (!eq)
		return 0;
	read_facts(s, &facts);
	r = gpu_requirement_holds(eq + 1, &facts, s->fill ? ask : NULL, s, err);
	if (r == 1)
		return 0;
	mlr_wrap(err, r == 0 ? "%.*s does not hold" : "%.*s", (int)(eq - variable), variable);
	mlr_hint(err, "-e NVIDIA_DISABLE_REQUIRE=1 starts the image in spite of it");
	return r == 0 ? -ENOTSUP : r;
}

int gpu_requirements_check(const struct gpu_wish *w, struct gpu_machine *m,
	const struct gpu_choice *c, int (*fill)(struct gpu_machine *m, struct mlr_error *err),
	struct mlr_error *err)
{
	struct source s = { .m = m, .gpu = m->n_gpus };
	int checked = 0;

	if (m->driver != GPU_DRIVER_NVIDIA && m->driver != GPU_DRIVER_WSL)
		return 0;
	for (size_t i = 0; i < c->n; i++) {
		if (m->gpus[c->v[i].gpu].vendor != GPU_NVIDIA)
			continue;
		s.gpu = c->v[i].gpu;
		s.fill = checked++ ? s.fill : fill;
		for (size_t k = 0; k < w->requirements.n; k++)
			TRY(check(w->requirements.v[k], &s, err));
	}
	/* Without a GPU arch and brand stay unknown. */
	for (size_t k = 0; !checked && k < w->requirements.n; k++)
		TRY(check(w->requirements.v[k], &s, err));
	return 0;
}
