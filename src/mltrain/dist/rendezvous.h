/*
 * The rendezvous file of an elastic run: where its coordinator is, and the secret that lets a
 * process in. Mode 0600, on a file system that all nodes see; it appears, changes and goes whole.
 */
#ifndef MLT_DIST_RENDEZVOUS_H
#define MLT_DIST_RENDEZVOUS_H

#include "dist/group.h"
#include "dist/frame.h"

struct rendezvous {
	struct member coordinator;
	struct secret secret;
	uint32_t generation;
};

/* Read the file. Returns 0, -ENOENT, -EACCES for one that others own or may read, -EPROTO for other
 * content. */
int rendezvous_read(const char *path, struct rendezvous *ret, struct mlr_error *err);

/* Leftover temporary files contain the secret, so they are deleted whenever the file is created or
 * removed. */

/* Make the file. Returns 0, or -EEXIST if another process was first. */
int rendezvous_create(const char *path, const struct rendezvous *r, struct mlr_error *err);

/* Replace the file that this run made. */
int rendezvous_replace(const char *path, const struct rendezvous *r, struct mlr_error *err);

/* Remove the file if it still is this one. Two processes may find a dead run's file at once: the
 * one that is late removes nothing. */
void rendezvous_remove(const char *path, const struct rendezvous *r);

#endif
