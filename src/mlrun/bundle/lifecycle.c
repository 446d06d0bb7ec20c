#include "bundle/lifecycle.h"

#include "base/spawn.h"
#include "bundle/hook.h"
#include "bundle/making.h"
#include "bundle/parts.h"
#include "bundle/signal.h"
#include "runtime/limits.h"
#include "runtime/meeting.h"

#define DEATH_MS 10000 /* how long a killed process may take to end */

/* --- create ------------------------------------------------------------------------ */

static int read_bundle(
	const struct lifecycle_options *o, const char *dir, struct making *m, struct mlr_error *err)
{
	auto_free char *path = !o->config || *o->config != '/'
		? xasprintf("%s/%s", dir, o->config ? o->config : "config.json")
		: xstrdup(o->config);
	auto_free char *text = NULL;
	size_t len;
	int r;

	TRY(file_read(AT_FDCWD, path, BUNDLE_CONFIG_MAX, &text, &len, err));
	r = bundle_parse(text, len, &m->bundle, err);
	if (r == 0)
		r = bundle_plan(&m->bundle, dir, &m->plan, err);
	if (r < 0)
		return mlr_wrap(err, "'%s'", path);
	TRY(bundle_state_make(o->root, o->id, &m->state, err));
	TRY(file_replace(m->state.dir, "config.json", text, len, 0600, err));
	return making_keep_seccomp(m, err);
}

/* Lead the container's process up to its start. */
static int lead(
	const struct lifecycle_options *o, const char *dir, struct making *m, struct mlr_error *err)
{
	struct talk_message made, said;

	TRY(making_expect(m, TALK_MADE, &made, &m->state.pid, err));
	TRY(hooks_run(&m->state, &m->bundle, BUNDLE_PRESTART, STATUS_CREATING, err));
	TRY(hooks_run(&m->state, &m->bundle, BUNDLE_CREATE_RUNTIME, STATUS_CREATING, err));
	TRY(making_go_on(m, err));
	TRY(making_expect(m, TALK_READY, &said, NULL, err));
	TRY(bundle_state_write(&m->state, m->state.pid, &made, dir, err));
	TRY(making_put_pid(o->pid_file, m->state.pid, err));
	return making_go_on(m, err);
}

/* Undo: nothing of the container remains. */
static void undo(struct making *m, pid_t child)
{
	struct mlr_error ignored = MLR_ERROR_INIT;

	if (child > 0) {
		if (m->state.pid > 0)
			kill(m->state.pid, SIGKILL);
		kill(child, SIGKILL);
		fd_close(&m->talk[0]);
		waitpid(child, NULL, 0);
	}
	if (m->state.dir >= 0)
		bundle_state_remove(&m->state, &ignored);
}

/* child gets the forked process, which with a PID namespace and detached is not the container's. */
static int create(
	const struct lifecycle_options *o, struct making *m, pid_t *child, struct mlr_error *err)
{
	auto_free char *dir = realpath(o->bundle, NULL);
	int r = dir ? read_bundle(o, dir, m, err)
		    : mlr_fail_errno(err, "the bundle '%s'", o->bundle);

	if (r == 0) {
		m->state.bundle = xstrdup(dir);
		r = making_fork(o, m, child, err);
	}
	if (r == 0)
		r = lead(o, dir, m, err);
	if (r < 0)
		undo(m, *child);
	return r;
}

int lifecycle_create(const struct lifecycle_options *o, int *status, struct mlr_error *err)
{
	auto_call(making_done) struct making m = MAKING_INIT;
	pid_t child = -1;

	signal(SIGCHLD, SIG_DFL); /* if it is ignored, children end without a status */
	m.plan.detached = 1;
	if (create(o, &m, &child, err) < 0) {
		*status = m.status;
		/* Files of the others, as by podman's --userns=keep-id. */
		if (err->code == EACCES && m.bundle.has_other_ids)
			mlr_wrap(err,
				"the bundle maps ids that are not yours, which the container lacks");
		return mlr_wrap(err, "create '%s'", o->id);
	}
	return 0;
}

/* --- start ------------------------------------------------------------------------- */

/* Call the waiting process. It answers by a failure, or by executing the command, which hangs
 * up. */
