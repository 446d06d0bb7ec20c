#include "unit.h"
#include "base/config.h"

static char dir[64];

static int make_dir(void **state)
{
	strcpy(dir, "/tmp/mlr-test-config.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(file_mkdir_p(AT_FDCWD, dir, 0755, NULL), 0);
	setenv("XDG_CONFIG_HOME", dir, 1);
	unsetenv("MLRUN_CONFIG");
	return 0;
}

static int drop_dir(void **state)
{
	return file_remove_tree(AT_FDCWD, dir, NULL);
}

/* Write a file beneath dir and give its full name. */
static char *put(const char *name, const char *text, mode_t mode)
{
	auto_free char *below = xasprintf("%s/mlrun", dir);
	char *path = xasprintf("%s/mlrun/%s", dir, name);

	assert_int_equal(file_mkdir_p(AT_FDCWD, below, 0755, NULL), 0);
	assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), 0600, NULL), 0);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

static void parse(const char *text, struct config *c)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (config_parse(c, text, strlen(text), "f", &err) != 0)
		fail_msg("%s", err.text);
}

static void is(const struct config *c, const char *section, const char *key, const char *want)
{
	const struct config_value *v = config_get(c, section, key);

	if (!want) {
		assert_null(v);
		return;
	}
	assert_non_null(v);
	assert_string_equal(v->value, want);
}

static void a_later_value_wins_and_lists_add_up(void **state)
{
	auto_call(config_done) struct config c = { 0 };
	auto_strv struct strv stores = STRV_INIT, mirrors = STRV_INIT;

	parse("\xef\xbb\xbf# a comment\n"
	      "store = /a\n"
	      "  additional_stores = /x:/y ; why\n"
	      "\tstore: /b\r\n"
	      "additional_stores=/z\n"
	      "[ registry  Quay.io ]\n"
	      "mirror = m1:5000/proxy\n"
	      "insecure = Off\n"
	      "[registry docker.io]\n"
	      "insecure = yes\n"
	      "mirror = m2\n"
	      "[registry quay.io]\n"
	      "mirror = m3",
		&c);
	is(&c, "", "store", "/b");
	is(&c, "registry quay.io", "insecure", "false");
	is(&c, "registry docker.io", "insecure", "true");
	is(&c, "registry docker.io", "ca", NULL);
	config_list(&c, "", "additional_stores", &stores);
	assert_int_equal(stores.n, 3);
	assert_string_equal(stores.v[1], "/y");
	assert_string_equal(stores.v[2], "/z");
	config_list(&c, "registry quay.io", "mirror", &mirrors);
	assert_int_equal(mirrors.n, 2);
	assert_string_equal(mirrors.v[0], "m1:5000/proxy");
	assert_string_equal(mirrors.v[1], "m3");
	assert_int_equal(config_get(&c, "registry docker.io", "mirror")->line, 11);
}

static void names_longer_than_libinihs_buffers_are_kept_whole(void **state)
{
	auto_call(config_done) struct config c = { 0 };
	const char *host =
		"registry 123456789012.dkr.ecr.us-gov-west-1.amazonaws.com.and.some.more";
	auto_free char *text = xasprintf("[%s]\nca = /%0150d\n", host, 7);

	parse(text, &c);
	assert_int_equal(strlen(config_get(&c, host, "ca")->value), 151);
}

static void variables_and_the_home_directory_stand_in_paths(void **state)
{
	auto_call(config_done) struct config c = { 0 };

	setenv("HOME", "/home/u", 1);
	setenv("MLR_A", "alpha", 1);
	parse("store = ~/s/${MLR_A}x/$MLR_A\nadditional_stores = /$MLR_A:~/b\n", &c);
	is(&c, "", "store", "/home/u/s/alphax/alpha");
	is(&c, "", "additional_stores", "/alpha:/home/u/b");
}

static void an_ipv6_address_has_brackets_of_its_own(void **state)
{
	auto_call(config_done) struct config c = { 0 };

	parse("[registry [::1]:5000] # a comment [1]\ninsecure = true\n"
	      "[registry [fd00::2]]\ntimeout = 7\nmirror = [::1]:5000/p\n",
		&c);
	is(&c, "registry [::1]:5000", "insecure", "true");
	is(&c, "registry [fd00::2]", "timeout", "7");
	is(&c, "registry [fd00::2]", "mirror", "[::1]:5000/p");
}

static void the_exec_section_has_lists_and_words(void **state)
{
	auto_call(config_done) struct config c = { 0 };
	auto_strv struct strv volumes = STRV_INIT, env = STRV_INIT;

	setenv("MLR_A", "alpha", 1);
	unsetenv("MLR_NOT_SET");
	parse("[ Exec ]\n"
	      "volume = /d/$MLR_A:/data:ro\n"
	      "volume = $MLR_NOT_SET/x:/y:ro,optional\n"
	      "volume = /plain\n"
	      "env = A=b = c\n"
	      "env = LD_LIBRARY_PATH\n"
	      "unset_env = SECRET_*\n"
	      "home = yes\nmpi = none\npull = never\n",
		&c);
	config_list(&c, "exec", "volume", &volumes);
	assert_int_equal(volumes.n, 3);
	assert_string_equal(volumes.v[0], "/d/alpha:/data:ro");
	assert_string_equal(volumes.v[1], "$MLR_NOT_SET/x:/y:ro,optional");
	assert_string_equal(volumes.v[2], "/plain");
	config_list(&c, "exec", "env", &env);
	assert_int_equal(env.n, 2);
	assert_string_equal(env.v[0], "A=b = c");
	is(&c, "exec", "unset_env", "SECRET_*");
	is(&c, "exec", "home", "true");
	is(&c, "exec", "mpi", "none");
	is(&c, "exec", "pull", "never");
}

