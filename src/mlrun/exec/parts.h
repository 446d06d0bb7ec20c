/* The parts of a plan, each in a file of its own, which exec.c puts together. */
#pragma once

#include "base/config.h"
#include "exec/exec.h"
#include "gpu/gpu.h"
#include "oci/config.h"
#include "plan/plan.h"

/* Reads files of a plan's image, as gpu and mpi look at them. p must outlive it. */
struct gpu_image exec_gpu_image(struct plan *p);

/* Is this default mount to be left out? "." is the working directory. */
int exec_is_without(const struct exec_options *o, const char *target);

/* --- in_place.c: the image is a directory that is written to --- */

/*
 * Have the mounts leave nothing in the directory: a target that it lacks is made in memory, over
 * the empty directory above it; where that is not empty, the caller's home, working directory and
 * the machine's files are left out. Those of every image, /proc and so on, are made. Call this when
 * all mounts are in the plan.
 *
 * Returns 0, or -ENOENT for an option's target, with a hint.
 */
int in_place_plan(struct plan *p, struct mlr_error *err);

/* --- confinement.c: options that restrict the command --- */

/* Read the descriptors of --preserve-fds and --preserve-fd. Call it first, before mlrun opens any.
 * Returns 0, -EINVAL, or -EBADF for one that is not open. */
int confinement_fds(const struct exec_options *o, struct plan *p, struct mlr_error *err);

/* Read --pid, --init, --ipc, --net, --hostname, --seccomp, --ulimit, --cpus, --memory and
 * --cap-drop. Returns 0, -EINVAL, -EPERM. */
int confinement_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err);

/* --- architecture.c: can this machine run the image's programs? --- */

/*
 * Compare plan->platform with the machine. For another machine's platform, an emulator registered
 * with the kernel (/proc/sys/fs/binfmt_misc) suffices, and a note says so. An unknown machine name
 * passes: the kernel will decide.
 *
 *   root  "/" but in tests
 *
 * Returns 0, or -ENOEXEC naming both, with a hint.
 */
int architecture_check(const char *root, struct plan *p, struct mlr_error *err);

/* --- user.c: --user UID[:GID], or names that the image knows --- */

/*
 * Change the plan's inner identity, after its root is known. Only the names inside change: the one
 * id of the user namespace is mapped to the caller, so new files belong to the caller, and no other
 * user's files become accessible.
 *
 *   text        "1000", "1000:100", "jovyan", "jovyan:users"
 *   image_home  set to 1 if the home directory is the image's
 *
 * A user in the image's /etc/passwd gets its name, group and home directory from there; otherwise
 * the group is the caller's, or 0 for user 0.
 *
 * Returns 0; -EINVAL; -ENOENT for a name that the image lacks; -ENOTSUP for a name if the image is
 * a squashfs file and mlrun was built without libsquashfuse.
 */
int user_plan(const char *text, struct plan *p, int *image_home, struct mlr_error *err);

/* For tests: find a line in passwd(5) or group(5) text by its name or, with name NULL, by its id.
 * Gives its fields, at most 7, in one allocation to free(); NULL if not found. */
char *user_find_line(const char *text, const char *name, unsigned id, char *fields[7]);

/* --- defaults.c: the section [exec] of mlrun.conf, and what a dialect expects --- */

enum dialect_workdir { WORKDIR_CALLERS, WORKDIR_IMAGES, WORKDIR_OR_HOME };

struct dialect {
	const char *hidden[4];        /* the caller's variables that stay outside */
	int hides_hosts;              /* and those about the host's files */
	int root_has_home;            /* root's home directory is the caller's */
	enum dialect_workdir workdir; /* the first choice, or the caller's, else home */
	int no_caller_dir;            /* the caller's working directory stays outside */
	int hosts_dev, var_tmp;       /* /dev and /var/tmp are the host's */
	int keeps_fds;                /* the command has all of the caller's descriptors */
	int gpu_is_wish;              /* without a GPU the command starts, with a note */
	const char *kept[4];          /* further variables that --clearenv keeps */
	int enters_kept; /* commands enter a kept container that runs, whatever mounts are asked for
			  */
	int first_counts; /* of the user's mounts on one target */
	int begins_anew;  /* a command that joins a container begins as one in a new container does
			   */
};
const struct dialect *exec_dialect_of(const struct exec_options *o);

/* Mount the volumes of the configuration, with origin "site" or "config". A missing source is an
 * error that names file and line, unless the volume has the flag "optional". c may be NULL. */
int defaults_volumes(const struct config *c, struct plan *p, struct mlr_error *err);

/* --- join.c: a command in an existing container, exec --join PID --- */

/*
 * Plan a command beside the process o->join: in its container, in its working directory (unless
 * -w), with the environment that it started with, changed by --env-file, -e and --unset-env.
 *
 * Where the dialect begins anew, the working directory is the caller's, or home if that is not
 * inside, the caller's variables pass, and scripts gets those of the image (scripts.c).
 *
 * Returns 0; -ESRCH; -EPERM for a process that may not be inspected; -EINVAL for one outside
 * mlrun's containers, for a missing command, and for options that would change the container.
 */
int join_plan(
	const struct exec_options *o, struct plan *p, struct strv *scripts, struct mlr_error *err);

