#include "recipe/instruction.h"

#include "base/spelling.h"
#include "recipe/health.h"
#include "recipe/run_mount.h"
#include "recipe/text.h"

#include <jansson.h>

/* How the arguments are read; see struct instruction. */
enum form {
	FORM_LINE,
	FORM_WORDS,
	FORM_QUOTED,
	FORM_PAIRS,
	FORM_COMMAND,
	FORM_LIST,
	FORM_HEALTH,
	FORM_NESTED
};

enum flag_kind { FLAG_TEXT, FLAG_TEXTS, FLAG_SWITCH };

struct flag {
	const char *name;
	enum flag_kind kind;
	enum reach reach;
};

static const struct flag from_flags[] = { { "--platform", FLAG_TEXT }, { 0 } };
static const struct flag run_flags[] = { { "--mount", FLAG_TEXTS },
	{ "--network", FLAG_TEXT, REACH_NETWORK }, { "--device", FLAG_TEXTS, REACH_DEVICES },
	{ "--security", FLAG_TEXT }, { 0 } };
static const struct flag copy_flags[] = { { "--from", FLAG_TEXT, REACH_IMAGES },
	{ "--chown", FLAG_TEXT }, { "--chmod", FLAG_TEXT }, { "--link", FLAG_SWITCH },
	{ "--exclude", FLAG_TEXTS }, { "--parents", FLAG_SWITCH }, { 0 } };
static const struct flag add_flags[] = { { "--chown", FLAG_TEXT }, { "--chmod", FLAG_TEXT },
	{ "--link", FLAG_SWITCH }, { "--exclude", FLAG_TEXTS }, { "--checksum", FLAG_TEXT },
	{ "--unpack", FLAG_SWITCH }, { "--keep-git-dir", FLAG_SWITCH }, { 0 } };
static const struct flag health_flags[] = { { "--interval", FLAG_TEXT }, { "--timeout", FLAG_TEXT },
	{ "--start-period", FLAG_TEXT }, { "--start-interval", FLAG_TEXT },
	{ "--retries", FLAG_TEXT }, { 0 } };
static const struct flag no_flags[] = { { 0 } };

static const struct kind {
	const char *name;
	enum form form;
	const struct flag *flags;
	size_t needed; /* arguments */
	const char *usage;
	int expands;      /* variables; see instruction_expand() */
	enum reach reach; /* less what the flags reach */
} kinds[INSTRUCTION_WORDS] = {
	[INSTRUCTION_ADD] = { "ADD", FORM_LIST, add_flags, 2, "ADD SOURCE... DESTINATION", 1,
		REACH_URLS },
	[INSTRUCTION_ARG] = { "ARG", FORM_QUOTED, no_flags, 1, "ARG NAME[=VALUE]...", 0 },
	[INSTRUCTION_CMD] = { "CMD", FORM_COMMAND, no_flags, 0,
		"CMD COMMAND, or CMD [\"WORD\", ...]", 0 },
	[INSTRUCTION_COPY] = { "COPY", FORM_LIST, copy_flags, 2, "COPY SOURCE... DESTINATION", 1,
		REACH_CONTEXT },
	[INSTRUCTION_ENTRYPOINT] = { "ENTRYPOINT", FORM_COMMAND, no_flags, 0,
		"ENTRYPOINT [\"WORD\", ...], or ENTRYPOINT COMMAND", 0 },
	[INSTRUCTION_ENV] = { "ENV", FORM_PAIRS, no_flags, 1, "ENV NAME=VALUE...", 0 },
	[INSTRUCTION_EXPOSE] = { "EXPOSE", FORM_WORDS, no_flags, 1, "EXPOSE PORT[/PROTOCOL]...",
		1 },
	[INSTRUCTION_FROM] = { "FROM", FORM_WORDS, from_flags, 1, "FROM IMAGE [AS NAME]", 1,
		REACH_IMAGES },
	[INSTRUCTION_HEALTHCHECK] = { "HEALTHCHECK", FORM_HEALTH, health_flags, 1,
		"HEALTHCHECK [OPTION...] CMD COMMAND, or HEALTHCHECK NONE", 0 },
	[INSTRUCTION_LABEL] = { "LABEL", FORM_PAIRS, no_flags, 1, "LABEL NAME=VALUE...", 0 },
	[INSTRUCTION_MAINTAINER] = { "MAINTAINER", FORM_LINE, no_flags, 1, "MAINTAINER NAME", 0 },
	[INSTRUCTION_ONBUILD] = { "ONBUILD", FORM_NESTED, no_flags, 1, "ONBUILD INSTRUCTION", 0 },
	[INSTRUCTION_RUN] = { "RUN", FORM_COMMAND, run_flags, 1,
		"RUN COMMAND, or RUN [\"WORD\", ...]", 0, REACH_NETWORK },
	[INSTRUCTION_SHELL] = { "SHELL", FORM_COMMAND, no_flags, 1, "SHELL [\"/bin/bash\", \"-c\"]",
		0 },
	[INSTRUCTION_STOPSIGNAL] = { "STOPSIGNAL", FORM_LINE, no_flags, 1, "STOPSIGNAL SIGNAL", 1 },
	[INSTRUCTION_USER] = { "USER", FORM_LINE, no_flags, 1, "USER NAME[:GROUP]", 1 },
	[INSTRUCTION_VOLUME] = { "VOLUME", FORM_LIST, no_flags, 1, "VOLUME DIRECTORY...", 1 },
	[INSTRUCTION_WORKDIR] = { "WORKDIR", FORM_LINE, no_flags, 1, "WORKDIR DIRECTORY", 1 },
};

