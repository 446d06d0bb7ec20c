#include "unit.h"
#include "recipe/derive.h"
#include "recipe/lint.h"
#include "recipe/recipe.h"
#include "recipe/run_mount.h"
#include "recipe/stages.h"

static struct mlr_error err;

static void ok(int r)
{
	if (r < 0)
		fail_msg("%s", err.text);
}

static void says(const char *words)
{
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
}

/* --- expansion -------------------------------------------------------------- */

static const char *const environment[] = { "NAME=value", "EMPTY=", "PATH=/bin:/usr/bin",
	"F=foobarbaz", "S=a  b", "STAR=a*c", NULL };

static const char *get(void *ctx, const char *name)
{
	return strv_env_get(ctx, name);
}

/* Words are separated by "|" in the second result. NULL: an error. */
static const struct {
	const char *text, *word, *words;
} expansions[] = {
	{ "plain", "plain", "plain" },
	{ "$NAME", "value", "value" },
	{ "a${NAME}b", "avalueb", "avalueb" },
	{ "$NAMEb", "", "" },
	{ "\\$NAME", "$NAME", "$NAME" },
	{ "'$NAME'", "$NAME", "$NAME" },
	{ "\"$NAME\"", "value", "value" },
	{ "\"\\$NAME\"", "$NAME", "$NAME" },
	{ "\"a\\b\\\"c\"", "a\\b\"c", "a\\b\"c" },
	{ "a\\ b", "a b", "a b" },
	{ "$", "$", "$" },
	{ "$.", "$.", "$." },
	{ "$1x", "x", "x" },
	{ "$S", "a  b", "a|b" },
	{ "\"$S\" c", "a  b c", "a  b|c" },
	{ "${NO-x}${EMPTY-x}", "x", "x" },
	{ "${NO:-x}${EMPTY:-y}", "xy", "xy" },
	{ "${NO:-${NAME:+z}}", "z", "z" },
	{ "${NAME+x}${EMPTY+y}${NO+z}", "xy", "xy" },
	{ "${EMPTY:+y}", "", "" },
	{ "${NAME?no}", "value", "value" },
	{ "${F#f*b}", "arbaz", "arbaz" },
	{ "${F##f*b}", "az", "az" },
	{ "${F%b*}", "foobar", "foobar" },
	{ "${F%%b*}", "foo", "foo" },
	{ "${F/ba/fo}", "fooforbaz", "fooforbaz" },
	{ "${F//ba/fo}", "fooforfoz", "fooforfoz" },
	{ "${F/b?r/}", "foobaz", "foobaz" },
	{ "${STAR#a\\*}", "c", "c" },
	{ "${PATH//\\//-}", "-bin:-usr-bin", "-bin:-usr-bin" },
	{ "${F#x}", "foobarbaz", "foobarbaz" },
	{ "${NO#x}", "", "" },
	{ "<< EOF", "<< EOF", "<< EOF" },
	{ "${}", NULL, NULL },
	{ "${NAME", NULL, NULL },
	{ "${NAME:=x}", NULL, NULL },
	{ "${NAME:#x}", NULL, NULL },
	{ "${F#\\x}", NULL, NULL },
	{ "${NO?}", NULL, NULL },
	{ "${EMPTY:?is needed}", NULL, NULL },
	{ "'open", NULL, NULL },
	{ "\"open", NULL, NULL },
};

static void variables_are_expanded_and_quotes_removed(void **state)
{
	const struct expand e = { '\\', 0, get, (void *)environment };

	for (size_t i = 0; i < ARRAY_LEN(expansions); i++) {
		auto_strv struct strv words = STRV_INIT;
		auto_free char *word = NULL, *joined = NULL;
		int r = expand_word(&e, expansions[i].text, &word, &err);

		if (!expansions[i].word) {
			assert_int_equal(r, -EINVAL);
			says(expansions[i].text);
			continue;
		}
		ok(r);
		assert_string_equal(word, expansions[i].word);
		ok(expand_words(&e, expansions[i].text, &words, &err));
		joined = strv_join(&words, words.n, "|");
		assert_string_equal(joined, expansions[i].words);
	}
}

