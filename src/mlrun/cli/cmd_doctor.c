/* mlrun doctor: prints the findings of the room doctor. */
#include "cli/cli.h"
#include "cli/common.h"

#include "base/escape.h"
#include "doctor/doctor.h"

#define UNHEALTHY 1 /* exit status: something failed */

static const char doc[] =
	"Check whether this machine, its settings and the store suit mlrun, and print the command that fixes each problem.\v"
	"The exit status is 0 if no check failed, 1 if one did, and 125 if mlrun doctor itself failed.";

/* Print a command; one of several lines without margin, to be pasted. */
static void print_fix(const struct doctor_finding *f, int margin)
{
	auto_free char *fix = xstrdup(f->fix);
	const char *who = f->who == DOCTOR_YOU ? "you" : "an administrator";
	char *at = NULL;

	if (!strchr(fix, '\n')) {
		printf("%*s%s: ", margin, "", who);
		cli_print_line(fix);
		return;
	}
	printf("%*s%s:\n", margin, "", who);
	for (char *line = strtok_r(fix, "\n", &at); line; line = strtok_r(NULL, "\n", &at)) {
		cli_print_line(line);
	}
}

static void print_finding(const struct doctor_finding *f, int width)
{
	const int margin = (int)strlen("failure  ") + width + 2;

	printf("%-7s  %-*s  ", doctor_verdict_word(f->verdict), width, f->check);
	cli_print_line(f->what);
	if (f->cause) {
		printf("%*s", margin, "");
		cli_print_line(f->cause);
	}
	if (f->fix)
		print_fix(f, margin);
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

static void print_text(const struct doctor_report *r)
{
	size_t passes = doctor_count(r, DOCTOR_PASS), warnings = doctor_count(r, DOCTOR_WARNING),
	       failures = doctor_count(r, DOCTOR_FAILURE);
	int width = 0;

	for (size_t i = 0; i < r->n; i++)
		if ((int)strlen(r->v[i].check) > width)
			width = (int)strlen(r->v[i].check);
	for (size_t i = 0; i < r->n; i++)
		print_finding(&r->v[i], width);
	printf("%zu pass%s, %zu warning%s, %zu failure%s\n", passes, passes == 1 ? "" : "es",
		warnings, plural(warnings), failures, plural(failures));
}

int cmd_doctor(int argc, char **argv)
{
	auto_call(doctor_report_done) struct doctor_report r = { 0 };
	struct doctor_machine m = DOCTOR_MACHINE_INIT;
	struct cli_listing a = { 0 };

	cli_parse_listing(argc, argv, doc, &a);
	m.store = a.common.store;
	doctor_look(&m, &r);
	if (!a.json)
		print_text(&r);
	else if (cli_print_json(doctor_to_json(&r)) != 0)
		return CLI_FAILED;
	return doctor_count(&r, DOCTOR_FAILURE) > 0 ? UNHEALTHY : 0;
}
