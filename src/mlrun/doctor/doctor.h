/*
 * doctor: looks whether a machine, a user's set-up and a store serve mlrun, and suggests the
 * command that repairs what does not.
 *
 * It changes nothing except small files that it makes and removes to try something (writing to the
 * store, an overlay). It tries what can be tried: an unshare(2), a mount, an open. It reads
 * settings only to explain a failure.
 */
#pragma once

#include "base/base.h"

#include <jansson.h>

enum doctor_verdict {
	DOCTOR_PASS,
	DOCTOR_NOT_NEEDED, /* of an image: it does without */
	DOCTOR_WARNING,    /* mlrun works, but slower or not completely; an image works for most
			      programs, or only a start can tell */
	DOCTOR_FAILURE,    /* mlrun or the image does not work, or not as configured */
};

/* The person who can fix it. */
enum doctor_who { DOCTOR_NOBODY, DOCTOR_YOU, DOCTOR_ADMINISTRATOR };

struct doctor_finding {
	char *check; /* the check's name: "fuse"; mlrun-doctor(1) lists them */
	enum doctor_verdict verdict;
	char *what;  /* what was found, in a sentence */
	char *cause; /* the cause or the consequence; NULL if what says it all */
	enum doctor_who who;
	char *fix; /* shell commands, one or more lines, or of an image a sentence; NULL with
		      DOCTOR_NOBODY */
};

struct doctor_report {
	struct doctor_finding *v; /* n of them, in the order of the checks */
	size_t n;
};

void doctor_report_done(struct doctor_report *r);

struct doctor_machine {
	const char *root;  /* "" for this machine; else a directory with another machine's /proc,
			    * /sys, /dev, /etc, which are only read: nothing is tried */
	const char *store; /* --store's value, or NULL */
	int timeout_ms; /* for all checks together, which run in parallel; a check without a result
			 * by then, perhaps because of a dead file server, is reported */
};

#define DOCTOR_MACHINE_INIT     \
	{                       \
		"", NULL, 10000 \
	}

/* Run all checks and add their findings to ret. Never fails: a check that cannot run is a
 * finding. */
void doctor_look(const struct doctor_machine *m, struct doctor_report *ret);

/* The number of findings with this verdict, and the worst verdict. */
size_t doctor_count(const struct doctor_report *r, enum doctor_verdict verdict);
enum doctor_verdict doctor_worst(const struct doctor_report *r);

/* "pass", "warning", "failure" */
const char *doctor_verdict_word(enum doctor_verdict v);

/* Make the object that `mlrun doctor --json` prints (mlrun-doctor(1)). */
json_t *doctor_to_json(const struct doctor_report *r);
