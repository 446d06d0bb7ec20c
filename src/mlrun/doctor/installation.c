/* Checks mlrun's own programs and settings. */
#include "doctor/check.h"

#include "base/config.h"
#include "base/program.h"

static const struct {
	const char *name, *means;
} programs[] = {
	{ "mlrun-pull", "mlrun pull and its like are that program" },
	{ "mlrun-account", "names of users that are not in /etc/passwd are asked of it" },
};

void check_installation(const struct doctor_machine *m, struct doctor_report *r)
{
	int whole = 1;

	for (size_t i = 0; doctor_is_here(m) && i < ARRAY_LEN(programs); i++) {
		auto_free char *path = program_path(programs[i].name);

		if (access(path, X_OK) == 0)
			continue;
		doctor_add(r, "installation", DOCTOR_FAILURE, "%s is missing ('%s')",
			programs[i].name, path);
		doctor_because(r, "%s; mlrun's files were moved apart", programs[i].means);
		doctor_mend(r, DOCTOR_YOU, "make install");
		whole = 0;
	}
	if (doctor_is_here(m) && whole)
		doctor_add(r, "installation", DOCTOR_PASS, "mlrun's other programs are there");
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
	auto_call(config_done) struct config c = { 0 };
	auto_strv struct strv files = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

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
	doctor_add_error(r, "configuration", DOCTOR_FAILURE, &err, "man 5 mlrun.conf");
	doctor_because(r, "no command works that needs the configuration");
}
