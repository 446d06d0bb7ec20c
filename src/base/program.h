/* Where mlrun's own other programs are. */
#ifndef MLR_BASE_PROGRAM_H
#define MLR_BASE_PROGRAM_H

/*
 * The path of a program of ours: beside this one in the build tree; in libexec beside bin where
 * installed, wherever the tree was moved to; where configure said. To free().
 */
char *program_path(const char *name);

#endif
