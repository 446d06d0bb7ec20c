/*
 * Checks that only its owner may write to a store: others could change the programs that containers
 * run. For the files of this room.
 */
#pragma once

#include "store/store.h"

/*
 * Refuse a store if others than its owner may write to its top directory or one of its parts, or if
 * the caller is root and it belongs to another user. Close the caller's own containers/ to others.
 * The parts are not read if nobody else can enter the top directory.
 *
 *   top  the top directory's status
 *
 * Returns 0, or -EACCES with the command that repairs it.
 */
int store_guard(struct store *st, const struct stat *top, struct mlr_error *err);

/* Refuse a file of the store, by its path and status, that others than the store's owner and root
 * may write or have made, if they can enter the store. Returns 0 or -EACCES. */
int store_guard_file(
	const struct store *st, const char *path, const struct stat *sb, struct mlr_error *err);

/* Refuse another user's store. Returns -EACCES; the message names the user and continues with why.
 */
int store_refuse_user(const struct store *st, uid_t uid, const char *why, struct mlr_error *err);

/* Take other users' right to write to the caller's store: its top directory and its parts. Returns
 * 0 or -errno. */
int store_guard_close(struct store *st, struct mlr_error *err);

/* Takes the bits that let other users write from the store's trees (base/tighten.h). */

/* Repair "layers/<hex>", "dir/<hex>" or "cover/<hex>". Other users' files stay unchanged; a warning
 * names one. */
int store_tighten(struct store *st, const char *path, struct mlr_error *err);

/* Repair all trees of an older store, and record the open directories beside the trees and in the
 * facts. Can be repeated after an interruption. */
int store_tighten_all(struct store *st, struct mlr_error *err);

/* Does the store's format guarantee such trees? */
int store_is_tight(const struct store *st);