static void what_a_variable_demands_is_told(void **state)
{
	const struct expand e = { '\\', 0, get, (void *)environment };
	char *word;

	assert_int_equal(expand_word(&e, "${EMPTY:?give one}", &word, &err), -EINVAL);
	says("EMPTY: give one");
	assert_int_equal(expand_word(&e, "${NO?}", &word, &err), -EINVAL);
	says("NO: is not allowed to be unset");
}

/* 20 doublings are a megabyte. */
static void an_expansion_is_limited(void **state)
{
	auto_strv struct strv env = STRV_INIT;
	const struct expand e = { '\\', 0, NULL, NULL };
	struct expand with = e;
	int r = 0;

	strv_add(&env, "A=aa");
	with.get = get;
	for (int i = 0; i < 30 && r == 0; i++) {
		auto_free char *word = NULL;

		with.ctx = env.v;
		r = expand_word(&with, "$A$A", &word, &err);
		if (r == 0)
			strv_env_set(&env, "A", word);
	}
	assert_int_equal(r, -E2BIG);
}

/* In one pass over the value: a search from each place took 23 minutes. */
static void the_end_of_a_long_value_is_found_at_once(void **state)
{
	auto_free char *value = xcalloc(1, (512 << 10) + 1), *word = NULL;
	auto_strv struct strv env = STRV_INIT;
	struct expand with = { .escape = '\\', .get = get };

	memset(value, 'x', 512 << 10);
	strv_env_set(&env, "A", value);
	with.ctx = env.v;
	ok(expand_word(&with, "${A%*y}", &word, &err));
	assert_string_equal(word, value);
}

/* --- recipes ---------------------------------------------------------------- */

static struct recipe recipe;

static int parse(const char *text)
{
	recipe_done(&recipe);
	err.text[0] = '\0';
	return recipe_parse("F", text, strlen(text), &recipe, &err);
}

static const struct instruction *only(const char *text)
{
	auto_free char *all = xasprintf("FROM x\n%s", text);

	ok(parse(all));
	assert_int_equal(recipe.n, 2);
	return &recipe.v[1];
}

/* The arguments, joined by "|". */
static void args_are(const char *text, const char *want)
{
	const struct instruction *in = only(text);
	auto_free char *got = strv_join(&in->args, in->args.n, "|");

	assert_string_equal(got, want);
}

static void lines_are_joined_and_comments_vanish(void **state)
{
	args_are("RUN a \\\n  b \\\n# no\n   # no\n\\\n\n c", "a   b  c");
	assert_int_equal(recipe.n_gaps, 1);
	assert_int_equal(recipe.gaps[0], 7);
	assert_int_equal(recipe.v[1].line, 2);
	args_are("RUN a \\  \nb", "a b");
	ok(parse("FROM x\nRUN a \\\\\nUSER x\n"));
	assert_int_equal(recipe.n, 3);
}

static void an_instruction_begins_anywhere_and_ends_at_its_line(void **state)
{
	args_are("\t run  a b \r\n", "a b");
	assert_string_equal(recipe.v[1].keyword, "run");
	args_are("RUN a \\", "a");
}

static void directives_stand_at_the_top(void **state)
{
	ok(parse(
		"\xef\xbb\xbf#syntax=docker/dockerfile:1\n# Escape = `\n# check=skip=all\nFROM x\nRUN a `\n b\n"));
	assert_string_equal(recipe.syntax, "docker/dockerfile:1");
	assert_string_equal(recipe.check, "skip=all");
	assert_int_equal(recipe.escape, '`');
	assert_string_equal(recipe.v[1].args.v[0], "a  b");
	ok(parse("# about\n# escape=`\nFROM x\n"));
	assert_int_equal(recipe.escape, '\\');
	ok(parse("\n# escape=`\nFROM x\n"));
	assert_int_equal(recipe.escape, '\\');
	assert_int_equal(parse("# escape=x\nFROM x\n"), -EINVAL);
	says("F:1: invalid escape character 'x'");
	assert_int_equal(parse("# escape=`\n# escape=`\nFROM x\n"), -EINVAL);
	says("F:2: the directive 'escape' appears twice");
}

