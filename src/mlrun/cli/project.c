#include "cli/project.h"

#include "base/base.h"
#include "cli/cli.h"
#include "cli/common.h"
#include "cli/fetch.h"
#include "cli/services.h"
#include "work/work.h"

#include <spawn.h>

#define FILE_MAX (1u << 20) /* bytes */

void project_done(struct project *p)
{
	free(p->name);
	free(p->file);
	free(p->directory);
	strv_done(&p->variables);
	compose_project_done(&p->compose);
}

/* --- reading --------------------------------------------------------------------------------- */

static int find_file(const char *file, struct project *p, struct mlr_error *err)
{
	static const char *const usual[] = { "compose.yaml", "compose.yml", "docker-compose.yaml",
		"docker-compose.yml" };
	auto_free char *whole = NULL;
	char *slash;

	for (size_t i = 0; !file && i < ARRAY_LEN(usual); i++)
		if (access(usual[i], F_OK) == 0)
			file = usual[i];
	if (!file) {
		mlr_fail(err, ENOENT, "there is no compose.yaml here");
		return mlr_hint(err, "mlrun up FILE takes another");
	}
	whole = realpath(file, NULL);
	if (!whole)
		return mlr_fail_errno(err, "'%s'", file);
	p->file = xstrdup(file);
	slash = strrchr(whole, '/');
	p->directory = slash == whole ? xstrdup("/") : xstrndup(whole, (size_t)(slash - whole));
	return 0;
}

static const char *callers(void *ctx, const char *name)
{
	return getenv(name);
}

/* The caller's variables win over .env. */
static const char *look_up(void *ctx, const char *name)
{
	const struct project *p = ctx;
	const char *value = getenv(name);

	return value ? value : strv_env_get(strv_argv(&p->variables), name);
}