/* --- scripts.c: what Apptainer keeps in its images, /.singularity.d --- */

/* Look for scripts. ret gets the shell that reads them and their paths in order, or stays empty.
 * c gets the runscript, if it names no command, and without a shell what scripts plainly export. */
void scripts_read(struct plan *p, struct oci_config *c, struct strv *ret);

/* The same in the root directory of a container that runs. */
void scripts_read_root(int root, struct strv *ret);

/* Have the shell read them and then become the command. What options, settings, GPUs and MPI have
 * set is set again after them, and o->expand_env last. Call this when the environment is planned.
 */
void scripts_plan(const struct exec_options *o, const struct strv *scripts, struct plan *p);

/* --- environment.c: the caller's, the image's, files' and options' variables; later ones win ---
 */

/*
 * Fill in p->env and p->dropped.
 *
 *   caller  the caller's environ
 *   image   the image's Env
 *
 * Returns 0, or -EINVAL for an invalid variable, naming the option or the file and line.
 */
int environment_plan(const struct exec_options *o, char *const *caller, const struct strv *image,
	struct plan *p, struct mlr_error *err);

/* The same for an existing container: the joined process's variables, of origin
 * PLAN_FROM_JOINED, then the options'. */
int environment_plan_joined(const struct exec_options *o, char *const *caller,
	const struct strv *joined, struct plan *p, struct mlr_error *err);

/*
 * Bring certificates of authorities: files that the caller's SSL_CERT_FILE and kin name, and o->ca
 * for programs whose variables nobody has set. They are mounted below /run/mlrun. Call this when
 * the environment and all other mounts are in the plan.
 */
int certificates_plan(const struct exec_options *o, struct plan *p, struct mlr_error *err);

/* Labels of images, mlrun-exec(1). */
#define LABEL_GPU "org.mlrun.gpu"
#define LABEL_MPI "org.mlrun.mpi"

/* Set --gpu and --mpi as the image's labels say, if neither option nor configuration did. Strings
 * stay the labels'. labels: keys and values alternate. */
void labels_read(const struct strv *labels, struct exec_options *o, struct plan *p);

/* Leave out the caller's TMPDIR and kin (TMP, TEMP, TEMPDIR, XDG_RUNTIME_DIR) if their directory is
 * not mounted, with a remark in the plan, and mark prefixes, search paths and locales for
 * plan_env_look(). Call this when all mounts are in the plan. */
void environment_drop_unmounted(struct plan *p);

/* --- caller.c: ids, names, home and working directory of the caller --- */

/* Fill in p->id from the process's ids and the user database; an unknown uid gets a name of its
 * own. With fakeroot the inner ids are 0 and home is /root. */
void caller_identity(struct plan *p, int fakeroot);

/* The caller's home directory on the host as a clean path: $HOME, else the user database's. To
 * free(); NULL if neither is absolute. */
char *caller_home(void);

enum caller_place { CALLER_ELSEWHERE, CALLER_AT_HOME, CALLER_ABOVE_HOME };

/*
 * The caller's working directory if a container may have it, to free(). NULL if it is "/", a
 * directory of the system, or gone.
 *
 *   home   the caller's home directory, or NULL
 *   place  where the directory is relative to home, whatever links home's name contains
 */
char *caller_workdir(const char *home, enum caller_place *place);

/* The name by which the caller's shell knows this directory (PWD), where it leads by a link; else
 * NULL. */
const char *caller_workdir_link(const char *cwd);

/* Is this clean path in a system directory, which an image has itself? */
int caller_is_system_path(const char *path);

/*
 * Provide a writable HOME: the host's with --home, else an empty one in memory, at the same path if
 * possible. root gets the image's /root, and a user of the image the image's home directory, unless
 * the root is read-only.
 */
int caller_plan_home(const struct exec_options *o, const char *home, int image_home, struct plan *p,
	struct mlr_error *err);

/* Choose the working directory: the first of -w, the caller's, the image's, "/"; a dialect has an
 * image's own before the caller's, or home in its place. users: mounts that are planned later. */
int caller_plan_workdir(const struct exec_options *o, const struct oci_config *c, const char *home,
	const struct plan *users, struct plan *p, struct mlr_error *err);

/* Let the command begin at home where the directory is not in the container: Apptainer's users name
 * the host's. Call this when all mounts are in the plan. */
void caller_keep_workdir(const struct exec_options *o, struct plan *p);

/* --- limit.c: resource limits as users write them, nofile=1024:4096 --- */

/*
 * Add one --ulimit to the plan: NAME=SOFT[:HARD]; HARD defaults to SOFT. Names are Docker's: core,
 * cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime, sigpending,
 * stack, and as (address space). Units are setrlimit(2)'s: bytes, seconds, counts. -1 and
 * "unlimited" mean no limit.
 *
 * Returns 0, -EINVAL, or -EPERM if the caller's hard limit is lower and may not be raised.
 */
int limit_plan(const char *text, struct plan *p, struct mlr_error *err);

/* Set plan->cpus, in hundredths of a processor, from --cpus "1.5". */
int limit_cpus(const char *text, struct plan *p, struct mlr_error *err);

/* Set plan->memory from --memory "4g". Returns like config_bytes(). */
int limit_memory(const char *text, struct plan *p, struct mlr_error *err);
