#include "cli/project.h"

#include "base/spawn.h"
#include "cli/cli.h"
#include "cli/fetch.h"
#include "cli/services.h"
#include "base/spawn.h"
#include "work/work.h"

#define FILE_MAX (1u << 20) /* bytes */

void project_done(struct project *p)
{
	free(p->name);
	free(p->directory);
	strv_done(&p->files);
	strv_done(&p->variables);
	compose_project_done(&p->compose);
}

/* --- reading --------------------------------------------------------------------------------- */

struct reading {
	const struct project_wish *w;
	struct project *p;
	struct compose_text *texts; /* of the project's files */
	char *profiles;
};

static void reading_done(struct reading *r)
{
	for (size_t i = 0; r->texts && i < r->p->files.n; i++)
		free((char *)r->texts[i].text);
	free(r->texts);
	free(r->profiles);
}

static const char *callers(void *ctx, const char *name)
{
	return getenv(name);
}

/* The caller's variables win over .env. */
static const char *look_up(void *ctx, const char *name)
{
	const struct reading *r = ctx;
	const char *value =
		strcmp(name, "COMPOSE_PROJECT_NAME") == 0 && r->p->name ? r->p->name : getenv(name);

	if (r->profiles && strcmp(name, "COMPOSE_PROFILES") == 0)
		value = r->profiles;
	return value ? value : strv_env_get(strv_argv(&r->p->variables), name);
}

/* Read an .env file; must: it may not be missing. */
static int read_env(const char *path, int must, struct strv *ret, struct mlr_error *err)
{
	auto_free char *text = NULL;
	struct stat sb;
	int r;

	if (!must && (stat(path, &sb) < 0 ? errno == ENOENT : S_ISDIR(sb.st_mode)))
		return 0;
	r = file_read_regular(AT_FDCWD, path, FILE_MAX, &text, NULL, err);
	return r < 0 ? r : compose_env_parse(text, path, callers, NULL, ret, err);
}

static int add_if_there(const char *const *names, size_t n, struct strv *ret)
{
	for (size_t i = 0; i < n; i++)
		if (access(names[i], F_OK) == 0) {
			strv_add(ret, names[i]);
			return 1;
		}
	return 0;
}

/* $COMPOSE_FILE, of the caller or of .env here, or the usual names. */
static int find_files(struct project *p, struct mlr_error *err)
{
	static const char *const usual[] = { "compose.yaml", "compose.yml", "docker-compose.yaml",
		"docker-compose.yml" };
	static const char *const further[] = { "compose.override.yaml", "compose.override.yml",
		"docker-compose.override.yaml", "docker-compose.override.yml" };
	auto_strv struct strv here = STRV_INIT;
	const char *said = getenv("COMPOSE_FILE"), *between = getenv("COMPOSE_PATH_SEPARATOR");
	auto_free char *copy = NULL;
	char *rest, *word;

	TRY(read_env(".env", 0, &here, err));
	said = said ? said : strv_env_get(strv_argv(&here), "COMPOSE_FILE");
	between = between ? between : strv_env_get(strv_argv(&here), "COMPOSE_PATH_SEPARATOR");
	rest = copy = xstrdup(said ? said : "");
	while ((word = strsep(&rest, between && *between ? between : ":")))
		if (*word)
			strv_add(&p->files, word);
	if (p->files.n > 0)
		return 0;
	if (add_if_there(usual, ARRAY_LEN(usual), &p->files)) {
		add_if_there(further, ARRAY_LEN(further), &p->files);
		return 0;
	}
	mlr_fail(err, ENOENT, "there is no compose.yaml here");
	return mlr_hint(err, "mlrun up FILE takes another");
}

static int find_directory(const char *said, struct project *p, struct mlr_error *err)
{
	const char *first = p->files.v[0];
	int is_stdin = strcmp(first, "-") == 0;
	char *slash;

	p->directory = realpath(said ? said : is_stdin ? "." : first, NULL);
	if (!p->directory)
		return mlr_fail_errno(err, "'%s'", said ? said : first);
	slash = strrchr(p->directory, '/');
	if (!said && !is_stdin)
		slash[slash == p->directory] = '\0';
	return 0;
}