void instruction_heredoc_done(struct heredoc *h)
{
	free(h->name);
	free(h->content);
}

void instruction_done(struct instruction *in)
{
	free(in->keyword);
	free(in->text);
	strv_done(&in->flags);
	strv_done(&in->args);
	free_all(in->heredocs, in->n_heredocs, instruction_heredoc_done);
	*in = (struct instruction){ 0 };
}

const char *instruction_name(enum instruction_word word)
{
	return kinds[word].name;
}

const char *instruction_flag(const struct instruction *in, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < in->flags.n; i++) {
		const char *flag = in->flags.v[i];

		if (strncmp(flag, name, len) == 0 && (flag[len] == '=' || !flag[len]))
			return flag[len] ? flag + len + 1 : "";
	}
	return NULL;
}

int instruction_has(const struct instruction *in, const char *name)
{
	const char *value = instruction_flag(in, name);

	return value && (!*value || strcasecmp(value, "true") == 0);
}

/* --- here-documents -------------------------------------------------------- */

/* The mark's word: its name without quotes, and whether it has any. A name is one word. */
static int heredoc_name(const char *word, struct heredoc *ret)
{
	const struct expand plain = { '\\', EXPAND_KEEP_UNSET, NULL, NULL };
	const struct expand raw = { '\\', EXPAND_KEEP_UNSET | EXPAND_KEEP_QUOTES, NULL, NULL };
	auto_strv struct strv names = STRV_INIT, quoted = STRV_INIT;

	if (expand_words(&plain, word, &names, NULL) < 0 || names.n != 1 ||
		expand_words(&raw, word, &quoted, NULL) < 0)
		return 0;
	ret->name = xstrdup(names.v[0]);
	ret->expand = quoted.n == 1 && strcmp(quoted.v[0], names.v[0]) == 0;
	return 1;
}

int instruction_heredoc(const char *word, struct heredoc *ret)
{
	const char *s = word + strspn(word, TEXT_DIGITS);

	if (strncmp(s, "<<", 2) != 0)
		return 0;
	s += 2;
	ret->strip = *s == '-';
	s += ret->strip;
	s += text_blank(s);
	return *s && !strchr(s, '<') && heredoc_name(s, ret);
}

