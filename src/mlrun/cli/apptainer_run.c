/* Run a command in an image by Apptainer's options: a command line of mlrun's is made of them. */
#include "cli/apptainer.h"

#include "cli/exec_options.h"

#include "base/config_value.h"
#include "base/escape.h"

#define PLACE        "/.singularity.d/"
#define LIBRARIES    PLACE "libs"
#define ENV_FILE_MAX (1u << 20) /* bytes */

struct args {
	struct strv words, mounts;  /* mlrun's options */
	struct strv env, env_files; /* --env's "K=V" */
	struct strv binds;          /* as typed */
	struct strv scratch, overlays, no_mount;
	const char *workdir, *home, *shell;
	int contain; /* 1: --contain, 2: --containall, 3: --compat */
	int gpu, clean, no_home, no_eval, writable, writable_tmpfs;
	int is_instance;
	const char *image, *name; /* name: the instance's */
	char *const *command;
};

/* --- options -------------------------------------------------------------------- */

/* The text up to one of ends that no backslash precedes, or to the end; *s then points to it. */
static char *take_part(const char **s, const char *ends)
{
	char *part = xmalloc(strlen(*s) + 1), *out = part;

	for (; **s && !strchr(ends, **s); (*s)++) {
		if (**s == '\\' && (*s)[1] && strchr(ends, (*s)[1]))
			(*s)++;
		*out++ = **s;
	}
	*out = '\0';
	return part;
}

/* SRC[:DST[:ro|rw]], several by comma. */
static void take_binds(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	strv_add(&a->binds, arg);
	for (const char *s = arg;; s++) {
		auto_free char *source = take_part(&s, ",:");
		auto_free char *target = *s == ':' ? (s++, take_part(&s, ",:")) : xstrdup(source);
		auto_free char *flag = *s == ':' ? (s++, take_part(&s, ",")) : xstrdup("rw");
		auto_free char *from = xreplace(source, "\"", "\"\"");
		auto_free char *to = xreplace(target, "\"", "\"\"");

		if (!*source != !*target)
			argp_error(state, "--bind '%s': expected SRC[:DST[:ro]]", arg);
		if (strcmp(flag, "ro") != 0 && strcmp(flag, "rw") != 0)
			argp_error(state, "--bind '%s': '%s' is not supported; use ro or rw", arg,
				flag);
		if (*source)
			strv_addf(&a->words, "--mount=type=bind,\"src=%s\",\"dst=%s\",%s", from, to,
				flag);
		if (!*s)
			return;
	}
}

/* K=V, several by comma; a part without "=" belongs to the value before it. */
static void take_env(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	size_t first = a->env.n;

	for (char *part; (part = strsep(&arg, ","));) {
		char **last = a->env.n > first ? &a->env.v[a->env.n - 1] : NULL;
		auto_free char *was = last && !strchr(part, '=') ? *last : NULL;

		if (was)
			*last = xasprintf("%s,%s", was, part);
		else if (*part == '=' || !strchr(part, '='))
			argp_error(state, "--env takes NAME=VALUE, not '%s'", part);
		else
			strv_add(&a->env, part);
	}
}

static void take_security(void *args, char *arg, struct argp_state *state)
{
	if (strncmp(arg, "seccomp:", 8) != 0)
		argp_error(state, "--security takes seccomp:FILE, not '%s'", arg);
	strv_addf(&((struct args *)args)->words, "--seccomp=%s", arg + 8);
}

/* The image, which ends the options; an instance's name; and the command's words. */
static void take_operands(void *args, char *word, struct argp_state *state)
{
	struct args *a = args;

	a->image = word;
	if (a->is_instance && state->next < state->argc)
		a->name = state->argv[state->next++];
	a->command = state->argv + state->next;
	state->next = state->argc;
}

#define ARGS(field) OPT(struct args, field)
#define LIST(field) OPT_PARSE(struct args, field, apptainer_list)
#define WORD(text)  OPT_ADD(struct args, words, text)
#define ACCEPTED(name_, c)                             \
	{                                              \
		name_, c, NULL, OPTION_HIDDEN, NULL, 3 \
	}