static int call_start(const struct state *s, struct mlr_error *err)
{
	auto_close int call = talk_call(s->dir);
	struct talk_message m = { .what = TALK_START };
	int r = call < 0 ? call : talk_send(call, &m);

	if (r == 0)
		r = talk_receive(call, &m, NULL);

	if (r < 0)
		return mlr_fail(err, EINVAL, "it does not wait for its start any more");
	r = talk_receive(call, &m, NULL);
	if (r == 0 && m.what == TALK_FAILED)
		return mlr_pass(err, m.error.code, m.error.text);
	return 0;
}

static int check_status(const struct state *s, enum status want, struct mlr_error *err)
{
	enum status now = bundle_state_status(s);

	return now == want ? 0
			   : mlr_fail(err, EINVAL, "it is %s, not %s",
				     bundle_state_status_name(now), bundle_state_status_name(want));
}

static int start(const struct state *s, const struct bundle *b, struct mlr_error *err)
{
	TRY(check_status(s, STATUS_CREATED, err));
	TRY(call_start(s, err));
	hooks_run(s, b, BUNDLE_POSTSTART, STATUS_RUNNING, NULL);
	return 0;
}

int lifecycle_start(const char *root, const char *id, struct mlr_error *err)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;
	auto_call(bundle_done) struct bundle b = BUNDLE_INIT;

	TRY(bundle_state_open(root, id, &s, err));
	TRY(bundle_state_bundle(&s, &b, err));
	return start(&s, &b, err) < 0 ? mlr_wrap(err, "start '%s'", id) : 0;
}

/* --- kill --------------------------------------------------------------------------- */

int lifecycle_kill(const char *root, const char *id, int sig, int all, struct mlr_error *err)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;
	int n = 0, r = bundle_state_open(root, id, &s, err);

	TRY(r);
	/* Before it executes the command, its mounts cannot be looked at. */
	if (all && bundle_state_status(&s) != STATUS_CREATED)
		n = bundle_signal_all(&s, sig, NULL);
	if (n == 0)
		r = bundle_signal(&s, sig);
	if (r == -ESRCH)
		return mlr_fail(err, EINVAL, "kill '%s': container not running", id);
	return mlr_result(err, r, "kill '%s'", id);
}

/* --- pause, resume -------------------------------------------------------------------- */

static int freeze(const char *root, const char *id, int pause, struct mlr_error *err)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;
	enum status from = pause ? STATUS_RUNNING : STATUS_PAUSED;
	int64_t end = mlr_now_ms() + DEATH_MS;
	int r;

	TRY(bundle_state_open(root, id, &s, err));
	r = check_status(&s, from, err);
	if (r == 0 && cgroup_freeze(s.pid, pause) < 0) {
		mlr_fail(err, ENOTSUP, "it has no control group of yours");
		r = mlr_hint(err,
			"one is made where the machine delegates some of cgroup v2 to users, as "
			"systemd-run --user --scope does");
	}
	for (; r == 0 && bundle_state_status(&s) == from; mlr_sleep_us(1000))
		if (mlr_now_ms() > end)
			r = mlr_fail(err, EBUSY, "the kernel has not done so yet");
	return r < 0 ? mlr_wrap(err, "%s '%s'", pause ? "pause" : "resume", id) : 0;
}

int lifecycle_pause(const char *root, const char *id, struct mlr_error *err)
{
	return freeze(root, id, 1, err);
}

int lifecycle_resume(const char *root, const char *id, struct mlr_error *err)
{
	return freeze(root, id, 0, err);
}

/* --- delete ------------------------------------------------------------------------- */

/* Kill what is left until nothing is. */
static int kill_rest(const struct state *s, struct mlr_error *err)
{
	int64_t end = mlr_now_ms() + DEATH_MS;

	while (bundle_signal_all(s, SIGKILL, NULL) > 0 ||
		bundle_state_status(s) != STATUS_STOPPED) {
		if (mlr_now_ms() > end)
			return mlr_fail(err, EBUSY, "its processes do not end");
		mlr_sleep_us(1000);
	}
	return 0;
}

