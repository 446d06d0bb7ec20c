/*
 * exec: runs one command in one image and hands back its exit status - by becoming it.
 */
#ifndef MLR_EXEC_EXEC_H
#define MLR_EXEC_EXEC_H

#include "base/error.h"
#include "base/strv.h"
#include "plan/plan.h"

/* What the user asked for; zeroed is the default of everything. Strings stay the caller's. */
struct exec_options {
	const char *store; /* --store, or NULL */
	const char *image;
	char *const *command;   /* NULL-terminated; empty: the image's Cmd */
	const char *entrypoint; /* NULL: the image's; "": none */
	const char *workdir;    /* -w, or NULL */
	struct strv volumes;    /* -v texts */
	struct strv env;        /* -e texts, "K=V" or "K" */
	struct strv env_files;  /* --env-file names */
	int clearenv, read_only, fakeroot, home;
};

/*
 * Turn options, image, caller and defaults into a plan. Reads; changes nothing but, with lease set,
 * the store's record that this process uses the image.
 */
int exec_plan(const struct exec_options *o, int lease, struct plan *p, struct mlr_error *err);

#endif
