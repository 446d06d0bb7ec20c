/*
 * Copies files into a layer: what COPY and ADD bring, without a container. A list of files is made
 * first; it is hashed for the cache, and written as a layer's tar.
 */
#pragma once

#include "base/file_owner.h"
#include "build/ignore.h"
#include "layer/record.h"
#include "rootfs/layers.h"

/* Where files come from: a directory, from which no path leads out. */
struct copy_source {
	int fd;
	const char *what;            /* for messages: "the context" or "stage 'build'" */
	const struct ignore *ignore; /* or NULL */
	struct store *st;            /* of layers */
	const struct strv *layers;   /* of a stage: they have the owners of links; or NULL */
	int is_image; /* a tree of the store: owners and modes may be recorded with its files */
};

/* A file, directory or link of the layer. */
struct copy_item {
	char *from; /* in the source; NULL: bytes are the content */
	char *to;   /* in the image, without a leading '/' */
	char *link; /* a symlink's target */
	char *bytes;
	int fd;                  /* a file of no directory; -1: none */
	int is_archive;          /* its members are put, below `to` */
	size_t order;            /* in which items were added */
	struct file_owner owner; /* of an image's file */
	struct stat st;
};

struct copy {
	struct copy_source source;
	struct copy_item *v;
	size_t n;
	int64_t uid, gid;
	int has_owner;  /* --chown: also members of archives and files of images get uid and gid */
	int64_t mode;   /* --chmod; -1: the files' own */
	int64_t newest; /* as in struct rootfs_upper */
	const int *cancel;
	struct rootfs_names names; /* of source.image, once they are needed */
};

void copy_done(struct copy *c);

/* A source of COPY, and its place in the image. */
struct copy_wish {
	const char *pattern; /* relative to the source, with wildcards in its names */
	const char *to;      /* absolute, in the image; a '/' at its end makes it a directory */
	int to_is_directory; /* it ends with '/', exists as one, or there are several sources */
	int to_exists;       /* `to` is a directory of the image, which keeps its mode and owner */
	int unpack;          /* ADD: the members of a tar file are put instead of it */
	int parents;         /* --parents: keep the directories of the source's path */
	int with_name;       /* a directory is copied by its name, as a file is */
	int follow;          /* links in directories are followed */
	const struct ignore *exclude; /* or NULL */
};

/*
 * Add the files of one source: a directory's content, or a file.
 *
 * Returns the number of sources that matched, 0 only for a pattern with wildcards; -ENOENT if there
 * is no such file; -EINVAL if several match and the destination is no directory; -errno of reading.
 */
int copy_add(struct copy *c, const struct copy_wish *w, struct mlr_error *err);

/* Has a directory been added at this place, or something in it? */
int copy_has_directory(const struct copy *c, const char *to);

/* Add a file with these bytes, which are copied. */
void copy_add_bytes(struct copy *c, const char *to, const char *bytes);

/* Add a regular file that is open; takes the descriptor. */
void copy_take_file(struct copy *c, const char *to, int fd, mode_t mode, int is_archive);

/* Compare the file that is the last item, at `at`, with a digest. Returns 0, -EBADMSG, or -EINVAL:
 * it is no file, or several. */
int copy_check(struct copy *c, size_t at, const char *want, struct mlr_error *err);

/* Add an empty directory. */
void copy_add_directory(struct copy *c, const char *to, const struct stat *st);

/*
 * Hash what copy_hash() depends on, as far as it is seen without reading files: inodes, sizes,
 * modes and times.
 *
 * Returns 1; 0 if the files may change without that: some changed within the last seconds, or come
 * from nowhere.
 */
int copy_hash_stat(struct copy *c, char hex[HASH_HEX_SIZE]);

/* Hash what the layer will have, but not the times of files. Returns 0 or -errno. */
int copy_hash(struct copy *c, char hex[HASH_HEX_SIZE], struct mlr_error *err);

/* Has a file or directory changed since it was listed, so that its reader may not have what was
 * hashed? */
int copy_has_changed(const struct copy *c);

/* Write the tar; a rootfs_tar_fn (rootfs/fill.h) whose ctx is a struct copy. */
int copy_tar(void *copy, layer_write_fn write, void *to, struct mlr_error *err);