static int open_file(const char *name, struct compose_text *ret, struct mlr_error *err)
{
	int is_stdin = strcmp(name, "-") == 0;
	char *text = NULL;

	TRY(file_read(AT_FDCWD, is_stdin ? "/dev/stdin" : name, FILE_MAX, &text, &ret->size, err));
	ret->name = name;
	ret->text = text;
	return 0;
}

/* Read the files, and the variables. */
static int open_files(struct reading *r, struct mlr_error *err)
{
	const struct project_wish *w = r->w;
	struct project *p = r->p;

	strv_add_all(&p->files, &w->files);
	if (p->files.n == 0)
		TRY(find_files(p, err));
	TRY(find_directory(w->directory, p, err));
	r->texts = xcalloc(p->files.n, sizeof(*r->texts));
	for (size_t i = 0; i < p->files.n; i++)
		TRY(open_file(p->files.v[i], &r->texts[i], err));
	for (size_t i = 0; i < w->env_files.n; i++)
		TRY(read_env(w->env_files.v[i], 1, &p->variables, err));
	if (w->env_files.n == 0) {
		auto_free char *path = xasprintf("%s/.env", p->directory);

		TRY(read_env(path, 0, &p->variables, err));
	}
	return 0;
}

/* "My App" becomes "myapp", as docker compose does it. */
static char *name_of_directory(const char *directory)
{
	char *name = xstrdup(path_base(directory)), *out = name;

	for (const char *s = name; *s; s++) {
		char c = *s >= 'A' && *s <= 'Z' ? (char)(*s - 'A' + 'a') : *s;

		*out = c;
		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
			(out > name && (c == '_' || c == '-')))
			out++;
	}
	*out = '\0';
	return name;
}

/* By name, else $COMPOSE_PROJECT_NAME, also of .env, else the files', else the directory's. */
static int take_name(struct reading *r, const struct compose_wish *c, struct mlr_error *err)
{
	struct project *p = r->p;
	const char *said = look_up(r, "COMPOSE_PROJECT_NAME");

	if (r->w->name)
		p->name = xstrdup(r->w->name);
	else if (said && *said)
		p->name = xstrdup(said);
	else if (c)
		TRY(compose_parse_name(c, &p->name, err));
	if (!p->name)
		p->name = name_of_directory(p->directory);
	if (compose_is_project(p->name))
		return 0;
	mlr_fail(err, EINVAL, "'%s' is no name of a project", p->name);
	return mlr_hint(err,
		"use small letters, digits, '_' and '-', first a letter or digit: mlrun up -p NAME");
}

static void print_refused(const struct strv *refused)
{
	for (size_t i = 0; i < refused->n; i++) {
		struct mlr_error one = MLR_ERROR_INIT;

		mlr_pass(&one, EINVAL, refused->v[i]);
		cli_fail_at(&one, "up");
	}
}

/* Those of --profile, and $COMPOSE_PROFILES. */
static void join_profiles(struct reading *r)
{
	const char *said = look_up(r, "COMPOSE_PROFILES");
	auto_free char *more = strv_join(&r->w->profiles, r->w->profiles.n, ",");

	if (*more)
		r->profiles = xasprintf("%s,%s", said ? said : "", more);
}

static struct compose_wish wish_of(struct reading *r)
{
	const struct project_wish *w = r->w;

	return (struct compose_wish){ .files = r->texts,
		.n = r->p->files.n,
		.directory = r->p->directory,
		.names = w->names,
		.alone = w->alone,
		.scale = w->scale,
		.with_text = w->config,
		.look = look_up,
		.ctx = r };
}

static void tell_ignored(const struct project *p)
{
	auto_free char *keys = strv_join(&p->compose.ignored, p->compose.ignored.n, ", ");

	if (*keys)
		mlr_info(
			"ignored, as services have this machine's network and the caller's rights: %s",
			keys);
}

