/*
 * Plugins: parts of mltrain that stand on a library which not every machine has (MPI, CUDA). They
 * are shared objects, loaded by dlopen(3) when they are wanted, so that one mltrain starts
 * everywhere. A plugin shows one symbol, mltrain_NAME, a struct that begins with struct plugin:
 *
 *   __attribute__((visibility("default"))) const struct dist_plugin mltrain_mpi = {
 *           .plugin = { PACKAGE_VERSION }, .open = ... };
 *
 * and holds for itself whatever else it needs of base/ and tensor/, compiled as
 * position-independent code and hidden. It must print nothing and exit never.
 */
#ifndef MLT_TENSOR_PLUGIN_H
#define MLT_TENSOR_PLUGIN_H

#include "base/error.h"

struct plugin {
	const char *version; /* PACKAGE_VERSION of the mltrain that it was built with */
};

/*
 * The path of the file mltrain-NAME.so, to free(); NULL when there is none. In $MLTRAIN_PLUGINS if
 * that is set, and then nowhere else; beside this program in the build tree; where it is installed,
 * the place that configure gave plugins, as seen from this program, so that a tree which was moved
 * finds its own; else that place itself.
 */
char *plugin_path(const char *name);

/*
 * Load a plugin, for the rest of the process's life.
 *
 *   name  "mpi", "cuda"
 *   ret   gets the address of its struct
 *
 * Returns 0; -ENOENT when it is not installed; -ELIBACC when it can't be loaded, in the words of
 * dlerror(3), most often because a library it needs is not on this machine; -EPROTO when it belongs
 * to another version of mltrain or is no plugin. Errors have a hint.
 */
int plugin_open(const char *name, const struct plugin **ret, struct mlr_error *err);

#endif
