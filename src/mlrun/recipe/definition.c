#include "recipe/definition.h"

#include "base/spelling.h"
#include "recipe/text.h"

#include <jansson.h>

#define META      "/.singularity.d/"
#define PAIRS_MAX 10000 /* lines of a stage's %files */

enum kind {
	FILES,
	POST,
	ENVIRONMENT,
	RUNSCRIPT,
	STARTSCRIPT,
	TEST,
	HELP,
	LABELS,
	ARGUMENTS,
	KINDS,
	HEADER
};

static const struct section_row {
	const char *name;
	enum reach reach;
	const char *path; /* the file that it becomes */
	const char *hint; /* what to do instead of a section that is refused */
} rows[] = {
	[FILES] = { "%files", REACH_FILES },
	[POST] = { "%post", REACH_NETWORK },
	[ENVIRONMENT] = { "%environment", 0, META "env/90-environment.sh" },
	[RUNSCRIPT] = { "%runscript", 0, META "runscript" },
	[STARTSCRIPT] = { "%startscript", 0, META "startscript" },
	[TEST] = { "%test", REACH_NETWORK, META "test" },
	[HELP] = { "%help", 0, META "runscript.help" },
	[LABELS] = { "%labels", 0, META "labels.json" },
	[ARGUMENTS] = { "%arguments" },
	{ "%setup", 0, NULL,
		"it would run on this machine: move its commands to %post, files to %files" },
	{ "%pre", 0, NULL, "it would run on this machine: run its commands before mlrun build" },
	{ "%app", 0, NULL,
		"move what installs to %post, and let %runscript choose by its first word" },
};

static const struct agent {
	const char *name;
	const char *prefix; /* of the image's name; NULL: refused */
	const char *hint;   /* the image to write instead */
} agents[] = { { "docker", "" }, { "library", "" }, { "oci", "oci:" },
	{ "oci-archive", "oci-archive:" }, { "docker-archive", "docker-archive:" },
	{ "localimage", "rootfs:" }, { "scratch", "" }, { "shub", NULL, "IMAGE" },
	{ "oras", NULL, "IMAGE" }, { "docker-daemon", NULL, "IMAGE" },
	{ "yum", NULL, "rockylinux:9" }, { "dnf", NULL, "rockylinux:9" },
	{ "debootstrap", NULL, "debian:12" }, { "zypper", NULL, "opensuse/leap:15" },
	{ "arch", NULL, "archlinux" }, { "busybox", NULL, "busybox" } };

/* Those from the sixth on have no effect. */
static const char *const keys[] = { "bootstrap", "from", "registry", "namespace", "stage",
	"mirrorurl", "updateurl", "osversion", "include", "product", "user", "regcode", "library" };

struct definition {
	const struct definition_options *o;
	const char *text;
	struct recipe r;
	struct strv used;     /* arguments */
	struct strv defaults; /* "STAGE:K=V": of %arguments */
	int pass;
	unsigned number; /* of the line being read */
	/* The stage being read: */
	unsigned stage, line; /* its number and first line */
	int kind;             /* of the section being read */
	struct text pending;  /* a header's line that goes on */
	struct strv header;   /* "key=value", keys in small letters */
	struct recipe files;  /* a COPY of each section %files */
	json_t *labels;
	struct {
		unsigned line; /* 0: there is no such section */
		char *args;
		struct text body;
	} v[KINDS];
};

static void stage_begin(struct definition *d)
{
	d->line = d->number + !d->number;
	d->kind = HEADER;
	strv_done(&d->header);
	text_done(&d->pending);
	recipe_done(&d->files);
	json_decref(d->labels);
	d->labels = json_object();
	for (size_t i = 0; i < KINDS; i++) {
		free(take_ptr(&d->v[i].args));
		text_done(&d->v[i].body);
		d->v[i].line = 0;
	}
}

static void definition_done(struct definition *d)
{
	stage_begin(d);
	json_decref(d->labels);
	strv_done(&d->used);
	strv_done(&d->defaults);
	recipe_done(&d->r);
}