static void find_heredocs(struct instruction *in, const char *text)
{
	const struct expand raw = { '\\',
		EXPAND_KEEP_UNSET | EXPAND_KEEP_QUOTES | EXPAND_KEEP_ESCAPES, NULL, NULL };
	auto_strv struct strv words = STRV_INIT;

	/* A quote that is not closed ends the search: the shell will say so. */
	(void)expand_words(&raw, text, &words, NULL);
	for (size_t i = 0; i < words.n; i++) {
		struct heredoc h = { 0 };

		if (!instruction_heredoc(words.v[i], &h))
			continue;
		*xadd(in->heredocs, in->n_heredocs) = h;
	}
}

/* --- reading --------------------------------------------------------------- */

static int find_word(const char *keyword, struct instruction *in, struct mlr_error *err)
{
	struct spelling s = spelling_of(keyword, strlen(keyword));
	auto_free char *upper = xstrdup(keyword);

	for (char *c = upper; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	s.word = upper;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		spelling_try(&s, kinds[i].name);
		if (strcmp(upper, kinds[i].name) == 0) {
			in->word = (enum instruction_word)i;
			return 0;
		}
	}
	mlr_fail(err, EINVAL, "unknown instruction '%.100s'", keyword);
	return s.near ? mlr_hint(err, "is %s meant?", s.near) : -EINVAL;
}

static int pairs(struct instruction *in, const char *rest, char escape, struct mlr_error *err)
{
	size_t len = strcspn(rest, TEXT_BLANKS);
	const char *value = rest + len + text_blank(rest + len);

	text_quoted(rest, escape, &in->args);
	if (in->args.n == 0)
		return 0;
	if (!strchr(in->args.v[0], '=')) {
		if (!*value)
			return mlr_fail(err, EINVAL, "%s '%.100s' has no value: write %.100s=VALUE",
				kinds[in->word].name, rest, rest);
		in->is_old = 1;
		strv_done(&in->args);
		strv_addf(&in->args, "%.*s", (int)len, rest);
		strv_add(&in->args, value);
		return 0;
	}
	for (size_t i = 0; i < in->args.n; i++) {
		const char *equals = strchr(in->args.v[i], '=');

		if (!equals || equals == in->args.v[i])
			return mlr_fail(err, EINVAL,
				"'%.200s' is not NAME=VALUE: quote a value that contains blanks",
				in->args.v[i]);
	}
	return 0;
}

/* A JSON array; 0 if the text is none. */
static int json(struct instruction *in, const char *rest, struct mlr_error *err)
{
	int r = text_json(rest, &in->args);

	if (r < 0)
		return mlr_fail(err, EINVAL,
			"%s: the JSON array '%.200s' contains more than strings",
			kinds[in->word].name, rest);
	return in->is_json = r;
}

static int command(struct instruction *in, const char *rest, struct mlr_error *err)
{
	int r = json(in, rest, err);

	if (r == 0 && *rest)
		strv_add(&in->args, rest);
	return r < 0 ? r : 0;
}

static int list(struct instruction *in, const char *rest, char escape, struct mlr_error *err)
{
	int r = json(in, rest, err);

	if (r == 0)
		text_quoted(rest, escape, &in->args);
	return r < 0 ? r : 0;
}

static int health(struct instruction *in, const char *rest, struct mlr_error *err)
{
	size_t len = strcspn(rest, TEXT_BLANKS);

	if (*rest)
		strv_addf(&in->args, "%.*s", (int)len, rest);
	return command(in, rest + len + text_blank(rest + len), err);
}

static int nested(struct instruction *in, const char *rest, char escape, struct mlr_error *err)
{
	auto_call(instruction_done) struct instruction inner = { 0 };
	int r = *rest ? instruction_parse(rest, escape, &inner, err) : 0;

	if (r < 0)
		return mlr_wrap(err, "ONBUILD");
	if (*rest)
		strv_add(&in->args, rest);
	in->is_json = inner.is_json;
	in->heredocs = take_ptr(&inner.heredocs);
	in->n_heredocs = inner.n_heredocs;
	inner.n_heredocs = 0;
	return 0;
}

