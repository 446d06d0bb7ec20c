#include "cli/findings.h"

#include "base/json.h"

const char *cli_verdict(enum doctor_verdict v)
{
	static const char *const words[] = {
		[DOCTOR_PASS] = "pass", [DOCTOR_WARNING] = "warning", [DOCTOR_FAILURE] = "failure"
	};

	return words[v];
}

json_t *cli_findings(const struct doctor_report *r)
{
	static const char *const who_words[] = { [DOCTOR_NOBODY] = NULL,
		[DOCTOR_YOU] = "you",
		[DOCTOR_ADMINISTRATOR] = "administrator" };
	json_t *findings = json_array();

	for (size_t i = 0; i < r->n; i++) {
		const struct doctor_finding *f = &r->v[i];

		json_array_append_new(findings,
			json_pack("{s:s, s:s, s:o, s:o, s:s?, s:o}", "check", f->check, "verdict",
				cli_verdict(f->verdict), "what", mlr_json_text(f->what), "cause",
				mlr_json_text(f->cause), "who", who_words[f->who], "fix",
				mlr_json_text(f->fix)));
	}
	return json_pack("{s:b, s:I, s:I, s:I, s:o}", "ok", doctor_count(r, DOCTOR_FAILURE) == 0,
		"passes", (json_int_t)doctor_count(r, DOCTOR_PASS), "warnings",
		(json_int_t)doctor_count(r, DOCTOR_WARNING), "failures",
		(json_int_t)doctor_count(r, DOCTOR_FAILURE), "findings", findings);
}
