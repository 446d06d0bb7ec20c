/*
 * What this room's checks share. Each check examines one subject and adds its findings. It runs in
 * its own process, so it may change namespaces and limits, block, and even crash.
 */
#pragma once

#include "doctor/doctor.h"

typedef void (*doctor_check)(const struct doctor_machine *m, struct doctor_report *r);

void check_kernel(const struct doctor_machine *m, struct doctor_report *r);
void check_namespaces(const struct doctor_machine *m, struct doctor_report *r);
void check_fuse(const struct doctor_machine *m, struct doctor_report *r);
void check_installation(const struct doctor_machine *m, struct doctor_report *r);
void check_configuration(const struct doctor_machine *m, struct doctor_report *r);
void check_store(const struct doctor_machine *m, struct doctor_report *r);
void check_memory(const struct doctor_machine *m, struct doctor_report *r);
void check_clock(const struct doctor_machine *m, struct doctor_report *r);
void check_credentials(const struct doctor_machine *m, struct doctor_report *r);
void check_gpu(const struct doctor_machine *m, struct doctor_report *r);
void check_mpi(const struct doctor_machine *m, struct doctor_report *r);
void check_slurm(const struct doctor_machine *m, struct doctor_report *r);

/* Add a finding; give the latest one its cause, and its fix. */
void doctor_add(struct doctor_report *r, const char *check, enum doctor_verdict verdict,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void doctor_because(struct doctor_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void doctor_mend(struct doctor_report *r, enum doctor_who who, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Add an error's sentence, and its hint as the fix; otherwise: the fix without a hint, or NULL. */
void doctor_add_error(struct doctor_report *r, const char *check, enum doctor_verdict verdict,
	const struct mlr_error *err, const char *otherwise);

/* Is the report about this machine, so that checks can try things? */
int doctor_is_here(const struct doctor_machine *m);

/* A path of the machine, to free(); the text of a small file there, without its last newline, to
 * free(), or NULL; the number at such a file's start, or -1. */
char *doctor_path(const struct doctor_machine *m, const char *path);
char *doctor_text(const struct doctor_machine *m, const char *path);
long doctor_number(const struct doctor_machine *m, const char *path);

/* Is the file system in /proc/filesystems? */
int doctor_has_filesystem(const struct doctor_machine *m, const char *name);

/* A program on PATH of the machine, to free(), or NULL. */
char *doctor_program(const struct doctor_machine *m, const char *name);

/* Is this process under a seccomp filter (usually of a container around it)? */
int doctor_is_filtered(const struct doctor_machine *m);

/* --- a trial start ----------------------------------------------------------------- */

/*
 * Make a container of an image, or of a made-up tree, in a child process, and leave it.
 *
 *   image  as exec takes it; NULL: an empty directory that is made and removed
 *   store  --store's value, or NULL
 *
 * Returns 0, or the negative errno of the step that failed, with what exec would say of it.
 */
int doctor_try_start(const char *image, const char *store, struct mlr_error *err);
