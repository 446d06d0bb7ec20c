/*
 * plan: describes a container: root, mounts, devices, variables, ids. Data only.
 *
 * Everything that changes a container is an entry here. Any room may add one; only runtime acts on
 * it. An entry carries its origin, so that `--explain` can print it and a test can check it without
 * starting anything.
 */
#pragma once

#include "base/base.h"

#include <sys/resource.h>

/* Where an entry comes from. */
enum plan_origin {
	PLAN_FROM_NOBODY,
	PLAN_FROM_DEFAULT, /* mlrun itself */
	PLAN_FROM_USER,    /* an option */
	PLAN_FROM_IMAGE,   /* its configuration */
	PLAN_FROM_CALLER,  /* the caller's environment */
	PLAN_FROM_SITE,    /* /etc/mlrun/mlrun.conf */
	PLAN_FROM_CONFIG,  /* the user's own mlrun.conf */
	PLAN_FROM_JOINED,  /* the container that is joined */
	PLAN_FROM_MPI,
	PLAN_FROM_GPU,
	PLAN_FROM_CDI,
};

enum plan_kind {
	PLAN_BIND,    /* a host file or directory, with the mounts below it */
	PLAN_TMPFS,   /* an empty directory in memory, private to the container, mode 0755 */
	PLAN_COPY,    /* a copy of a host file, in place of the image's file */
	PLAN_SYMLINK, /* source is the link's text; what the image has there stays */
	PLAN_DEVPTS,  /* pseudo-terminals of the container's own (devpts, newinstance) */
	PLAN_OVERLAY, /* a host directory that is written to in memory; the host's does not change.
		       * Or an overlay as it is, by options */
	PLAN_PROC,    /* procfs of the container's own PID namespace */
	PLAN_SYSFS,   /* sysfs of the container's own network namespace */
	PLAN_MQUEUE,  /* POSIX message queues of the container's own IPC namespace */
	PLAN_FILE,    /* a file with this text: in place of the image's, or mounted on its path */
	PLAN_SEAL,    /* make an earlier entry's mount at the target read-only; it has flags */
};

enum plan_flag {
	PLAN_READONLY = 1 << 0,
	PLAN_NOSUID = 1 << 1,
	PLAN_NODEV = 1 << 2,
	PLAN_NOEXEC = 1 << 3,
	PLAN_OPTIONAL = 1 << 4, /* no error if the source is missing, or if the target cannot be
				 * made: the root is read-only (runtime/overlay.h), or the target
				 * lies behind a link of another user's image */
	PLAN_REPLACE =
		1 << 5, /* PLAN_SYMLINK: replace what the image has there, but no directory */
	PLAN_NOATIME =
		1 << 6, /* this and the next have no effect on binds: the kernel locks times */
	PLAN_NODIRATIME = 1 << 7,
};

struct plan_mount {
	enum plan_kind kind;
	char *source;  /* absolute host path; a symlink's text; of a tmpfs its name in /proc/mounts;
			* NULL if the kernel makes it */
	char *target;  /* absolute path inside, resolved there as if / were the image */
	char *options; /* PLAN_TMPFS: a tmpfs of its own, by tmpfs(5)'s options,
			  "size=1g,mode=1777"; NULL: a directory of the scratch. PLAN_OVERLAY:
			  NULL, or overlayfs's own, "lowerdir=/a:/b,upperdir=/u,workdir=/w", of
			  which source is the first directory. Else NULL */
	char *text;    /* PLAN_FILE: its bytes, text_size of them; else NULL */
	size_t text_size;
	mode_t mode; /* PLAN_FILE: that of a file in memory, mounted read-only; 0: it is written
			into the root, with mode 0644 */
	uint32_t uid,
		gid; /* PLAN_FILE: the owner of that file in memory, as a fake root shows it */
	unsigned flags;
	enum plan_origin origin;
	dev_t dev; /* of the file that the source was seen to be: another one is an error */
	ino_t ino; /* 0: not checked */
};

struct plan_env {
	char *key, *value;
	unsigned hash; /* of the key */
	enum plan_origin origin;
	char *shadowed; /* the value that this one replaced, or NULL */
	enum plan_origin shadowed_by;
	char *if_there;        /* absolute paths, separated by ':'. If none of them is inside, the
				  variable is left out; NULL: it stays */
	const char *otherwise; /* static: the value that it has then instead; NULL: none */
};

/* The command's user inside. Names are for /etc/passwd and /etc/group. */
struct plan_identity {
	uid_t uid, host_uid; /* inner id and the caller's own */
	gid_t gid, host_gid;
	int is_fake_root; /* root was asked for: it keeps what package managers need */
	uid_t shown_uid;  /* in a fake root: whom the command believes to be, and its groups */
	gid_t shown_gid, *groups;
	size_t n_groups;
	char *name, *group, *home, *shell; /* NULL: the image's passwd and group stay as they are */
};

