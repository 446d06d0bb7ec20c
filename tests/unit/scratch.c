#include "unit.h"
#include "scratch.h"

#include <signal.h>
#include <sys/prctl.h>

char dir[PATH_MAX];
struct store *st;
struct mlr_error err;

void ok(int r)
{
	if (r < 0)
		fail_msg("%s", err.text);
}

void says(const char *words)
{
	if (!strstr(err.text, words))
		fail_msg("'%s' does not say '%s'", err.text, words);
}

int setup(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/mlr-test-store.XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir));
	memset(&err, 0, sizeof(err));
	ok(store_open(dir, 1, &st, &err));
	return 0;
}

int teardown(void **state)
{
	store_close(st);
	st = NULL;
	return file_remove_tree(AT_FDCWD, dir, NULL);
}

pid_t fork_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	assert_true(pid >= 0);
	return pid;
}
