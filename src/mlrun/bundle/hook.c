#include "bundle/hook.h"

#include "base/json.h"
#include "base/proc.h"
#include "base/spawn.h"

#include <linux/close_range.h>
#include <poll.h>

/* In the child. What hooks print is not the container's output. */
__attribute__((noreturn)) static void become(const struct bundle_hook *h, int in)
{
	char *alone[] = { h->path, NULL };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(126);
	fds_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	execve(h->path, h->args.n ? strv_argv(&h->args) : alone, strv_argv(&h->env));
	_exit(errno == ENOENT ? 127 : 126);
}

static int wait_for(const struct bundle_hook *h, pid_t child, int *status)
{
	auto_close int fd = h->timeout ? proc_pidfd(child) : -1;
	struct pollfd p = { fd, POLLIN, 0 };
	int late = 0;

	if (fd >= 0 && poll(&p, 1, h->timeout > 2000000 ? -1 : h->timeout * 1000) == 0) {
		late = 1;
		kill(child, SIGKILL);
	}
	*status = spawn_wait(child);
	return *status < 0 ? *status : late ? -ETIMEDOUT : 0;
}

static int run(const struct bundle_hook *h, const char *state, struct mlr_error *err)
{
	/* From memory, so a hook that does not read it blocks nobody. */
	auto_close int in = file_of_text(state);
	int status = 0, r;
	pid_t child;

	if (in < 0)
		return mlr_result(err, in, "keep the state for hooks");
	child = fork();
	if (child == 0)
		become(h, in);
	if (child < 0)
		return mlr_fail_errno(err, "fork");
	r = wait_for(h, child, &status);
	if (r == -ETIMEDOUT)
		return mlr_fail(err, ETIMEDOUT, "not done after %d seconds", h->timeout);
	if (r < 0)
		return mlr_result(err, r, "wait");
	if (WIFSIGNALED(status))
		return mlr_fail(err, EIO, "ended by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status) == 127)
		return mlr_fail(err, ENOENT, "no such program");
	return WEXITSTATUS(status) ? mlr_fail(err, EIO, "ended with status %d", WEXITSTATUS(status))
				   : 0;
}

int hooks_run(const struct state *s, const struct bundle *b, enum bundle_stage stage,
	enum status status, struct mlr_error *err)
{
	const struct bundle_hooks *h = &b->hooks[stage];
	auto_free char *state = mlr_json_print(bundle_state_json(s, b, status), JSON_COMPACT);

	for (size_t i = 0; i < h->n; i++) {
		struct mlr_error why = MLR_ERROR_INIT;

		if (run(&h->v[i], state, &why) == 0)
			continue;
		mlr_wrap(&why, "%s hook '%s'", bundle_stage_name(stage), h->v[i].path);
		if (stage != BUNDLE_POSTSTART && stage != BUNDLE_POSTSTOP)
			return mlr_pass(err, why.code, why.text);
		mlr_log_failure(MLR_WARNING, &why, ", ignoring");
	}
	return 0;
}
