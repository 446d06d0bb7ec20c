/*
 * udiRoot.conf: a site's settings for Shifter. Lines are KEY=VALUE, a '\' at the end continues a
 * line, '#' begins a comment; lists are separated by blanks, file systems by ';'. Which keys count
 * is in mlrun-shifter(1); the others, of Shifter's own storage, gateway and root, are accepted and
 * change nothing.
 */
#pragma once

#include "base/base.h"

#define UDIROOT_CONF "/etc/shifter/udiRoot.conf"

/* What a site, or one of its modules, brings into containers. */
struct udiroot_set {
	struct strv fs;                          /* FROM[:TO[:FLAG]...] */
	struct strv env, append, prepend, unset; /* K=V; K */
};

struct udiroot_module {
	char *name;
	struct udiroot_set set;
	struct strv conflicts;       /* names of modules */
	char *copy_path;             /* a directory, to be below /opt/udiImage/modules; or NULL */
	char *user_hook, *root_hook; /* or NULL */
	int is_off;
};

struct udiroot {
	struct udiroot_set site;
	struct udiroot_module *modules;
	size_t n_modules;
	struct strv standard_modules; /* used if nobody asks for others */
	char *image_type;             /* never NULL after loading: "docker" */
};

/*
 * Read the site's file; without one everything is empty. The file must be root's or the caller's
 * own, and not writable by others.
 *
 * Returns 0, -EPROTO naming file and line, -EACCES, or the errno of reading.
 */
int udiroot_load(const char *path, struct udiroot *ret, struct mlr_error *err);
void udiroot_done(struct udiroot *u);

/* Add a file's text. path is for messages. Returns 0 or -EPROTO. */
int udiroot_parse(const char *text, const char *path, struct udiroot *ret, struct mlr_error *err);

const struct udiroot_module *udiroot_module_named(const struct udiroot *u, const char *name);
