/*
 * Commands of docker(1), podman(1), apptainer(1) and enroot(1), and options of their commands, that
 * mlrun does not have: what to type instead. Options of exec have a table of their own,
 * docker_options.h.
 */
#ifndef MLR_CLI_FOREIGN_H
#define MLR_CLI_FOREIGN_H

/* What to type instead of a command, which may be of two words ("system prune"; next may be NULL);
 * NULL for one that nobody has. */
const char *foreign_command(const char *word, const char *next);

/*
 * What to type instead of an option of one of mlrun's own commands.
 *
 *   command  "images"
 *   option   an argument as it was typed: "-q", "-qa", "--format={{.ID}}"
 *
 * NULL for what is no option, or none that is known here.
 */
const char *foreign_option(const char *command, const char *option);

#endif
