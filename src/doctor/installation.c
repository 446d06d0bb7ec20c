/* mlrun's own programs and settings. */
#include "doctor/check.h"

#include "base/cleanup.h"
#include "base/config.h"
#include "base/error.h"
#include "base/program.h"
#include "base/strv.h"

#include <string.h>
#include <unistd.h>

void check_installation(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_free char *pull = program_path("mlrun-pull");

	if (!doctor_is_here(m))
		return;
	if (access(pull, X_OK) == 0) {
		doctor_add(r, "installation", DOCTOR_PASS, "mlrun-pull is '%s'", pull);
		return;
	}
	doctor_because(doctor_add(r, "installation", DOCTOR_FAILURE,
			       "mlrun-pull is not there ('%s')", pull),
		"mlrun pull and its like are that program; mlrun's files were moved apart");
	doctor_mend(&r->v[r->n - 1], DOCTOR_YOU, "make install");
}

/* The files that values come from, each once. */
static void name_files(const struct config *c, struct strv *ret)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strv_has(ret, c->v[i].file))
			strv_add(ret, c->v[i].file);
}

void check_configuration(const struct doctor_machine *m, struct doctor_report *r)
{
	auto_call(config_done) struct config c = CONFIG_INIT;
	auto_strv struct strv files = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	struct doctor_finding *f;
	char *hint;

	if (!doctor_is_here(m))
		return;
	if (config_load(&c, &err) == 0) {
		name_files(&c, &files);
		if (files.n == 0)
			doctor_add(r, "configuration", DOCTOR_PASS, "nothing is configured");
		else
			doctor_add(r, "configuration", DOCTOR_PASS, "%zu settings of '%s'%s%s%s",
				c.n, files.v[0], files.n > 1 ? " and '" : "",
				files.n > 1 ? files.v[1] : "", files.n > 1 ? "'" : "");
		return;
	}
	hint = strstr(err.text, "\nhint: ");
	if (hint)
		*hint = '\0';
	f = doctor_add(r, "configuration", DOCTOR_FAILURE, "%s", err.text);
	doctor_because(f, "no command works that needs the configuration");
	doctor_mend(f, DOCTOR_YOU, "%s", hint ? hint + strlen("\nhint: ") : "man 5 mlrun.conf");
}
