/* One instruction of a recipe. */
#pragma once

#include "base/reach.h"
#include "recipe/expand.h"

enum instruction_word {
	INSTRUCTION_ADD,
	INSTRUCTION_ARG,
	INSTRUCTION_CMD,
	INSTRUCTION_COPY,
	INSTRUCTION_ENTRYPOINT,
	INSTRUCTION_ENV,
	INSTRUCTION_EXPOSE,
	INSTRUCTION_FROM,
	INSTRUCTION_HEALTHCHECK,
	INSTRUCTION_LABEL,
	INSTRUCTION_MAINTAINER,
	INSTRUCTION_ONBUILD,
	INSTRUCTION_RUN,
	INSTRUCTION_SHELL,
	INSTRUCTION_STOPSIGNAL,
	INSTRUCTION_USER,
	INSTRUCTION_VOLUME,
	INSTRUCTION_WORKDIR,
	INSTRUCTION_WORDS
};

/* A here-document. */
struct heredoc {
	char *name;
	char *content; /* for "<<-" without leading tabs */
	int expand;    /* its variables are expanded: no part of the name is quoted */
	int strip;     /* "<<-" */
};

/*
 * Arguments, with quotes and variables as they were written:
 *
 *   RUN CMD ENTRYPOINT SHELL            the words of a JSON array, else the rest of the line
 *   ADD COPY VOLUME                     the words of a JSON array, else those of the line, in which
 *                                       quotes hold blanks
 *   FROM EXPOSE                         the line's words
 *   ARG                                 "NAME" or "NAME=VALUE" each
 *   ENV LABEL                           "NAME=VALUE" each; two of the old form NAME VALUE
 *   MAINTAINER STOPSIGNAL USER WORKDIR  the rest of the line
 *   HEALTHCHECK                         "NONE", or "CMD" and a command as of CMD
 *   ONBUILD                             the instruction, with its here-documents
 */
struct instruction {
	enum instruction_word word;
	char *keyword;     /* as it was written */
	unsigned line;     /* its first one, from 1 */
	char *text;        /* without comments and line ends, and without its here-documents */
	struct strv flags; /* "--from=build"; neither quotes nor escape characters */
	struct strv args;
	int is_json; /* the arguments are, or contain, a JSON array */
	int is_old;  /* ENV or LABEL of the form NAME VALUE */
	/*
	 * Made of a definition file: the arguments are as instruction_expand() has them. The
	 * here-documents, whose names are absolute, are files that COPY writes and RUN sees. COPY
	 * has sources and destinations in turn, as cp -r takes them; without --from they are the
	 * caller's.
	 */
	int is_section;
	struct heredoc *heredocs;
	size_t n_heredocs;
};

void instruction_done(struct instruction *in);

/* The name in capitals. */
const char *instruction_name(enum instruction_word word);

/*
 * Parse one logical line. Its here-documents have names, but no content yet.
 *
 * Returns 0, or -EINVAL.
 */
int instruction_parse(
	const char *text, char escape, struct instruction *ret, struct mlr_error *err);

/* May it follow ONBUILD? Returns 0 or -EINVAL. */
int instruction_check_trigger(const struct instruction *in, struct mlr_error *err);

/* Check flags and arguments of an instruction that has its here-documents. */
int instruction_check(const struct instruction *in, char escape, struct mlr_error *err);

/*
 * Expand variables and remove quotes, where the Dockerfile reference says so: in the arguments of
 * ADD, COPY, ENV, EXPOSE, FROM, LABEL, STOPSIGNAL, USER, VOLUME and WORKDIR. Those of other
 * instructions are copied; ARG is scope_declare()'s.
 *
 *   ret  gets the arguments; of ENV and LABEL, names and values in turn
 *
 * Returns 0, or expand_word()'s errors.
 */
int instruction_expand(const struct instruction *in, const struct expand *e, struct strv *ret,
	struct mlr_error *err);

/* Read the mark "<<NAME", "<<-NAME" or "<<'NAME'" of a here-document. Returns 1; 0 if the word is
 * something else. */
int instruction_heredoc(const char *word, struct heredoc *ret);
void instruction_heredoc_done(struct heredoc *h);

/* The value of a flag such as "--from", "" for one without, or NULL. If there are several, the
 * first. */
const char *instruction_flag(const struct instruction *in, const char *name);

/* Is a flag such as "--link" or "--link=true" set? */
int instruction_has(const struct instruction *in, const char *name);

/* What a flag of a checked instruction, "--device=NAME", reaches; that of --mount depends on its
 * type (recipe/run_mount.h). */
enum reach instruction_flag_reach(const struct instruction *in, const char *flag);

/* List instructions and their flags. */
void instruction_each_reach(reach_fn fn, void *ctx);
