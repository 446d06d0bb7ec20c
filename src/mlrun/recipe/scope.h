/* The variables that a stage's instructions see (Dockerfile reference, "ARG" and "ENV"). */
#pragma once

#include "recipe/instruction.h"

/*
 * ARG's variables are those of a stage, or of the global scope: the lines before the first FROM,
 * where the platform's (TARGETARCH and so on) are set from the start. A stage has its parent's, but
 * sees a global one only after an ARG of its name. ENV's and the image's variables hide ARG's.
 */
struct scope {
	struct strv env;            /* "K=V": of the image and ENV */
	struct strv args;           /* "K=V": of ARG */
	struct strv declared;       /* names of ARG, also of those without a value */
	const struct scope *global; /* NULL: this is the global scope */
	const struct strv *given;   /* "K=V": --build-arg; NULL: none */
	struct strv unset;          /* names that scope_get() did not find, once each */
};

void scope_done(struct scope *s);

/* Append what a parent stage has. */
void scope_inherit(struct scope *s, const struct scope *parent);

/* An expand_get_fn; ctx is a struct scope. */
const char *scope_get(void *scope, const char *name);

/* For expand_word(); borrows from s. */
struct expand scope_expand(struct scope *s, char escape);

/*
 * Do what an ARG says. A value is, in this order: --build-arg's, the default, with variables
 * expanded, or the global one.
 *
 * Returns 0, or expand_word()'s errors.
 */
int scope_declare(
	struct scope *s, const struct instruction *arg, char escape, struct mlr_error *err);

/* Do what an ENV says. */
int scope_set(struct scope *s, const struct instruction *env, char escape, struct mlr_error *err);

/* Is this one of the proxy variables, which RUN gets without an ARG if they are given? */
int scope_is_proxy(const char *name);