/* Each has a variable, APPTAINER_NAME. */
static const struct option_row options[] = {
	{ "bind", 'B', "SRC[:DST[:ro]][,...]", 0, "mount directories and files", 1,
		OPT_CALL(take_binds) },
	{ "mount", 0, "SPEC", 0, "type=bind,src=SRC,dst=DST[,ro]", 1,
		OPT_ADD(struct args, mounts, "--mount=") },
	{ "nv", 0, NULL, 0, "add the job's GPUs", 1, ARGS(gpu) },
	{ "rocm", 0, NULL, 0, "add the job's GPUs", 1, ARGS(gpu) },
	{ "env", 0, "K=V[,K=V]", 0, "set variables", 1, OPT_CALL(take_env) },
	{ "env-file", 0, "FILE", 0, "set variables, K=V a line", 1, ARGS(env_files) },
	{ "no-home", 0, NULL, 0, "do not mount the home directory", 1, ARGS(no_home) },
	{ "home", 'H', "SRC[:DST]", 0, "another home directory", 1, ARGS(home) },
	{ "pwd", 0, "DIR", 0, "start in DIR", 1, WORD("--workdir=") },
	{ "cwd", 0, NULL, OPTION_ALIAS, NULL, 1, WORD("--workdir=") },
	{ "target-pwd", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 1, WORD("--workdir=") },
	{ "cleanenv", 'e', NULL, 0, "pass on only variables of batch systems, MPI and proxies", 1,
		ARGS(clean) },
	{ "writable-tmpfs", 0, NULL, 0, "let the root be written to; it forgets", 1,
		ARGS(writable_tmpfs) },
	{ "writable", 'w', NULL, 0, "write to the image, a directory", 1, ARGS(writable) },
	{ "overlay", 'o', "DIR[:ro][,...]", 0, "keep what is written in DIR, or see it", 1,
		LIST(overlays) },
	{ "overlayimage", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 1, LIST(overlays) },
	{ "contain", 'c', NULL, 0, "an empty home and /tmp, few devices", 1,
		OPT_VALUE(struct args, contain, 1) },
	{ "containall", 'C', NULL, 0, "--contain, with own PIDs, IPC and environment", 1,
		OPT_VALUE(struct args, contain, 2) },
	{ "compat", 0, NULL, 0, "--containall --writable-tmpfs", 1,
		OPT_VALUE(struct args, contain, 3) },
	{ "workdir", 'W', "DIR", 0, "keep /tmp and /var/tmp of --contain, and --scratch, in DIR", 1,
		ARGS(workdir) },
	{ "scratch", 'S', "DIR[,...]", 0, "an empty directory", 1, LIST(scratch) },
	{ "scratchdir", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 1, LIST(scratch) },
	{ "fakeroot", 'f', NULL, 0, "appear as root inside", 2, WORD("--fakeroot") },
	{ "pid", 'p', NULL, 0, "own process ids", 2, WORD("--init") },
	{ "unshare-pid", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 2, WORD("--init") },
	{ "ipc", 'i', NULL, 0, "own shared memory and queues", 2, WORD("--ipc=private") },
	{ "net", 'n', NULL, 0, "no network", 2, WORD("--net=none") },
	{ "network", 0, "none", 0, "no network", 2, WORD("--net=") },
	{ "hostname", 0, "NAME", 0, "a host name of its own", 2, WORD("--hostname=") },
	{ "cpus", 0, "N", 0, "at most N processors' time", 2, WORD("--cpus=") },
	{ "memory", 0, "SIZE", 0, "at most SIZE of memory", 2, WORD("--memory=") },
	{ "security", 0, "seccomp:FILE", 0, "forbid system calls", 2, OPT_CALL(take_security) },
	{ "no-mount", 0, "LIST", 0,
		"leave out proc, sys, dev, devpts, home, tmp, cwd, bind-paths or a path", 2,
		LIST(no_mount) },
	{ "shell", 's', "PATH", 0, "with shell: start this one", 2, ARGS(shell) },
	{ "no-eval", 0, NULL, 0, "take $ in values of variables as it is", 2, ARGS(no_eval) },
	{ "explain", 0, NULL, 0, "print what the container would have; run nothing", 2,
		WORD("--explain") },
	{ "drop-caps", 0, "NAMES", OPTION_HIDDEN, NULL, 3 },
	ACCEPTED("uts", 0),
	ACCEPTED("userns", 'u'),
	ACCEPTED("no-init", 0),
	ACCEPTED("no-umask", 0),
	ACCEPTED("no-privs", 0),
	ACCEPTED("nohttps", 0),
	ACCEPTED("disable-cache", 0),
	{ 0 },
};

