/* mlrun compose exec and run: a command in a service's container, or in one of its own. */
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/project.h"
#include "cli/services.h"

struct args {
	struct cli_exec x; /* exec.image is the service's name */
	struct strv words, env;
	const char *name;
	long index;
	int detach, alone, build, ports, remove;
};

static void keep_word(void *args, const char *name, const char *arg)
{
	struct args *a = args;

	cli_exec_keep(name, arg, &a->words, &a->env);
}

/* --- exec ------------------------------------------------------------------------------------ */

/* Name the container of a project's service; to free(). NULL: err says why. */
static char *container_of(
	const struct args *a, const char *project, const char *store, struct mlr_error *err)
{
	auto_call(services_choice_done) struct services_choice c = { .project = project };
	const char *service = a->x.exec.image;
	auto_store struct store *st = NULL;

	strv_add(&c.names, service);
	if (services_open(store, &st, err) < 0 || services_choose(st, &c, err) < 0)
		return NULL;
	for (size_t i = 0; i < c.list.n; i++)
		if (!service_has_ended(&c.list.v[i]) &&
			(a->index == 0 || c.list.v[i].replica == a->index))
			return xstrdup(c.list.v[i].name);
	mlr_fail(err, ENOENT, "service '%s' of project '%s' does not run", service, project);
	mlr_hint(err, "mlrun compose up -d %s starts it", service);
	return NULL;
}

int compose_exec(struct project_wish *w, const char *store, int argc, char **argv)
{
	static const struct option_row own[] = {
		{ "no-tty", 'T', NULL, OPTION_HIDDEN, NULL },
		{ "no-TTY", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL },
		{ "index", 0, "N", 0, "in this replica (default: the first)", -2,
			OPT_COUNT(struct args, index, 1, INT_MAX) },
		{ 0 },
	};
	static struct args a = { .x.operand = "the service's name" };
	auto_free char *project = NULL, *container = NULL;
	auto_strv struct strv words = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	cli_exec_parse_with(argc, argv, own, keep_word, "SERVICE COMMAND [ARG...]",
		"Run a command in a service's container.", &a.x);
	if (!a.x.exec.command || !*a.x.exec.command) {
		mlr_fail(&err, EINVAL, "a command is missing");
		mlr_hint(&err, "mlrun compose exec %s sh", a.x.exec.image);
		return cli_fail_at(&err, "compose exec '%s'", a.x.exec.image);
	}
	project = project_name(w, &err);
	container = project ? container_of(&a, project, store, &err) : NULL;
	if (!container)
		return cli_fail_at(&err, "compose");
	cli_exec_words(&words, store, &a.words, &a.env);
	strv_addf(&words, "--join=%s", container);
	strv_add(&words, "--");
	for (char *const *c = a.x.exec.command; *c; c++)
		strv_add(&words, *c);
	return cmd_exec((int)words.n, words.v);
}

/* --- run ------------------------------------------------------------------------------------- */

/* A port that differs from the command's own needs a supervisor that passes it on. */
static int refuse_ports(const struct compose_service *c, struct mlr_error *err)
{
	for (size_t i = 0; i < c->ports.n; i++) {
		unsigned published = 0, target = 0;

		sscanf(c->ports.v[i], "%u %u", &published, &target);
		if (published == target)
			continue;
		mlr_fail(err, EINVAL, "port %u leads to %u only in the background", published,
			target);
		return mlr_hint(
			err, "add -d; or connect to port %u, where the command listens", target);
	}
	return 0;
}

/* Make the service what the command line says. */
static int shape(const struct args *a, struct compose_service *c, struct mlr_error *err)
{
	char *const *command = a->x.exec.command;

	if (a->name && !a->detach && !a->remove) {
		mlr_fail(err, EINVAL, "--name is a service's: without -d this becomes the command");
		return mlr_hint(err, "-d starts a service; with --rm the name does not matter");
	}
	if (a->x.exec.entrypoint) {
		strv_done(&c->entrypoint);
		c->has_entrypoint = 0;
	}
	if (a->x.exec.entrypoint || (command && *command))
		strv_done(&c->command);
	for (; command && *command; command++)
		strv_add(&c->command, *command);
	c->replicas = 1;
	c->restart = COMPOSE_NO_RESTART;
	if (!a->ports)
		strv_done(&c->ports);
	return a->detach ? 0 : refuse_ports(c, err);
}

static int detach(const struct args *a, struct store *st, struct service *s)
{
	int status;

	s->remove = a->remove;
	free(s->directory);
	s->directory = getcwd(NULL, 0);
	if (!s->directory)
		s->directory = xstrdup("/");
	status = services_launch(st, s, "compose run");
	if (status == 0)
		printf("%s\n", s->name);
	return status;
}

