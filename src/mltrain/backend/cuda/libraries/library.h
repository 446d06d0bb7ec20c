/*
 * NVIDIA's libraries that are opened when they are needed: each has hundreds of megabytes, and a
 * network that does without starts sooner.
 */
#pragma once

#include "base/base.h"

struct library_symbol {
	const char *name;
	void *at; /* of the function pointer that is to be set */
};

/*
 * Open a shared library, from where the linker looks, else from CUDA's own directory, else from a
 * Python environment, where pip puts NVIDIA's packages (site-packages/nvidia/cudnn/lib): that of
 * $VIRTUAL_ENV, $CONDA_PREFIX or the python3 of $PATH. Set the symbols [n]. It stays open until the
 * process ends.
 *
 * Returns 0, or -ENOENT with dlopen(3)'s words, where it was searched and a way out, or the symbol
 * that is missing.
 */
int library_open(
	const char *soname, const struct library_symbol *symbols, size_t n, struct mlr_error *err);
