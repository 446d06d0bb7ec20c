/* Turns doctor's findings into JSON. */
#ifndef MLR_CLI_FINDINGS_H
#define MLR_CLI_FINDINGS_H

#include "doctor/doctor.h"

#include <jansson.h>

/* "pass", "warning", "failure" */
const char *cli_verdict(enum doctor_verdict v);

/* The object that `mlrun doctor --json` prints (mlrun-doctor(1)). */
json_t *cli_findings(const struct doctor_report *r);

#endif
