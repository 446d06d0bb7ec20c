#include "doctor/start.h"

#include "base/config.h"
#include "exec/exec.h"
#include "runtime/runtime.h"

static int enter(const char *image, const char *store, struct mlr_error *err)
{
	static char *command[] = { "true", NULL };
	auto_call(config_done) struct config config = { 0 };
	auto_call(plan_done) struct plan p;
	struct exec_options o = { .image = image, .store = store, .command = command };

	plan_init(&p);
	TRY(config_load(&config, err));
	TRY(exec_defaults(&config, &o, err));
	TRY(exec_plan(&o, 0, &p, err));
	return runtime_enter(&p, err);
}

/* In the child, which ends in the container: the parent gets the error as it is. */
__attribute__((noreturn)) static void enter_and_tell(const char *image, const char *store, int to)
{
	struct mlr_error err = MLR_ERROR_INIT;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* The descriptor stays open, above those that runtime_enter() leaves. */
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	if (enter(image, store, &err) < 0)
		file_write_all(to, &err, sizeof(err));
	_exit(0);
}

static int try_in_child(const char *image, const char *store, struct mlr_error *err)
{
	auto_close int from = -1, to = -1;
	struct mlr_error told;
	int pair[2], status = 0, r;
	ssize_t n;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return mlr_fail_errno(err, "make a pipe");
	from = pair[0];
	to = pair[1];
	pid = fork();
	if (pid < 0)
		return mlr_fail_errno(err, "start a process");
	if (pid == 0)
		enter_and_tell(image, store, to);
	close(take_fd(&to));
	n = file_read_full(from, &told, sizeof(told));
	while ((r = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
		;
	if (n == sizeof(told))
		return mlr_pass(err, told.code, told.text);
	if (r == pid && WIFSIGNALED(status))
		return mlr_fail(err, EIO, "the start ended by signal %d", WTERMSIG(status));
	return 0;
}

int doctor_try_start(const char *image, const char *store, struct mlr_error *err)
{
	char dir[] = "/tmp/mlrun-doctor-XXXXXX", tree[sizeof("rootfs:") + sizeof(dir)];
	int r;

	if (image)
		return try_in_child(image, store, err);
	if (!mkdtemp(dir))
		return mlr_fail_errno(err, "make a directory in /tmp");
	snprintf(tree, sizeof(tree), "rootfs:%s", dir);
	r = try_in_child(tree, store, err);
	rmdir(dir);
	return r;
}
