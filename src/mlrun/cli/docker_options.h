/*
 * Options of docker-run(1), podman-run(1) and kin that mlrun does not have: those that ask for what
 * is so already, and what to do instead of the others.
 */
#ifndef MLR_CLI_DOCKER_OPTIONS_H
#define MLR_CLI_DOCKER_OPTIONS_H

#include <stddef.h>

struct docker_option {
	const char *name; /* without dashes */
	char letter;      /* or 0 */
	const char *why;  /* what mlrun does in this matter, a sentence */
	const char *hint; /* what to type instead, or NULL */
	const char *same; /* values that ask for what is so already, "host|keep-id"; "*": all; "":
			   * it is a switch, and on is so already; NULL: none */
	int (*is_so)(const char
			*value); /* in place of same: does this value ask for what is so already? */
	int with_rm;             /* only beside --rm */
};

/* Is a value its next word? Known only of those that may ask for what is so already. */
int docker_option_takes_value(const struct docker_option *d);

/* Does it ask for what is so already?  value: NULL when none was given */
int docker_option_is_so(const struct docker_option *d, const char *value);

/* An option by its name (len bytes of it) or by its letter; NULL when it is none of these. */
const struct docker_option *docker_option_named(const char *name, size_t len);
const struct docker_option *docker_option_letter(char letter);

#endif