/* Put the options that variables stand for before those of the command line, which win. What is
 * bound comes behind (check()). */
static void add_variables(int argc, char **argv, struct strv *ret)
{
	const char *takes = NULL;

	strv_add(ret, argv[0]);
	for (const struct option_row *o = options; o->name; o++) {
		auto_free char *name = xreplace(o->name, "-", "_");
		const char *value;

		takes = o->flags & OPTION_ALIAS ? takes : o->arg;

		for (char *c = name; *c; c++)
			*c = (char)toupper((unsigned char)*c);
		value = strcmp(o->name, "env") != 0 && strcmp(o->name, "bind") != 0
			? apptainer_variable(name)
			: NULL;
		if (value && takes)
			strv_addf(ret, "--%s=%s", o->name, value);
		else if (value && config_truth(value) != 0)
			strv_addf(ret, "--%s", o->name);
	}
	for (int i = 1; i < argc; i++)
		strv_add(ret, argv[i]);
}

/* --- variables of the command ------------------------------------------------------- */

/* Set "K=V"; the last one counts. */
static void set_text(struct strv *env, const char *text)
{
	auto_free char *key = xstrndup(text, strcspn(text, "="));

	strv_env_set(env, key, strchr(text, '=') + 1);
}

/* Add "K=V" of APPTAINERENV_K; of SINGULARITYENV_K where the first is not set. */
static void take_prefixed(struct strv *ret)
{
	static const char *const prefixes[] = { "SINGULARITYENV_", "APPTAINERENV_" };

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		for (char **e = environ; *e; e++) {
			const char *text = *e + strlen(prefixes[i]), *other;
			auto_free char *key = NULL;

			if (strncmp(*e, prefixes[i], strlen(prefixes[i])) != 0 ||
				!strchr(text, '='))
				continue;
			set_text(ret, text);
			key = xasprintf("SINGULARITYENV_%.*s", (int)strcspn(text, "="), text);
			other = i == 1 ? getenv(key) : NULL;
			if (other && strcmp(other, strchr(text, '=') + 1) != 0)
				mlr_log(MLR_WARNING, "%s differs from APPTAINERENV_…, which counts",
					key);
		}
}

/* Is this "$NAME" or "${NAME}", and no more? */
static int is_variable(const char *s)
{
	const char *name = s + 1 + (s[1] == '{');
	size_t len =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	return *s == '$' && escape_is_sh_name(name, len) && (s[1] != '{' || name[len] == '}');
}

/* Read a value as a shell would, of parts with and without quotes, but for commands: a stranger may
 * have written the file. What a shell shall not expand gets a backslash. *s then points behind it.
 */
static char *take_value(const char **s)
{
	auto_free char *value = xmalloc(2 * strlen(*s) + 1);
	char *out = value, quote = 0;

	for (; **s && (quote || !strchr(" \t\r\n;", **s)); (*s)++) {
		int is_literal = quote == '\'';

		if (quote ? **s == quote : **s == '\'' || **s == '"') {
			quote = quote ? 0 : **s;
			continue;
		}
		if (**s == '\\' && !is_literal && (*s)[1] && strchr("$`\"\\", (*s)[1])) {
			is_literal = 1;
			(*s)++;
		}
		if (**s == '\\' || **s == '`' || (**s == '$' && (is_literal || !is_variable(*s))))
			*out++ = '\\';
		*out++ = **s;
	}
	*out = '\0';
	return strpbrk(value, "$`") ? take_ptr(&value) : xreplace(value, "\\\\", "\\");
}

