#include "spank/stage.h"

#include "base/spawn.h"
#include "spank/command.h"
#include "spank/submit.h"

#define SETTLE_S 600 /* so long after it came a file may still be unopened */

static char *prefix(void)
{
	return xasprintf("mlrun-stage-%u-", (unsigned)getuid());
}

/* The step's file in a directory, to free(); NULL if Slurm does not name the step. */
static char *file_of(spank_t sp, const char *dir, const char *word)
{
	auto_free char *name = prefix();
	uint32_t job = 0, step = 0;

	return word && spank_get_item(sp, S_JOB_ID, &job) == ESPANK_SUCCESS &&
			spank_get_item(sp, S_JOB_STEPID, &step) == ESPANK_SUCCESS
		? xasprintf("%s/%s%u.%u-%s.sqsh", dir, name, job, step, word)
		: NULL;
}

/* --- srun ----------------------------------------------------------------------------------- */

/* Run a command that says by itself what is wrong. Returns 0 or -1. */
static int run(const char *program, char *const *argv)
{
	const struct spawn s = { program, argv };
	pid_t child;
	int r = spawn_start(&s, &child);

	if (r < 0) {
		slurm_error(
			"mlrun: --container-stage: cannot start '%s': %s", program, strerror(-r));
		return -1;
	}
	return spawn_wait(child) == 0 ? 0 : -1;
}

static int has_image(const char *mlrun, const char *image)
{
	char *const argv[] = { "mlrun", "inspect", "--json", "--", (char *)image, NULL };
	const struct spawn s = { mlrun, argv, .out = SPAWN_NOTHING, .err = SPAWN_NOTHING };
	pid_t child;

	return spawn_start(&s, &child) == 0 && spawn_wait(child) == 0;
}

/* Write the image to a temporary file. */
static int make_file(const char *mlrun, const char *image, const char *file)
{
	char *const pull[] = { "mlrun", "pull", "-q", "--", (char *)image, NULL };
	char *const export[] = { "mlrun", "export", "-q", "--format=squashfs", "--", (char *)image,
		(char *)file, NULL };

	if (!has_image(mlrun, image) && run(mlrun, pull) < 0)
		return -1;
	return run(mlrun, export);
}

static int copy(uint32_t job, const char *file, const char *to)
{
	auto_free char *id = xasprintf("--jobid=%u", job);
	char *const argv[] = { "sbcast", id, (char *)file, (char *)to, NULL };

	return run("sbcast", argv);
}

/* Make a file in $TMPDIR that nobody else may write to. Returns its path, to free(), or NULL. */
static char *make_temporary(void)
{
	const char *dir = getenv("TMPDIR");
	char *path = xasprintf("%s/mlrun-stage.XXXXXX", dir && *dir == '/' ? dir : "/tmp");
	int fd = mkstemp(path);

	if (fd >= 0) {
		close(fd);
		return path;
	}
	slurm_error("mlrun: --container-stage: make '%s': %s", path, strerror(errno));
	free(path);
	return NULL;
}

int stage_send(spank_t sp, const struct spank_site *site, const char *const *settings)
{
	auto_free char *to = file_of(sp, settings[SPANK_STAGE], getenv(SPANK_STAGE_VARIABLE));
	auto_free char *file = NULL, *image = NULL;
	auto_free char *plain = command_image(settings[SPANK_IMAGE], NULL);
	uint32_t job = 0;
	int r;

	if (!to || !plain || spank_get_item(sp, S_JOB_ID, &job) != ESPANK_SUCCESS) {
		slurm_error("mlrun: --container-stage: Slurm does not name the step");
		return -1;
	}
	if (strncmp(plain, "squashfs:", 9) == 0)
		return copy(job, plain + 9, to);
	image = command_pinned(plain, getenv(SPANK_PIN_VARIABLE));
	file = make_temporary();
	if (!file)
		return -1;
	r = make_file(site->mlrun, image, file);
	if (r == 0 && chmod(file, 0600) < 0) /* sbcast gives the copies this mode */
		r = -1;
	if (r == 0)
		r = copy(job, file, to);
	unlink(file);
	return r;
}

/* --- tasks ---------------------------------------------------------------------------------- */

/* Remove this user's file of an earlier step, unless a process may still need it. A lease for
 * writing is not given for a file that is open elsewhere (fcntl(2)). */
static void sweep_one(int dir, const char *name)
{
	auto_close int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		st.st_mtim.tv_sec + SETTLE_S > time(NULL) || fcntl(fd, F_SETLEASE, F_WRLCK) < 0)
		return;
	unlinkat(dir, name, 0);
}

static void sweep(const char *path)
{
	auto_free char *name = prefix();
	auto_dir DIR *d = opendir(path);
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d)))
		if (strncmp(e->d_name, name, strlen(name)) == 0)
			sweep_one(dirfd(d), e->d_name);
}

int stage_find(spank_t sp, const char *dir, const char *word, char **ret, struct mlr_error *err)
{
	auto_free char *file = file_of(sp, dir, word);
	struct stat st;

	if (!file)
		return mlr_fail(err, EINVAL, "--container-stage: Slurm does not name the step");
	if (lstat(file, &st) < 0)
		return mlr_fail_errno(err, "--container-stage: '%s'", file);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return mlr_fail(
			err, EPERM, "--container-stage: '%s' belongs to another user", file);
	if (stat(dir, &st) == 0 && (st.st_mode & S_IWOTH) &&
		(!(st.st_mode & S_ISVTX) || (st.st_uid != 0 && st.st_uid != geteuid())))
		return mlr_fail(err, EPERM,
			"--container-stage: others can exchange what is in '%s': use /tmp or a "
			"directory of your own",
			dir);
	sweep(dir);
	*ret = take_ptr(&file);
	return 0;
}