static int delete (const struct state *s, int force, struct mlr_error *err)
{
	auto_call(bundle_done) struct bundle b = BUNDLE_INIT;
	enum status status = bundle_state_status(s);
	struct mlr_error none = MLR_ERROR_INIT;

	if (status == STATUS_CREATING || (status != STATUS_STOPPED && !force)) {
		mlr_fail(err, EBUSY, "it is %s, not stopped", bundle_state_status_name(status));
		return status == STATUS_CREATING ? -EBUSY : mlr_hint(err, "--force kills it");
	}
	/* A container whose creation was killed has no config.json. */
	if (bundle_state_bundle(s, &b, &none) < 0)
		mlr_debug("%s", none.text);
	TRY(kill_rest(s, err));
	TRY(bundle_state_remove(s, err));
	hooks_run(s, &b, BUNDLE_POSTSTOP, STATUS_STOPPED, NULL);
	return 0;
}

int lifecycle_delete(const char *root, const char *id, int force, struct mlr_error *err)
{
	auto_call(bundle_state_done) struct state s = STATE_INIT;
	int r = bundle_state_open(root, id, &s, err);

	if (r == -ENOENT && force)
		return 0;
	TRY(r);
	return delete (&s, force, err) < 0 ? mlr_wrap(err, "delete '%s'", id) : 0;
}

/* --- run ----------------------------------------------------------------------------- */

/* Pass on what is sent to us alone; the terminal's signals reach the whole group. */
static int wait_for(pid_t child)
{
	sigset_t all;
	siginfo_t si;
	int status;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (;;) {
		pid_t got = waitpid(child, &status, WNOHANG);

		if (got == child)
			return spawn_exit(status);
		if (sigwaitinfo(&all, &si) > 0 && si.si_signo != SIGCHLD && si.si_code != SI_KERNEL)
			kill(child, si.si_signo);
	}
}

static int run(
	const struct lifecycle_options *o, struct making *m, int *status, struct mlr_error *err)
{
	struct mlr_error ignored = MLR_ERROR_INIT;
	pid_t child = -1;
	int r;

	TRY(create(o, m, &child, err));
	fd_close(&m->state.making);
	r = start(&m->state, &m->bundle, err);
	if (o->detach && r == 0)
		return 0;
	*status = r < 0 && o->detach ? 0 : wait_for(child);
	if (!o->keep && delete (&m->state, 1, &ignored) < 0)
		mlr_log_failure(MLR_WARNING, &ignored, ", ignoring");
	return r;
}

int lifecycle_run(const struct lifecycle_options *o, int *status, struct mlr_error *err)
{
	auto_call(making_done) struct making m = MAKING_INIT;

	signal(SIGCHLD, SIG_DFL);
	m.plan.detached = o->detach;
	m.plan.dies_with_parent = !o->detach;
	if (run(o, &m, status, err) < 0) {
		*status = m.status ? m.status : *status;
		return mlr_wrap(err, "run '%s'", o->id);
	}
	return 0;
}

/* --- exec ---------------------------------------------------------------------------- */

/* The member "process" of the new command: that of a file, or the container's own. */
static int make_process(const struct lifecycle_exec *x, json_t *config, struct mlr_error *err)
{
	auto_free char *text = NULL;
	json_t *process = NULL;
	size_t len;

	if (!x->process) {
		process = json_object_get(config, "process");
		json_object_set_new(process, "terminal", json_boolean(x->terminal));
		return 0;
	}
	TRY(file_read(AT_FDCWD, x->process, BUNDLE_CONFIG_MAX, &text, &len, err));
	if (bundle_json(text, len, &process, err) < 0)
		return mlr_wrap(err, "'%s'", x->process);
	json_object_set_new(config, "process", process);
	return 0;
}

/* Apply the command line, byte by byte. */
static int set_command(const struct lifecycle_exec *x, struct plan *p, struct mlr_error *err)
{
	if (x->process)
		return 0;
	strv_done(&p->argv);
	strv_add_all(&p->argv, &x->argv);
	for (size_t i = 0; i < x->env.n; i++) {
		const char *equals = strchr(x->env.v[i], '=');
		auto_free char *name =
			xstrndup(x->env.v[i], equals ? (size_t)(equals - x->env.v[i]) : 0);

		if (!*name)
			return mlr_fail(err, EINVAL, "--env '%s' is not NAME=VALUE", x->env.v[i]);
		plan_env_set(p, name, equals + 1, PLAN_FROM_USER);
	}
	if (x->cwd && *x->cwd != '/')
		return mlr_fail(err, EINVAL, "--cwd '%s' is not absolute", x->cwd);
	if (x->cwd)
		set_ptr(&p->workdir, xstrdup(x->cwd));
	return 0;
}