static void an_environment_variable_wins_over_the_files_and_must_be_right(void **state)
{
	auto_call(config_done) struct config c = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	int is_sites = -1;
	char *word = NULL;

	parse("[exec]\npull = never\n", &c);
	unsetenv("MLRUN_PULL");
	assert_int_equal(config_word(NULL, "exec", "pull", &word, &is_sites, &err), 0);
	assert_string_equal(word, "missing");
	assert_int_equal(is_sites, 0);
	free(word);
	assert_int_equal(config_word(&c, "exec", "pull", &word, &is_sites, &err), 0);
	assert_string_equal(word, "never");
	assert_int_equal(is_sites, 0);
	free(word);
	setenv("MLRUN_PULL", "always", 1);
	assert_int_equal(config_word(&c, "exec", "pull", &word, &is_sites, &err), 0);
	assert_string_equal(word, "always");
	free(word);
	setenv("MLRUN_PULL", "sometimes", 1);
	assert_int_equal(config_word(&c, "exec", "pull", &word, &is_sites, &err), -EINVAL);
	assert_string_equal(err.text,
		"environment variable MLRUN_PULL: 'sometimes' is invalid: use one of missing, always, never");
	unsetenv("MLRUN_PULL");
}

static void what_is_wrong_is_told_with_file_and_line(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "\nstor = /a\n", "f:2: mlrun knows no setting 'stor'" },
		{ "insecure = true\n", "f:1: 'insecure' belongs under a [registry HOST]" },
		{ "[registry a]\nstore = /a\n", "f:2: 'store' stands above the first section" },
		{ "[registries a]\n",
			"f:1: unknown section 'registries a': use [exec], [build], [mpi], [apptainer] or [registry HOST]" },
		{ "[registry]\n",
			"f:1: unknown section 'registry': use [exec], [build], [mpi], [apptainer] or [registry HOST]" },
		{ "[          a]\n",
			"f:1: unknown section '          a': use [exec], [build], [mpi], [apptainer] or [registry HOST]" },
		{ "[registry a b]\n",
			"f:1: unknown section 'registry a b': use [exec], [build], [mpi], [apptainer] or [registry HOST]" },
		{ "[registry a\n", "f:1: a section's name ends with ']'" },
		{ "store = /a\nnonsense\nstore = b\n",
			"f:2: neither 'KEY = VALUE' nor a [section]" },
		{ "store =\n", "f:1: 'store' has no value" },
		{ "store = a\n", "f:1: 'a' is not an absolute path" },
		{ "additional_stores = /a:b\n", "f:1: 'b' is not an absolute path" },
		{ "store = /$MLR_NOT_SET/x\n",
			"f:1: the environment variable MLR_NOT_SET is not set" },
		{ "store = /a$/x\n", "f:1: a '$' without the name of an environment variable" },
		{ "store = /${HOME\n", "f:1: a '$' without the name of an environment variable" },
		{ "[registry a]\ninsecure = maybe\n", "f:2: 'maybe' is neither true nor false" },
		{ "[registry a]b\n", "f:1: a section's name ends with ']'" },
		{ "[registry a]\nmirror = https://m\n",
			"f:2: 'https://m' is not a host: no 'https://' and no user's name stands before one" },
		{ "[registry a]\ntoken_server = me@t\n",
			"f:2: 'me@t' is not a host: no 'https://' and no user's name stands before one" },
		{ "[registry a]\ntimeout = 0\n",
			"f:2: '0' is not a number of seconds from 1 to 3600" },
		{ "[registry a]\ntimeout = 1m\n",
			"f:2: '1m' is not a number of seconds from 1 to 3600" },
		{ "[exec]\nstore = /a\n", "f:2: 'store' stands above the first section" },
		{ "[exec x]\nhome = true\n",
			"f:1: unknown section 'exec x': use [exec], [build], [mpi], [apptainer] or [registry HOST]" },
		{ "home = true\n", "f:1: 'home' belongs under [exec]" },
		{ "[exec]\ntimeout = 3\n", "f:2: 'timeout' belongs under a [registry HOST]" },
		{ "[exec]\nhome = maybe\n", "f:2: 'maybe' is neither true nor false" },
		{ "[exec]\nmpi = hosts\n",
			"f:2: 'hosts' is invalid: use one of auto, none, host, host:major, host:full, host:strict" },
		{ "[mpi]\ncompatibility = host\n",
			"f:2: 'host' is invalid: use one of major, full, strict" },
		{ "[exec]\npull = Always\n",
			"f:2: 'Always' is invalid: use one of missing, always, never" },
		{ "[exec]\nvolume = data:/data\n", "f:2: 'data' is not an absolute path" },
		{ "[exec]\nvolume = /data:data\n", "f:2: 'data' is not an absolute path" },
		{ "[exec]\nvolume = /$MLR_NOT_SET:/d:ro\n",
			"f:2: the environment variable MLR_NOT_SET is not set" },
		{ "[exec]\nenv = =x\n", "f:2: invalid variable '=x': use K=V or K" },
		{ "[exec]\nenv = A B=x\n", "f:2: invalid variable 'A B=x': use K=V or K" },
	};

	unsetenv("MLR_NOT_SET");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_call(config_done) struct config c = { 0 };
		struct mlr_error err = MLR_ERROR_INIT;

		assert_int_equal(
			config_parse(&c, cases[i].text, strlen(cases[i].text), "f", &err), -EPROTO);
		assert_string_equal(err.text, cases[i].want);
	}
}

