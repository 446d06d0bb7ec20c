/* mlrun build: makes an image by a Dockerfile or a definition file. */
#include "cli/build_cache.h"
#include "cli/build_output.h"
#include "cli/cli.h"
#include "cli/progress.h"

#include "base/config_value.h"
#include "base/json.h"
#include "base/machine.h"
#include "build/build.h"
#include "build/context.h"
#include "oci/name.h"
#include "oci/platform.h"
#include "pull/pull.h"
#include "recipe/lint.h"
#include "runtime/probe.h"
#include "store/facts.h"
#include "store/stores.h"

#define JOBS_MAX 1024

struct args {
	struct cli_common common;
	const char *context, *file, *target, *iidfile, *platform, *network, *metadata;
	struct strv build_args, names, labels, secrets, contexts, cache_from, cache_to, ssh,
		volumes, allowed;
	int check, json, no_cache, pull, shell, squash, jobs, no_test, context_only;
	struct build_output *outputs;
	size_t n_outputs;
	struct cli_registry registry;
};

/* The value goes from the command line, which a RUN and ps(1) could read. */
static void parse_build_arg(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	char *given = strchr(arg, '=');
	const char *value = given ? NULL : getenv(arg);

	if (!*arg || *arg == '=')
		argp_error(state, "--build-arg '%s': use NAME=VALUE or NAME", arg);
	if (given) {
		strv_add(&a->build_args, arg);
		explicit_bzero(given + 1, strlen(given + 1));
	} else if (value) {
		strv_addf(&a->build_args, "%s=%s", arg, value);
	}
}

/* A line each; "#" begins a comment. */
static void parse_build_arg_file(void *args, char *arg, struct argp_state *state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *text = NULL;
	char *rest, *line;
	size_t len;

	if (file_read(AT_FDCWD, arg, RECIPE_MAX, &text, &len, &err) < 0)
		argp_error(state, "--build-arg-file: %s", err.text);
	for (rest = text; (line = strsep(&rest, "\r\n"));)
		if (*line && *line != '#')
			parse_build_arg(args, line, state);
}

static void parse_label(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	if (!*arg || *arg == '=')
		argp_error(state, "--label '%s': use NAME=VALUE", arg);
	strv_add(&a->labels, arg);
}

static void parse_secret(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	if (!strstr(arg, "id="))
		argp_error(
			state, "--secret '%s': use id=NAME,src=FILE or id=NAME,env=VARIABLE", arg);
	strv_add(&a->secrets, arg);
}

static void parse_context(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	if (!strchr(arg, '=') || *arg == '=')
		argp_error(state,
			"--build-context '%s': use NAME=DIRECTORY or NAME=docker-image://IMAGE",
			arg);
	strv_add(&a->contexts, arg);
}

/* "ID[=SOCKET]" */
static void parse_ssh(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	const char *equals = strchr(arg, '=');
	const char *path = equals ? equals + 1 : getenv("SSH_AUTH_SOCK");
	auto_free char *real = path ? realpath(path, NULL) : NULL;
	struct stat st;

	if (!path || !*path)
		argp_error(state, "--ssh '%s': SSH_AUTH_SOCK is not set: start ssh-agent(1)", arg);
	if (!real || stat(real, &st) < 0 || !S_ISSOCK(st.st_mode))
		argp_error(state,
			"--ssh '%s': '%s' is no agent's socket; keys are passed on by ssh-agent(1) alone",
			arg, path);
	strv_addf(&a->ssh, "%.*s=%s", (int)strcspn(arg, "="), arg, real);
}

/* Docker's words; "security.insecure" has no counterpart. */
static void parse_allow(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	if (strcmp(arg, "device") != 0 && strncmp(arg, "device=", 7) != 0 &&
		strcmp(arg, "network.host") != 0)
		argp_error(
			state, "--allow takes device, device=NAME or network.host, not '%s'", arg);
	strv_add(&a->allowed, arg);
}

static void parse_network(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	if (strcmp(arg, "host") != 0 && strcmp(arg, "none") != 0 && strcmp(arg, "default") != 0)
		argp_error(state, "--network takes host or none, not '%s'", arg);
	a->network = strcmp(arg, "none") == 0 ? "none" : NULL;
}

static void parse_progress(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;

	if (strcmp(arg, "quiet") == 0)
		cli_options_be_quiet(a, arg, state);
	else if (strcmp(arg, "plain") != 0 && strcmp(arg, "auto") != 0 && strcmp(arg, "tty") != 0)
		argp_error(state, "--progress takes plain, tty, auto or quiet, not '%s'", arg);
}