static void arguments_have_the_instructions_form(void **state)
{
	args_are("RUN [\"a b\", \"c\"]", "a b|c");
	assert_true(recipe.v[1].is_json);
	args_are("RUN ['a', 'b']", "['a', 'b']");
	args_are("RUN [ -f x ] && y", "[ -f x ] && y");
	args_are("CMD []", "");
	args_are("COPY a \"b c\" /d", "a|\"b c\"|/d");
	args_are("COPY [\"a b\", \"/d\"]", "a b|/d");
	args_are("ENV A=1 B=\"x y\" C=x\\ y", "A=1|B=\"x y\"|C=x\\ y");
	assert_false(recipe.v[1].is_old);
	args_are("ENV A  one two", "A|one two");
	assert_true(recipe.v[1].is_old);
	args_are("ARG A B=1", "A|B=1");
	args_are("LABEL \"a b\"=c", "\"a b\"=c");
	args_are("USER  me : you ", "me : you");
	args_are("HEALTHCHECK --retries=3 CMD curl x", "CMD|curl x");
	args_are("HEALTHCHECK CMD [\"curl\"]", "CMD|curl");
	args_are("ONBUILD RUN [\"a\"]", "RUN [\"a\"]");
	args_are("EXPOSE 80 $PORT/tcp", "80|$PORT/tcp");
	args_are("VOLUME /a [b", "/a|[b");
}

static void flags_are_taken_from_the_front(void **state)
{
	const struct instruction *in = only("COPY --from=a --link --chown=\"a:b\" -- --x /d");

	assert_string_equal(instruction_flag(in, "--from"), "a");
	assert_string_equal(instruction_flag(in, "--chown"), "a:b");
	assert_true(instruction_has(in, "--link"));
	assert_false(instruction_has(in, "--parents"));
	assert_null(instruction_flag(in, "--chmod"));
	assert_string_equal(in->args.v[0], "--x");
	in = only("COPY --link=false --exclude=a --exclude=b x --y /d");
	assert_false(instruction_has(in, "--link"));
	assert_int_equal(in->args.n, 3);
}

static void here_documents_are_read_to_their_ends(void **state)
{
	const struct instruction *in =
		only("RUN <<A <<-'B' 3<<\"C\" cat\na $X\n# no comment\nA\n\tb\\\n\tB\nc\nC\n");

	assert_int_equal(in->n_heredocs, 3);
	assert_string_equal(in->heredocs[0].content, "a $X\n# no comment\n");
	assert_true(in->heredocs[0].expand);
	assert_string_equal(in->heredocs[1].content, "b\\\n");
	assert_false(in->heredocs[1].expand);
	assert_string_equal(in->heredocs[2].name, "C");
	assert_false(in->heredocs[2].expand);
	in = only("COPY <<a.txt <<b /d/\n1\na.txt\nb");
	assert_int_equal(in->n_heredocs, 2);
	assert_string_equal(in->heredocs[1].content, "");
	in = only("RUN [\"<<A\"]");
	assert_int_equal(in->n_heredocs, 0);
	in = only("RUN echo $((1<<2)) '<<A' <<<x");
	assert_int_equal(in->n_heredocs, 0);
	in = only("CMD <<A");
	assert_int_equal(in->n_heredocs, 0);
	in = only("ONBUILD RUN <<A\nx\nA\n");
	assert_string_equal(in->args.v[0], "RUN <<A\nx\nA");
	assert_int_equal(parse("FROM x\n\nRUN <<A\nx\n"), -EINVAL);
	says("F:3: the here-document 'A' of line 3 has no line 'A'");
}

