/*
 * Reads a command's arguments by a table: a row of --help for each option, with the field of the
 * command's struct that gets its value, and the values that it takes. argp(3) does the parsing. An
 * invalid value and an unknown option end the program with a message, as argp_error(3) does.
 *
 *   static const struct option_row options[] = {
 *           { "lr", 0, "X", 0, "learning rate (0.01)", 1, OPT_NUMBER(struct args, lr, 0, 10) },
 *           { "quiet", 'q', NULL, 0, "print only errors", 1, OPT(struct args, quiet) },
 *           { 0 },
 *   };
 *   static const struct options_syntax syntax = { .options = options, .doc = "Train." };
 *
 *   options_parse("mltrain train", argc, argv, &syntax, &args);
 */
#pragma once

#include "base/strv.h"

#include <argp.h>
#include <stdint.h>

enum option_kind {
	OPTION_NOWHERE,
	OPTION_SET,
	OPTION_TEXT,
	OPTION_FILE, /* a text that is not empty: an unset variable of a script gives "" */
	OPTION_COUNT,
	OPTION_NUMBER,
	OPTION_SECONDS, /* "90", "90s", "1m30s", "8h", "2d" */
	OPTION_WORD,
	OPTION_READ,
	OPTION_ADD,
	OPTION_LIST, /* this and the next take several operands, if they are the first */
	OPTION_CALL,
};

/* Where a value goes: a field of the command's struct, or a function. */
struct option_target {
	enum option_kind kind;
	int value;               /* OPTION_SET: the field's new value; OPTION_WORD: the first's */
	size_t at;               /* the field's offset */
	size_t size;             /* OPTION_COUNT: the field's */
	uint64_t min, max, unit; /* OPTION_COUNT; the field gets the value times the unit */
	double low, high;        /* OPTION_NUMBER, OPTION_SECONDS */
	const char *const
		*words; /* OPTION_WORD: NULL ends them; the field gets value and the index */
	/* OPTION_READ: fills the field. Returns a negative number for a text that is not what the
	 * option takes, "a size such as 500MB". */
	int (*read)(const char *text, void *field);
	const char *takes;
	const char *word; /* OPTION_ADD: the field gets it, with the value behind it */
	/* OPTION_CALL: gets the command's struct, or the shared one that the row belongs to.
	 * Reports an invalid value with argp_error(). */
	void (*call)(void *args, char *arg, struct argp_state *state);
};

/* A field: an int is set to v (1), a string to the last value, a struct strv collects all
 * values. */
#define OPT_VALUE(type, field, v)                                                 \
	{                                                                         \
		.kind = _Generic(((type *)0)->field,                            \
			int: OPTION_SET,                                        \
			unsigned: OPTION_SET,                                   \
			const char *: OPTION_TEXT,                              \
			struct strv: OPTION_LIST),                              \
		.at = offsetof(type, field), .value = v \
	}
#define OPT(type, field) OPT_VALUE(type, field, 1)
#define OPT_CALL(function)                            \
	{                                             \
		.kind = OPTION_CALL, .call = function \
	}
/* A function that gets a pointer to the field. */
#define OPT_PARSE(type, field, function)                                           \
	{                                                                          \
		.kind = OPTION_CALL, .at = offsetof(type, field), .call = function \
	}
/* A const char *. */
#define OPT_FILE(type, field)                                    \
	{                                                        \
		.kind = OPTION_FILE, .at = offsetof(type, field) \
	}
/* An integer of 4 or 8 bytes, times a unit. */
#define OPT_COUNT_OF(type, field, from, to, times)                                        \
	{                                                                                 \
		.kind = OPTION_COUNT, .at = offsetof(type, field),                        \
		.size = sizeof(((type *)0)->field), .min = from, .max = to, .unit = times \
	}
#define OPT_COUNT(type, field, from, to) OPT_COUNT_OF(type, field, from, to, 1)
/* A double. */
#define OPT_NUMBER(type, field, from, to)                                                   \
	{                                                                                   \
		.kind = OPTION_NUMBER, .at = offsetof(type, field), .low = from, .high = to \
	}