static int read_variables(struct project *p, struct mlr_error *err)
{
	auto_free char *path = xasprintf("%s/.env", p->directory), *text = NULL;
	int r = file_read_regular(AT_FDCWD, path, FILE_MAX, &text, NULL, err);

	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : compose_env_parse(text, path, callers, NULL, &p->variables, err);
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

static int take_name(struct project *p, const char *name, struct mlr_error *err)
{
	const char *said = getenv("COMPOSE_PROJECT_NAME");

	if (!name && said && *said)
		name = said;
	p->name = name            ? xstrdup(name)
		: p->compose.name ? xstrdup(p->compose.name)
				  : name_of_directory(p->directory);
	if (compose_is_project(p->name))
		return 0;
	mlr_fail(err, EINVAL, "'%s' is no name of a project", p->name);
	return mlr_hint(err,
		"use small letters, digits, '_' and '-', first a letter or digit: mlrun up -p NAME");
}

int project_read(const char *file, const char *name, struct project *ret, struct mlr_error *err)
{
	auto_call(project_done) struct project p = PROJECT_INIT;
	auto_free char *text = NULL;
	size_t size = 0;
	int r = find_file(file, &p, err);

	if (r == 0)
		r = file_read(AT_FDCWD, p.file, FILE_MAX, &text, &size, err);
	if (r == 0)
		r = read_variables(&p, err);
	if (r == 0)
		r = compose_parse(text, size, p.file, p.directory, look_up, &p, &p.compose, err);
	if (r == 0)
		r = take_name(&p, name, err);
	if (r < 0)
		return r;
	*ret = p;
	p = (struct project)PROJECT_INIT;
	return 0;
}

char *project_name(const char *file, const char *name, struct mlr_error *err)
{
	auto_call(project_done) struct project p = PROJECT_INIT;

	if (name)
		return xstrdup(name);
	return project_read(file, NULL, &p, err) < 0 ? NULL : take_ptr(&p.name);
}

/* --- images ---------------------------------------------------------------------------------- */

static char *image_of(const struct project *p, const struct compose_service *c)
{
	return c->image ? xstrdup(c->image) : xasprintf("%s-%s", p->name, c->name);
}

static int build(const struct compose_service *c, const char *image, const char *store)
{
	auto_free char *program = work_program();
	auto_strv struct strv argv = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	int r, status = 0;
	pid_t pid;

	strv_add(&argv, "mlrun");
	strv_add(&argv, "build");
	strv_addf(&argv, "--tag=%s", image);
	if (store)
		strv_addf(&argv, "--store=%s", store);
	if (c->dockerfile && c->dockerfile[0] == '/')
		strv_addf(&argv, "--file=%s", c->dockerfile);
	else if (c->dockerfile)
		strv_addf(&argv, "--file=%s/%s", c->context, c->dockerfile);
	if (c->target)
		strv_addf(&argv, "--target=%s", c->target);
	/* Never as variables, which mlrun and its helpers would follow. */
	for (size_t i = 0; i < c->build_args.n; i++)
		strv_addf(&argv, "--build-arg=%s", c->build_args.v[i]);
	strv_add(&argv, c->context);
	r = posix_spawn(&pid, program, NULL, NULL, strv_argv(&argv), environ);
	while (r == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r != 0) {
		mlr_fail(&err, r, "start '%s': %s", program, strerror(r));
		return cli_fail_at(&err, "up");
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int project_bring(
	const struct project *p, const struct compose_service *c, const char *store, int again)
{
	auto_call(store_image_done) struct store_image im = STORE_IMAGE_INIT;
	auto_free char *image = image_of(p, c);
	struct mlr_error err = MLR_ERROR_INIT;
	int r;

	if (!c->context && !cli_can_fetch(image))
		return 0;
	r = cli_find_image(image, store, &im, &err);
	if (r < 0 && r != -ENOENT)
		return cli_fail_at(&err, "up '%s'", c->name);
	if (c->context && (r < 0 || again))
		return build(c, image, store);
	return r < 0 ? cli_pull(image, store, 0) : 0;
}

/* --- services -------------------------------------------------------------------------------- */

static void add_options(const struct compose_service *c, struct service *s)
{
	const struct {
		const char *option, *value;
	} words[] = { { "user", c->user }, { "hostname", c->hostname } };

	strv_addf(&s->options, "--workdir=%s", c->working_dir ? c->working_dir : "");
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (words[i].value)
			strv_addf(&s->options, "--%s=%s", words[i].option, words[i].value);
	for (size_t i = 0; i < c->volumes.n; i++)
		strv_addf(&s->options, "--volume=%s", c->volumes.v[i]);
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
	for (size_t i = 0; i < c->command.n; i++)
		strv_add(&s->command, c->command.v[i]);
}

static void take_check(const struct compose_service *c, struct service_check *check)
{
	if (c->test.n > 0) {
		strv_done(&check->test);
		for (size_t i = 0; i < c->test.n; i++)
			strv_add(&check->test, c->test.v[i]);
	}
	check->interval = c->interval ? c->interval : check->interval;
	check->timeout = c->timeout ? c->timeout : check->timeout;
	check->start_period = c->start_period ? c->start_period : check->start_period;
	check->start_interval = c->start_interval ? c->start_interval : check->start_interval;
	check->retries = c->retries ? c->retries : check->retries;
}

static void add_environment(
	const struct project *p, const struct compose_service *c, long replica, struct service *s)
{
	for (size_t i = 0; i < c->environment.n; i++)
		strv_add(&s->env, c->environment.v[i]);
	strv_addf(&s->env, "MLRUN_REPLICA=%ld", replica);
	for (size_t i = 0; i < p->compose.n; i++)
		strv_add(&s->hosts, p->compose.services[i].name);
}

char *project_name_of(const struct project *p, const struct compose_service *c, long replica)
{
	return c->container_name ? xstrdup(c->container_name)
				 : xasprintf("%s-%s-%ld", p->name, c->name, replica);
}

int project_fill(const struct project *p, const struct compose_service *c, long replica, long order,
	const char *store, struct service *ret, struct mlr_error *err)
{
	auto_call(service_done) struct service s = SERVICE_INIT;
	auto_free char *manifest = NULL;

	s.image = image_of(p, c);
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
		take_check(c, &s.check);
	add_options(c, &s);
	add_command(c, &s);
	add_environment(p, c, replica, &s);
	s.digest = service_digest(&s, manifest);
	*ret = s;
	s = (struct service)SERVICE_INIT;
	return 0;
}