int project_read(const struct project_wish *w, struct project *ret, struct mlr_error *err)
{
	auto_call(project_done) struct project p = { 0 };
	auto_call(reading_done) struct reading r = { w, &p, NULL, NULL };
	auto_strv struct strv refused = STRV_INIT;
	struct compose_wish c;
	int e;

	TRY(open_files(&r, err));
	join_profiles(&r);
	c = wish_of(&r);
	TRY(take_name(&r, &c, err));
	e = compose_parse(&c, &p.compose, &refused, err);
	print_refused(&refused);
	TRY(e);
	tell_ignored(&p);
	reading_done(&r);
	r = (struct reading){ w, &p, NULL, NULL };
	*ret = p;
	p = (struct project){ 0 };
	return 0;
}

char *project_name(const struct project_wish *w, struct mlr_error *err)
{
	auto_call(project_done) struct project p = { 0 };
	auto_call(reading_done) struct reading r = { w, &p, NULL, NULL };
	struct compose_wish c;

	if (!w->name && open_files(&r, err) < 0)
		return NULL;
	c = wish_of(&r);
	return take_name(&r, w->name ? NULL : &c, err) < 0 ? NULL : take_ptr(&p.name);
}

/* --- images ---------------------------------------------------------------------------------- */

char *project_image_of(const struct project *p, const struct compose_service *c)
{
	return c->image ? xstrdup(c->image) : xasprintf("%s-%s", p->name, c->name);
}

/* Run mlrun; input: its standard input, or SPAWN_OURS. Returns its exit status. */
static int run_itself(const struct strv *argv, int input)
{
	auto_free char *program = work_program();
	struct mlr_error err = MLR_ERROR_INIT;
	const struct spawn s = { program, strv_argv(argv), .in = input < 0 ? SPAWN_OURS : input };
	pid_t pid;
	int r = spawn_start(&s, &pid);

	if (r < 0) {
		mlr_fail(&err, -r, "start '%s': %s", program, strerror(-r));
		return cli_fail_at(&err, "up");
	}
	return spawn_wait_unless(pid, NULL);
}

static int build(const struct compose_service *c, const char *image, const char *store)
{
	auto_close int recipe = c->recipe ? file_of_text(c->recipe) : -1;
	auto_strv struct strv argv = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	if (c->recipe && recipe < 0) {
		mlr_fail(&err, -recipe, "dockerfile_inline: %s", strerror(-recipe));
		return cli_fail_at(&err, "up '%s'", c->name);
	}
	strv_add(&argv, "mlrun");
	strv_add(&argv, "build");
	strv_add(&argv, "--context-only"); /* the file names the recipe, not the caller */
	strv_addf(&argv, "--tag=%s", image);
	if (store)
		strv_addf(&argv, "--store=%s", store);
	if (c->recipe)
		strv_add(&argv, "--file=-");
	else if (c->dockerfile)
		strv_addf(&argv, "--file=%s%s%s", c->dockerfile[0] == '/' ? "" : c->context,
			c->dockerfile[0] == '/' ? "" : "/", c->dockerfile);
	if (c->target)
		strv_addf(&argv, "--target=%s", c->target);
	/* Never as variables, which mlrun and its helpers would follow. */
	for (size_t i = 0; i < c->build_args.n; i++)
		strv_addf(&argv, "--build-arg=%s", c->build_args.v[i]);
	strv_add(&argv, c->context);
	return run_itself(&argv, c->recipe ? recipe : SPAWN_OURS);
}

int project_bring(const struct project *p, const struct compose_service *c, const char *store,
	int again, int pull)
{
	auto_call(store_image_done) struct store_image im = { 0 };
	auto_free char *image = project_image_of(p, c);
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	if (!c->context && !cli_can_fetch(image))
		return 0;
	r = cli_find_image(image, store, &im, &err);
	if (r < 0 && r != -ENOENT)
		return cli_fail_at(&err, "up '%s'", c->name);
	if (c->context && (r < 0 || again))
		return build(c, image, store);
	return r < 0 || (pull && !c->context) ? cli_pull(image, store, 0) : 0;
}

