#include "cli/fetch.h"

#include "cli/cli.h"
#include "cli/services.h"

#include "base/program.h"
#include "base/spawn.h"
#include "job/job.h"
#include "oci/name.h"
#include "rootfs/kept.h"
#include "runtime/meeting.h"

#include <linux/close_range.h>
#include <sys/file.h>
#include <sys/prctl.h>

int cli_is_spokesman(void)
{
	const char *rank = job_rank_read(environ).number;

	return !rank || strcmp(rank, "0") == 0;
}

/* --- the child ---------------------------------------------------------------------- */

int cli_can_fetch(const char *image)
{
	return !oci_transport_is_root(oci_transport_of(image, NULL)) && !rootfs_kept_of(image) &&
		strncmp(image, "sha256:", strlen("sha256:")) != 0;
}

/* In the child. It gets neither input nor descriptors meant for the command. */
static void become_pull(const char *path, char *const *argv, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY);

	/* mlrun's end also ends the child. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(CLI_FAILED);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(CLI_FAILED);
	fds_close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	mlr_log(MLR_ERROR, "pull: cannot start '%s': %s", path,
		strerror(-program_become(path, argv)));
	_exit(CLI_FAILED);
}

/* Wait for a command of mlrun's as system(3) does: it handles ^C, and leaves a consistent store.
 * Returns its exit status. */
static int wait_for(pid_t child)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, was_int, was_quit;
	int status;

	sigaction(SIGINT, &ignore, &was_int);
	sigaction(SIGQUIT, &ignore, &was_quit);
	status = spawn_wait(child);
	sigaction(SIGINT, &was_int, NULL);
	sigaction(SIGQUIT, &was_quit, NULL);
	return status < 0 ? CLI_FAILED : spawn_exit(status);
}

int cli_pull(const char *image, const char *store, int quiet)
{
	auto_free char *path = program_path("mlrun-pull");
	auto_strv struct strv argv = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	pid_t self = getpid(), child;

	strv_add_words(&argv, "mlrun", "pull");
	if (store)
		strv_addf(&argv, "--store=%s", store);
	if (mlr_log_level >= MLR_DEBUG)
		strv_add(&argv, "--verbose");
	else if (quiet || mlr_log_level < MLR_INFO)
		strv_add(&argv, "--quiet");
	strv_add_words(&argv, "--", image);

	child = fork();
	if (child == 0)
		become_pull(path, strv_argv(&argv), self);
	if (child < 0) {
		mlr_fail_errno(&err, "pull '%s': fork", image);
		return cli_fail(&err);
	}
	return wait_for(child);
}

/* --- the ranks of a step ------------------------------------------------------------- */

#define PREFIX  "pull-"
#define OLD_AGE 3600 /* seconds after which a failure is forgotten */
#define TEXT    4096 /* bytes of a file: a status and the ranks that had it */

/*
 * A file of this name in the user's private directory in the node's memory stands for the fetch of
 * one image into one store by one step. Who locks it while it is empty fetches and writes the exit
 * status into it; the others then find the status. A success leaves no file: later ranks find the
 * image. Each rank that has had a failure is listed, so that one that tries again fetches again. If
 * the first is killed, the next one fetches.
 */
static char *file_of(const char *step, const struct exec_options *o)
{
	const char *store = o->store ? o->store : getenv("MLRUN_STORE");
	auto_free char *text = xasprintf("%s %s %s", step, store ? store : "", o->image);
	char hex[HASH_HEX_SIZE];

	hash_name(text, hex);
	return xasprintf(PREFIX "%.24s", hex);
}

static int lock(int dir, const char *name)
{
	auto_close int fd =
		openat(dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = TEMP_FAILURE_RETRY(flock(fd, LOCK_EX));
	return r < 0 ? -errno : take_fd(&fd);
}

static int fetch_here(const struct exec_options *o, int speak)
{
	mlr_log(speak && o->pull != EXEC_PULL_ALWAYS ? MLR_INFO : MLR_DEBUG,
		"'%s' is not in the store and is pulled", o->image);
	if (speak && services_has(o->store, o->image))
		mlr_info("mlrun exec --join %s is the way into the service of that name", o->image);
	return cli_pull(o->image, o->store, !speak);
}

/* This rank, as a word of the file. */
static void rank_word(char *out, size_t size)
{
	const char *rank = job_rank_read(environ).number;

	snprintf(out, size, " %s ", rank ? rank : "-");
}

/* The status that another rank has left for this one, or -1. */
static int find_status(int fd)
{
	char text[TEXT] = "", word[32];
	long status;

	rank_word(word, sizeof(word));
	if (pread(fd, text, sizeof(text) - 1, 0) <= 0 || strstr(text, word))
		return -1;
	if (lseek(fd, 0, SEEK_END) >= 0)
		(void)dprintf(fd, "%s", word);
	/* A container may have written it: a success without an image is an error later, and a
	 * status that no exit(3) gives would end as one. */
	status = strtol(text, NULL, 10);
	return status >= 0 && status <= CLI_FAILED ? (int)status : -1;
}

/* Keep a failure for the ranks that come later, and forget those of earlier steps. */
static void leave_status(int dir, int fd, const char *name, int status)
{
	auto_dir DIR *d = file_open_dir(dir, ".", 0);
	const struct dirent *e;
	struct stat st;
	char word[32];

	rank_word(word, sizeof(word));
	if (ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0)
		(void)dprintf(fd, "%d%s", status, word);
	if (status == 0)
		unlinkat(dir, name, 0);
	while (d && (e = readdir(d)))
		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0 &&
			fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0 &&
			time(NULL) - st.st_mtime > OLD_AGE)
			unlinkat(dir, e->d_name, 0);
}

static int is_first_node(void)
{
	const char *node = getenv("SLURM_NODEID");

	return node ? strcmp(node, "0") == 0 : cli_is_spokesman();
}

/* On several nodes a failure says where it was. */
static void tell_node(const struct exec_options *o)
{
	const char *nodes = getenv("SLURM_STEP_NUM_NODES");
	char host[HOST_NAME_MAX + 1] = "";

	if (nodes && strcmp(nodes, "1") != 0 && gethostname(host, sizeof(host) - 1) == 0)
		mlr_log(MLR_ERROR, "node '%s' has no image '%s'", host, o->image);
}

static int fetch_for_step(const struct exec_options *o, const char *step)
{
	auto_free char *name = file_of(step, o);
	auto_close int dir = meeting_dir_open(NULL), fd = dir < 0 ? -1 : lock(dir, name);
	int status = fd < 0 ? -1 : find_status(fd);

	if (status >= 0) {
		mlr_debug("another process of the step fetched '%s', with status %d", o->image,
			status);
		return status;
	}
	status = fetch_here(o, is_first_node());
	if (status != 0)
		tell_node(o);
	if (fd >= 0)
		leave_status(dir, fd, name, status);
	return status;
}

int cli_fetch(const struct exec_options *o)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *step = job_step(environ);

	if (cli_refuse_file(o->image, &err) < 0)
		return cli_fail_at(&err, "exec '%s'", o->image);
	return step ? fetch_for_step(o, step) : fetch_here(o, cli_is_spokesman());
}