static void long_lines_and_binary_files_are_refused(void **state)
{
	auto_call(config_done) struct config c = { 0 };
	auto_free char *text = xasprintf("# %0300d\nstore = /%0300d\n", 0, 0);
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(config_parse(&c, text, strlen(text), "f", &err), -EPROTO);
	assert_string_equal(
		err.text, "f:2: longer than 198 bytes; a list may be given as several lines");
	assert_int_equal(config_parse(&c, "store = /a\0b\n", 13, "f", &err), -EPROTO);
	assert_string_equal(err.text, "f:1: a NUL byte: not a text file");
}

static void the_users_file_is_found_and_must_be_the_users(void **state)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *path = put("mlrun.conf", "store = /mine\n", 0600);
	auto_free char *want = xasprintf(
		"configuration: %s: others than its owner may write to it (mode 602)\nhint: chmod go-w '%s'",
		path, path);

	{
		auto_call(config_done) struct config c = { 0 };

		assert_int_equal(config_load(&c, &err), 0);
		is(&c, "", "store", "/mine");
		assert_string_equal(config_get(&c, "", "store")->file, path);
	}
	for (int i = 0; i < 2; i++) {
		auto_call(config_done) struct config c = { 0 };

		chmod(path, i ? 0606 : 0602);
		assert_int_equal(config_load(&c, &err), -EACCES);
		if (i == 0)
			assert_string_equal(err.text, want);
	}
	unlink(path);
}

static void a_home_that_may_not_be_looked_into_has_no_settings(void **state)
{
	auto_free char *path = put("mlrun.conf", "store = /mine\n", 0600);
	auto_free char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));
	auto_call(config_done) struct config c = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	chmod(parent, 0);
	assert_int_equal(config_load(&c, &err), 0);
	if (geteuid() != 0)
		assert_null(config_get(&c, "", "store"));
	chmod(parent, 0700);
	unlink(path);
}

static void a_named_file_is_read_instead_and_must_be_there(void **state)
{
	auto_free char *path = put("mlrun.conf", "store = /mine\n", 0600);
	auto_free char *other = put("other.conf", "additional_stores = /o\n", 0644);
	struct mlr_error err = MLR_ERROR_INIT;

	{
		auto_call(config_done) struct config c = { 0 };

		setenv("MLRUN_CONFIG", other, 1);
		assert_int_equal(config_load(&c, &err), 0);
		is(&c, "", "store", NULL);
		is(&c, "", "additional_stores", "/o");
	}
	{
		auto_call(config_done) struct config c = { 0 };

		setenv("MLRUN_CONFIG", "/dev/null", 1);
		assert_int_equal(config_load(&c, &err), 0);
		assert_int_equal(c.n, 0);
	}
	{
		auto_call(config_done) struct config c = { 0 };

		setenv("MLRUN_CONFIG", "/no/such", 1);
		assert_int_equal(config_load(&c, &err), -ENOENT);
		assert_string_equal(err.text, "configuration: /no/such: No such file or directory");
	}
	unsetenv("MLRUN_CONFIG");
	unlink(path);
	unlink(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_later_value_wins_and_lists_add_up),
		cmocka_unit_test(an_ipv6_address_has_brackets_of_its_own),
		cmocka_unit_test(names_longer_than_libinihs_buffers_are_kept_whole),
		cmocka_unit_test(variables_and_the_home_directory_stand_in_paths),
		cmocka_unit_test(the_exec_section_has_lists_and_words),
		cmocka_unit_test(an_environment_variable_wins_over_the_files_and_must_be_right),
		cmocka_unit_test(what_is_wrong_is_told_with_file_and_line),
		cmocka_unit_test(long_lines_and_binary_files_are_refused),
		cmocka_unit_test(the_users_file_is_found_and_must_be_the_users),
		cmocka_unit_test(a_home_that_may_not_be_looked_into_has_no_settings),
		cmocka_unit_test(a_named_file_is_read_instead_and_must_be_there),
	};

	return cmocka_run_group_tests(tests, make_dir, drop_dir);
}