/* --- volumes --------------------------------------------------------------------------------- */

/* Write the path of a volume's source (compose_service.volumes) in a store; to free(). */
static char *volume_path(const struct project *p, const char *volume, struct store *st)
{
	size_t len = strcspn(volume, ":");

	return *volume == '/' ? xstrndup(volume, len)
			      : xasprintf("%s/" PROJECT_VOLUMES "/%s%.*s", store_path(st),
					*volume == '@' ? p->name : "_", (int)len - 1, volume + 1);
}

/* Fill a new volume with what the image has there, as Docker does. An image without a shell or cp
 * leaves it empty. */
static int fill_volume(const struct project *p, const struct compose_service *c, const char *store,
	const char *path, const char *target, struct mlr_error *err)
{
	auto_free char *image = project_image_of(p, c);
	auto_strv struct strv argv = STRV_INIT;
	int status;

	strv_add_words(&argv, "mlrun", "exec", "--pull=never", "--net=none", "--workdir=/",
		"--entrypoint=");
	if (store)
		strv_addf(&argv, "--store=%s", store);
	strv_addf(&argv, "--volume=%s:/.volume", path);
	strv_add_words(
		&argv, image, "/bin/sh", "-c", "[ ! -d \"$1\" ] || cp -a \"$1/.\" /.volume", "sh");
	strv_addf(&argv, "%.*s", (int)strcspn(target, ":"), target);
	status = run_itself(&argv, SPAWN_OURS);
	if (status == 126 || status == 127)
		mlr_warning("volume '%s' of '%s' begins empty", argv.v[argv.n - 1], c->name);
	else if (status != 0)
		return mlr_fail(err, EIO, "fill the volume '%s' of '%s': cp ended with %d",
			argv.v[argv.n - 1], c->name, status);
	return 0;
}

/* Make a volume. It is whole when it appears; of two that make it one does. */
static int make_volume(const struct project *p, const struct compose_service *c, const char *store,
	const char *path, const char *target, struct mlr_error *err)
{
	char random[RANDOM_HEX_SIZE];
	auto_free char *new = NULL;
	int r;

	random_hex(random);
	new = xasprintf(
		"%.*s.%s", (int)(path_base(path) - path), path, random); /* no volume's name */
	TRY(file_mkdir_p(AT_FDCWD, new, 0700, err));
	r = fill_volume(p, c, store, new, target, err);
	if (r == 0 && rename(new, path) < 0 && errno != EEXIST && errno != ENOTEMPTY)
		r = mlr_fail_errno(err, "put the volume '%s' in place", path);
	if (r < 0 || access(new, F_OK) == 0)
		file_remove_tree(AT_FDCWD, new, NULL);
	return r;
}

/* Make what a service's volumes lack: directories of the project, and those that the file names. */
static int make_volumes(const struct project *p, const struct compose_service *c, const char *store,
	struct store *st, struct mlr_error *err)
{
	for (size_t i = 0; i < c->volumes.n; i++) {
		const char *v = c->volumes.v[i];
		auto_free char *path = volume_path(p, v, st);

		if (access(path, F_OK) == 0)
			continue;
		TRY(*v == '/' ? file_mkdir_p(AT_FDCWD, path, 0777, err)
			      : make_volume(p, c, store, path, strchr(v, ':') + 1, err));
	}
	return 0;
}

int project_starts(const struct compose_service *c)
{
	return c->is_wanted && c->replicas > 0;
}

int project_prepare(
	const struct project *p, const char *store, struct store *st, struct mlr_error *err)
{
	for (size_t i = 0; i < p->compose.n; i++)
		if (project_starts(&p->compose.services[i]))
			TRY(make_volumes(p, &p->compose.services[i], store, st, err));
	return 0;
}