/* The fate of files written to the root. */
enum plan_root {
	PLAN_ROOT_MEMORY,    /* they stay in memory and are lost at the end */
	PLAN_ROOT_READ_ONLY, /* writing fails: EROFS */
	PLAN_ROOT_KEPT,      /* they go to plan.kept, a named container's directory in the store */
	PLAN_ROOT_ITSELF,    /* they go to plan.lowers, which is one tree */
};

/* Namespaces besides user and mount, which every container has. */
enum plan_namespace {
	PLAN_NS_PID = 1 << 0,
	PLAN_NS_IPC = 1 << 1,
	PLAN_NS_NET = 1 << 2, /* with loopback only, which is up */
	PLAN_NS_UTS = 1 << 3,
};

/* A resource limit, setrlimit(2); RLIM_INFINITY is unlimited. */
struct plan_limit {
	int resource; /* RLIMIT_NOFILE and so on */
	rlim_t soft, hard;
};

/* The sets of capabilities(7); bit n is capability n. */
struct plan_capabilities {
	uint64_t bounding, effective, permitted, inheritable, ambient;
};

/* A mounted shared library that the dynamic linker must find (ld.so(8)). */
struct plan_library {
	char *name; /* what programs ask for, its DT_SONAME or another link's name: "libcuda.so.1"
		     */
	char *path; /* inside: "/usr/local/nvidia/lib64/libcuda.so.1" */
	int bits;   /* 64 or 32 */
	enum plan_origin origin;
};

/* A directory of the image that needs another mode than its tree has. */
struct plan_open {
	char *path; /* absolute; "/" for the root */
	mode_t mode;
};

/* A decision and its reason, for --explain and --verbose. */
struct plan_remark {
	char *text; /* a sentence */
	enum plan_origin origin;
};

struct plan {
	struct strv lowers; /* host directories of the root, topmost first, absolute */
	struct plan_open *open;
	size_t n_open;
	char *squashfs; /* or the absolute path of the root's squashfs file, served by FUSE; else
			   NULL */
	char *part;     /* "OFFSET+BYTES": the image is that part of the file; NULL: all of it */
	char *as_trees; /* a hint if FUSE fails, "keep the image as a tree of files: …"; or NULL */
	char *root_choice; /* the formats to choose the root from, for people; or NULL */
	enum plan_root root;
	char *kept; /* PLAN_ROOT_KEPT: a host directory with "upper" and "work", absolute */
	struct plan_identity id;
	struct plan_mount *mounts; /* in the order of mounting */
	size_t n_mounts;
	struct plan_env *env;
	size_t n_env;
	struct strv dropped; /* names of the caller's variables that were left out */
	struct strv prelude; /* words before argv: a shell that sets variables and becomes the
			      * command; mostly empty */
	struct strv argv;
	enum plan_origin argv_origin;
	char *workdir; /* absolute, inside; made if it does not exist */
	enum plan_origin workdir_origin;
	int *keep_fds; /* descriptors above 2 that the command inherits */
	size_t n_keep_fds;
	unsigned namespaces;   /* enum plan_namespace */
	int in_user_namespace; /* the caller is in the container's user namespace: none is made */
	int init;              /* mlrun is the PID namespace's first process, and reaps */
	int detached; /* nobody waits outside the PID namespace: its first process is a child of
			 the caller's parent */
	int dies_with_parent;  /* the process that waits outside is killed with the caller's parent,
				* and so is the namespace's first process */
	char *hostname;        /* with PLAN_NS_UTS; else NULL */
	char *seccomp;         /* file of an OCI seccomp profile to add to mlrun's; or NULL */
	uint64_t caps_dropped; /* bit n: a fake root lacks capability n */
	struct plan_capabilities *caps; /* what the command has; NULL: nothing, but a fake root */
	struct plan_limit *limits;
	size_t n_limits;
	unsigned cpus;      /* a cgroup's limit of CPU time, hundredths of a CPU; 0: no cgroup */
	uint64_t memory;    /* a cgroup's limit of memory, bytes; 0: no cgroup */
	struct strv cgroup; /* its further files and their texts alternate: "pids.max", "100" */
	int has_cgroup;     /* a cgroup also without limits, if the user may make one */
	char *share;    /* this user's processes on this node with the same word share a container,
			 * the first one's; NULL: a container of its own */
	char *commands; /* a directory for commands that PATH lacks, as Slurm looks; or NULL */
	int enters_any; /* with kept and share: also one with other mounts and namespaces */
	pid_t join; /* enter this process's container as it is, ignoring root and mounts; or 0 */
	unsigned long long join_start; /* when it started (proc_stat's), by which it is known; 0: it
					* is known by the mark of its root */
	const int *door; /* descriptors of its namespaces (runtime/door.h) if it lets nobody inspect
			  * it; else NULL */
	char *platform;  /* the image's "linux/amd64", for messages; may be NULL */
	char *image;     /* its name, for messages */
	char *image_user; /* the image's User, which mlrun ignores; may be NULL */
	struct plan_library *libraries;
	size_t n_libraries;
	struct plan_remark *remarks;
	size_t n_remarks;
	struct strv notes; /* requests that could not be met: printed before the command starts */
};