static void parse_output(void *args, char *arg, struct argp_state *state)
{
	struct args *a = args;
	struct build_output o = { .export = { .compression = OCI_GZIP } };
	struct mlr_error err = MLR_ERROR_INIT;

	if (build_output_parse(arg, &o, &err) < 0)
		argp_error(state, "--output %s", err.text);
	*xadd(a->outputs, a->n_outputs) = o;
}

static void add_cache(struct strv *to, const char *option, char *arg, struct argp_state *state)
{
	auto_call(oci_ref_done) struct oci_ref ref = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	if (build_cache_parse(arg, &ref, &err) < 0)
		argp_error(state, "%s %s", option, err.text);
	strv_add(to, arg);
}

static void parse_cache_from(void *args, char *arg, struct argp_state *state)
{
	add_cache(&((struct args *)args)->cache_from, "--cache-from", arg, state);
}

static void parse_cache_to(void *args, char *arg, struct argp_state *state)
{
	add_cache(&((struct args *)args)->cache_to, "--cache-to", arg, state);
}

static void parse_pull(void *args, char *arg, struct argp_state *state)
{
	static const char *const yes[] = { "always", "true", "newer", "ifnewer" };
	static const char *const no[] = { "missing", "false", "ifmissing" };
	struct args *a = args;

	a->pull = !arg;
	for (size_t i = 0; arg && i < ARRAY_LEN(yes); i++)
		a->pull |= strcmp(arg, yes[i]) == 0;
	for (size_t i = 0; arg && !a->pull && i < ARRAY_LEN(no); i++)
		if (strcmp(arg, no[i]) == 0)
			return;
	if (!a->pull)
		argp_error(state, "--pull takes always or missing, not '%s'", arg);
}

/* --provenance=false and --sbom=false, as in many scripts, ask for what is so. */
static void parse_attestation(void *args, char *arg, struct argp_state *state)
{
	if (config_truth(arg) != 0)
		argp_error(state, "mlrun makes no attestations: leave '%s' out", arg);
}

static void check_args(void *args, struct argp_state *state)
{
	struct args *a = args;

	if (a->json && !a->check)
		argp_error(state, "--json needs --check");
}

