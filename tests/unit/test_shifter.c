#include "unit.h"
#include "shifter/image.h"
#include "shifter/module.h"
#include "shifter/udiroot.h"
#include "shifter/volume.h"

static const char site[] = "# a site\n"
			   "siteFs=/scratch:/scratch:ro;/group\n"
			   "siteEnv=A=1 B=2\n"
			   "siteEnvPrepend=PATH=/site/bin\n"
			   "siteEnvAppend = PATH=/last/bin \\\n"
			   "  LIST=x\n"
			   "siteEnvUnset=GONE\n"
			   "imageGateway=http://gateway:5000\n"
			   "defaultModules=my_tools\n"
			   "module_my_tools_siteEnv=TOOLS=1\n"
			   "module_my_tools_copyPath=/opt/tools\n"
			   "module_my_tools_conflict=other\n"
			   "module_other_enabled=1\n"
			   "module_off_enabled=0\n"
			   "module_rooted_roothook=/bin/mount\n";

static void parse_site(struct udiroot *u)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (udiroot_parse(site, "udiRoot.conf", u, &err) < 0)
		fail_msg("%s", err.text);
}

static void options_done(struct exec_options *o)
{
	strv_done(&o->volumes);
	strv_done(&o->mounts);
	strv_done(&o->tmpfs);
}

static void a_sites_file_gives_its_lists_and_modules(void **state)
{
	auto_call(udiroot_done) struct udiroot u = { 0 };
	const struct udiroot_module *m;

	parse_site(&u);
	assert_int_equal(u.site.fs.n, 2);
	assert_string_equal(u.site.fs.v[0], "/scratch:/scratch:ro");
	assert_int_equal(u.site.append.n, 2);
	assert_string_equal(u.site.append.v[1], "LIST=x");
	m = udiroot_module_named(&u, "my_tools");
	assert_non_null(m);
	assert_string_equal(m->copy_path, "/opt/tools");
	assert_string_equal(m->set.env.v[0], "TOOLS=1");
	assert_int_equal(udiroot_module_named(&u, "off")->is_off, 1);
	assert_int_equal(udiroot_module_named(&u, "other")->is_off, 0);
	assert_null(udiroot_module_named(&u, "my"));
}

static void an_unknown_key_is_an_error_with_its_line(void **state)
{
	static const char *const bad[] = { "siteFs=/a\nsiteFS=/b\n", "siteFs=/a\nword\n",
		"siteFs=/a\nmodule_x=1\n", "siteFs=/a\nmodule_x_nothing=1\n", "siteFs=/a\n=1\n" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_call(udiroot_done) struct udiroot u = { 0 };
		struct mlr_error err = MLR_ERROR_INIT;

		assert_int_equal(udiroot_parse(bad[i], "F", &u, &err), -EPROTO);
		assert_non_null(strstr(err.text, "F:2: "));
	}
}

static void a_type_before_a_name_says_what_kind_of_image_it_is(void **state)
{
	static const char id[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	static const struct {
		const char *text, *standard, *name; /* name NULL: an error */
	} rows[] = {
		{ "docker:debian:12", "docker", "debian:12" },
		{ "debian:12", "docker", "debian:12" },
		{ "docker://debian:12", "docker", "docker://debian:12" },
		{ "custom:mine", "docker", "mine" },
		{ "local:/tmp", "docker", "rootfs:/tmp" },
		{ "/tmp", "local", "rootfs:/tmp" },
		{ "local:tmp", "docker", NULL },
		{ "local:/no/such", "docker", NULL },
		{ "docker:", "docker", NULL },
		{ "id:12", "docker", NULL },
	};
	auto_free char *name = NULL;
	char typed[128];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *got = NULL;
		struct mlr_error err = MLR_ERROR_INIT;
		int r = shifter_image_name(rows[i].text, rows[i].standard, &got, &err);

		assert_int_equal(r < 0, rows[i].name == NULL);
		if (rows[i].name)
			assert_string_equal(got, rows[i].name);
	}
	snprintf(typed, sizeof(typed), "id:%s", id);
	assert_int_equal(shifter_image_name(typed, "docker", &name, NULL), 0);
	assert_string_equal(name + strlen("sha256:"), id);
	free(take_ptr(&name));
	assert_int_equal(shifter_image_name(id, "docker", &name, NULL), 0);
	assert_string_equal(name + strlen("sha256:"), id);
}

