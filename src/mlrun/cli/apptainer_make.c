/* apptainer pull, build, inspect and run-help, for mlrun-pull. */
#include "cli/apptainer.h"

#include "cli/commands.h"
#include "cli/listing.h"

#include "base/json.h"
#include "oci/name.h"
#include "oci/ref.h"
#include "rootfs/lookup.h"
#include "rootfs/rootfs.h"

#include <fnmatch.h>

#define TEXT_MAX (1u << 20) /* bytes of a file of Apptainer's in an image */

/* --- pull, build ---------------------------------------------------------------------- */

struct making {
	struct strv words, binds; /* options of mlrun's build; volumes */
	const char *first, *second, *name, *dir, *arch;
	int force, sandbox, no_https;
};

#define MAKING(field) OPT(struct making, field)
#define ACCEPTED(name_, c)                             \
	{                                              \
		name_, c, NULL, OPTION_HIDDEN, NULL, 2 \
	}

static const struct option_row shared_options[] = {
	{ "force", 'F', NULL, 0, "replace a file that exists", 1, MAKING(force) },
	{ "arch", 0, "ARCH", 0, "amd64, arm64, ...", 1, MAKING(arch) },
	{ "nohttps", 0, NULL, 0, "use plain HTTP", 1, MAKING(no_https) },
	{ "no-https", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 1, MAKING(no_https) },
	ACCEPTED("no-cleanup", 0),
	{ "tmpdir", 0, "DIR", OPTION_HIDDEN, NULL, 2 },
	{ 0 },
};

static const struct option_row pull_options[] = {
	{ "name", 0, "FILE", OPTION_HIDDEN, NULL, 1, MAKING(name) },
	{ "dir", 0, "DIR", 0, "the file's directory", 1, MAKING(dir) },
	ACCEPTED("disable-cache", 0),
	ACCEPTED("allow-unsigned", 'U'),
	{ 0 },
};

static const struct option_row build_options[] = {
	{ "sandbox", 's', NULL, 0, "make a directory", 1, MAKING(sandbox) },
	{ "build-arg", 0, "K=V", 0, "a value for {{ K }}", 1,
		OPT_ADD(struct making, words, "--build-arg=") },
	{ "build-arg-file", 0, "FILE", 0, "values, K=V a line", 1,
		OPT_ADD(struct making, words, "--build-arg-file=") },
	{ "notest", 'T', NULL, 0, "leave out %test", 1, OPT_ADD(struct making, words, "--notest") },
	{ "disable-cache", 0, NULL, 0, "run %post again", 1,
		OPT_ADD(struct making, words, "--no-cache") },
	{ "bind", 'B', "SRC[:DST[:ro]][,...]", 0, "mount directories in %post", 1,
		OPT_PARSE(struct making, binds, apptainer_list) },
	ACCEPTED("fakeroot", 'f'),
	ACCEPTED("fix-perms", 0),
	ACCEPTED("userns", 0),
	ACCEPTED("ignore-fakeroot-command", 0),
	ACCEPTED("ignore-subuid", 0),
	ACCEPTED("ignore-userns", 0),
	{ 0 },
};

/* Fail if something is there already that --force does not allow to replace. */
static int check_target(const struct making *m, const char *path, struct mlr_error *err)
{
	struct stat st;

	if (lstat(path, &st) < 0 || (m->force && !S_ISDIR(st.st_mode)))
		return 0;
	mlr_fail(err, EEXIST, "'%s' exists", path);
	return mlr_hint(err, S_ISDIR(st.st_mode) ? "rm -r %s" : "-F replaces %s", path);
}

static void begin_line(const struct making *m, const char *command, struct strv *ret)
{
	strv_add(ret, command);
	if (m->arch)
		strv_addf(ret, "--platform=linux/%s", m->arch);
	if (m->no_https || apptainer_variable("NOHTTPS"))
		strv_add(ret, "--tls-verify=false");
}

/* Run another command of this program. */
static int run_command(cli_command run, struct strv *line)
{
	strv_argv(line);
	options_usage_status = 0; /* the user's own could be read */
	return run((int)line->n, line->v);
}