static const char *behind(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0 ? s + strlen(prefix) : s;
}

static const char *key(const struct definition *d, const char *name)
{
	const char *value = strv_env_get(strv_argv(&d->header), name);

	return value ? value : "";
}

/* --- instructions --------------------------------------------------------------- */

static struct instruction *add(
	struct recipe *r, enum instruction_word word, const char *text, unsigned line)
{
	*xadd(r->v, r->n) = (struct instruction){ .word = word,
		.line = line,
		.is_json = 1,
		.is_section = 1,
		.keyword = xstrdup(text),
		.text = xstrdup(text) };
	return &r->v[r->n - 1];
}

/* Add a file with this content, which it takes. */
static void add_file(struct instruction *in, const char *path, char *content)
{
	*xadd(in->heredocs, in->n_heredocs) = (struct heredoc){ xstrdup(path), content, 0, 0 };
}

/* The words of "-c SHELL…" after a script's name, or what else is to run it. */
static const char *shell_of(const char *args, const char *otherwise)
{
	const char *shell = behind(args, "-c");

	return shell == args ? otherwise : shell + text_blank(shell);
}

/* Run a script in the environment that the image has so far. */
static struct instruction *add_run(
	struct definition *d, enum kind kind, const char *shell, const char *path)
{
	struct instruction *in = add(&d->r, INSTRUCTION_RUN, rows[kind].name, d->v[kind].line);

	strv_add_words(&in->args, "/bin/sh", "-c",
		"command -v source >/dev/null || eval 'source() { . \"$@\"; }'\n"
		"for f in " META "env/*.sh; do . \"$f\"; done\n"
		"exec \"$@\"",
		"sh");
	text_words(shell_of(d->v[kind].args, shell), &in->args);
	strv_add(&in->args, path);
	return in;
}

/* A script keeps the line "#!…" that it begins with. */
static char *script(struct definition *d, enum kind kind)
{
	auto_free char *text = text_take(&d->v[kind].body);
	const char *start = text + text_blank(text);

	return strncmp(start, "#!", 2) == 0 || kind == HELP
		? xstrdup(start)
		: xasprintf("#!%s\n%s", shell_of(d->v[kind].args, "/bin/sh"), text);
}

static void add_metadata(struct definition *d)
{
	struct instruction *in = add(&d->r, INSTRUCTION_COPY, META, d->line);
	const char *name;
	json_t *value;

	strv_add(&in->flags, "--chmod=755");
	add_file(in, META "Singularity", xstrdup(d->text));
	for (enum kind k = ENVIRONMENT; k <= HELP; k++)
		if (d->v[k].line)
			add_file(in, rows[k].path, script(d, k));
	if (json_object_size(d->labels) > 0) {
		add_file(in, rows[LABELS].path, json_dumps(d->labels, JSON_INDENT(2)));
		in = add(&d->r, INSTRUCTION_LABEL, rows[LABELS].name, d->v[LABELS].line);
		json_object_foreach(d->labels, name, value)
			strv_add_words(&in->args, name, json_string_value(value));
	}
	if (d->v[RUNSCRIPT].line) {
		in = add(&d->r, INSTRUCTION_ENTRYPOINT, rows[RUNSCRIPT].name, d->v[RUNSCRIPT].line);
		strv_add(&in->args, rows[RUNSCRIPT].path);
	}
}

/* --- the header ------------------------------------------------------------------ */