static const struct service *one_off; /* that the process becomes */

/* For struct cli_exec: the names of the project's services. */
static void add_hosts(struct plan *p)
{
	auto_free char *text = service_hosts_text(one_off);

	plan_file_mount(p, text, strlen(text), 0644, "/etc/hosts", PLAN_FROM_USER,
		&(struct mlr_error){ 0 });
}

/* Become the command: it has the caller's terminal, and its exit status is the caller's. */
static int become(const struct service *s, const char *store)
{
	static struct cli_exec x = { .adjust = add_hosts };
	auto_strv struct strv words = STRV_INIT;

	cli_exec_words(&words, store, &s->options, NULL);
	strv_add_words(&words, "--", s->image);
	strv_add_all(&words, &s->command);
	cli_exec_parse((int)words.n, words.v, NULL, NULL, &x);
	/* Never as words, which a run's record keeps. */
	strv_add_all(&x.exec.env, &s->env);
	one_off = s;
	return cli_exec_run(&x, NULL);
}

/* All that it needs is there. */
static int run_one_off(
	const struct args *a, const struct project_start *u, const struct compose_service *c)
{
	auto_call(service_done) struct service s = SERVICE_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	char hex[RANDOM_HEX_SIZE];

	random_hex(hex);
	if (project_fill(u->p, c, 1, (long)u->p->compose.n, u->store, u->st, &s, &err) < 0)
		return cli_fail_at(&err, "compose run '%s'", c->name);
	free(s.name);
	free(s.part);
	s.part = xasprintf("%s-run", c->name);
	s.name = a->name ? xstrdup(a->name) : xasprintf("%s-%s-%.6s", s.project, s.part, hex);
	s.replica = 0;
	strv_add_all(&s.options, &a->words);
	strv_add_all(&s.env, &a->env);
	if (a->name && service_name_check(a->name, &err) < 0)
		return cli_fail_at(&err, "compose run");
	return a->detach ? detach(a, u->st, &s) : become(&s, u->store);
}

int compose_run(struct project_wish *w, const char *store, int argc, char **argv)
{
	static const struct option_row own[] = {
		{ "detach", 'd', NULL, 0, "in the background, and print its name", -2,
			OPT(struct args, detach) },
		{ "rm", 0, NULL, 0, "with -d: forget it when it has ended", -2,
			OPT(struct args, remove) },
		{ "name", 0, "NAME", 0, "with -d: its name", -2, OPT(struct args, name) },
		{ "no-deps", 0, NULL, 0, "start nothing that the service needs", -2,
			OPT(struct args, alone) },
		{ "build", 0, NULL, 0, "build images again", -2, OPT(struct args, build) },
		{ "service-ports", 'P', NULL, 0, "with the service's ports", -2,
			OPT(struct args, ports) },
		{ "no-tty", 'T', NULL, OPTION_HIDDEN, NULL },
		{ "no-TTY", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL },
		{ "use-aliases", 0, NULL, OPTION_HIDDEN, NULL },
		{ "quiet-pull", 0, NULL, OPTION_HIDDEN, NULL },
		{ "remove-orphans", 0, NULL, OPTION_HIDDEN, NULL },
		{ 0 },
	};
	static const volatile sig_atomic_t never;
	static struct args a = { .x.operand = "the service's name" };
	auto_call(project_done) struct project p = { 0 };
	auto_call(project_start_done) struct project_start u = { .p = &p,
		.command = "compose run",
		.store = store,
		.timeout_ms = -1,
		.interrupted = &never };
	struct mlr_error err = MLR_ERROR_INIT;
	struct compose_service *c;
	int status;

	cli_exec_parse_with(argc, argv, own, keep_word, "SERVICE [COMMAND [ARG...]]",
		"Run a command in a container of a service's own kind, when what it needs runs.\v"
		"Options of mlrun exec are added to what the file says.",
		&a.x);
	strv_add(&w->names, a.x.exec.image);
	w->alone = a.alone;
	if (project_read(w, &p, &err) < 0)
		return cli_fail_at(&err, "compose run");
	c = compose_find(&p.compose, a.x.exec.image); /* else it could not be read */
	if (shape(&a, c, &err) < 0)
		return cli_fail_at(&err, "compose run");
	u.one_off = c;
	u.build = a.build;
	u.pull = a.x.exec.pull == EXEC_PULL_ALWAYS;
	status = project_start(&u);
	return status ? status : run_one_off(&a, &u, c);
}