/* Log in to the image's registry by Apptainer's variables: in a file in memory, for this alone. */
static int log_in(const char *image, struct mlr_error *err)
{
	const char *user = apptainer_variable("DOCKER_USERNAME"),
		   *password = apptainer_variable("DOCKER_PASSWORD");
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	auto_free char *text = NULL, *path = NULL;
	json_auto_t *all = NULL;
	int fd;

	if (!user || !password || oci_ref_parse(image, &ref, NULL) < 0)
		return 0;
	all = json_pack("{s:{s:{s:s, s:s}}}", "auths", ref.registry, "username", user, "password",
		password);
	text = all ? json_dumps(all, 0) : NULL;
	if (!text) {
		mlr_fail(err, EILSEQ, "APPTAINER_DOCKER_USERNAME and _PASSWORD: one is no UTF-8");
		return mlr_hint(err, "mlrun login %s asks for them", ref.registry);
	}
	fd = file_of_text(text);
	explicit_bzero(text, strlen(text));
	if (fd < 0)
		return mlr_result(err, fd, "keep DOCKER_PASSWORD in memory");
	path = xasprintf("/proc/self/fd/%d", fd);
	setenv("REGISTRY_AUTH_FILE", path, 1);
	return 0;
}

/* Fetch an image, and write it into a file or directory. */
static int fetch_and_write(
	const struct making *m, const char *source, const char *target, struct mlr_error *err)
{
	auto_free char *image = apptainer_image(source, err);
	auto_strv struct strv pull = STRV_INIT, write = STRV_INIT;
	int status;

	if (!image || log_in(image, err) < 0)
		return cli_fail_at(err, "'%s'", source);
	begin_line(m, "pull", &pull);
	strv_add(&pull, "--");
	strv_add(&pull, image);
	status = run_command(cmd_pull, &pull);
	if (status != 0)
		return status;
	strv_add(&write, "export");
	strv_add(&write, "--quiet");
	strv_add(&write, m->sandbox ? "--format=rootfs" : "--format=sif");
	strv_add(&write, "--");
	strv_add(&write, image);
	strv_add(&write, target);
	return run_command(cmd_export, &write);
}

/* "ubuntu_22.04.sif" of "docker://library/ubuntu:22.04". */
static char *file_of(const char *source)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	const char *name = strstr(source, "://"), *slash;

	if (oci_ref_parse(name ? name + 3 : source, &ref, NULL) < 0)
		return xstrdup("image.sif");
	slash = strrchr(ref.repository, '/');
	return xasprintf(
		"%s_%s.sif", slash ? slash + 1 : ref.repository, ref.tag ? ref.tag : "latest");
}

static int cmd_pull_file(int argc, char **argv)
{
	static const struct cli_syntax syntax = { .s.options = pull_options,
		.s.shared = { { shared_options, 0 } },
		.s.args_doc = "[FILE] docker://NAME",
		.s.doc = "Fetch an image, and write it into a SIF file.",
		.s.operands = { MAKING(first), MAKING(second) },
		.s.needed = 1,
		.s.missing = "an image is missing",
		.no_store = 1 };
	struct making m = { .force = 0 };
	auto_free char *file = NULL, *path = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	const char *source;

	cli_options_parse(argc, argv, &syntax, &m);
	source = m.second ? m.second : m.first;
	file = m.second ? xstrdup(m.first) : m.name ? xstrdup(m.name) : file_of(source);
	path = m.dir ? xasprintf("%s/%s", m.dir, file) : xstrdup(file);
	if (check_target(&m, path, &err) < 0)
		return cli_fail_at(&err, "%s", argv[0]);
	return fetch_and_write(&m, source, path, &err);
}

/* Unpack an image's file, as Apptainer does: beside the target, which appears when it is whole. */
static int unpack(
	const struct making *m, const char *target, const char *source, struct mlr_error *err)
{
	auto_free char *beside = file_temp_name(target);
	int r;

	if (!m->sandbox) {
		mlr_fail(err, EINVAL, "'%s' is an image file already", source);
		mlr_hint(err, "cp %s %s; --sandbox makes a directory of it", source, target);
		return cli_fail_at(err, "build '%s'", target);
	}
	cli_stop_catch();
	r = rootfs_unpack(source, beside, &cli_stop_signal, err);
	if (r == 0 && rename(beside, target) < 0)
		r = mlr_fail_errno(err, "rename '%s'", beside);
	if (r < 0)
		file_remove_tree(AT_FDCWD, beside, NULL);
	return cli_stop_signal ? 128 + cli_stop_signal
		: r < 0        ? cli_fail_at(err, "build '%s'", target)
			       : 0;
}