static const struct {
	const char *text, *why;
} bad[] = {
	{ "", "no FROM in it" },
	{ "# x\n", "no FROM in it" },
	{ "ARG A\n", "no FROM in it" },
	{ "RUN x\nFROM x\n", "F:1: 'RUN x' before the first FROM" },
	{ "FROM\n", "too few arguments: expected FROM IMAGE [AS NAME]" },
	{ "FROM x as\n", "expected FROM IMAGE [AS NAME]" },
	{ "FROM x to y\n", "expected FROM IMAGE [AS NAME]" },
	{ "FROM x AS 1a\n", "invalid stage name '1a'" },
	{ "FROM x AS a/b\n", "invalid stage name 'a/b'" },
	{ "FROM --platfrom=x x\n", "FROM has no flag '--platfrom'\nhint: is --platform meant?" },
	{ "FROM x\nCOPPY a b\n", "F:2: unknown instruction 'COPPY'\nhint: is COPY meant?" },
	{ "FROM x\nRUN\n", "'RUN': too few arguments" },
	{ "FROM x\nCOPY a\n", "expected COPY SOURCE... DESTINATION" },
	{ "FROM x\nCOPY --from a b\n", "COPY --from needs a value" },
	{ "FROM x\nCOPY --from=$A a b\n", "variables are not expanded there" },
	{ "FROM x\nCOPY --link=maybe a b\n", "expected true or false" },
	{ "FROM x\nCOPY --chown=a --chown=b c d\n", "has the flag '--chown' twice" },
	{ "FROM x\nCOPY a <<B\nB\n", "the destination cannot be a here-document" },
	{ "FROM x\nADD --from=y a b\n", "ADD has no flag '--from'" },
	{ "FROM x\nENV A\n", "ENV 'A' has no value: write A=VALUE" },
	{ "FROM x\nENV A=1 B\n", "'B' is not NAME=VALUE" },
	{ "FROM x\nENV =1\n", "is not NAME=VALUE" },
	{ "FROM x\nARG =1\n", "a name is missing" },
	{ "FROM x\nCMD [1]\n", "contains more than strings" },
	{ "FROM x\nSHELL sh\n", "SHELL: expected a JSON array" },
	{ "FROM x\nSHELL []\n", "too few arguments" },
	{ "FROM x\nVOLUME [\"\"]\n", "VOLUME: an argument is empty" },
	{ "FROM x\nHEALTHCHECK CURL x\n", "expected NONE or [OPTION...] CMD COMMAND" },
	{ "FROM x\nHEALTHCHECK NONE x\n", "expected NONE or [OPTION...] CMD COMMAND" },
	{ "FROM x\nHEALTHCHECK --interval=3 CMD x\n", "'--interval=3': expected a time" },
	{ "FROM x\nONBUILD FROM y\n", "F:2: FROM may not follow ONBUILD" },
	{ "FROM x\nONBUILD ONBUILD RUN y\n", "F:2: ONBUILD may not follow" },
	{ "FROM x\nONBUILD COPY a\n", "ONBUILD: 'COPY a': too few arguments" },
	{ "FROM x\nRUN --network=all x\n", "use default, none or host" },
	{ "FROM x\nRUN --security=insecure x\n", "mlrun builds with the caller's own rights" },
	{ "FROM x\nRUN --mount=type=bnd,target=/x y\n", "'type=bnd': expected bind, cache" },
	{ "FROM x\nRUN --mount=traget=/x y\n", "unknown key 'traget'\nhint: is target meant?" },
	{ "FROM x\nRUN --mount=type=tmpfs,id=x,target=/x y\n",
		"a mount of type tmpfs has no key 'id'" },
	{ "FROM x\nRUN --mount=type=tmpfs,target=/x,size=big y\n", "expected a size such as 512m" },
	{ "FROM x\nRUN --mount=type=secret y\n", "a secret needs an id" },
	{ "FROM x\nRUN --mount=from=$A,target=/x y\n", "variables are not expanded there" },
	{ "FROM x\nRUN --mount=type=cache,target=/x,mode=9 y\n", "expected an octal mode" },
	{ "FROM x\nRUN \xff\n", "RUN: the text is not UTF-8" },
};

static void what_is_wrong_is_named_with_its_line(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(parse(bad[i].text), -EINVAL);
		says(bad[i].why);
		says("F:");
	}
	assert_int_equal(recipe_parse("F", "FROM x\n\0", 8, &recipe, &err), -EINVAL);
	says("this is not a text file");
}

