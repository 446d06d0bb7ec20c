/*
 * doctor: looks whether a machine, a user's set-up and a store serve mlrun, and knows the command
 * that mends what does not.
 *
 * Nothing is changed but for small files that are made and removed while something is tried out
 * (writing to the store, an overlay). What can be tried is tried: an unshare(2), a mount, an open;
 * settings are read to tell why it failed.
 */
#ifndef MLR_DOCTOR_DOCTOR_H
#define MLR_DOCTOR_DOCTOR_H

#include <stddef.h>

enum doctor_verdict {
	DOCTOR_PASS,
	DOCTOR_WARNING, /* mlrun works, but for a part of it, or slower */
	DOCTOR_FAILURE, /* mlrun does not work, or not as it is set up */
};

/* Who can mend it. */
enum doctor_who { DOCTOR_NOBODY, DOCTOR_YOU, DOCTOR_ADMINISTRATOR };

struct doctor_finding {
	char *check; /* what was looked at: "fuse"; the words of checks are listed in
			mlrun-doctor(1) */
	enum doctor_verdict verdict;
	char *what;  /* what is so, a sentence */
	char *cause; /* why, or what follows of it; NULL where the sentence says it all */
	enum doctor_who who;
	char *fix; /* commands for a shell, one or more lines; NULL with DOCTOR_NOBODY */
};

struct doctor_report {
	struct doctor_finding *v; /* n of them, in the order of looking */
	size_t n;
};

#define DOCTOR_REPORT_INIT \
	{                  \
		NULL, 0    \
	}
void doctor_report_done(struct doctor_report *r);

struct doctor_machine {
	const char *root;  /* "" for this machine; else a directory that has another's /proc, /sys,
			      /dev, /etc: then nothing is tried out, only read */
	const char *store; /* --store's value, or NULL */
	int timeout_ms; /* for all checks together, which run side by side: one that has no answer
			   by then, as of a file server that is gone, is told as such */
};

#define DOCTOR_MACHINE_INIT     \
	{                       \
		"", NULL, 10000 \
	}

/* Look. Adds to ret; never fails, as not being able to look is a finding. */
void doctor_look(const struct doctor_machine *m, struct doctor_report *ret);

/* How many have this verdict. */
size_t doctor_count(const struct doctor_report *r, enum doctor_verdict verdict);

#endif
