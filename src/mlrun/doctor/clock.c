/* Checks the time of day, which certificates depend on. */
#include "doctor/check.h"

#define YEAR_MIN 2026 /* mlrun's first year */
#define YEAR_MAX 2100

void check_clock(const struct doctor_machine *m, struct doctor_report *r)
{
	time_t now = time(NULL);
	char text[32];
	struct tm tm;

	if (!doctor_is_here(m) || !gmtime_r(&now, &tm))
		return;
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm);
	if (tm.tm_year + 1900 >= YEAR_MIN && tm.tm_year + 1900 < YEAR_MAX) {
		doctor_add(r, "clock", DOCTOR_PASS, "it is %s", text);
		return;
	}
	doctor_add(r, "clock", DOCTOR_FAILURE, "the clock says %s", text);
	doctor_because(r, "registries' certificates and tokens seem to be of another time");
	doctor_mend(r, DOCTOR_ADMINISTRATOR, "timedatectl set-ntp true");
}