static const struct option_row options[] = {
	{ "file", 'f', "FILE", 0, "the recipe; -: standard input (CONTEXT/Dockerfile)", 1,
		OPT(struct args, file) },
	{ "tag", 't', "NAME", 0, "the image's name in the store; may be repeated", 1,
		OPT(struct args, names) },
	{ "target", 0, "STAGE", 0, "build this stage instead of the last one", 1,
		OPT(struct args, target) },
	{ "build-arg", 0, "NAME[=VALUE]", 0,
		"set a variable that the recipe declares with ARG; without =VALUE it takes the caller's value",
		1, OPT_CALL(parse_build_arg) },
	{ "build-arg-file", 0, "FILE", 0, "the same for each line of FILE", 1,
		OPT_CALL(parse_build_arg_file) },
	{ "build-context", 0, "NAME=DIR", 0,
		"a directory, a tar, a repository or docker-image://IMAGE, for FROM and --from", 1,
		OPT_CALL(parse_context) },
	{ "context-only", 0, 0, 0, "a definition file reads no file outside the context", 1,
		OPT(struct args, context_only) },
	{ "label", 0, "NAME=VALUE", 0, "add a label to the image", 1, OPT_CALL(parse_label) },
	{ "secret", 0, "id=NAME,src=FILE", 0,
		"a secret for RUN --mount=type=secret; or env=VARIABLE", 1,
		OPT_CALL(parse_secret) },
	{ "ssh", 0, "default|ID[=SOCKET]", 0, "pass on an SSH agent to RUN --mount=type=ssh", 1,
		OPT_CALL(parse_ssh) },
	{ "volume", 'v', "SRC[:DST[:FLAGS]]", 0, "mount a directory of the host in every RUN", 1,
		OPT(struct args, volumes) },
	{ "network", 0, "host|none", 0, "the network of RUN (host)", 1, OPT_CALL(parse_network) },
	{ "allow", 0, "device[=NAME]|network.host", 0,
		"let the recipe and its base images use CDI devices, or the network despite --network=none",
		1, OPT_CALL(parse_allow) },
	{ "platform", 0, "OS/ARCH[/VARIANT]", 0, "the image's platform; default: this machine's", 1,
		OPT(struct args, platform) },
	{ "pull", 0, "WHEN", OPTION_ARG_OPTIONAL,
		"look for newer images in the registries: always (the default with --pull) or missing",
		1, OPT_CALL(parse_pull) },
	{ "cache-from", 0, "IMAGE", 0, "take steps that --cache-to pushed there", 1,
		OPT_CALL(parse_cache_from) },
	{ "cache-to", 0, "IMAGE", 0, "push the steps to a registry, for --cache-from elsewhere", 1,
		OPT_CALL(parse_cache_to) },
	{ "no-cache", 0, 0, 0, "run every step again", 1, OPT(struct args, no_cache) },
	{ "output", 'o', "DIR|type=TYPE,dest=FILE", 0,
		"also write the image: its files to a directory, a tar, oci or docker archive, or a sif file",
		1, OPT_CALL(parse_output) },
	{ "squash", 0, 0, 0, "make one layer of those that the recipe adds", 1,
		OPT(struct args, squash) },
	{ "iidfile", 0, "FILE", 0, "write the digest of the image's manifest to FILE", 1,
		OPT(struct args, iidfile) },
	{ "metadata-file", 0, "FILE", 0, "write what was built to FILE, as JSON", 1,
		OPT(struct args, metadata) },
	{ "jobs", 0, "N", 0, "commands of different stages at once; default: one a processor", 1,
		OPT_COUNT(struct args, jobs, 1, JOBS_MAX) },
	{ "notest", 'T', 0, 0, "leave out %test of a definition file", 1,
		OPT(struct args, no_test) },
	{ "shell-on-failure", 0, 0, 0, "open a shell where a RUN failed", 1,
		OPT(struct args, shell) },
	{ "progress", 0, "plain|quiet", 0, "how much is printed (plain)", 2,
		OPT_CALL(parse_progress) },
	/* Docker users type these; there is nothing to remove or to compress. */
	{ "rm", 0, 0, OPTION_HIDDEN, NULL, 2 },
	{ "force-rm", 0, 0, OPTION_HIDDEN, NULL, 2 },
	{ "compress", 0, 0, OPTION_HIDDEN, NULL, 2 },
	{ "load", 0, 0, OPTION_HIDDEN, NULL, 2 },
	{ "provenance", 0, "BOOL", OPTION_HIDDEN, NULL, 2, OPT_CALL(parse_attestation) },
	{ "sbom", 0, "BOOL", OPTION_HIDDEN, NULL, 2, OPT_CALL(parse_attestation) },
	{ "check", 0, 0, 0, "only check the recipe; build nothing", 2, OPT(struct args, check) },
	CLI_OPTION_QUIET(2),
	{ "json", 0, 0, 0, "with --check: print the instructions; the man page lists the keys", 2,
		OPT(struct args, json) },
	{ 0 },
};
static const struct cli_syntax syntax = {
	.s.options = options,
	.s.args_doc = "CONTEXT",
	.s.doc = "Make an image by a Dockerfile or a definition file of Apptainer's.",
	.registry = offsetof(struct args, registry),
	.s.operands = { OPT(struct args, context) },
	.s.needed = 1,
	.s.missing = "a directory with a Dockerfile is expected; '.' is this one",
	.s.surplus = "one context is expected",
	.s.check = check_args,
};

/* --- --check ---------------------------------------------------------------- */

static json_t *heredoc_json(const struct heredoc *h)
{
	return json_pack("{s:o, s:o, s:b}", "name", mlr_json_text(h->name), "content",
		mlr_json_text(h->content), "expand", h->expand);
}

/* Print an object for each instruction, on a line each. */
static int print_instructions(const struct recipe *r)
{
	int status = 0;

	for (size_t i = 0; i < r->n && status == 0; i++) {
		const struct instruction *in = &r->v[i];

		status = cli_print_json(json_pack("{s:s, s:i, s:o, s:o, s:b, s:o}", "instruction",
			instruction_name(in->word), "line", (int)in->line, "flags",
			mlr_json_texts(&in->flags), "args", mlr_json_texts(&in->args), "json",
			in->is_json, "heredocs",
			MLR_JSON_LIST(k, in->n_heredocs, heredoc_json(&in->heredocs[k]))));
	}
	return status;
}