int project_forget_volumes(const char *name, struct store *st, struct mlr_error *err)
{
	auto_free char *path = xasprintf(PROJECT_VOLUMES "/%s", name);

	return file_remove_tree(store_fd(st), path, err);
}

/* --- services -------------------------------------------------------------------------------- */

static void add_options(const struct project *p, const struct compose_service *c, struct store *st,
	struct service *s)
{
	const struct {
		const char *option, *value;
	} words[] = { { "user", c->user }, { "hostname", c->hostname } };

	strv_addf(&s->options, "--workdir=%s", c->working_dir ? c->working_dir : "");
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (words[i].value)
			strv_addf(&s->options, "--%s=%s", words[i].option, words[i].value);
	for (size_t i = 0; i < c->volumes.n; i++) {
		auto_free char *path = volume_path(p, c->volumes.v[i], st);

		strv_addf(&s->options, "--volume=%s%s", path, strchr(c->volumes.v[i], ':'));
	}
	strv_add_all(&s->options, &c->options);
	for (size_t i = 0; i < c->tmpfs.n; i++)
		strv_addf(&s->options, "--tmpfs=%s", c->tmpfs.v[i]);
	if (c->read_only)
		strv_add(&s->options, "--read-only");
	if (c->init)
		strv_add(&s->options, "--init");
}

static void add_command(const struct compose_service *c, struct service *s)
{
	if (c->has_entrypoint)
		strv_addf(
			&s->options, "--entrypoint=%s", c->entrypoint.n ? c->entrypoint.v[0] : "");
	for (size_t i = 1; i < c->entrypoint.n; i++)
		strv_add(&s->command, c->entrypoint.v[i]);
	strv_add_all(&s->command, &c->command);
}

static void add_environment(
	const struct project *p, const struct compose_service *c, long replica, struct service *s)
{
	strv_add_all(&s->env, &c->environment);
	strv_addf(&s->env, "MLRUN_REPLICA=%ld", replica);
	for (size_t i = 0; i < p->compose.n; i++) {
		const struct compose_service *other = &p->compose.services[i];

		strv_add(&s->hosts, other->name);
		for (size_t k = 0; k < other->hosts.n; k++)
			if (!strv_has(&s->hosts, other->hosts.v[k]))
				strv_add(&s->hosts, other->hosts.v[k]);
	}
}

char *project_name_of(const struct project *p, const struct compose_service *c, long replica)
{
	return c->container_name ? xstrdup(c->container_name)
				 : xasprintf("%s-%s-%ld", p->name, c->name, replica);
}

int project_fill(const struct project *p, const struct compose_service *c, long replica, long order,
	const char *store, struct store *st, struct service *ret, struct mlr_error *err)
{
	auto_call(service_done) struct service s = SERVICE_INIT;
	auto_free char *manifest = NULL;
	const struct service_check check = { c->test, c->interval, c->timeout, c->start_period,
		c->start_interval, c->retries };

	s.image = project_image_of(p, c);
	TRY(services_take_image(s.image, store, !c->no_check, &s, &manifest, err));
	s.name = project_name_of(p, c, replica);
	s.directory = xstrdup("/");
	s.project = xstrdup(p->name);
	s.part = xstrdup(c->name);
	s.replica = replica;
	s.order = order;
	s.restart = (enum service_restart)c->restart;
	s.restarts_max = c->restarts_max;
	s.stop_ms = c->stop_ms >= 0 ? c->stop_ms : s.stop_ms;
	s.stop_signal = c->stop_signal ? c->stop_signal : s.stop_signal;
	if (c->has_check && !c->no_check)
		service_check_take(&s.check, &check);
	/* Replicas may each listen on one of several. */
	for (size_t i = 0; c->replicas == 1 && i < c->ports.n; i++)
		strv_add(&s.ports, c->ports.v[i]);
	add_options(p, c, st, &s);
	add_command(c, &s);
	add_environment(p, c, replica, &s);
	s.digest = service_digest(&s, manifest);
	*ret = s;
	s = (struct service)SERVICE_INIT;
	return 0;
}