/* A double: more than 0 seconds, at most to. */
#define OPT_SECONDS(type, field, to)                                            \
	{                                                                       \
		.kind = OPTION_SECONDS, .at = offsetof(type, field), .high = to \
	}
/* An int or an enum; it gets the index of the word, counted from a number. */
#define OPT_WORD_FROM(type, field, list, from)                                                 \
	{                                                                                      \
		.kind = OPTION_WORD, .at = offsetof(type, field), .words = list, .value = from \
	}
#define OPT_WORD(type, field, list) OPT_WORD_FROM(type, field, list, 0)
/* Any type that the function reads. */
#define OPT_READ(type, field, function, what)                                                     \
	{                                                                                         \
		.kind = OPTION_READ, .at = offsetof(type, field), .read = function, .takes = what \
	}
/* A struct strv. */
#define OPT_ADD(type, field, text)                                            \
	{                                                                     \
		.kind = OPTION_ADD, .at = offsetof(type, field), .word = text \
	}

/* The first members are those of struct argp_option. A row without a name is a heading; an alias
 * has the target of the row before it. */
struct option_row {
	const char *name;
	char letter;     /* or 0 */
	const char *arg; /* NULL: no value */
	int flags;       /* argp's OPTION_HIDDEN and the like */
	const char *doc;
	int group;
	struct option_target to;
	unsigned given; /* bits that syntax.given gets */
};

/* Rows that several commands have, and where in a command's struct theirs begins. */
struct options_table {
	const struct option_row *rows; /* the last is zeroed; NULL: no rows */
	size_t at;
};

#define OPTIONS_SHARED 3

/* An option that the command lacks is refused, or removed if it (or its value) changes nothing. */
enum options_foreign { OPTIONS_UNKNOWN, OPTIONS_SWITCH, OPTIONS_WITH_VALUE };

/* A command's arguments. */
struct options_syntax {
	const struct option_row *options;            /* the last is zeroed; may be NULL */
	struct options_table shared[OPTIONS_SHARED]; /* further ones, which yield to these */
	const char *args_doc, *doc;                  /* argp's */
	size_t given;                                /* offset of an unsigned, of rows' bits */
	int in_order;                                /* options end at the first operand */
	int has_false; /* "--quiet=false" takes back "--quiet"; else it is refused */

	/* The operands in order; a first one that is a list or a function takes all. */
	struct option_target operands[2];
	size_t needed;       /* so many are required */
	const char *missing; /* message */
	const char *surplus; /* message for a surplus operand; NULL: argp's */

	/* Called at the end: options that contradict each other. May be NULL. */
	void (*check)(void *args, struct argp_state *state);

	/* Called for each of shared[0] on the command line; arg may be NULL. May be NULL. */
	void (*seen)(void *args, const char *name, const char *arg);

	/* Judges "-p" or "--publish" that the command lacks, before it is refused. value: in the
	 * same argument, or NULL; next: the argument after it, or NULL. May be NULL. */
	enum options_foreign (*foreign)(
		const char *command, const char *option, const char *value, const char *next);
};

/*
 * Fill a command's struct from its command line.
 *
 *   name  the program and the command, for messages: "mlrun exec"
 *
 * Strings borrow from argv.
 */
void options_parse(
	const char *name, int argc, char **argv, const struct options_syntax *syntax, void *args);

/* The exit status for a command line that cannot be read: an unknown option, a missing or surplus
 * operand, options that contradict. 0: argp_err_exit_status, as for invalid values. */
extern int options_usage_status;

/* A whole number from min to max, or -1. */
long options_number(const char *text, long min, long max);

/* The same for the value of an option, with a message that names it. */
uint64_t options_count(
	struct argp_state *state, const char *option, const char *text, uint64_t min, uint64_t max);
double options_real(
	struct argp_state *state, const char *option, const char *text, double min, double max);
/* More than 0 seconds, at most max. */
double options_seconds(struct argp_state *state, const char *option, const char *text, double max);
/* The index of a word in words, which NULL ends. */
int options_word(
	struct argp_state *state, const char *option, const char *text, const char *const *words);
/* A file name that is not empty. Returns text. */
const char *options_file(struct argp_state *state, const char *option, const char *text);