void plan_init(struct plan *p);
void plan_done(struct plan *p);

/* The program that is executed first: the prelude's or the command's; NULL if there is neither. */
const char *plan_program(const struct plan *p);

/* Add an entry. Copies the strings and cleans the target, which must be absolute and not "/". */
int plan_mount_add(struct plan *p, enum plan_kind kind, const char *source, const char *target,
	unsigned flags, enum plan_origin origin, struct mlr_error *err);

/* Remove an entry. */
void plan_mount_drop(struct plan *p, size_t i);

/* Find the last entry at a clean path; NULL: there is none. */
const struct plan_mount *plan_mount_at(const struct plan *p, const char *target);

/* Set or clear the flags that an option of mount(8) means, as OCI bundles and CDI files have them.
 * Returns whether it is one. */
int plan_mount_option(const char *word, unsigned *flags);

/* Add a PLAN_FILE with a copy of these bytes. Otherwise like plan_mount_add(). */
int plan_file_add(struct plan *p, const char *text, size_t size, const char *target,
	enum plan_origin origin, struct mlr_error *err);

/* The same for a file that is mounted: no copy of it can remain in the root. mode is not 0. */
int plan_file_mount(struct plan *p, const char *text, size_t size, mode_t mode, const char *target,
	enum plan_origin origin, struct mlr_error *err);

/* Sort the entries from number first on, so that a directory is mounted before what lies in it, as
 * Docker does. Other entries keep their order. */
void plan_mounts_sort(struct plan *p, size_t first);

/* Append all entries of one plan to those of another. */
void plan_mounts_move(struct plan *from, struct plan *to);

/* Does an entry of this kind hide what is below its target? */
int plan_kind_covers(enum plan_kind kind);

/* Have the linker find a library; a later one of the same name and bits wins. Copies the strings.
 */
void plan_library_add(
	struct plan *p, const char *name, const char *path, int bits, enum plan_origin origin);

/* Move the entries from this one on before all others: targets in the image's own directories are
 * made while no link of the image can lead to a directory of the host. */
void plan_mounts_first(struct plan *p, size_t from);

/*
 * The same, only for those entries from first on whose targets lie in the image's own directories,
 * below no earlier target: then no link of the image makes mlrun create a mount point in a host
 * directory.
 */
void plan_mounts_into_image(struct plan *p, size_t first);

/* Give a directory of the image this mode in the container. Copies the path. */
void plan_open_add(struct plan *p, const char *path, mode_t mode);

/* The mode of a directory in the container: mode, unless an entry changes it. */
mode_t plan_open_mode(const struct plan *p, const char *path, mode_t mode);

/* Record a decision. */
void plan_remark_add(struct plan *p, enum plan_origin origin, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Have the command inherit a descriptor. Adding it twice is fine. */
void plan_keep_fd(struct plan *p, int fd);

/* "default", "user" and so on; NULL for PLAN_FROM_NOBODY. */
const char *plan_origin_name(enum plan_origin origin);

/* Is it an option or a setting, which takes precedence over what the machine has? */
int plan_origin_is_asked(enum plan_origin origin);

/* "bind", "tmpfs" and so on. */
const char *plan_kind_name(enum plan_kind kind);

/* Limits as users type them, setrlimit(2)'s in lower case, in alphabetical order; the last entry
 * has no name. */
struct plan_limit_word {
	const char *name;
	int resource;
};
extern const struct plan_limit_word plan_limit_words[];

/* "nofile" for RLIMIT_NOFILE; NULL for an unnamed one. */
const char *plan_limit_name(int resource);

/* Set a limit; a later one of the same resource wins. */
void plan_limit_set(struct plan *p, int resource, rlim_t soft, rlim_t hard);

/* Set a variable; the plan keeps the value that it replaces. */
void plan_env_set(struct plan *p, const char *key, const char *value, enum plan_origin origin);
void plan_env_unset(struct plan *p, const char *key);
const char *plan_env_get(const struct plan *p, const char *key);
/* The origin of its value; PLAN_FROM_NOBODY if it is not set. */
enum plan_origin plan_env_origin(const struct plan *p, const char *key);

/* Leave out or replace the variables of which no path in if_there is in the container.
 * is_there(ctx, path) looks. */
void plan_env_look(struct plan *p, int (*is_there)(void *ctx, const char *path), void *ctx);

/* "KEY=VALUE" strings for execve(2). */
void plan_env_list(const struct plan *p, struct strv *ret);

/* Does this absolute path show the host's files inside: is its topmost mount one of the host's? */
int plan_covers(const struct plan *p, const char *path);
