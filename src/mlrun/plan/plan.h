/*
 * plan: says what shall be true inside a container - root, mounts, devices, variables, ids. Data
 * only.
 *
 * Everything that changes a container is an entry here, made by whoever wants it and made true in
 * one place (runtime). An entry carries its origin, so that `--explain` can tell where it came from
 * and a test can check it without starting anything.
 */
#ifndef MLR_PLAN_PLAN_H
#define MLR_PLAN_PLAN_H

#include "base/error.h"
#include "base/strv.h"

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

/* Who wants an entry. */
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
	PLAN_BIND,    /* a host file or directory, with what is mounted below it */
	PLAN_TMPFS,   /* an empty directory in memory, private to the container, mode 0755 */
	PLAN_COPY,    /* a copy of a host file, put in the place of whatever the image has there */
	PLAN_SYMLINK, /* source is the link's text; an existing thing stays */
	PLAN_DEVPTS,  /* pseudo-terminals of the container's own (devpts, newinstance) */
	PLAN_OVERLAY, /* a host directory that can be written to in memory; the host's stays as it
			 is */
	PLAN_PROC,    /* procfs of the container's own PID namespace */
	PLAN_SYSFS,   /* sysfs of the container's own network namespace */
	PLAN_MQUEUE,  /* POSIX message queues of the container's own IPC namespace */
	PLAN_FILE,    /* a file of mlrun's making, text, put in the place of whatever the image has
			 there */
	PLAN_SEAL, /* what an earlier entry mounted at the target, which has flags, can be written
		      to no more */
};

enum plan_flag {
	PLAN_READONLY = 1 << 0,
	PLAN_NOSUID = 1 << 1,
	PLAN_NODEV = 1 << 2,
	PLAN_NOEXEC = 1 << 3,
	PLAN_OPTIONAL = 1 << 4, /* a source that is not there is no failure, nor is a place that
				 * cannot be made, as the root is read-only (runtime/underlay.h) or
				 * behind a link of an image of another user's */
	PLAN_REPLACE = 1 << 5,  /* PLAN_SYMLINK: in the place of whatever the image has there but a
				   directory */
};

struct plan_mount {
	enum plan_kind kind;
	char *source;  /* absolute host path; a symlink's text; NULL where the kernel makes it */
	char *target;  /* absolute path inside, resolved there as if / were the image */
	char *options; /* PLAN_TMPFS: "size=1g,mode=1777", tmpfs(5)'s words: it is a tmpfs of its
			  own then, and a directory of the scratch when NULL; else NULL */
	char *text;    /* PLAN_FILE: its bytes, text_size of them; else NULL */
	size_t text_size;
	unsigned flags;
	enum plan_origin origin;
};

struct plan_env {
	char *key, *value;
	unsigned hash; /* of the key, which is found by it */
	enum plan_origin origin;
	char *shadowed; /* the value that this one took the place of, or NULL */
	enum plan_origin shadowed_by;
};

/* Who the command is inside. Names are for /etc/passwd and /etc/group. */
struct plan_identity {
	uid_t uid, host_uid; /* inner id and the caller's own */
	gid_t gid, host_gid;
	char *name, *group, *home, *shell;
};

/* What writing to the root does. */
enum plan_root {
	PLAN_ROOT_MEMORY,    /* goes to memory and is forgotten */
	PLAN_ROOT_READ_ONLY, /* fails: EROFS */
	PLAN_ROOT_KEPT,      /* goes to plan.kept, a named container's directory in the store */
};

/* Namespaces beside user and mount, which every container has. */
enum plan_namespace {
	PLAN_NS_PID = 1 << 0,
	PLAN_NS_IPC = 1 << 1,
	PLAN_NS_NET = 1 << 2, /* loopback alone, and it is up */
	PLAN_NS_UTS = 1 << 3,
};

/* One resource limit, setrlimit(2); RLIM_INFINITY is unlimited. */
struct plan_limit {
	int resource; /* RLIMIT_NOFILE and so on */
	rlim_t soft, hard;
};

/* A shared library that the plan brings in and that the linker shall find (ld.so(8)). */
struct plan_library {
	char *name; /* what programs ask for, its DT_SONAME or another link's name: "libcuda.so.1"
		     */
	char *path; /* where that is inside: "/usr/local/nvidia/lib64/libcuda.so.1" */
	int bits;   /* 64 or 32 */
	enum plan_origin origin;
};

/* A directory of the image's that its trees show with another mode than it is meant to have. */
struct plan_open {
	char *path; /* absolute; "/" for the root */
	mode_t mode;
};

/* A decision and its reason, told by --explain and --verbose. */
struct plan_remark {
	char *text; /* a sentence */
	enum plan_origin origin;
};

