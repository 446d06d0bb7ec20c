#include "unit.h"
#include "base/cleanup.h"
#include "oci/enroot.h"

static void read_all(const char *rc, const char *environment, struct oci_config *ret)
{
	*ret = (struct oci_config){ 0 };
	assert_true(oci_enroot_is_rc(rc));
	oci_enroot_read_rc(rc, ret);
	oci_enroot_read_environment(environment, ret);
}

static void assert_words(const struct strv *v, const char *joined)
{
	auto_free char *text = xstrdup("");

	for (size_t i = 0; i < v->n; i++) {
		auto_free char *before = text;

		text = xasprintf("%s[%s]", before, v->v[i]);
	}
	assert_string_equal(text, joined);
}

/* What Enroot 4 writes for an image, with bash's ${…@Q}. */
static void test_reads_enroots(void **state)
{
	static const char head[] = "# enroot-provenance: docker://registry-1.docker.io#x:1\n"
				   "# maintainer A B <a@b>\n"
				   "# org.mlrun.gpu all\n\n"
				   "mkdir -p \"/work space\" 2> /dev/null\n"
				   "cd \"/work space\" && unset OLDPWD || exit 1\n\n"
				   "if [ -s /etc/rc.local ]; then\n    . /etc/rc.local\nfi\n\n"
				   "if [ $# -gt 0 ]; then\n";
	auto_free char *entry = xasprintf(
		"%s    exec '/bin/tini' '--' \"$@\"\n"
		"else\n    exec '/bin/tini' '--' 'sh' '-c' 'it'\\''s' $'a\\tb\\001'\nfi\n",
		head);
	auto_free char *plain =
		xasprintf("%s    exec  \"$@\"\nelse\n    exec  '/bin/sh'\nfi\n", head);
	struct oci_config c;

	(void)state;
	read_all(entry, "PATH=/a:/b\nEMPTY=\n# a comment\nno\nQ=\"x y\" = z", &c);
	assert_string_equal(c.working_dir, "/work space");
	assert_words(&c.entrypoint, "[/bin/tini][--]");
	assert_words(&c.cmd, "[sh][-c][it's][a\tb\001]");
	assert_words(&c.labels, "[maintainer][A B <a@b>][org.mlrun.gpu][all]");
	assert_words(&c.env, "[PATH=/a:/b][EMPTY=][Q=\"x y\" = z]");
	oci_config_done(&c);
	read_all(plain, "", &c);
	assert_words(&c.entrypoint, "");
	assert_words(&c.cmd, "[/bin/sh]");
	oci_config_done(&c);
}

static void test_reads_what_it_writes(void **state)
{
	static const char *const words[] = { "/bin/it's", "", "a\nb", "$HOME", "\"$@\"", "x;y" };
	struct oci_config c = { 0 }, back;
	auto_strv struct strv omitted = STRV_INIT;

	(void)state;
	c.working_dir = xstrdup("/it's a \"$dir\"");
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		strv_add(&c.entrypoint, words[i]);
		strv_add(&c.cmd, words[ARRAY_LEN(words) - 1 - i]);
	}
	strv_add(&c.labels, "a.b");
	strv_add(&c.labels, "two\nlines");
	strv_add(&c.env, "A=1=2");
	strv_add(&c.env, "LINES=1\n2");

	auto_free char *rc = oci_enroot_rc(&c, "docker.io/library/x:1");
	auto_free char *environment = oci_enroot_environment(&c, &omitted);

	read_all(rc, environment, &back);
	assert_string_equal(back.working_dir, c.working_dir);
	assert_words(&back.entrypoint, "[/bin/it's][][a\nb][$HOME][\"$@\"][x;y]");
	assert_words(&back.cmd, "[x;y][\"$@\"][$HOME][a\nb][][/bin/it's]");
	assert_words(&back.labels, "[a.b][two lines]");
	assert_words(&back.env, "[A=1=2]");
	assert_words(&omitted, "[LINES]");
	oci_config_done(&c);
	oci_config_done(&back);
}

/* A script that somebody has rewritten, and other systems' files of that name. */
static void test_leaves_alone_what_it_cannot_tell(void **state)
{
	struct oci_config c;

	(void)state;
	assert_false(oci_enroot_is_rc("#!/bin/sh\nexec /sbin/rc boot\n"));
	assert_false(oci_enroot_is_rc(""));
	read_all(". /etc/rc.local\ncd $HOME && x\ncd \"$D\"\nexec $(which x) \"$@\"\nexec 'open",
		"", &c);
	assert_null(c.working_dir);
	assert_words(&c.entrypoint, "");
	assert_words(&c.cmd, "");
	oci_config_done(&c);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_enroots),
		cmocka_unit_test(test_reads_what_it_writes),
		cmocka_unit_test(test_leaves_alone_what_it_cannot_tell),
	};

	return cmocka_run_group_tests_name("enroot", tests, NULL, NULL);
}