/* A definition file that begins with a directory or an archive, to free(); NULL: source is one. */
static char *definition_of(const char *source, int is_directory)
{
	static const char *const places[] = { "docker-archive:", "oci-archive:", "oci:" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		size_t n = strlen(places[i]);

		if (strncmp(source, places[i], n) == 0)
			return xasprintf("Bootstrap: %.*s\nFrom: %s\n", (int)n - 1, places[i],
				source + n + (strncmp(source + n, "//", 2) == 0 ? 2 : 0));
	}
	return is_directory ? xasprintf("Bootstrap: localimage\nFrom: %s\n", source) : NULL;
}

static int build(
	const struct making *m, const char *target, const char *source, struct mlr_error *err)
{
	auto_strv struct strv line = STRV_INIT;
	struct stat st = { 0 };
	int is_there = stat(source, &st) == 0, input;
	auto_free char *text = definition_of(source, S_ISDIR(st.st_mode));

	if (!text && is_there && oci_name_ends_as_root(source))
		return unpack(m, target, source, err);
	if (!text && !is_there)
		return mlr_fail_errno(err, "definition file '%s'", source), cli_fail(err);
	begin_line(m, "build", &line);
	strv_add_all(&line, &m->words);
	for (size_t i = 0; i < m->binds.n; i++)
		strv_addf(&line, "--volume=%s", m->binds.v[i]);
	strv_addf(&line, "--file=%s", text ? "-" : source);
	strv_addf(&line, "--output=type=%s,dest=%s", m->sandbox ? "local" : "sif", target);
	strv_add(&line, ".");
	input = text ? file_of_text(text) : STDIN_FILENO;
	if (input < 0 || dup2(input, STDIN_FILENO) < 0)
		return mlr_fail_errno(err, "standard input"), cli_fail(err);
	return run_command(cmd_build, &line);
}

static int cmd_build_file(int argc, char **argv)
{
	static const struct cli_syntax syntax = { .s.options = build_options,
		.s.shared = { { shared_options, 0 } },
		.s.args_doc = "TARGET SOURCE",
		.s.doc = "Make a SIF file or a directory by a definition file, or of an image.",
		.s.operands = { MAKING(first), MAKING(second) },
		.s.needed = 2,
		.s.missing = "expected TARGET and SOURCE",
		.no_store = 1 };
	struct making m = { .force = 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	int status;

	cli_options_parse(argc, argv, &syntax, &m);
	if (check_target(&m, m.first, &err) < 0)
		status = cli_fail_at(&err, "%s", argv[0]);
	else if (strstr(m.second, "://") && !strstr(m.second, "-archive:"))
		status = fetch_and_write(&m, m.second, m.first, &err);
	else
		status = build(&m, m.first, m.second, &err);
	strv_done(&m.words);
	strv_done(&m.binds);
	return status;
}

/* --- inspect -------------------------------------------------------------------------- */

struct inspecting {
	struct strv parts; /* "KEY=PATH" */
	int json;
	const char *image;
};

#define PART(name, letter, doc, path)                                                    \
	{                                                                                \
		name, letter, NULL, 0, doc, 0,                                           \
			OPT_ADD(struct inspecting, parts, name "=/.singularity.d/" path) \
	}
#define HELP "helpfile=/.singularity.d/runscript.help"

static const struct option_row inspect_options[] = {
	PART("labels", 'l', "labels (default)", "labels.json"),
	PART("deffile", 'd', "the definition file", "Singularity"),
	PART("runscript", 'r', "what run starts", "runscript"),
	PART("environment", 'e', "what sets its variables", "env"),
	PART("test", 't', "what test starts", "test"),
	PART("helpfile", 'H', "its help", "runscript.help"),
	PART("startscript", 's', "what an instance starts", "startscript"),
	{ "all", 0, NULL, 0, "all of them, as JSON", 0, OPT_VALUE(struct inspecting, json, 2) },
	{ "json", 'j', NULL, 0, "print JSON", 0, OPT(struct inspecting, json) },
	{ 0 },
};

/* Print a text as it is, but to a terminal, which obeys nothing that a stranger wrote. */
static void print_text(const char *text)
{
	if (!isatty(STDOUT_FILENO)) {
		fputs(text, stdout);
		return;
	}
	while (*text) {
		size_t len = strcspn(text, "\n");
		auto_free char *line = xstrndup(text, len);

		cli_print_line(line);
		text += len + (text[len] == '\n');
	}
}

static void print_labels(json_t *labels)
{
	const char *key;
	json_t *value;

	json_object_foreach(labels, key, value) {
		const char *of = json_string_value(value);
		auto_free char *line = xasprintf("%s: %s", key, of ? of : "");

		cli_print_line(line);
	}
}

/* The scripts that set variables: that of Docker's image, and the definition file's. */
static json_t *inspect_environment(
	const struct inspecting *a, const struct plan *p, const char *dir)
{
	auto_strv struct strv names = STRV_INIT;
	json_t *ret = json_object();

	rootfs_list(p, dir, &names);
	strv_sort(&names);
	for (size_t i = 0; i < names.n; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names.v[i]), *text = NULL;

		if ((fnmatch("10-docker*.sh", names.v[i], 0) != 0 &&
			    strcmp(names.v[i], "90-environment.sh") != 0) ||
			rootfs_read(p, path, TEXT_MAX, &text, NULL) < 0)
			continue;
		for (size_t len = strlen(text); len > 0 && text[len - 1] == '\n';)
			text[--len] = '\0';
		if (!a->json) {
			printf("=== %s ===\n", path);
			print_text(text);
			puts("\n");
		}
		json_object_set_new(ret, path, mlr_json_text(text));
	}
	return ret;
}

