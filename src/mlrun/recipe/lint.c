#include "recipe/lint.h"

#include "base/spelling.h"
#include "oci/ref.h"
#include "recipe/run_mount.h"
#include "recipe/text.h"

struct linting {
	const struct recipe *r;
	const struct stages *s;
	const struct strv *given;
	struct lint result;
	struct scope *scopes; /* of each stage, at its end */
	int skips_all;
	struct strv skipped; /* rules */
};

/* A stage being looked through. */
struct stage_lint {
	const struct stage *stage;
	struct scope *scope;
	int has_workdir;                                   /* an absolute one was set */
	const struct instruction *last[INSTRUCTION_WORDS]; /* CMD and the like so far */
};

void lint_done(struct lint *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].text);
	free(l->v);
	*l = (struct lint){ 0 };
}

static void find(struct linting *l, unsigned line, const char *rule, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void find(struct linting *l, unsigned line, const char *rule, const char *fmt, ...)
{
	va_list ap;

	if (l->skips_all || strv_has(&l->skipped, rule))
		return;
	va_start(ap, fmt);
	*xadd(l->result.v, l->result.n) = (struct lint_finding){ line, rule, xvasprintf(fmt, ap) };
	va_end(ap);
}

/* "skip=A,B;error=true" */
static void read_directive(struct linting *l, const char *check)
{
	auto_free char *copy = xstrdup(check);
	char *rest = copy, *part, *names, *name;

	while ((part = strsep(&rest, ";"))) {
		part += text_blank(part);
		text_chop(part);
		if (strncmp(part, "error=", 6) == 0)
			l->result.is_error = strcasecmp(part + 6, "true") == 0;
		names = strncmp(part, "skip=", 5) == 0 ? part + 5 : NULL;
		while (names && (name = strsep(&names, ","))) {
			name += text_blank(name);
			text_chop(name);
			l->skips_all |= strcmp(name, "all") == 0;
			strv_add(&l->skipped, name);
		}
	}
}

/* --- one instruction ------------------------------------------------------- */

static int has_lower(const char *s)
{
	for (; *s; s++)
		if (islower((unsigned char)*s))
			return 1;
	return 0;
}

static int has_upper(const char *s)
{
	for (; *s; s++)
		if (isupper((unsigned char)*s))
			return 1;
	return 0;
}

/* The recipe's casing is that of most of its keywords. */
static int most_are_lower(const struct recipe *r)
{
	size_t lower = 0;

	for (size_t i = 0; i < r->n; i++)
		lower += !has_upper(r->v[i].keyword);
	return lower > r->n - lower;
}

static void look_at_casing(struct linting *l)
{
	int lower = most_are_lower(l->r);

	for (size_t i = 0; i < l->r->n; i++) {
		const struct instruction *in = &l->r->v[i];

		if (lower ? has_upper(in->keyword) : has_lower(in->keyword))
			find(l, in->line, "ConsistentInstructionCasing",
				"'%s' should be in %s letters, as most instructions here are",
				in->keyword, lower ? "small" : "capital");
	}
}

static int is_secret(const char *name)
{
	static const char *const words[] = { "apikey", "auth", "credential", "credentials", "key",
		"password", "pword", "passwd", "secret", "token" };
	auto_free char *copy = xstrdup(name);
	char *rest = copy, *word;

	if (strcasestr(name, "public"))
		return 0;
	while ((word = strsep(&rest, "_")))
		for (size_t i = 0; i < ARRAY_LEN(words); i++)
			if (strcasecmp(word, words[i]) == 0)
				return 1;
	return 0;
}

static void look_at_secrets(struct linting *l, const struct instruction *in)
{
	for (size_t i = 0; i < in->args.n; i += 1 + (size_t)in->is_old) {
		auto_free char *name = xstrndup(in->args.v[i], strcspn(in->args.v[i], "="));

		if (is_secret(name))
			find(l, in->line, "SecretsUsedInArgOrEnv",
				"'%s' looks like a secret, and the image's history keeps it: use RUN --mount=type=secret",
				name);
	}
}

static void look_at_ports(struct linting *l, const struct instruction *in)
{
	for (size_t i = 0; i < in->args.n; i++) {
		const char *port = in->args.v[i], *protocol = strchr(port, '/');

		if (strchr(port, '$'))
			continue;
		if (strchr(port, ':'))
			find(l, in->line, "ExposeInvalidFormat",
				"'%s': EXPOSE takes a port, without an address or a port of the host",
				port);
		if (protocol && has_upper(protocol))
			find(l, in->line, "ExposeProtoCasing",
				"the protocol of '%s' should be in small letters", port);
	}
}

static void look_at_from(struct linting *l, const struct stage *g, const struct instruction *in)
{
	const char *platform = instruction_flag(in, "--platform");
	const char *name = in->args.n == 3 ? in->args.v[2] : "";

	if (has_upper(name))
		find(l, in->line, "StageNameCasing",
			"the stage name '%s' should be in small letters", name);
	if (*name && (has_upper(in->keyword) ? has_lower(in->args.v[1]) : has_upper(in->args.v[1])))
		find(l, in->line, "FromAsCasing", "'%s' and '%s' should have the same case",
			in->keyword, in->args.v[1]);
	if (strcasecmp(name, "scratch") == 0 || strcasecmp(name, "context") == 0)
		find(l, in->line, "ReservedStageName",
			"'%s' is reserved and should not name a stage", name);
	if (platform &&
		(strcmp(platform, "$TARGETPLATFORM") == 0 ||
			strcmp(platform, "${TARGETPLATFORM}") == 0))
		find(l, in->line, "RedundantTargetPlatform", "--platform=%s is the default",
			platform);
	else if (platform && !strchr(platform, '$') && (!g->name || !strpbrk(g->name, "-_")))
		find(l, in->line, "FromPlatformFlagConstDisallowed",
			"--platform=%s makes the image for that platform alone: use mlrun build --platform",
			platform);
}

static void look_at_repeats(struct linting *l, struct stage_lint *g, const struct instruction *in)
{
	if (g->last[in->word])
		find(l, g->last[in->word]->line, "MultipleInstructionsDisallowed",
			"only the last %s of a stage counts; line %u has another",
			instruction_name(in->word), in->line);
	g->last[in->word] = in;
}

static void look_at_workdir(struct linting *l, struct stage_lint *g, const struct instruction *in)
{
	const char *dir = in->args.v[0];

	if (*dir == '/' || *dir == '$' || *dir == '"')
		g->has_workdir = 1;
	else if (!g->has_workdir)
		find(l, in->line, "WorkdirRelativePath",
			"'%s' is relative to the image's directory, which may change: give an absolute one first",
			dir);
}

static void look_at_instruction(
	struct linting *l, struct stage_lint *g, const struct instruction *in)
{
	switch (in->word) {
	case INSTRUCTION_MAINTAINER:
		find(l, in->line, "MaintainerDeprecated",
			"MAINTAINER is deprecated: use LABEL org.opencontainers.image.authors=\"%s\"",
			in->args.v[0]);
		break;
	case INSTRUCTION_CMD:
	case INSTRUCTION_ENTRYPOINT:
		look_at_repeats(l, g, in);
		if (!in->is_json)
			find(l, in->line, "JSONArgsRecommended",
				"a shell runs '%.100s' and receives its signals: use a JSON array",
				in->args.v[0]);
		break;
	case INSTRUCTION_HEALTHCHECK:
		look_at_repeats(l, g, in);
		break;
	case INSTRUCTION_ENV:
	case INSTRUCTION_LABEL:
		if (in->is_old)
			find(l, in->line, "LegacyKeyValueFormat",
				"write %s %s=VALUE instead of %s %s VALUE",
				instruction_name(in->word), in->args.v[0],
				instruction_name(in->word), in->args.v[0]);
		if (in->word == INSTRUCTION_ENV)
			look_at_secrets(l, in);
		break;
	case INSTRUCTION_ARG:
		look_at_secrets(l, in);
		break;
	case INSTRUCTION_EXPOSE:
		look_at_ports(l, in);
		break;
	case INSTRUCTION_WORKDIR:
		look_at_workdir(l, g, in);
		break;
	default:
		break;
	}
}

/* --- variables ------------------------------------------------------------- */

/* Names that are set in a container without anybody's ENV, or by images. */
static int is_known(const char *name)
{
	static const char *const names[] = { "PATH", "HOME", "HOSTNAME", "TERM" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return 1;
	return !*name || !isalpha((unsigned char)*name) || scope_is_proxy(name);
}

static void try_names(struct spelling *s, const struct strv *l, struct strv *names)
{
	for (size_t i = 0; i < l->n; i++) {
		strv_addf(names, "%.*s", (int)strcspn(l->v[i], "="), l->v[i]);
		spelling_try(s, names->v[names->n - 1]);
	}
}

/* A variable that is set or declared and has a similar name, to free(); NULL if there is none. */
static char *resembling(const struct scope *s, const char *name)
{
	struct spelling near = spelling_of(name, strlen(name));
	auto_strv struct strv names = STRV_INIT;

	spelling_try(&near, "PATH");
	try_names(&near, &s->declared, &names);
	try_names(&near, &s->env, &names);
	return near.near ? xstrdup(near.near) : NULL;
}

static int is_from_scratch(const struct stage *g)
{
	return g->parent < 0 && strcasecmp(g->base, "scratch") == 0;
}

/* An image that is not at hand may have variables of its own; then only those that resemble known
 * ones are reported. */
static void report_unset(
	struct linting *l, const struct stage_lint *g, const struct instruction *in)
{
	for (size_t i = 0; i < g->scope->unset.n; i++) {
		const char *name = g->scope->unset.v[i];
		auto_free char *near = resembling(g->scope, name);

		if (is_known(name) || (!near && !is_from_scratch(g->stage)))
			continue;
		if (near)
			find(l, in->line, "UndefinedVar", "'$%s' is not set: is $%s meant?", name,
				near);
		else
			find(l, in->line, "UndefinedVar", "'$%s' is not set", name);
	}
	strv_done(&g->scope->unset);
}

static int expand_flags(
	struct stage_lint *g, const struct instruction *in, char escape, struct mlr_error *err)
{
	const struct expand e = scope_expand(g->scope, escape);
	int r = 0;

	for (size_t i = 0; i < in->flags.n && r == 0; i++) {
		auto_call(run_mount_done) struct run_mount m = RUN_MOUNT_INIT;
		auto_free char *word = NULL;

		if (strncmp(in->flags.v[i], "--mount=", 8) == 0)
			r = run_mount_parse(in->flags.v[i] + 8, &e, &m, err);
		else
			r = expand_word(&e, in->flags.v[i], &word, err);
	}
	return r;
}

/* Expand what an instruction has, to see which variables are missing. */
static int look_at_variables(struct linting *l, struct stage_lint *g, const struct instruction *in,
	struct mlr_error *err)
{
	const struct expand e = scope_expand(g->scope, l->r->escape);
	auto_strv struct strv args = STRV_INIT;
	int r;

	if (in->word == INSTRUCTION_ARG)
		r = scope_declare(g->scope, in, l->r->escape, err);
	else if (in->word == INSTRUCTION_ENV)
		r = scope_set(g->scope, in, l->r->escape, err);
	else
		r = instruction_expand(in, &e, &args, err);
	if (r == 0)
		r = expand_flags(g, in, l->r->escape, err);
	/* What ${NAME:?} demands, the image may have. */
	if (r < 0 && g->scope->unset.n > 0 && !is_from_scratch(g->stage))
		r = 0;
	report_unset(l, g, in);
	return r < 0 ? mlr_wrap(err, "%s:%u", l->r->name, in->line) : 0;
}

/* --- the recipe ------------------------------------------------------------ */

static int look_at_stage(struct linting *l, size_t n, struct mlr_error *err)
{
	const struct stage *g = &l->s->v[n];
	struct scope *scope = &l->scopes[n];
	struct stage_lint state = { .stage = g, .scope = scope };
	int r = 0;

	scope->global = &l->s->global;
	scope->given = l->given;
	if (g->parent >= 0)
		scope_inherit(scope, &l->scopes[g->parent]);
	look_at_from(l, g, &l->r->v[g->from]);
	for (size_t i = 0; g->name && i < n; i++)
		if (l->s->v[i].name && strcmp(l->s->v[i].name, g->name) == 0)
			find(l, l->r->v[g->from].line, "DuplicateStageName",
				"the stage name '%s' is used twice", g->name);
	for (size_t i = g->from + 1; i < g->end && r == 0; i++) {
		look_at_instruction(l, &state, &l->r->v[i]);
		r = look_at_variables(l, &state, &l->r->v[i], err);
	}
	return r;
}

/* The global scope as it is without --build-arg. */
static void without_given(const struct linting *l, struct scope *ret)
{
	const struct scope *global = &l->s->global;

	for (size_t i = 0; i < global->args.n; i++) {
		auto_free char *name = xstrndup(global->args.v[i], strcspn(global->args.v[i], "="));

		if (!strv_has(&global->declared, name))
			strv_add(&ret->args, global->args.v[i]);
	}
	for (size_t i = 0; i < l->s->v[0].from; i++)
		(void)scope_declare(ret, &l->r->v[i], l->r->escape, NULL);
}

static void look_at_defaults(struct linting *l)
{
	struct scope scope = { 0 };
	const struct expand e = scope_expand(&scope, l->r->escape);

	without_given(l, &scope);
	for (size_t i = 0; i < l->s->n; i++) {
		const struct instruction *from = &l->r->v[l->s->v[i].from];
		auto_call(oci_ref_done) struct oci_ref ref = { 0 };
		auto_free char *base = NULL;

		strv_done(&scope.unset);
		if (expand_word(&e, from->args.v[0], &base, NULL) < 0)
			continue;
		for (size_t k = 0; k < scope.unset.n; k++)
			find(l, from->line, "UndefinedArgInFrom",
				"'$%s' is not declared by an ARG before the first FROM",
				scope.unset.v[k]);
		if (strchr(from->args.v[0], '$') && l->s->v[i].parent < 0 &&
			oci_ref_parse(base, &ref, NULL) < 0)
			find(l, from->line, "InvalidDefaultArgInFrom",
				"without --build-arg, '%s' becomes '%s', which is no image: give the ARG a default",
				from->args.v[0], base);
	}
	scope_done(&scope);
}

static int by_line(const void *a, const void *b)
{
	const struct lint_finding *x = a, *y = b;

	return x->line < y->line ? -1 : x->line > y->line;
}

int lint_recipe(const struct recipe *r, const struct stages *s, const struct strv *given,
	struct lint *ret, struct mlr_error *err)
{
	struct linting l = { .r = r, .s = s, .given = given, .result = { 0 } };
	int status = 0;

	l.scopes = xcalloc(s->n, sizeof(*l.scopes));
	if (r->check)
		read_directive(&l, r->check);
	look_at_casing(&l);
	look_at_defaults(&l);
	for (size_t i = 0; i < r->n_gaps; i++)
		find(&l, r->gaps[i], "NoEmptyContinuation",
			"an empty line within a continued instruction");
	for (size_t i = 0; i < s->n && status == 0; i++)
		status = look_at_stage(&l, i, err);
	free_all(l.scopes, s->n, scope_done);
	strv_done(&l.skipped);
	sort_all(l.result.v, l.result.n, by_line);
	if (status < 0)
		lint_done(&l.result);
	else
		*ret = l.result;
	return status;
}