/* Take the variables of a file that shells read: K=V, several on a line, perhaps after "export". */
static int take_file(const char *name, struct strv *ret, struct mlr_error *err)
{
	auto_free char *text = NULL;

	if (file_read(AT_FDCWD, name, ENV_FILE_MAX, &text, NULL, err) < 0)
		return mlr_wrap(err, "--env-file");
	for (const char *s = text; *s;) {
		size_t key = strcspn(s, "= \t\r\n;#'\"");

		if (s[key] == '=' && escape_is_sh_name(s, key)) {
			const char *at = s + key + 1;
			auto_free char *value = take_value(&at), *variable = xstrndup(s, key);

			strv_env_set(ret, variable, value);
			s = at;
		} else if (*s == '#') {
			s += strcspn(s, "\n");
		} else {
			s += key + (s[key] != '\0' && s[key] != '#') + (s[key] == '#' && key == 0);
		}
	}
	return 0;
}

/* PREPEND_PATH and APPEND_PATH are about PATH, which is the image's if nobody sets it. */
static void join_path(struct strv *env)
{
	const char *before = strv_env_get(strv_argv(env), "PREPEND_PATH"),
		   *after = strv_env_get(strv_argv(env), "APPEND_PATH"),
		   *path = strv_env_get(strv_argv(env), "PATH");
	auto_free char *all = xasprintf("%s%s%s%s%s", before ? before : "", before ? ":" : "",
		path ? path : "$PATH", after ? ":" : "", after ? after : "");

	if (before || after)
		strv_env_set(env, "PATH", all);
}

static void add_env(const struct args *a, const struct strv *env, struct strv *ret)
{
	for (size_t i = 0; i < env->n; i++) {
		const char *text = env->v[i], *value = strchr(text, '=') + 1;
		int is_expanded = !a->no_eval && strpbrk(value, "$`");
		int is_libraries =
			strncmp(text, "LD_LIBRARY_PATH=", 16) == 0 && !path_ends(value, LIBRARIES);

		if (strncmp(text, "HOME=", 5) == 0)
			mlr_log(MLR_WARNING,
				"HOME is not set so; --home DIR chooses the home directory");
		else if (strncmp(text, "PREPEND_PATH=", 13) != 0 &&
			strncmp(text, "APPEND_PATH=", 12) != 0)
			strv_addf(ret, "--%s=%s%s", is_expanded ? "expand-env" : "env", text,
				is_libraries ? ":" LIBRARIES : "");
	}
}

/* Have programs see by whom they were started. */
static void add_own(const struct args *a, const char *command, struct strv *ret)
{
	auto_free char *binds = a->binds.n ? strv_join(&a->binds, a->binds.n, ",") : xstrdup("");
	auto_free char *path = realpath(a->image, NULL);
	const char *image = path ? path : a->image, *name = basename(a->image);
	const char *const pairs[][2] = { { "CONTAINER", image },
		{ "NAME", *name ? name : basename(image) }, { "BIND", binds },
		{ "COMMAND", command }, { "INSTANCE", a->name } };

	for (size_t i = 0; i < ARRAY_LEN(pairs) && pairs[i][1]; i++) {
		strv_addf(ret, "--env=APPTAINER_%s=%s", pairs[i][0], pairs[i][1]);
		strv_addf(ret, "--env=SINGULARITY_%s=%s", pairs[i][0], pairs[i][1]);
	}
}

/* --- the command line of mlrun's ---------------------------------------------------- */

/* Add a directory that is empty at the start: in memory, or below --workdir. */
static int add_empty(const struct args *a, const char *name, const char *target, struct strv *ret,
	struct mlr_error *err)
{
	auto_free char *path = a->workdir ? xasprintf("%s/%s", a->workdir, name) : NULL;

	if (path && file_mkdir_p(AT_FDCWD, path, 0700, err) < 0)
		return -err->code;
	if (path)
		strv_addf(ret, "--volume=%s:%s", path, target);
	else
		strv_addf(ret, "--tmpfs=%s", target);
	return 0;
}

static int add_directories(const struct args *a, struct strv *ret, struct mlr_error *err)
{
	TRY(a->contain ? add_empty(a, "tmp", "/tmp", ret, err) : 0);
	TRY(a->contain ? add_empty(a, "var_tmp", "/var/tmp", ret, err) : 0);
	for (size_t i = 0; i < a->scratch.n; i++) {
		auto_free char *name = xasprintf("scratch/%s", basename(a->scratch.v[i]));

		TRY(add_empty(a, name, a->scratch.v[i], ret, err));
	}
	if (a->home)
		strv_addf(ret, "--home-place=%s", a->home);
	else
		strv_add(ret, a->contain || a->no_home ? "--no-home" : "--home");
	return 0;
}