static int find_agent(const struct definition *d, const struct agent **ret, struct mlr_error *err)
{
	const char *name = key(d, "bootstrap"), *image = "IMAGE";

	for (size_t i = 0; i < ARRAY_LEN(agents); i++)
		if (strcasecmp(name, agents[i].name) == 0)
			*ret = &agents[i];
	if (*ret && (*ret)->prefix && (d->o->library || strcmp((*ret)->name, "library") != 0))
		return 0;
	mlr_fail(err, *name ? ENOTSUP : EINVAL,
		*name ? "'Bootstrap: %.100s' is not supported" : "no Bootstrap in the header%s",
		name);
	if (*ret)
		image = (*ret)->hint ? (*ret)->hint : behind(key(d, "from"), "library://");
	return mlr_hint(err, "write 'Bootstrap: docker' and 'From: %.100s'%s", image,
		*ret && (*ret)->prefix
			? ", or set library=PREFIX in the section [apptainer] of mlrun.conf"
			: "");
}

static int add_from(struct definition *d, struct mlr_error *err)
{
	const char *from = behind(behind(key(d, "from"), "docker://"), "library://");
	const char *registry = behind(behind(key(d, "registry"), "https://"), "http://");
	const char *namespace = key(d, "namespace"), *stage = key(d, "stage");
	const struct agent *a = NULL;
	struct instruction *in;

	TRY(find_agent(d, &a, err));
	if (strcmp(a->name, "library") == 0)
		registry = d->o->library;
	if (strcmp(a->name, "scratch") == 0)
		from = "scratch";
	if (!*from || *from == '-' || from[strcspn(from, TEXT_BLANKS)])
		return mlr_fail(err, EINVAL, "'From: %.200s': expected the name of an image", from);
	in = add(&d->r, INSTRUCTION_FROM, "Bootstrap", d->line);
	if (strcmp(a->name, "localimage") == 0)
		strv_add(&in->args, "scratch");
	else
		strv_addf(&in->args, "%s%s%s%s%s%s", a->prefix, registry, *registry ? "/" : "",
			namespace, *namespace ? "/" : "", from);
	if (*stage)
		strv_add_words(&in->args, "AS", stage);
	if (strcmp(a->name, "localimage") == 0) {
		in = add(&d->r, INSTRUCTION_COPY, "From", d->line);
		strv_addf(&in->flags, "--from=%s%s", a->prefix, from);
		strv_add_words(&in->args, "/.", "/");
	}
	return 0;
}

