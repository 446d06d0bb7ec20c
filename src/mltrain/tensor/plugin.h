/*
 * Plugins: parts of mltrain that need a library that not every machine has (MPI, CUDA). They are
 * shared objects that dlopen(3) loads on demand, so that one mltrain starts everywhere. A plugin
 * exports one symbol, mltrain_NAME, a struct that begins with struct plugin:
 *
 *   __attribute__((visibility("default"))) const struct dist_plugin mltrain_mpi = {
 *           .plugin = { PACKAGE_VERSION }, .open = ... };
 *
 * It contains its own copy of what it needs from base/ and tensor/, compiled as
 * position-independent code with hidden symbols. It must never print or exit.
 */
#pragma once

#include "base/base.h"

struct plugin {
	const char *version; /* PACKAGE_VERSION of the mltrain it was built with */
};

/*
 * The path of the file mltrain-NAME.so, to free(); NULL if there is none. If $MLTRAIN_PLUGINS is
 * set, only that directory counts. Otherwise the search goes on beside this program (build tree),
 * then in configure's plugin directory relative to this program (an installed tree can therefore
 * be moved), then in that directory's absolute path.
 */
char *plugin_path(const char *name);

/*
 * Load a plugin, for the rest of the process's life.
 *
 *   name  "mpi", "cuda"
 *   ret   gets the address of its struct
 *
 * Returns 0; -ENOENT if it is not installed; -ELIBACC with dlerror(3)'s words if it can't be
 * loaded, usually because the machine lacks a library it needs; -EPROTO if it belongs to another
 * version of mltrain or is not a plugin. Errors have a hint.
 */
int plugin_open(const char *name, const struct plugin **ret, struct mlr_error *err);