static int read_args(struct instruction *in, const char *rest, char escape, struct mlr_error *err)
{
	switch (kinds[in->word].form) {
	case FORM_WORDS:
		text_words(rest, &in->args);
		return 0;
	case FORM_QUOTED:
		text_quoted(rest, escape, &in->args);
		return 0;
	case FORM_PAIRS:
		return pairs(in, rest, escape, err);
	case FORM_COMMAND:
		return command(in, rest, err);
	case FORM_LIST:
		return list(in, rest, escape, err);
	case FORM_HEALTH:
		return health(in, rest, err);
	case FORM_NESTED:
		return nested(in, rest, escape, err);
	case FORM_LINE:
		break;
	}
	if (*rest)
		strv_add(&in->args, rest);
	return 0;
}

static int is_utf8(const char *text)
{
	json_auto_t *probe = json_string(text);

	return probe != NULL;
}

static int parse(struct instruction *in, char escape, struct mlr_error *err)
{
	size_t len = strcspn(in->text, TEXT_BLANKS);
	const char *rest;
	int r;

	in->keyword = xstrndup(in->text, len);
	TRY(find_word(in->keyword, in, err));
	if (!is_utf8(in->text))
		return mlr_fail(err, EINVAL, "%s: the text is not UTF-8", kinds[in->word].name);
	rest = text_flags(in->text + len, escape, &in->flags);
	r = read_args(in, rest, escape, err);
	if (r == 0 && !in->is_json &&
		(in->word == INSTRUCTION_RUN || in->word == INSTRUCTION_COPY ||
			in->word == INSTRUCTION_ADD))
		find_heredocs(in, rest);
	return r;
}

int instruction_parse(const char *text, char escape, struct instruction *ret, struct mlr_error *err)
{
	auto_call(instruction_done) struct instruction in = { 0 };

	in.text = xstrdup(text + text_blank(text));
	text_chop(in.text);
	TRY(parse(&in, escape, err));
	*ret = take_struct(&in, { 0 });
	return 0;
}

/* --- checks ---------------------------------------------------------------- */

static const struct flag *known_flag(const struct kind *k, const char *flag)
{
	size_t len = strcspn(flag, "=");

	for (const struct flag *f = k->flags; f->name; f++)
		if (strlen(f->name) == len && strncmp(f->name, flag, len) == 0)
			return f;
	return NULL;
}

static int unknown_flag(const struct kind *k, const char *flag, struct mlr_error *err)
{
	size_t len = strcspn(flag, "=");
	struct spelling s = spelling_of(flag, len);

	mlr_fail(err, EINVAL, "%s has no flag '%.*s'", k->name, (int)(len < 100 ? len : 100), flag);
	for (const struct flag *f = k->flags; f->name; f++)
		spelling_try(&s, f->name);
	return s.near ? mlr_hint(err, "is %s meant?", s.near) : -EINVAL;
}

static int check_flag(const struct kind *k, const char *flag, struct mlr_error *err)
{
	const struct flag *f = known_flag(k, flag);
	const char *value = strchr(flag, '=');

	if (!f)
		return unknown_flag(k, flag, err);
	if (f->kind != FLAG_SWITCH)
		return value && value[1] ? 0
					 : mlr_fail(err, EINVAL, "%s %s needs a value: %s=VALUE",
						   k->name, f->name, f->name);
	if (value && strcasecmp(value + 1, "true") != 0 && strcasecmp(value + 1, "false") != 0)
		return mlr_fail(err, EINVAL, "%s '%.100s': expected true or false", k->name, flag);
	return 0;
}

static int check_flags(const struct instruction *in, struct mlr_error *err)
{
	const struct kind *k = &kinds[in->word];

	for (size_t i = 0; i < in->flags.n; i++) {
		size_t len = strcspn(in->flags.v[i], "=");

		TRY(check_flag(k, in->flags.v[i], err));
		for (size_t j = 0; j < i; j++)
			if (strcspn(in->flags.v[j], "=") == len &&
				strncmp(in->flags.v[i], in->flags.v[j], len) == 0 &&
				known_flag(k, in->flags.v[i])->kind != FLAG_TEXTS)
				return mlr_fail(err, EINVAL, "%s has the flag '%.*s' twice",
					k->name, (int)len, in->flags.v[i]);
	}
	return 0;
}

