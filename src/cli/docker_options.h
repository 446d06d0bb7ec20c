/* Options of docker-run(1), podman-run(1) and kin that mlrun does not have, and what to do instead. */
#ifndef MLR_CLI_DOCKER_OPTIONS_H
#define MLR_CLI_DOCKER_OPTIONS_H

#include <stddef.h>

struct docker_option {
	const char *name; /* without dashes */
	char letter;      /* or 0 */
	const char *why;  /* what mlrun does in this matter, a sentence */
	const char *hint; /* what to type instead, or NULL */
};

/* An option by its name (len bytes of it) or by its letter; NULL when it is none of these. */
const struct docker_option *docker_option_named(const char *name, size_t len);
const struct docker_option *docker_option_letter(char letter);

#endif