struct plan {
	struct strv lowers; /* host directories of the root, topmost first, absolute */
	struct plan_open *open;
	size_t n_open;
	char *squashfs; /* a host file that is the root instead, served by FUSE, absolute; NULL */
	char *as_trees; /* "keep the image as a tree of files: …", a hint where FUSE fails; NULL */
	char *root_choice; /* what the root was chosen from, for people; may be NULL */
	enum plan_root root;
	char *kept; /* PLAN_ROOT_KEPT: a host directory with "upper" and "work", absolute */
	struct plan_identity id;
	struct plan_mount *mounts; /* made true in this order */
	size_t n_mounts;
	struct plan_env *env;
	size_t n_env;
	struct strv dropped; /* names of caller's variables that were left out */
	struct strv argv;
	enum plan_origin argv_origin;
	char *workdir; /* absolute, inside; made when it is not there */
	enum plan_origin workdir_origin;
	int *keep_fds; /* descriptors above 2 that the command inherits */
	size_t n_keep_fds;
	unsigned namespaces;   /* enum plan_namespace */
	int init;              /* the PID namespace's first process is one of ours, which reaps */
	char *hostname;        /* with PLAN_NS_UTS; else NULL */
	char *seccomp;         /* file of an OCI seccomp profile, to be obeyed beside ours; NULL */
	uint64_t caps_dropped; /* bit n: capability n is not left to a fake root */
	struct plan_limit *limits;
	size_t n_limits;
	unsigned cpus; /* a cgroup's share of the processors' time, hundredths of one; 0: no cgroup
			*/
	uint64_t memory; /* a cgroup's memory, bytes; 0: no cgroup */
	char *share;     /* processes of this user on this node that give the same word are in one
			  * container, the first one's; NULL: a container of its own */
	pid_t join;      /* enter this process's container as it is; 0: no. Then root and mounts are
			  * not looked at. */
	char *platform;  /* the image's "linux/amd64", for messages; may be NULL */
	char *image;     /* its name, for messages */
	char *image_user; /* the image's User, which is not obeyed; may be NULL */
	struct plan_library *libraries;
	size_t n_libraries;
	struct plan_remark *remarks;
	size_t n_remarks;
	struct strv notes; /* what was asked for and is not so: told before the command starts */
};

void plan_init(struct plan *p);
void plan_done(struct plan *p);

/* Add an entry; strings are copied. A target is cleaned; it must be
 * absolute and not "/". */
int plan_mount_add(struct plan *p, enum plan_kind kind, const char *source, const char *target,
	unsigned flags, enum plan_origin origin, struct mlr_error *err);

/* Add a PLAN_FILE of these bytes, which are copied. Else as plan_mount_add(). */
int plan_file_add(struct plan *p, const char *text, size_t size, const char *target,
	enum plan_origin origin, struct mlr_error *err);

/* Sort the entries from number first on: a directory is mounted before what lies in it, in whatever
 * order they were asked for, as Docker does; else their order stays. */
void plan_mounts_sort(struct plan *p, size_t first);

/* Move all entries of one plan behind those of another. */
void plan_mounts_move(struct plan *from, struct plan *to);

/* Does an entry of this kind hide what the image and earlier entries have below its target? */
int plan_kind_covers(enum plan_kind kind);

/* Let the linker find a library; a later one of the same name and bits wins. Strings are copied. */
void plan_library_add(
	struct plan *p, const char *name, const char *path, int bits, enum plan_origin origin);

/* Let the entries from this one on stand before all others: what lies in the image's own
 * directories is put there while no link of the image can lead to a directory of the host's. */
void plan_mounts_first(struct plan *p, size_t from);

/*
 * The same for those from first on that lie in the image's own directories, below none of the
 * earlier ones: a link of the image's leads to no directory of the host's then, in which places to
 * mount on would be made.
 */
void plan_mounts_into_image(struct plan *p, size_t first);

/* Give a directory of the image's this mode in the container. The path is copied. */
void plan_open_add(struct plan *p, const char *path, mode_t mode);

/* The mode that a directory shall have: mode, unless an entry says otherwise. */
mode_t plan_open_mode(const struct plan *p, const char *path, mode_t mode);

/* Tell a decision. */
void plan_remark_add(struct plan *p, enum plan_origin origin, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Let the command inherit a descriptor; one that is named twice is one. */
void plan_keep_fd(struct plan *p, int fd);

/* "default", "user" and so on; NULL for PLAN_FROM_NOBODY. */
const char *plan_origin_name(enum plan_origin origin);

/* Is it an option or a setting, which nothing found on the machine overrules? */
int plan_origin_is_asked(enum plan_origin origin);

/* "bind", "tmpfs" and so on. */
const char *plan_kind_name(enum plan_kind kind);

/* Limits as users type them, setrlimit(2)'s in small letters, by the alphabet; the last entry has
 * no name. */
struct plan_limit_word {
	const char *name;
	int resource;
};
extern const struct plan_limit_word plan_limit_words[];

/* "nofile" of RLIMIT_NOFILE; NULL of one that has no name here. */
const char *plan_limit_name(int resource);

/* Set a limit; a later one of the same resource wins. */
void plan_limit_set(struct plan *p, int resource, rlim_t soft, rlim_t hard);

/* Set a variable; what it takes the place of is remembered. */
void plan_env_set(struct plan *p, const char *key, const char *value, enum plan_origin origin);
void plan_env_unset(struct plan *p, const char *key);
const char *plan_env_get(const struct plan *p, const char *key);
/* Who has set it; PLAN_FROM_NOBODY for what is not set. */
enum plan_origin plan_env_origin(const struct plan *p, const char *key);

/* "KEY=VALUE" strings for execve(2). */
void plan_env_list(const struct plan *p, struct strv *ret);

/* Would this absolute path show the host's files inside: does its topmost mount bring them? */
int plan_covers(const struct plan *p, const char *path);

#endif