static void mounts_have_their_types_defaults(void **state)
{
	struct run_mount m = RUN_MOUNT_INIT;

	ok(run_mount_parse("target=/a,from=b,src=c", NULL, &m, &err));
	assert_int_equal(m.type, RUN_MOUNT_BIND);
	assert_true(m.read_only);
	assert_string_equal(m.from, "b");
	run_mount_done(&m);
	ok(run_mount_parse("type=cache,dst=/a,sharing=locked,mode=0700,uid=7,ro", NULL, &m, &err));
	assert_int_equal(m.sharing, RUN_MOUNT_LOCKED);
	assert_int_equal(m.mode, 0700);
	assert_int_equal(m.uid, 7);
	assert_int_equal(m.gid, -1);
	assert_true(m.read_only);
	run_mount_done(&m);
	ok(run_mount_parse("type=cache,target=/a", NULL, &m, &err));
	assert_false(m.read_only);
	run_mount_done(&m);
	ok(run_mount_parse("type=secret,id=x,env=TOKEN,required", NULL, &m, &err));
	assert_true(m.required);
	assert_string_equal(m.env, "TOKEN");
	run_mount_done(&m);
	/* A variable may become anything; it is checked when it is known. */
	ok(run_mount_parse("type=$T,target=/a,size=2g", NULL, &m, &err));
	run_mount_done(&m);
}

/* --- stages and variables --------------------------------------------------- */

static struct stages stages;

static int resolve(const char *text, const struct strv *given)
{
	auto_strv struct strv platform = STRV_INIT;

	stages_done(&stages);
	strv_add(&platform, "TARGETARCH=amd64");
	ok(parse(text));
	return stages_resolve(&recipe, &platform, given, &stages, &err);
}

static void stages_find_their_parents(void **state)
{
	char needed[4] = "";

	ok(resolve("FROM a AS One\nFROM b AS two\nCOPY --from=ONE x y\nFROM two\nFROM 0\n", NULL));
	assert_int_equal(stages.n, 4);
	assert_int_equal(stages.v[0].parent, -1);
	assert_int_equal(stages.v[2].parent, 1);
	assert_int_equal(stages.v[3].parent, -1);
	assert_int_equal(stages_find(&stages, "one", 4), 0);
	assert_int_equal(stages_find(&stages, "1", 4), 1);
	assert_int_equal(stages_find(&stages, "4", 4), -1);
	assert_int_equal(stages_find(&stages, "two", 1), -1);
	stages_need(&recipe, &stages, 2, needed);
	assert_memory_equal(needed, "\1\1\1\0", 4);
	memset(needed, 0, sizeof(needed));
	stages_need(&recipe, &stages, 3, needed);
	assert_memory_equal(needed, "\0\0\0\1", 4);
}

static void a_mount_needs_its_stage(void **state)
{
	char needed[2] = "";

	ok(resolve("FROM a AS one\nFROM b\nRUN --mount=from=one,target=/x y\n", NULL));
	stages_need(&recipe, &stages, 1, needed);
	assert_memory_equal(needed, "\1\1", 2);
}

static void arguments_before_the_first_from_name_images(void **state)
{
	auto_strv struct strv given = STRV_INIT;

	ok(resolve("ARG V=1\nARG W=$V.0\nFROM --platform=linux/$TARGETARCH x:${W}\n", NULL));
	assert_string_equal(stages.v[0].base, "x:1.0");
	assert_string_equal(stages.v[0].platform, "linux/amd64");
	strv_add(&given, "V=2");
	ok(resolve("ARG V=1\nARG W=$V.0\nFROM x:${W}\n", &given));
	assert_string_equal(stages.v[0].base, "x:2.0");
	assert_int_equal(resolve("ARG IMAGE\nFROM $IMAGE\n", NULL), -EINVAL);
	says("F:2: 'FROM $IMAGE': the image's name is empty");
	assert_int_equal(resolve("FROM $IMAGE\n", NULL), -EINVAL);
	says("hint: 'IMAGE' has no value: add 'ARG IMAGE=VALUE' before the first FROM");
}