/* The variables that are set before the first FROM. */
static void add_platform(struct strv *to, const char *prefix, const struct oci_platform *p)
{
	char name[OCI_PLATFORM_SIZE];

	oci_platform_print(p, name);
	strv_addf(to, "%sPLATFORM=%s", prefix, name);
	strv_addf(to, "%sOS=%s", prefix, p->os);
	strv_addf(to, "%sARCH=%s", prefix, p->arch);
	strv_addf(to, "%sVARIANT=%s", prefix, p->variant);
}

static int platform_variables(const struct args *a, struct strv *ret, struct mlr_error *err)
{
	struct oci_platform host, target;
	int r;

	oci_platform_host(&host);
	target = host;
	r = a->platform ? oci_platform_parse(a->platform, &target, err) : 0;
	add_platform(ret, "BUILD", &host);
	add_platform(ret, "TARGET", &target);
	strv_addf(ret, "TARGETSTAGE=%s", a->target ? a->target : "default");
	return r;
}

static int check(const struct args *a, const struct recipe *r, struct mlr_error *err)
{
	auto_call(stages_done) struct stages stages = { 0 };
	auto_call(lint_done) struct lint lint = { 0 };
	auto_strv struct strv platform = STRV_INIT;

	if (platform_variables(a, &platform, err) < 0 ||
		stages_resolve(r, &platform, &a->build_args, &stages, err) < 0 ||
		(!r->is_definition && lint_recipe(r, &stages, &a->build_args, &lint, err) < 0))
		return cli_fail(err);
	for (size_t i = 0; i < lint.n; i++)
		mlr_warning(
			"%s:%u: %s (%s)", r->name, lint.v[i].line, lint.v[i].text, lint.v[i].rule);
	if (a->json)
		return print_instructions(r);
	return lint.n > 0 ? 1 : 0;
}

/* --- building ---------------------------------------------------------------- */

/* The context of find(). */
struct finder {
	const struct args *a;
	struct store *st;
	struct stores all; /* the own store, then the additional ones; borrowed */
	struct build_cache cache;
};

static int fetch(
	struct finder *f, const struct oci_name *name, const char *platform, struct mlr_error *err)
{
	const struct args *a = f->a;
	auto_call(pull_result_done) struct pull_result result = { 0 };
	struct progress *progress = progress_new(a->common.quiet ? PROGRESS_NONE : PROGRESS_LINES);
	struct pull_watch watch = progress_watch(progress);
	const struct pull_options opt = { .platform = platform,
		.registry = a->registry.options,
		.jobs = PULL_JOBS,
		.format = STORE_FORMAT_LAYERS,
		.probe = runtime_probe,
		.cancel = &cli_stop_signal };
	int r = pull_image(f->st, name, &opt, &watch, &result, err);

	progress_free(progress);
	return r;
}

/*
 * Is the image there as layers, for this platform?
 *
 * Returns 1, 0, or -ENOTSUP for a squashfs file under a name of the store's own: another image may
 * have that name in a registry.
 */
static int is_usable(
	struct store *st, const struct store_image *im, const char *platform, struct mlr_error *err)
{
	auto_call(store_facts_done) struct store_facts facts = { 0 };
	struct oci_platform want, have;

	if (store_facts_get(st, im->manifest, &facts, NULL) < 0)
		return 0;
	if (!(facts.formats & (STORE_FORMAT_LAYERS | STORE_FORMAT_DIR))) {
		if (strncmp(im->name, "localhost/", 10) != 0)
			return 0;
		mlr_fail(err, ENOTSUP,
			"the store has '%s' as a squashfs file, on which nothing can be built",
			im->name);
		return mlr_hint(err,
			"import it again, or pull it by the name it had, with --format=layers");
	}
	oci_platform_set(&have, facts.config.os, facts.config.architecture, facts.config.variant);
	return !platform || oci_platform_parse(platform, &want, NULL) < 0 ||
		oci_platform_match(&want, &have) > 0;
}

static int find(void *ctx, const char *image, const char *platform, struct store **st,
	struct store_image *ret, struct mlr_error *err)
{
	auto_call(oci_name_done) struct oci_name name = OCI_NAME_INIT;
	struct finder *f = ctx;
	int r;

	TRY(oci_name_parse(image, &name, err));
	r = f->a->pull ? -ENOENT : stores_find(&f->all, &name, st, ret, NULL);
	if (r == 0) {
		r = is_usable(*st, ret, platform, err);
		if (r > 0)
			return 0;
		store_image_done(ret);
		if (r < 0)
			return r;
	}
	TRY(fetch(f, &name, platform, err));
	return stores_find(&f->all, &name, st, ret, err);
}