/* Leave out what Apptainer's users know by a word, or a file of /etc by its path. */
static int add_no_mount(const struct args *a, struct strv *ret, struct mlr_error *err)
{
	static const char *const words[][3] = { { "home", "--no-home" }, { "cwd", "--without=." },
		{ "proc", "--without=/proc" }, { "sys", "--without=/sys" },
		{ "dev", "--without=/dev" }, { "devpts", "--without=/dev/pts" },
		{ "tmp", "--without=/tmp", "--without=/var/tmp" },
		{ "bind-paths", "--without=/etc/hosts", "--without=/etc/localtime" },
		{ "hostfs" } };

	for (size_t i = 0; i < a->no_mount.n; i++) {
		const char *word = a->no_mount.v[i];
		size_t w = 0;

		while (w < ARRAY_LEN(words) && strcmp(word, words[w][0]) != 0)
			w++;
		if (*word == '/')
			strv_addf(ret, "--without=%s", word);
		else if (w == ARRAY_LEN(words)) {
			mlr_fail(err, EINVAL, "--no-mount '%s' is not supported", word);
			return mlr_hint(err,
				"it takes proc, sys, dev, devpts, home, tmp, hostfs, cwd, bind-paths or a path");
		} else
			for (size_t o = 1; o < 3 && words[w][o]; o++)
				strv_add(ret, words[w][o]);
	}
	return 0;
}

static int add_container(const struct args *a, struct strv *ret, struct mlr_error *err)
{
	strv_add(ret, a->contain ? "--dialect=apptainer-contained" : "--dialect=apptainer");
	strv_add(ret, a->gpu ? "--gpu=all" : "--gpu=none");
	for (size_t i = 0; i < a->overlays.n; i++)
		strv_addf(ret, "--kept-in=%s", a->overlays.v[i]);
	if (!a->writable_tmpfs && a->contain != 3)
		strv_add(ret, a->writable ? "--in-place" : "--read-only");
	if (a->contain >= 2) {
		strv_add(ret, "--init");
		strv_add(ret, "--ipc=private");
	}
	TRY(add_directories(a, ret, err));
	return add_no_mount(a, ret, err);
}

/* What runs, by the command's name. A shell is the image's bash, else its sh; what an instance's
 * startscript leaves running lives until the instance is stopped. */
static void add_command(const struct args *a, const char *how, struct strv *ret)
{
	static const char shell[] =
		"for s in /bin/bash /usr/bin/bash; do [ ! -x $s ] || exec $s --norc \"$@\"; done; exec /bin/sh \"$@\"";
	static const char instance[] =
		"trap 'trap \"\" TERM; kill -TERM 0; wait; exit 0' TERM\n"
		"[ ! -x " PLACE "startscript ] || " PLACE "startscript \"$@\" &\n"
		"while :; do sleep 3600 & wait $!; done";
	int is_shell = strcmp(how, "shell") == 0;

	if (is_shell && a->shell)
		strv_add(ret, a->shell);
	else if (is_shell || strcmp(how, "start") == 0) {
		strv_add(ret, "/bin/sh");
		strv_add(ret, "-c");
		strv_add(ret, is_shell ? shell : instance);
		strv_add(ret, "sh");
	}
	for (char *const *s = a->command; s && *s; s++)
		strv_add(ret, *s);
}