static int check_from(const struct instruction *in, struct mlr_error *err)
{
	const char *name = in->args.n == 3 ? in->args.v[2] : "a";

	if (in->args.n != 1 && (in->args.n != 3 || strcasecmp(in->args.v[1], "AS") != 0))
		return mlr_fail(err, EINVAL, "'%.200s': expected %s", in->text,
			kinds[INSTRUCTION_FROM].usage);
	if (!strchr(TEXT_LETTERS, *name) || name[strspn(name, TEXT_LETTERS TEXT_DIGITS "-_.")])
		return mlr_fail(err, EINVAL,
			"invalid stage name '%.100s': use a letter, then letters, digits, '-', '_' and '.'",
			name);
	return 0;
}

static int check_copy(const struct instruction *in, struct mlr_error *err)
{
	const char *name = kinds[in->word].name, *from = instruction_flag(in, "--from");
	struct heredoc h = { 0 };

	if (!in->is_json && instruction_heredoc(in->args.v[in->args.n - 1], &h)) {
		instruction_heredoc_done(&h);
		return mlr_fail(err, EINVAL, "%s: the destination cannot be a here-document", name);
	}
	if (from && strchr(from, '$'))
		return mlr_fail(err, EINVAL,
			"COPY --from=%.100s: variables are not expanded there; name a stage: FROM %.100s AS NAME",
			from, from);
	return 0;
}

static int check_run(const struct instruction *in, struct mlr_error *err)
{
	static const char *const networks[] = { "default", "none", "host" };
	const char *network = instruction_flag(in, "--network");
	const char *security = instruction_flag(in, "--security");
	size_t i = 0;

	while (network && i < ARRAY_LEN(networks) && strcmp(network, networks[i]) != 0)
		i++;
	if (i == ARRAY_LEN(networks))
		return mlr_fail(
			err, EINVAL, "RUN --network=%.100s: use default, none or host", network);
	if (security && strcmp(security, "sandbox") != 0) {
		mlr_fail(err, EINVAL, "RUN --security=%.100s is refused", security);
		return mlr_hint(err,
			"mlrun builds with the caller's own rights, so there are no privileges to give");
	}
	for (i = 0; i < in->flags.n; i++) {
		auto_call(run_mount_done) struct run_mount mount = RUN_MOUNT_INIT;
		int r = strncmp(in->flags.v[i], "--mount=", 8) == 0
			? run_mount_parse(in->flags.v[i] + 8, NULL, &mount, err)
			: 0;

		if (r < 0)
			return mlr_wrap(err, "RUN %.200s", in->flags.v[i]);
	}
	return 0;
}

int instruction_check_trigger(const struct instruction *in, struct mlr_error *err)
{
	return in->word == INSTRUCTION_ONBUILD || in->word == INSTRUCTION_FROM ||
			in->word == INSTRUCTION_MAINTAINER
		? mlr_fail(err, EINVAL, "%s may not follow ONBUILD", kinds[in->word].name)
		: 0;
}

static int check_onbuild(const struct instruction *in, char escape, struct mlr_error *err)
{
	auto_call(instruction_done) struct instruction inner = { 0 };
	int r = instruction_parse(in->args.v[0], escape, &inner, err);

	if (r == 0 && instruction_check_trigger(&inner, err) < 0)
		return -EINVAL;
	if (r == 0)
		r = instruction_check(&inner, escape, err);
	return r < 0 ? mlr_wrap(err, "ONBUILD") : 0;
}

static int check_names(const struct instruction *in, struct mlr_error *err)
{
	for (size_t i = 0; i < in->args.n; i++)
		if (*in->args.v[i] == '=')
			return mlr_fail(err, EINVAL, "'%.200s': a name is missing", in->args.v[i]);
	return 0;
}

static int check_empty(const struct instruction *in, struct mlr_error *err)
{
	for (size_t i = 0; i < in->args.n; i++)
		if (!in->args.v[i][text_blank(in->args.v[i])])
			return mlr_fail(
				err, EINVAL, "%s: an argument is empty", kinds[in->word].name);
	return 0;
}

