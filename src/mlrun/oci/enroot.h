/*
 * An image's configuration as Enroot keeps it: not beside the image's files but in them, so that a
 * squashfs file or a directory has it with it. /etc/environment has a variable a line; /etc/rc is a
 * script that goes to the working directory and becomes entrypoint and command (Enroot's
 * doc/image-format.md). What is written here Enroot and Pyxis run, and what they wrote is read.
 */
#pragma once

#include "oci/config.h"

#define OCI_ENROOT_ENVIRONMENT "etc/environment"
#define OCI_ENROOT_RC          "etc/rc"

/* Is this text of /etc/rc such a script? Other systems have a file of that name, too. */
int oci_enroot_is_rc(const char *text);

/* Add what the script says: working_dir, entrypoint, cmd, labels. A script that somebody has
 * rewritten may say none of them. */
void oci_enroot_read_rc(const char *text, struct oci_config *ret);

/* Add the variables that a shell script exports in plain words, "export K='V'"; what takes a shell
 * to know is passed over. */
void oci_enroot_read_exports(const char *text, struct oci_config *ret);

/* Add the variables. */
void oci_enroot_read_environment(const char *text, struct oci_config *ret);

/* The script, to free(). origin: the image's name, for people; NULL: its last lines only, which run
 * the entrypoint, with the command if the script has no arguments. */
char *oci_enroot_rc(const struct oci_config *c, const char *origin);

/* The variables, to free(). Those whose value has a line break do not fit; their names are added to
 * omitted. */
char *oci_enroot_environment(const struct oci_config *c, struct strv *omitted);