/* The name before ':' in small letters, to free(); NULL if it is not a key's. */
static char *key_of(const char *line)
{
	size_t len = strcspn(line, ":" TEXT_BLANKS);
	auto_free char *name = xstrndup(line, len);

	for (char *c = name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	for (size_t i = 0; i < ARRAY_LEN(keys) && line[len + text_blank(line + len)] == ':'; i++)
		if (strcmp(name, keys[i]) == 0)
			return take_ptr(&name);
	return NULL;
}

/* Read "KEY: VALUE". */
static int read_key(struct definition *d, const char *line, struct mlr_error *err)
{
	auto_free char *name = key_of(line);

	if (!name) {
		mlr_fail(err, EINVAL, "unknown key '%.*s'", (int)strcspn(line, ":") % 100, line);
		return strncasecmp(line, "fingerprints", 12) == 0
			? mlr_hint(err, "mlrun checks no signatures; From may have a digest")
			: mlr_hint(err, "known are Bootstrap, From, Registry, Namespace and Stage");
	}
	line = strchr(line, ':') + 1;
	strv_env_set(&d->header, name, line + text_blank(line));
	if (strcmp(name, "bootstrap") == 0)
		d->line = d->number;
	return 0;
}

/* --- sections ------------------------------------------------------------------- */

/* Is there a stage of this name above? */
static int has_stage(const struct definition *d, const char *name)
{
	for (size_t i = 0; i < d->r.n; i++)
		if (d->r.v[i].word == INSTRUCTION_FROM && d->r.v[i].args.n == 3 &&
			strcmp(d->r.v[i].args.v[2], name) == 0)
			return 1;
	return 0;
}

/* Begin %files of the caller, or "from STAGE". */
static int begin_files(struct definition *d, const char *args, struct mlr_error *err)
{
	const char *stage = behind(args, "from");
	struct instruction *in;

	stage += text_blank(stage);
	if (*args && (behind(args, "from") == args || !has_stage(d, stage)))
		return mlr_fail(
			err, EINVAL, "%%files %.100s: expected 'from STAGE', an earlier one", args);
	in = add(&d->files, INSTRUCTION_COPY, "%files", d->number);
	if (*args)
		strv_addf(&in->flags, "--from=%s", stage);
	return 0;
}

/* Read a line of %files. */
static int read_pair(struct definition *d, const char *line, struct mlr_error *err)
{
	const struct expand plain = { '\\', EXPAND_KEEP_UNSET, NULL, NULL };
	struct instruction *in = &d->files.v[d->files.n - 1];
	auto_strv struct strv words = STRV_INIT;
	auto_free char *whole = NULL;

	TRY(expand_words(&plain, line, &words, err));
	if (words.n < 1 || words.n > 2 || !*words.v[0])
		return mlr_fail(err, EINVAL,
			"'%.200s': expected SOURCE [DESTINATION]; quotes hold blanks", line);
	whole = xasprintf("/%s/", words.v[0]);
	if (words.n == 1 && strstr(whole, "/../"))
		return mlr_fail(err, EINVAL, "'%.200s' needs a destination", words.v[0]);
	if (in->args.n >= 2 * PAIRS_MAX)
		return mlr_fail(err, EINVAL,
			"more than %d lines: name a directory, or use patterns", PAIRS_MAX);
	strv_add_words(&in->args, words.v[0], words.n == 2 ? words.v[1] : "");
	return 0;
}

static int read_label(struct definition *d, char *line, struct mlr_error *err)
{
	size_t len = strcspn(line, TEXT_BLANKS);
	auto_free char *name = xstrndup(line, len);

	return json_object_set_new(
		       d->labels, name, json_string(line + len + text_blank(line + len))) < 0
		? mlr_fail(err, EINVAL, "a label is not UTF-8")
		: 0;
}

/* The default of an argument; only the first pass has this. */
static int read_argument(struct definition *d, const char *line, struct mlr_error *err)
{
	size_t len = strcspn(line, "=" TEXT_BLANKS);
	const char *value = line + len + text_blank(line + len);
	auto_free char *name = xasprintf("%u:%.*s", d->stage, (int)len, line);

	if (len == 0 || *value != '=')
		return mlr_fail(err, EINVAL, "'%.200s': expected NAME=VALUE", line);
	strv_addf(&d->defaults, "%s=%s", name, value + 1 + text_blank(value + 1));
	return 0;
}

static int begin_section(struct definition *d, const char *line, struct mlr_error *err)
{
	size_t len = strcspn(line, TEXT_BLANKS "#"), i = 0;
	auto_free char *word = xstrndup(line, len < 100 ? len : 100);
	struct spelling near = spelling_of(word, strlen(word));
	const char *args = line + len + text_blank(line + len);

	for (; i < ARRAY_LEN(rows); i++) {
		spelling_try(&near, rows[i].name);
		if (strcasecmp(word, rows[i].name) == 0 ||
			(strcmp(rows[i].name, "%app") == 0 && strncasecmp(word, "%app", 4) == 0))
			break;
	}
	if (i == ARRAY_LEN(rows)) {
		mlr_fail(err, EINVAL, "unknown section '%s'", word);
		return near.near ? mlr_hint(err, "is %s meant?", near.near) : -EINVAL;
	}
	if (rows[i].hint) {
		mlr_fail(err, ENOTSUP, "%s is refused", word);
		return mlr_hint(err, "%s", rows[i].hint);
	}
	d->kind = (int)i;
	d->v[i].line = d->v[i].line ? d->v[i].line : d->number;
	set_ptr(&d->v[i].args, xstrndup(args, strcspn(args, "#")));
	text_chop(d->v[i].args);
	args = d->v[i].args;
	if (i == FILES)
		return d->pass ? begin_files(d, args, err) : 0;
	return *args && behind(args, "-c") == args
		? mlr_fail(err, EINVAL, "%s %.100s: expected nothing, or -c SHELL", word, args)
		: 0;
}

/* --- the file --------------------------------------------------------------------- */

/* Make the instructions of the stage that was read. */
static int end_stage(struct definition *d, struct mlr_error *err)
{
	struct instruction *in;

	if (add_from(d, err) < 0) {
		d->number = d->line;
		return -EINVAL;
	}
	/* It also makes the directory of $APPTAINER_ENVIRONMENT. */
	add_file(add(&d->files, INSTRUCTION_COPY, META, d->line), META "env/99-base.sh",
		xstrdup("# What the caller sets comes after this.\n"));
	for (int is_callers = 0; is_callers < 2; is_callers++)
		for (size_t i = 0; i < d->files.n; i++)
			if ((d->files.v[i].flags.n == 0) == is_callers)
				*xadd(d->r.v, d->r.n) = d->files.v[i];
	d->files.n = 0;
	if (d->v[POST].line) {
		in = add_run(d, POST, "/bin/sh -ex", "/.post.script");
		add_file(in, "/.post.script", text_take(&d->v[POST].body));
	}
	add_metadata(d);
	if (d->v[TEST].line && !d->o->no_test)
		add_run(d, TEST, "", rows[TEST].path);
	return 0;
}

/* Replace each {{ NAME }} of a line; other braces are the shell's. */
static int fill(struct definition *d, const char *s, struct text *out, struct mlr_error *err)
{
	for (const char *open; (open = strstr(s, "{{"));) {
		const char *name = open + 2 + strspn(open + 2, " \t"), *value = NULL;
		size_t len = strspn(name, TEXT_LETTERS TEXT_DIGITS "_");
		const char *end = name + len + strspn(name + len, " \t");
		auto_free char *whole = xasprintf("%u:%.*s", d->stage, (int)len, name);
		const char *word = strchr(whole, ':') + 1;

		text_add(out, s, (size_t)(open - s));
		s = open + strspn(open, "{");
		if (len == 0 || s != open + 2 || (*end && strncmp(end, "}}", 2) != 0)) {
			text_add(out, open, (size_t)(s - open));
			continue;
		}
		if (!*end)
			return mlr_fail(err, EINVAL, "'{{ %.100s' has no '}}'", word);
		s = end + 2;
		if (!strv_has(&d->used, word))
			strv_add(&d->used, word);
		if (d->o->args)
			value = strv_env_get(strv_argv(d->o->args), word);
		if (!value)
			value = strv_env_get(strv_argv(&d->defaults), whole);
		if (!value) {
			mlr_fail(err, EINVAL, "{{ %.100s }} has no value", word);
			return mlr_hint(err,
				"--build-arg %.100s=VALUE gives it one, or a line in %%arguments",
				word);
		}
		text_add(out, value, strlen(value));
	}
	text_add(out, s, strlen(s));
	return 0;
}

/* Read a line of a header, up to a comment; "\" at its end joins the next. */
static int read_header(struct definition *d, char *line, struct mlr_error *err)
{
	auto_free char *all = NULL;
	size_t len;

	line[strcspn(line, "#")] = '\0';
	text_chop(line);
	len = strlen(line);
	text_add(&d->pending, line, len);
	if (len > 0 && line[len - 1] == '\\') {
		d->pending.len--;
		return 0;
	}
	all = text_take(&d->pending);
	return all[text_blank(all)] ? read_key(d, all + text_blank(all), err) : 0;
}

static int read_line(struct definition *d, const char *line, struct mlr_error *err)
{
	struct text out = { 0 };
	int r = d->pass == 0 || d->kind == ARGUMENTS ? 0 : fill(d, line, &out, err);
	auto_free char *filled = out.s ? text_take(&out) : xstrdup(line);
	char *word = filled + text_blank(filled);

	if (r < 0 || d->kind == HEADER)
		return r < 0 ? r : read_header(d, filled, err);
	if (d->kind != FILES && d->kind != LABELS && d->kind != ARGUMENTS) {
		text_add(&d->v[d->kind].body, filled, strlen(filled));
		text_put(&d->v[d->kind].body, '\n');
		return 0;
	}
	text_chop(word);
	if (!*word || *word == '#' || d->pass != (d->kind != ARGUMENTS))
		return 0;
	return d->kind == FILES     ? read_pair(d, word, err)
		: d->kind == LABELS ? read_label(d, word, err)
				    : read_argument(d, word, err);
}

/* Is it a line that begins a further stage? */
static int begins_stage(const struct definition *d, const char *line)
{
	return (d->kind != HEADER || *key(d, "bootstrap")) &&
		strncasecmp(line, "bootstrap", 9) == 0 && line[9 + text_blank(line + 9)] == ':';
}

/* The first pass is for arguments, which a header may use before they are there. */
static int read_lines(struct definition *d, int pass, struct mlr_error *err)
{
	auto_free char *copy = xstrdup(d->text);
	char *rest = copy + (copy[0] == '\xef' && copy[1] == '\xbb' && copy[2] == '\xbf' ? 3 : 0),
	     *line;

	d->pass = pass;
	d->number = d->stage = 0;
	stage_begin(d);
	while ((line = strsep(&rest, "\n"))) {
		const char *word = line + text_blank(line);
		size_t len = strlen(line);

		d->number++;
		if (len > 0 && line[len - 1] == '\r')
			line[len - 1] = '\0';
		if (begins_stage(d, line)) {
			TRY(pass ? end_stage(d, err) : 0);
			stage_begin(d);
			d->stage++;
		}
		TRY(*word == '%' ? begin_section(d, word, err) : read_line(d, line, err));
	}
	return pass ? end_stage(d, err) : 0;
}

static int check_used(const struct definition *d, struct mlr_error *err)
{
	for (size_t i = 0; d->o->args && i < d->o->args->n; i++) {
		auto_free char *name = xstrndup(d->o->args->v[i], strcspn(d->o->args->v[i], "="));

		if (!strv_has(&d->used, name))
			return mlr_fail(err, EINVAL,
				"%s: --build-arg %.100s: there is no {{ %.100s }} in it", d->r.name,
				name, name);
	}
	return 0;
}

int definition_parse(const char *name, const char *text, size_t len,
	const struct definition_options *o, struct recipe *ret, struct mlr_error *err)
{
	auto_call(definition_done) struct definition d = { .o = o, .r = RECIPE_INIT };
	auto_free char *copy = xstrndup(text, len);
	int r;

	if (len > RECIPE_MAX || strlen(copy) != len)
		return len > RECIPE_MAX
			? mlr_fail(err, EFBIG, "%s: it has more than %zu bytes", name, RECIPE_MAX)
			: mlr_fail(err, EINVAL, "%s: this is not a text file", name);
	d.text = copy;
	d.r.name = xstrdup(name);
	d.r.is_definition = 1;
	r = read_lines(&d, 0, err);
	if (r == 0)
		r = read_lines(&d, 1, err);
	if (r < 0)
		return mlr_wrap(err, "%s:%u", name, d.number);
	TRY(check_used(&d, err));
	*ret = d.r;
	d.r = (struct recipe)RECIPE_INIT;
	return 0;
}

int definition_is_name(const char *name)
{
	const char *base = path_base(name);

	return strncmp(base, "Singularity", 11) == 0 || strncmp(base, "Apptainer", 9) == 0 ||
		path_ends(base, ".def");
}

int definition_is(const char *name, const char *text)
{
	auto_free char *first = NULL;

	text = behind(text, "\xef\xbb\xbf");
	while (*(text += text_blank(text)) == '#')
		text += strcspn(text, "\n");
	first = key_of(text);
	return first || definition_is_name(name);
}

void definition_each_reach(reach_fn fn, void *ctx)
{
	for (size_t i = 0; i < KINDS; i++)
		fn(ctx, rows[i].name, rows[i].reach);
}