int instruction_check(const struct instruction *in, char escape, struct mlr_error *err)
{
	const struct kind *k = &kinds[in->word];

	TRY(check_flags(in, err));
	if (in->args.n < k->needed || (in->args.n == 0 && !in->is_json))
		return mlr_fail(err, EINVAL, "'%.200s': too few arguments: expected %s", in->text,
			k->usage);
	switch (in->word) {
	case INSTRUCTION_FROM:
		return check_from(in, err);
	case INSTRUCTION_ADD:
	case INSTRUCTION_COPY:
		return check_copy(in, err);
	case INSTRUCTION_RUN:
		return check_run(in, err);
	case INSTRUCTION_ONBUILD:
		return check_onbuild(in, escape, err);
	case INSTRUCTION_ARG:
		return check_names(in, err);
	case INSTRUCTION_SHELL:
		return in->is_json ? 0
				   : mlr_fail(err, EINVAL, "SHELL: expected a JSON array, as in %s",
					     kinds[INSTRUCTION_SHELL].usage);
	case INSTRUCTION_VOLUME:
		return check_empty(in, err);
	case INSTRUCTION_HEALTHCHECK:
		return health_check(in, err);
	default:
		return 0;
	}
}

/* --- expansion ------------------------------------------------------------- */

static int expand_pair(const char *name, const char *value, const struct expand *e,
	struct strv *ret, struct mlr_error *err)
{
	auto_free char *n = NULL, *v = NULL;

	TRY(expand_word(e, name, &n, err));
	TRY(expand_word(e, value, &v, err));
	if (!*n)
		return mlr_fail(err, EINVAL, "'%.100s=%.100s': the name is empty", name, value);
	strv_take(ret, take_ptr(&n));
	strv_take(ret, take_ptr(&v));
	return 0;
}

static int expand_pairs(const struct instruction *in, const struct expand *e, struct strv *ret,
	struct mlr_error *err)
{
	if (in->is_old)
		return expand_pair(in->args.v[0], in->args.v[1], e, ret, err);
	for (size_t i = 0; i < in->args.n; i++) {
		const char *equals = strchr(in->args.v[i], '=');
		auto_free char *name = xstrndup(in->args.v[i], (size_t)(equals - in->args.v[i]));
		TRY(expand_pair(name, equals + 1, e, ret, err));
	}
	return 0;
}

static int expand_arg(const struct instruction *in, const char *arg, const struct expand *e,
	struct strv *ret, struct mlr_error *err)
{
	char *word;

	if (in->word == INSTRUCTION_EXPOSE)
		return expand_words(e, arg, ret, err);
	TRY(expand_word(e, arg, &word, err));
	strv_take(ret, word);
	return 0;
}

int instruction_expand(const struct instruction *in, const struct expand *e, struct strv *ret,
	struct mlr_error *err)
{
	int r = 0;

	if (in->is_section) {
		strv_add_all(ret, &in->args);
		return 0;
	}
	if (kinds[in->word].form == FORM_PAIRS)
		return expand_pairs(in, e, ret, err);
	for (size_t i = 0; i < in->args.n && r == 0; i++) {
		if (kinds[in->word].expands)
			r = expand_arg(in, in->args.v[i], e, ret, err);
		else
			strv_add(ret, in->args.v[i]);
	}
	return r;
}

/* --- reach ----------------------------------------------------------------- */

enum reach instruction_flag_reach(const struct instruction *in, const char *flag)
{
	const struct flag *f = known_flag(&kinds[in->word], flag);

	return f ? f->reach : REACH_NOTHING;
}

void instruction_each_reach(reach_fn fn, void *ctx)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		fn(ctx, kinds[i].name, kinds[i].reach);
		for (const struct flag *f = kinds[i].flags; f->name; f++) {
			auto_free char *row = xasprintf("%s %s", kinds[i].name, f->name);

			fn(ctx, row, f->reach);
		}
	}
}