static int find_step(void *ctx, const char *key, struct store_cached *ret)
{
	return build_cache_find(&((struct finder *)ctx)->cache, key, ret);
}

static int parse_names(const struct args *a, struct strv *ret, struct mlr_error *err)
{
	for (size_t i = 0; i < a->names.n; i++) {
		auto_call(oci_ref_done) struct oci_ref ref = { 0 };
		int r = cli_parse_new_name(a->names.v[i], &ref, err);

		if (r < 0)
			return mlr_wrap(err, "-t '%s'", a->names.v[i]);
		strv_take(ret, oci_ref_canonical(&ref));
	}
	return 0;
}

static int read_epoch(int64_t *ret, struct mlr_error *err)
{
	const char *text = getenv("SOURCE_DATE_EPOCH");

	if (!text || !*text)
		return 0;
	if (text[strspn(text, "0123456789")] || strlen(text) > 11)
		return mlr_fail(
			err, EINVAL, "SOURCE_DATE_EPOCH='%s' is no number of seconds", text);
	*ret = atoll(text);
	return 0;
}

/* Docker's keys. */
static int write_metadata(const struct args *a, const struct build_result *r, struct mlr_error *err)
{
	json_auto_t *o = json_pack("{s:s, s:s}", "containerimage.digest", r->image.manifest,
		"image.name", r->image.name);

	return cli_write_json(a->metadata, o, JSON_INDENT(2), err);
}

static int is_for_stdout(const struct args *a)
{
	for (size_t i = 0; i < a->n_outputs; i++)
		if (strcmp(a->outputs[i].dest, "-") == 0)
			return 1;
	return 0;
}

static int tell(
	const struct args *a, struct store *st, const struct build_result *r, struct mlr_error *err)
{
	for (size_t i = 0; i < r->unused_args.n; i++)
		mlr_warning("--build-arg %s: the recipe declares no such ARG", r->unused_args.v[i]);
	if (!a->common.quiet)
		mlr_info("built '%s': %s, %zu of %zu steps from the cache", r->image.name,
			r->image.manifest, r->cached, r->steps);
	else if (!is_for_stdout(a))
		printf("%s\n", r->image.manifest);
	for (size_t i = 0; i < a->n_outputs; i++)
		if (build_output_write(&a->outputs[i], st, &r->image,
			    a->names.n > 0 ? r->image.name : NULL, err) < 0)
			return -err->code;
	if (a->metadata && write_metadata(a, r, err) < 0)
		return -err->code;
	return a->iidfile
		? file_put(a->iidfile, r->image.manifest, strlen(r->image.manifest), 0644, err)
		: 0;
}

static struct git_access callers_access(const struct args *a)
{
	return (struct git_access){
		.is_callers = 1, .secrets = &a->secrets, .ssh = &a->ssh, .cancel = &cli_stop_signal
	};
}

/* The contexts of --build-context, fetched. */
struct named_contexts {
	struct store *st;
	struct build_context *v;
	size_t n;
};

static void named_close(struct named_contexts *c)
{
	for (size_t i = 0; i < c->n; i++)
		build_context_close(c->st, &c->v[i]);
	free(c->v);
}

/* ret gets "NAME=DIR", and images as they are. */
static int named_open(
	const struct args *a, struct named_contexts *c, struct strv *ret, struct mlr_error *err)
{
	const struct git_access how = callers_access(a);

	for (size_t i = 0; i < a->contexts.n; i++) {
		const char *text = a->contexts.v[i], *value = strchr(text, '=') + 1;
		struct build_context *one;
		int r;

		if (strncmp(value, "docker-image://", 15) == 0) {
			strv_add(ret, text);
			continue;
		}
		one = xadd(c->v, c->n);
		*one = (struct build_context)BUILD_CONTEXT_INIT;
		r = build_context_open(c->st, value, &how, one, err);
		if (r == 0 && one->recipe)
			r = mlr_fail(err, EPROTO, "context '%s': it is no tar", value);
		if (r < 0)
			return mlr_wrap(err, "--build-context %.*s", (int)(value - 1 - text), text);
		/* As with the context, the directory is opened once. */
		strv_addf(ret, "%.*s/proc/self/fd/%d", (int)(value - text), text, one->fd);
	}
	return 0;
}