static int inspect(const struct inspecting *a, const struct plan *p, struct mlr_error *err)
{
	json_auto_t *found = json_object();
	int r;

	for (size_t i = 0; i < a->parts.n; i++) {
		const char *path = strchr(a->parts.v[i], '=') + 1;
		auto_free char *text = NULL,
			       *key = xstrndup(a->parts.v[i], (size_t)(path - a->parts.v[i]) - 1);
		json_auto_t *labels = NULL;

		if (strcmp(key, "environment") == 0) {
			json_object_set_new(found, key, inspect_environment(a, p, path));
			continue;
		}
		r = rootfs_read(p, path, TEXT_MAX, &text, err);
		if (r == -EPROTO)
			return cli_fail_at(err, "inspect '%s'", a->image);
		if (r < 0)
			continue;
		labels = strcmp(key, "labels") == 0 ? mlr_json_load(text, strlen(text), 0, NULL)
						    : NULL;
		if (!a->json && labels)
			print_labels(labels);
		else if (!a->json)
			print_text(text);
		json_object_set_new(found, key, labels ? json_incref(labels) : mlr_json_text(text));
	}
	rootfs_look_done();
	return a->json ? cli_print_json(json_pack("{s:{s:O}, s:s}", "data", "attributes", found,
				 "type", "container"))
		       : 0;
}

static int cmd_inspect_parts(int argc, char **argv)
{
	static const struct cli_syntax syntax = { .s.options = inspect_options,
		.s.args_doc = "IMAGE",
		.s.doc = "Print what an image says of itself.",
		.s.operands = { OPT(struct inspecting, image) },
		.s.needed = 1,
		.s.missing = "an image is missing",
		.no_store = 1 };
	auto_call(store_facts_done) struct store_facts facts = { 0 };
	auto_call(plan_done) struct plan p;
	struct mlr_error err = MLR_ERROR_INIT;
	struct inspecting a = { .parts = STRV_INIT };
	auto_free char *image = NULL;
	int status;

	plan_init(&p);
	cli_options_parse(argc, argv, &syntax, &a);
	for (size_t i = 0; inspect_options[i].to.word && a.json == 2; i++)
		strv_add(&a.parts, inspect_options[i].to.word);
	if (a.parts.n == 0)
		strv_add(&a.parts, strstr(argv[0], "help") ? HELP : inspect_options[0].to.word);
	image = apptainer_image(a.image, &err);
	status = !image || rootfs_plan(NULL, NULL, image, 0, &p, &facts, &err) < 0
		? cli_fail_at(&err, "inspect '%s'", a.image)
		: inspect(&a, &p, &err);
	strv_done(&a.parts);
	return status;
}

/* --- the list ------------------------------------------------------------------------- */

int apptainer_make(int argc, char **argv)
{
	static const struct command rows[] = {
		{ "pull", cmd_pull_file },
		{ "build", cmd_build_file },
		{ "inspect", cmd_inspect_parts },
		{ "run-help", cmd_inspect_parts },
	};
	static const struct commands commands = {
		.group = "apptainer", .rows = rows, .n = ARRAY_LEN(rows)
	};

	apptainer_begin();
	return apptainer_status(commands_run(&commands, argc, argv));
}