static int make_line(struct args *a, const char *how, struct strv *ret, struct mlr_error *err)
{
	static const char scheme[] = "instance://";
	const char *joined =
		strncmp(a->image, scheme, strlen(scheme)) == 0 ? a->image + strlen(scheme) : NULL;
	auto_free char *image = joined ? xstrdup("") : apptainer_image(a->image, err);
	auto_strv struct strv env = STRV_INIT;
	int is_run = strcmp(how, "run") == 0, is_test = strcmp(how, "test") == 0;

	if (!image)
		return -err->code;
	strv_add(ret, a->is_instance ? "run" : "exec");
	if (a->is_instance) {
		strv_add(ret, "--detach");
		strv_add(ret, "--rm");
		strv_add(ret, "--init");
		strv_addf(ret, "--name=%s", a->name);
	}
	take_prefixed(&env);
	for (size_t i = 0; i < a->env_files.n; i++)
		TRY(take_file(a->env_files.v[i], &env, err));
	for (size_t i = 0; i < a->env.n; i++)
		set_text(&env, a->env.v[i]);
	join_path(&env);
	if (joined) {
		strv_add(ret, "--dialect=apptainer");
		strv_addf(ret, "--join=%s", joined);
	} else {
		TRY(add_container(a, ret, err));
		if (is_run || is_test)
			strv_addf(ret, "--script=" PLACE "%s", is_run ? "runscript" : "test");
		if (!is_run)
			strv_add(ret, is_test ? "--entrypoint=" PLACE "test" : "--entrypoint=");
	}
	if (a->clean || a->contain >= 2)
		strv_add(ret, "--clearenv");
	if (strcmp(how, "shell") == 0)
		strv_add(ret, "--env=PS1=Apptainer> ");
	strv_add_all(ret, &a->words);
	strv_add_all(ret, &a->mounts);
	add_env(a, &env, ret);
	add_own(a, how, ret);
	if (!joined)
		strv_add(ret, image);
	strv_add(ret, "--");
	if (joined && (is_run || is_test))
		strv_addf(ret, PLACE "%s", is_run ? "runscript" : "test");
	add_command(a, how, ret);
	return 0;
}

/* Bind what variables say, of which a later one yields; then look whether all is there. */
static void check(void *args, struct argp_state *state)
{
	static const char *const names[] = { "BIND", "BINDPATH" };
	struct args *a = args;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *value = apptainer_variable(names[i]);

		if (value)
			take_binds(a, value, state);
	}
	if (a->is_instance && !a->name)
		argp_error(state, "a name is missing after '%s'", a->image);
	if (path_ends(state->name, " exec") && !*a->command)
		argp_error(state,
			"a command is missing after '%s'; apptainer run starts the image's own",
			a->image);
}

static void args_done(struct args *a)
{
	struct strv *const all[] = { &a->words, &a->mounts, &a->env, &a->env_files, &a->binds,
		&a->scratch, &a->overlays, &a->no_mount };

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		strv_done(all[i]);
}

int apptainer_run(int argc, char **argv)
{
	static const struct cli_syntax syntax = { .s.options = options,
		.s.args_doc = "IMAGE [WORD...]",
		.s.doc =
			"Run a command in an image, as Apptainer does.\v"
			"IMAGE is a SIF file, a directory, docker://NAME, docker-archive:FILE, "
			"oci-archive:FILE, oci:DIR or instance://NAME. mlrun-apptainer(1) has more.",
		.s.in_order = 1,
		.s.has_false = 1,
		.s.check = check,
		.s.operands = { OPT_CALL(take_operands) },
		.s.needed = 1,
		.s.missing = "an image is missing",
		.no_store = 1 };
	auto_call(
		args_done) struct args a = { .is_instance = strstr(argv[0], " instance") != NULL };
	auto_strv struct strv words = STRV_INIT, line = STRV_INIT;
	auto_free char **list = NULL; /* parsing moves its elements */
	const char *how = strpbrk(strrchr(argv[0], ' '), ".") ? "start" : strrchr(argv[0], ' ') + 1;
	struct mlr_error err = MLR_ERROR_INIT;

	add_variables(argc, argv, &words);
	list = xreallocarray(NULL, words.n + 1, sizeof(*list));
	memcpy(list, strv_argv(&words), (words.n + 1) * sizeof(*list));
	cli_options_parse((int)words.n, list, &syntax, &a);
	if (make_line(&a, how, &line, &err) < 0)
		return cli_fail_at(&err, "%s", argv[0]);
	strv_argv(&line);
	options_usage_status = 0; /* what mlrun's command refuses could be read */
	if (a.is_instance)
		dup2(STDERR_FILENO, STDOUT_FILENO); /* the name is no result */
	return (a.is_instance ? cmd_run : cmd_exec)((int)line.n, line.v);
}