/* Do the instructions of the only stage. */
static void follow(struct scope *s, const char *text, const struct strv *given)
{
	ok(resolve(text, given));
	s->global = &stages.global;
	s->given = given;
	for (size_t i = stages.v[0].from + 1; i < recipe.n; i++) {
		const struct instruction *in = &recipe.v[i];

		ok(in->word == INSTRUCTION_ARG ? scope_declare(s, in, '\\', &err)
					       : scope_set(s, in, '\\', &err));
	}
}

static void is(struct scope *s, const char *name, const char *want)
{
	const char *got = scope_get(s, name);

	if (!want)
		assert_null(got);
	else
		assert_string_equal(got, want);
}

static void variables_have_the_scope_that_the_reference_says(void **state)
{
	auto_call(scope_done) struct scope s = { 0 }, t = { 0 }, child = { 0 };
	auto_strv struct strv given = STRV_INIT;

	/* A global ARG is seen after an ARG of its name; ENV hides ARG, whichever comes first. */
	follow(&s,
		"ARG G=1\nARG H=2\nFROM x\nARG G\nARG TARGETARCH\nARG D=$G$H\nENV E=env\nARG E=arg\n",
		NULL);
	is(&s, "G", "1");
	is(&s, "H", NULL);
	is(&s, "D", "1");
	is(&s, "E", "env");
	is(&s, "TARGETARCH", "amd64");
	is(&s, "BUILDARCH", NULL);
	strv_add(&given, "G=3");
	strv_add(&given, "D=4");
	follow(&t, "ARG G=1\nFROM x\nARG D=5 F=$D\nARG G\nENV A=1\nENV A=2 B=$A\n", &given);
	is(&t, "G", "3");
	is(&t, "F", "4");
	is(&t, "B", "1");
	scope_inherit(&child, &t);
	is(&child, "A", "2");
	is(&child, "D", "4");
}

/* --- checks ----------------------------------------------------------------- */

static const struct {
	const char *text, *rule;
	unsigned line;
} unwise[] = {
	{ "FROM x AS Up\n", "StageNameCasing", 1 },
	{ "FROM x as up\n", "FromAsCasing", 1 },
	{ "from x as up\n", NULL, 0 },
	{ "FROM x AS scratch\n", "ReservedStageName", 1 },
	{ "FROM x AS a\nFROM y AS a\n", "DuplicateStageName", 2 },
	{ "FROM --platform=linux/amd64 x\n", "FromPlatformFlagConstDisallowed", 1 },
	{ "FROM --platform=$TARGETPLATFORM x\n", "RedundantTargetPlatform", 1 },
	{ "FROM --platform=$BUILDPLATFORM x\n", NULL, 0 },
	{ "ARG V\nFROM x:$V\n", "InvalidDefaultArgInFrom", 2 },
	{ "FROM x:${V}y\n", "UndefinedArgInFrom", 1 },
	{ "FROM x\nRUN a\nrun b\n", "ConsistentInstructionCasing", 3 },
	{ "from x\nrun a\n", NULL, 0 },
	{ "FROM x\nMAINTAINER me\n", "MaintainerDeprecated", 2 },
	{ "FROM x\nENV A b\n", "LegacyKeyValueFormat", 2 },
	{ "FROM x\nCMD a\n", "JSONArgsRecommended", 2 },
	{ "FROM x\nCMD [\"a\"]\nCMD [\"b\"]\n", "MultipleInstructionsDisallowed", 2 },
	{ "FROM x\nRUN a \\\n\n b\n", "NoEmptyContinuation", 3 },
	{ "FROM x\nENV API_TOKEN=1\n", "SecretsUsedInArgOrEnv", 2 },
	{ "FROM x\nARG DB_PASSWORD\n", "SecretsUsedInArgOrEnv", 2 },
	{ "FROM x\nARG PUBLIC_KEY\n", NULL, 0 },
	{ "FROM x\nENV PATH=$PAHT:/x\n", "UndefinedVar", 2 },
	{ "FROM scratch\nCOPY $X /y\n", "UndefinedVar", 2 },
	{ "FROM x\nCOPY $X /y\n", NULL, 0 },
	{ "FROM x\nARG X\nCOPY $X /y\n", NULL, 0 },
	{ "FROM x\nEXPOSE 80/TCP\n", "ExposeProtoCasing", 2 },
	{ "FROM x\nEXPOSE 1.2.3.4:80:80\n", "ExposeInvalidFormat", 2 },
	{ "FROM x\nWORKDIR a\n", "WorkdirRelativePath", 2 },
	{ "FROM x\nWORKDIR /a\nWORKDIR b\n", NULL, 0 },
	{ "# check=skip=StageNameCasing\nFROM x AS Up\n", NULL, 0 },
	{ "# check=skip=all\nFROM x AS Up\nCMD a\n", NULL, 0 },
};

