/*
 * In which format an image is kept when nobody says. A file system that many nodes share is better
 * off with one big file than with 100,000 small ones; anywhere else unpacked layers are shared by
 * images and start fastest, if that file system lets an ordinary user have what overlayfs needs.
 */
#ifndef MLR_PULL_FORMAT_H
#define MLR_PULL_FORMAT_H

#include "base/error.h"
#include "store/facts.h"
#include "store/store.h"

/* What the store's file system can do for this user; runtime/probe.h tells. */
struct format_probe {
	int whiteouts, xattrs, hard_links;
	int overlay; /* -1: nobody knows */
};

/* Whoever may mount and fork finds out, in an empty place below dir_fd. Returns 0 or -errno. */
typedef int (*format_probe_fn)(int dir_fd, struct format_probe *ret, struct mlr_error *err);

/*
 * The judgement.
 *
 *   fs_type    statfs(2)'s
 *   can_write  squashfs files can be written
 *   why        why it is not what one expects ("it lies on nfs"), or NULL; a literal
 */
enum store_format format_judge(
	unsigned long fs_type, const struct format_probe *p, int can_write, const char **why);

/*
 * Judge a store. What was found out is kept in its "probe.json" and asked again when that is
 * deleted or the store has come to lie on another file system.
 *
 *   told  gets a sentence for the user when the judgement is a new one and not the usual one; to
 *         free(), NULL otherwise
 */
int format_choose(struct store *st, format_probe_fn probe, enum store_format *ret, char **told,
	struct mlr_error *err);

#endif