/* The command's plan: the container is as it is, and has one user. */
static int plan_exec(const struct lifecycle_exec *x, struct making *m, struct mlr_error *err)
{
	auto_free char *text = NULL, *made = NULL;
	auto_call(bundle_done) struct bundle b = BUNDLE_INIT;
	auto_call(plan_done) struct plan own = { 0 };
	size_t len;

	TRY(file_read(m->state.dir, "config.json", BUNDLE_CONFIG_MAX, &text, &len, err));
	TRY(bundle_parse(text, len, &b, err));
	TRY(process_plan(&b, &own, err));
	TRY(make_process(x, b.document, err));
	made = json_dumps(b.document, JSON_COMPACT);
	if (!made)
		return mlr_fail(err, EPROTO, "'process' is not JSON in UTF-8");
	TRY(bundle_parse(made, strlen(made), &m->bundle, err));
	TRY(process_plan(&m->bundle, &m->plan, err));
	TRY(set_command(x, &m->plan, err));
	if (m->plan.id.uid != own.id.uid || m->plan.id.gid != own.id.gid)
		return mlr_fail(err, ENOTSUP, "'user': the container has only the ids %u:%u",
			own.id.uid, own.id.gid);
	m->plan.image = xstrdup(x->o.id);
	m->plan.join = m->state.pid;
	m->plan.join_start = m->state.start;
	return making_keep_seccomp(m, err);
}

/* Lead the process into the container, up to its command. */
static int lead_exec(const struct lifecycle_exec *x, struct making *m, struct mlr_error *err)
{
	struct talk_message said;
	pid_t pid;

	TRY(making_expect(m, TALK_READY, &said, &pid, err));
	TRY(making_put_pid(x->o.pid_file, pid, err));
	TRY(making_go_on(m, err));
	/* The end of its side is execve(2). */
	if (talk_receive(m->talk[0], &said, NULL) < 0)
		return 0;
	m->status = said.status;
	return mlr_pass(err, said.error.code, said.error.text);
}

/* Ask a container that waits for its start for its namespaces. */
static int take_door(struct making *m)
{
	auto_close int call = talk_call(m->state.dir);
	struct talk_message said = { .what = TALK_ENTER };

	TRY(call < 0 ? call : talk_send(call, &said));
	for (size_t i = 0; i < DOOR_KINDS; i++)
		if (fds_receive(call, &said, sizeof(said), &m->door[i]) <= 0 || m->door[i] < 0)
			return -EPIPE;
	m->plan.door = m->door;
	return 0;
}

static int exec_in(
	const struct lifecycle_exec *x, struct making *m, int *status, struct mlr_error *err)
{
	enum status now;
	pid_t child = -1;
	int r;

	TRY(bundle_state_open(x->o.root, x->o.id, &m->state, err));
	now = bundle_state_status(&m->state);
	if (now == STATUS_CREATED && take_door(m) < 0)
		now = bundle_state_status(&m->state); /* meanwhile it has started */
	if (now != STATUS_CREATED && now != STATUS_RUNNING)
		return mlr_fail(err, EINVAL, "container not running%s",
			now == STATUS_PAUSED ? ", but paused" : "");
	TRY(plan_exec(x, m, err));
	r = making_fork(&x->o, m, &child, err);
	if (r == 0)
		r = lead_exec(x, m, err);
	if (r < 0 && child > 0)
		kill(child, SIGKILL);
	if (child > 0 && (r < 0 || !x->o.detach))
		*status = wait_for(child);
	return r;
}

int lifecycle_exec(const struct lifecycle_exec *x, int *status, struct mlr_error *err)
{
	auto_call(making_done) struct making m = MAKING_INIT;

	signal(SIGCHLD, SIG_DFL);
	m.plan.detached = x->o.detach;
	m.plan.dies_with_parent = !x->o.detach;
	if (exec_in(x, &m, status, err) < 0) {
		*status = m.status;
		return mlr_wrap(err, "exec '%s'", x->o.id);
	}
	return 0;
}