static void what_is_unwise_is_found(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(unwise); i++) {
		auto_call(lint_done) struct lint lint = { 0 };

		ok(resolve(unwise[i].text, NULL));
		ok(lint_recipe(&recipe, &stages, NULL, &lint, &err));
		if (!unwise[i].rule) {
			if (lint.n > 0)
				fail_msg("%s: %s", unwise[i].text, lint.v[0].text);
			continue;
		}
		assert_int_equal(lint.n, 1);
		assert_string_equal(lint.v[0].rule, unwise[i].rule);
		assert_int_equal(lint.v[0].line, unwise[i].line);
	}
}

static void warnings_may_be_errors(void **state)
{
	auto_call(lint_done) struct lint lint = { 0 };

	ok(resolve("# check=skip=StageNameCasing;error=true\nFROM x AS Up\n", NULL));
	ok(lint_recipe(&recipe, &stages, NULL, &lint, &err));
	assert_true(lint.is_error);
}

/* --- configurations --------------------------------------------------------- */

static void a_change_sees_the_configurations_variables(void **state)
{
	static const char config[] =
		"{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"Env\":[\"PATH=/bin\"]},"
		"\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}";
	auto_strv struct strv lines = STRV_INIT;
	struct instruction *list = NULL;
	struct derive d = { .created = "2026-01-01T00:00:00Z", .created_by = "test" };
	auto_free char *text = NULL;

	strv_add(&lines, "ENV PATH=/opt/bin:$PATH OLD=$PATH");
	strv_add(&lines, "LABEL path=\"$PATH\"");
	strv_add(&lines, "MAINTAINER me");
	ok(derive_parse(&lines, &list, &d.n_changes, &err));
	d.changes = list;
	ok(derive_config(config, strlen(config), &d, &text, &err));
	assert_non_null(strstr(text, "[\"PATH=/opt/bin:/bin\",\"OLD=/bin\"]"));
	assert_non_null(strstr(text, "\"path\":\"/opt/bin:/bin\""));
	assert_non_null(strstr(text, "\"author\":\"me\""));
	for (size_t i = 0; i < d.n_changes; i++)
		instruction_done(&list[i]);
	free(list);
}

static int teardown(void **state)
{
	recipe_done(&recipe);
	stages_done(&stages);
	return 0;
}

#define ONE(f) cmocka_unit_test_teardown(f, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(variables_are_expanded_and_quotes_removed),
		ONE(what_a_variable_demands_is_told),
		ONE(an_expansion_is_limited),
		ONE(the_end_of_a_long_value_is_found_at_once),
		ONE(lines_are_joined_and_comments_vanish),
		ONE(an_instruction_begins_anywhere_and_ends_at_its_line),
		ONE(directives_stand_at_the_top),
		ONE(arguments_have_the_instructions_form),
		ONE(flags_are_taken_from_the_front),
		ONE(here_documents_are_read_to_their_ends),
		ONE(what_is_wrong_is_named_with_its_line),
		ONE(mounts_have_their_types_defaults),
		ONE(stages_find_their_parents),
		ONE(a_mount_needs_its_stage),
		ONE(arguments_before_the_first_from_name_images),
		ONE(variables_have_the_scope_that_the_reference_says),
		ONE(what_is_unwise_is_found),
		ONE(warnings_may_be_errors),
		ONE(a_change_sees_the_configurations_variables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
