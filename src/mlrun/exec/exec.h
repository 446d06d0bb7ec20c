/*
 * exec: makes a plan from options, image and caller. The caller of exec then becomes the command.
 */
#pragma once

#include "base/config.h"
#include "mpi/host.h"
#include "plan/plan.h"
#include "rootfs/kept.h"

/* When to look for an image in its registry. */
enum exec_pull { EXEC_PULL_UNSET, EXEC_PULL_MISSING, EXEC_PULL_ALWAYS, EXEC_PULL_NEVER };

/* --mpi: may ranks of one step on this node share a container? HOST: they may, and the machine's
 * MPI takes the image's place. */
enum exec_mpi { EXEC_MPI_UNSET, EXEC_MPI_AUTO, EXEC_MPI_NONE, EXEC_MPI_HOST };

/* Whose command line it is; they expect different things (defaults.c). CONTAINED: Apptainer's with
 * --contain. */
enum exec_dialect { EXEC_MLRUN, EXEC_PYXIS, EXEC_APPTAINER, EXEC_CONTAINED };
extern const char *const exec_dialect_names[]; /* NULL ends them */

/* A switch that the configuration may set as well. */
enum exec_switch { EXEC_UNSET, EXEC_NO, EXEC_YES };

/* The user's options. Zero is every field's default, which the configuration's [exec] section may
 * change. Strings stay the caller's. */
struct exec_options {
	const char *store; /* --store, or NULL */
	const char *image;
	char *const *command;   /* NULL-terminated; empty: the image's Cmd */
	const char *entrypoint; /* NULL: the image's; "": none */
	const char *script;     /* the image's file that runs instead, if it is there; or NULL */
	const char *workdir;    /* -w, or NULL; "": the image's */
	struct strv volumes;    /* -v texts */
	struct strv mounts;     /* --mount texts */
	struct strv tmpfs;      /* --tmpfs texts, "DST[:OPTIONS]" */
	struct strv devices;    /* --device texts, "/dev/x[:DST[:rwm]]" */
	struct plan *given;     /* mounts that need no text: moved from here; or NULL */
	struct strv env;        /* -e texts, "K=V" or "K" */
	struct strv env_files;  /* --env-file names */
	struct strv expand_env; /* "K=V": the image's shell expands V as in double quotes */
	struct strv unset_env;  /* --unset-env globs */
	struct strv keep_fds;   /* --preserve-fd texts, "FD[,FD]..." */
	struct strv cap_drop;   /* --cap-drop names, "ALL" */
	struct strv ulimits;    /* --ulimit texts, "nofile=1024[:4096]" */
	int preserve_fds;       /* --preserve-fds: that many from 3 on */
	const char *user;       /* --user UID[:GID], or NULL */
	const char *gpu;        /* --gpu: "auto", "all", "none", a list; NULL: not set */
	enum plan_origin gpu_origin; /* where it comes from; PLAN_FROM_NOBODY: an option */
	const char *ca;              /* a file of CA certificates for the programs, or NULL */
	enum plan_origin ca_origin;  /* likewise */
	const char *hostname, *seccomp, *cpus, *memory; /* or NULL */
	const char *
		write; /* --write: NULL: no; "": named after the image; else the container's name */
	enum rootfs_kept_how write_if; /* --write-if */
	int until_job_ends;   /* --until-job-ends: a container of --write ends with the job */
	int write_is_passing; /* the caller removes the container of --write, or the job's end does
			       */
	const char *join_tag; /* --join-tag, or NULL */
	pid_t join;           /* --join PID, or 0; image is NULL then */
	const char
		*join_env; /* a file with its variables, a NUL after each; NULL: /proc has them */
	enum exec_mpi mpi;
	enum mpi_host_level mpi_level; /* with EXEC_MPI_HOST */
	int mpi_is_wish;               /* EXEC_MPI_HOST is a label's */
	enum exec_pull pull;
	enum exec_switch home;
	enum plan_origin home_origin; /* likewise */
	const struct config *config;  /* with the [exec] section's volumes and variables; or NULL */
	const char *home_place;       /* --home=SRC[:DST], or NULL: the caller's */
	int clearenv, read_only, fakeroot;
	struct strv
		overlays; /* "DIR[:ro]", lowest first: with "upper", of which one is written to */
	struct strv without; /* default mounts to leave out; ".": the working directory */
	int in_place;        /* what is written goes to the image, a plain directory */
	enum exec_dialect dialect;
	/* For a step of a build: nothing of the caller's and the machine's is there, neither
	 * variables nor the working directory nor /tmp, but what options bring, the standard
	 * devices, and how to reach the network. */
	int apart;
	int pid, init, ipc,
		no_network; /* namespaces of its own: --pid, --init, --ipc=private, --net=none */
	/* Brings an image into the store, if it is missing or with EXEC_PULL_ALWAYS. Returns 0, or
	 * an exit status after printing the error. NULL: fetch nothing. */
	int (*fetch)(const struct exec_options *o);
};

/* Read a word of --mpi: "auto", "none", "host", "host:strict" and so on. Returns 0, or -EINVAL. */
int exec_mpi_read(const char *word, struct exec_options *o);

/*
 * Fill in options that are not set from the configuration and from the environment variables
 * MLRUN_GPU, MLRUN_HOME, MLRUN_MPI and MLRUN_PULL. c stays the caller's and must outlive o. Returns
 * 0, or -EINVAL for an invalid variable.
 */
int exec_defaults(const struct config *c, struct exec_options *o, struct mlr_error *err);

/*
 * Turn options, image, caller and defaults into a plan. Changes nothing but, with lease set, the
 * store's record that this process uses the image, and what o->fetch does. Options that are wrong
 * whatever the image are reported before it is fetched.
 *
 * Returns 0, a negative errno, or the exit status of a fetch that failed.
 */
int exec_plan(const struct exec_options *o, int lease, struct plan *p, struct mlr_error *err);

/* Can the store's file system hold what a container writes, an overlay's upper layer? NFS, Lustre
 * and FUSE cannot. Tried once for a store; 1 if it cannot be tried. */
int exec_store_keeps(struct store *st);

/* Find the caller's container of a job step of Slurm's on this node, "JOB.STEP". Returns 0 with a
 * process in it, or -ESRCH. */
int exec_find_step(const char *step, pid_t *ret, struct mlr_error *err);