static int build(struct args *a, const struct build_context *context, const struct recipe *recipe,
	struct store *st, struct mlr_error *err)
{
	auto_call(build_result_done) struct build_result result = { 0 };
	auto_call(stores_close) struct stores others = { 0 };
	auto_call(named_close) struct named_contexts contexts = { .st = st };
	auto_strv struct strv platform = STRV_INIT, names = STRV_INIT, named = STRV_INIT;
	auto_free struct store **all = NULL;
	auto_free char *ignore = NULL;
	struct finder finder = { .a = a,
		.st = st,
		.cache = { .st = st, .registry = &a->registry.options, .from = &a->cache_from } };
	struct build_options o = { .st = st,
		.others = &others,
		.recipe = recipe,
		.context = context->fd,
		.is_strangers = context->scratch || !a->file || a->context_only,
		.target = a->target,
		.args = &a->build_args,
		.platform = &platform,
		.labels = &a->labels,
		.secrets = &a->secrets,
		.contexts = &named,
		.ssh = &a->ssh,
		.volumes = &a->volumes,
		.network = a->network,
		.allowed = &a->allowed,
		.config = &a->registry.config,
		.no_cache = a->no_cache,
		.squash = a->squash,
		.is_quiet = a->common.quiet,
		.jobs = a->jobs ? (size_t)a->jobs : processors_count(),
		.shell_on_failure = a->shell && isatty(STDIN_FILENO),
		.cancel = &cli_stop_signal,
		.find = find,
		.find_step = find_step,
		.ctx = &finder };
	int r;

	TRY(platform_variables(a, &platform, err));
	TRY(parse_names(a, &names, err));
	TRY(build_ignore_read(context, a->file, &ignore, err));
	TRY(named_open(a, &contexts, &named, err));
	TRY(read_epoch(&o.epoch, err));
	TRY(stores_open_additional(st, &others, err));
	all = xcalloc(others.n + 1, sizeof(struct store *));
	all[0] = st;
	for (size_t i = 0; i < others.n; i++)
		all[i + 1] = others.v[i];
	finder.all = (struct stores){ all, others.n + 1, 1 };
	o.ignore = ignore;
	o.names = (const char *const *)names.v;
	o.n_names = names.n;
	r = build_run(&o, &result, err);
	build_cache_done(&finder.cache);
	if (r == 0)
		store_settle(st);
	if (r == 0)
		r = tell(a, st, &result, err);
	return r < 0 ? r : build_cache_push(st, &a->registry.options, &a->cache_to, &result, err);
}

/* Check or build what is in the context. */
static int run_in(struct args *a, const struct build_context *context, struct store **st,
	struct mlr_error *err)
{
	auto_call(recipe_done) struct recipe recipe = RECIPE_INIT;
	const struct config_value *library =
		config_get(&a->registry.config, "apptainer", "library");
	const struct definition_options o = { .args = &a->build_args,
		.library = library ? library->value : NULL,
		.no_test = a->no_test };
	int r = build_recipe_read(context, a->context, a->file, &o, &recipe, err);

	if (r < 0)
		return cli_fail(err);
	if (a->check)
		return check(a, &recipe, err);
	r = *st ? 0 : store_open(a->common.store, 1, st, err);
	if (r == 0)
		r = build(a, context, &recipe, *st, err);
	if (*st && store_has_work(*st))
		store_sweep(*st);
	return r < 0 && !cli_stop_signal ? cli_fail(err) : 0;
}

static int run(struct args *a, struct mlr_error *err)
{
	auto_store struct store *st = NULL;
	struct build_context context = BUILD_CONTEXT_INIT;
	const struct git_access how = callers_access(a);
	int r = cli_registry_load(&a->registry, a->context, err), status;

	/* A directory needs no place in the store, so its recipe is read before that is opened. */
	if (r == 0 && !build_context_is_directory(a->context))
		r = store_open(a->common.store, 1, &st, err);
	cli_stop_catch();
	if (r == 0)
		r = build_context_open(st, a->context, &how, &context, err);
	status = r == 0 ? run_in(a, &context, &st, err) : cli_stop_signal ? 0 : cli_fail(err);
	build_context_close(st, &context);
	return cli_stop_signal ? 128 + cli_stop_signal : status;
}

int cmd_build(int argc, char **argv)
{
	struct mlr_error err = MLR_ERROR_INIT;
	static struct args a = { .registry = CLI_REGISTRY_INIT };

	cli_options_parse(argc, argv, &syntax, &a);
	return run(&a, &err);
}