static void the_environments_image_is_spanks_then_shifters(void **state)
{
	static const char *const order[][2] = { { "SHIFTER", "docker:a" }, { "SHIFTER_IMAGE", "b" },
		{ "SHIFTER_IMAGETYPE", "id" }, { "SLURM_SPANK_SHIFTER_IMAGE", "c" } };
	static const char *const expected[] = { "docker:a", "b", "id:b", "c" };

	assert_null(shifter_image_wanted());
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		auto_free char *image = NULL;

		setenv(order[i][0], order[i][1], 1);
		image = shifter_image_wanted();
		assert_string_equal(image, expected[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		unsetenv(order[i][0]);
}

static void volumes_become_mlruns_and_caches_a_tmpfs(void **state)
{
	struct exec_options o = { 0 };

	assert_int_equal(shifter_volumes_add("/a:/b;/c:/d:ro:slave", 0, &o, NULL), 0);
	assert_string_equal(o.volumes.v[0], "/a:/b");
	assert_string_equal(o.volumes.v[1], "/c:/d:ro");
	assert_int_equal(shifter_volumes_add("/s", 1, &o, NULL), 0);
	assert_string_equal(o.volumes.v[2], "/s:/s");
	assert_int_equal(
		shifter_volumes_add("/tmp:/tmp:perNodeCache=size=2G,fs=xfs", 0, &o, NULL), 0);
	assert_string_equal(o.tmpfs.v[0], "/tmp:size=2147483648");
	assert_int_equal(
		shifter_mount_add("type=per-node-cache,destination=/c,size=40G,bs=1", &o, NULL), 0);
	assert_string_equal(o.tmpfs.v[1], "/c:size=42949672960");
	assert_int_equal(shifter_mount_add("type=bind,source=/a,destination=/b", &o, NULL), 0);
	assert_string_equal(o.mounts.v[0], "type=bind,source=/a,destination=/b");
	options_done(&o);
}

static void a_volume_that_is_wrong_is_named(void **state)
{
	static const char *const bad[] = { "/a", ":/b", "/a:", "/a:/b:rw:nonsense",
		"/a:/b:perNodeCache=fs=xfs", "/a:/b:perNodeCache=size=2X",
		"/a:/b:perNodeCache=size=99999999999E", "/ok:/ok;/a" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct exec_options o = { 0 };
		struct mlr_error err = MLR_ERROR_INIT;

		assert_int_equal(shifter_volumes_add(bad[i], 0, &o, &err), -EINVAL);
		assert_non_null(strstr(err.text, "volume '"));
		options_done(&o);
	}
}

static void choose(const char *asked, const struct udiroot *u, int want, const char *names)
{
	auto_strv struct strv list = STRV_INIT, modules = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	if (asked)
		strv_add(&list, asked);
	assert_int_equal(shifter_modules_choose(&list, u, &modules, &err), want);
	for (size_t i = 0; want == 0 && i < modules.n; i++) {
		assert_int_equal(strncmp(names, modules.v[i], strlen(modules.v[i])), 0);
		names += strlen(modules.v[i]);
		names += *names == ',';
	}
	if (want == 0)
		assert_string_equal(names, "");
}

static void modules_are_those_asked_for_else_the_standard_ones(void **state)
{
	auto_call(udiroot_done) struct udiroot u = { 0 };

	parse_site(&u);
	choose(NULL, &u, 0, "my_tools");
	choose("none", &u, 0, "");
	choose("gpu,mpich,gpu", &u, 0, "gpu,mpich");
	choose("my_tools,other", &u, -EINVAL, NULL);
	choose("off", &u, -EINVAL, NULL);
	choose("rooted", &u, -EINVAL, NULL);
	choose("nothing", &u, -ENOENT, NULL);
	setenv("SHIFTER_MODULE", "gpu", 1);
	choose(NULL, &u, 0, "gpu");
	setenv("SLURM_SPANK_SHIFTER_MODULE", "mpich", 1); /* #SBATCH --module=mpich */
	choose(NULL, &u, 0, "mpich");
	choose("none", &u, 0, "");
	unsetenv("SLURM_SPANK_SHIFTER_MODULE");
	unsetenv("SHIFTER_MODULE");
}

static void a_sites_variables_win_and_extend_lists(void **state)
{
	auto_call(udiroot_done) struct udiroot u = { 0 };
	auto_strv struct strv modules = STRV_INIT;
	auto_call(plan_done) struct plan p;

	plan_init(&p);
	parse_site(&u);
	strv_add(&modules, "my_tools");
	plan_env_set(&p, "A", "user", PLAN_FROM_USER);
	plan_env_set(&p, "GONE", "x", PLAN_FROM_CALLER);
	plan_env_set(&p, "PATH", "/bin", PLAN_FROM_IMAGE);
	shifter_modules_env(&modules, &u, &p);
	assert_string_equal(plan_env_get(&p, "A"), "1");
	assert_string_equal(plan_env_get(&p, "TOOLS"), "1");
	assert_string_equal(plan_env_get(&p, "PATH"), "/site/bin:/bin:/last/bin");
	assert_string_equal(plan_env_get(&p, "LIST"), "x");
	assert_null(plan_env_get(&p, "GONE"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sites_file_gives_its_lists_and_modules),
		cmocka_unit_test(an_unknown_key_is_an_error_with_its_line),
		cmocka_unit_test(a_type_before_a_name_says_what_kind_of_image_it_is),
		cmocka_unit_test(the_environments_image_is_spanks_then_shifters),
		cmocka_unit_test(volumes_become_mlruns_and_caches_a_tmpfs),
		cmocka_unit_test(a_volume_that_is_wrong_is_named),
		cmocka_unit_test(modules_are_those_asked_for_else_the_standard_ones),
		cmocka_unit_test(a_sites_variables_win_and_extend_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
