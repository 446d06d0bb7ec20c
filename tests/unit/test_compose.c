#include "unit.h"
#include "compose/compose.h"
#include "compose/ports.h"

#include <stdlib.h>
#include <string.h>

static const char *look(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, "A") == 0 ? "a" : strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

static void expands(const char *text, const char *want)
{
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *is = compose_interpolate(text, look, NULL, &err);

	assert_non_null(is);
	assert_string_equal(is, want);
}

static void refuses(const char *text, const char *why)
{
	struct mlr_error err = MLR_ERROR_INIT;

	assert_null(compose_interpolate(text, look, NULL, &err));
	assert_non_null(strstr(err.text, why));
}

static void variables_are_those_of_the_specification(void **state)
{
	expands("$A ${A} $$A $${A} x${A}y $NONE.", "a a $A ${A} xay .");
	expands("${NONE-d} ${EMPTY-d} ${NONE:-d} ${EMPTY:-d} ${A:-d}", "d  d d a");
	expands("${NONE+r}${EMPTY+r}${NONE:+r}${EMPTY:+r}${A:+r}", "rr");
	expands("${NONE:-${A}-${NONE:-x}} ${A?why} ${EMPTY?why}", "a-x a ");
	expands("$$((8000 + MLRUN_REPLICA))", "$((8000 + MLRUN_REPLICA))");
	refuses("${NONE:?set it to $A}", "the variable NONE is required: set it to a");
	refuses("${EMPTY:?}", "the variable EMPTY is required");
	refuses("$((1))", "write $$ for a dollar sign");
	refuses("${A", "is no variable");
	refuses("${A!b}", "invalid variable '${A!b}'");
	refuses("${}", "invalid variable");
	refuses("a$", "is no variable");
}

static void nesting_is_bounded(void **state)
{
	char text[64 * 4 + 1] = "";

	for (int i = 0; i < 50; i++)
		strcat(text, "${N-");
	for (int i = 0; i < 50; i++)
		strcat(text, "}");
	refuses(text, "nested too deeply");
}

static void env_files_have_quotes_and_comments(void **state)
{
	auto_strv struct strv l = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	assert_int_equal(
		compose_env_parse(
			"# no\n\nK=v # no\nexport Q = \"a\\nb\" \nS='$A'\nD=\"$A$K\"\nA\nNONE\nE=\"\\$A\\\\\"\nH=x#y\r\n",
			".env", look, NULL, &l, &err),
		0);
	assert_string_equal(strv_env_get(l.v, "K"), "v");
	assert_string_equal(strv_env_get(l.v, "Q"), "a\nb");
	assert_string_equal(strv_env_get(l.v, "S"), "$A");
	assert_string_equal(strv_env_get(l.v, "D"), "av");
	assert_string_equal(strv_env_get(l.v, "A"), "a");
	assert_string_equal(strv_env_get(l.v, "E"), "$A\\");
	assert_string_equal(strv_env_get(l.v, "H"), "x#y");
	assert_null(strv_env_get(l.v, "NONE"));
	assert_true(compose_env_parse("A=b\nK='x\n", ".env", look, NULL, &l, &err) < 0);
	assert_non_null(strstr(err.text, "'.env' line 2: K: the quote does not end"));
}

/* Read files of these texts, which NULL ends. */
static int parse_all(const char *const *texts, struct compose_project *p, struct strv *refused,
	struct mlr_error *err)
{
	struct compose_text files[4];
	struct compose_wish w = {
		.files = files, .directory = "/dir", .with_text = 1, .look = look
	};

	for (; texts[w.n]; w.n++)
		files[w.n] =
			(struct compose_text){ w.n ? "g" : "f", texts[w.n], strlen(texts[w.n]) };
	return compose_parse(&w, p, refused, err);
}

static int parse(const char *text, struct compose_project *p, struct mlr_error *err)
{
	auto_strv struct strv refused = STRV_INIT;

	return parse_all((const char *[]){ text, NULL }, p, &refused, err);
}

static void a_file_is_read_whole(void **state)
{
	auto_call(compose_project_done) struct compose_project p = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	const struct compose_service *s;

	if (parse("version: '3.8'\nname: shop\nx-any: {a: b}\nservices:\n"
		  "  web:\n    image: img:${TAG:-1}\n    command: run --name \"a b\" 'c\\d' e\\ f\n"
		  "    environment: {PORT: 8000, YES: yes, A: , NONE: }\n    volumes: [./data:/d:ro, /x:/y]\n"
		  "    depends_on: {db: {condition: service_healthy}}\n    restart: on-failure:5\n"
		  "    deploy: {replicas: 3}\n    ports: [8000, '9000:9000/tcp', {target: 7, published: 7}]\n"
		  "    healthcheck: {test: curl x, interval: 1m30s, retries: 5}\n    stop_grace_period: 1s\n"
		  "  db:\n    build: {context: ./db, args: [V=1], target: t}\n    entrypoint: [a, b c]\n"
		  "    healthcheck: {test: [CMD, ping]}\n",
		    &p, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(p.name, "shop");
	assert_int_equal(p.n, 2);
	assert_string_equal(p.services[0].name, "db");
	assert_string_equal(p.services[0].context, "/dir/db");
	assert_string_equal(p.services[0].entrypoint.v[1], "b c");
	assert_string_equal(p.services[0].test.v[0], "ping");
	s = &p.services[1];
	assert_string_equal(s->image, "img:1");
	assert_int_equal(s->command.n, 5);
	assert_string_equal(s->command.v[2], "a b");
	assert_string_equal(s->command.v[3], "c\\d");
	assert_string_equal(s->command.v[4], "e f");
	assert_int_equal(s->environment.n, 3);
	assert_string_equal(strv_env_get(s->environment.v, "YES"), "yes");
	assert_string_equal(strv_env_get(s->environment.v, "A"), "a");
	assert_string_equal(s->volumes.v[0], "/dir/data:/d:ro");
	assert_int_equal(s->restart, COMPOSE_ON_FAILURE);
	assert_int_equal(s->restarts_max, 5);
	assert_int_equal(s->replicas, 3);
	assert_int_equal(s->interval, 90000);
	assert_int_equal(s->stop_ms, 1000);
	assert_int_equal(s->needs[0].condition, COMPOSE_HEALTHY);
}

static void what_is_not_supported_is_named_with_its_line(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "services:\n  a:\n    image: i\n    external_links: [x]\n",
			"'f' line 4: services.a.external_links: this key is not supported" },
		{ "services:\n  a:\n    image: i\n    imge: i\n",
			"line 4: services.a.imge: this key" },
		{ "services: {a: {image: i}}\nvolume:\n  data:\n", "line 2: volume: this key" },
		{ "services:\n  a:\n    image: i\n    ports:\n      - 1\n      - 53:54/udp\n",
			"line 6: services.a.ports: port '53:54/udp' cannot be had" },
		{ "services: {a: {image: i, ports: ['x:80']}}", "invalid port 'x:80'" },
		{ "services: {a: {image: i, ports: [70000]}}", "invalid port '70000'" },
		{ "services: {a: {image: i, ports: ['80-90:80']}}", "differ in length" },
		{ "services: {a: {image: i, ports: ['web:80:80']}}", "'web' is no address" },
		{ "services: {a: {image: i, ports: [80]}, b: {image: i, ports: ['81:80']}}",
			"services.b.ports: port 80 is that of service 'a', too" },
		{ "services: {a: {image: i, ports: ['81:80'], scale: 2}}",
			"several replicas cannot have the one port 81" },
		{ "services: {a: {extends: {service: b}}}", "there is no service 'b'" },
		{ "services: {a: {extends: a}}", "it extends itself" },
		{ "services: {a: {extends: {file: x}}}", "the key 'service' is missing" },
		{ "services: {a: {extends: {file: none, service: x}}}", "'/dir/none'" },
		{ "include: [none.yaml]\nservices: {a: {image: i}}", "'/dir/none.yaml'" },
		{ "include: ['https://x/y.yaml']\nservices: {a: {image: i}}",
			"is no file of this machine" },
		{ "include: [{}]\nservices: {a: {image: i}}", "the key 'path' is missing" },
		{ "services:\n  a:\n    image: i\n    volumes:\n    - data:/d\n",
			"line 5: services.a.volumes: 'data' is not among the file's volumes" },
		{ "services: {a: {image: i, volumes: [d:/d]}}\nvolumes: {d: {driver: nfs}}",
			"volume 'd' has a driver or type that is not supported" },
		{ "services: {a: {image: i, volumes: [d:/d]}}\nvolumes: {d: {name: ../x}}",
			"invalid name '../x' of a volume" },
		{ "services: {a: {image: i, secrets: [s]}}\nsecrets: {s: {environment: S}}",
			"services.a.secrets" },
		{ "services: {a: {image: i, secrets: [s]}}\nsecrets: {s: {file: ./none}}",
			"'/dir/none': No such file" },
		{ "services: {a: {image: i, networks: {n: {aliases: [\"a\\n1.2.3.4 b\"]}}}}",
			"of a host" },
		{ "services: {a: {image: i, volumes: [d:/d]}}\nvolumes: {d: {external: maybe}}",
			"services.a.volumes" },
		{ "services: {a: {image: i, volumes: [d:/d]}}\nvolumes: {d: {name: ''}}",
			"invalid name '' of a volume" },
		{ "services: {a: {image: i, gpus: [{capabilities: [tpu]}]}}",
			"only GPUs can be had" },
		{ "services: {a: {image: i, gpus: none}}", "invalid count 'none' of GPUs" },
		{ "services: {a: {image: i, depends_on: [b]}}", "there is no service 'b'" },
		{ "services: {a: {image: i, depends_on: [b]}, b: {image: i, depends_on: [a]}}",
			"it needs itself" },
		{ "services: {a: {image: i, \"x\\nmlrun: y\": z}}",
			"services.a.x\\x0amlrun: y: this" },
		{ "services: {a: {}}", "neither image nor build" },
		{ "services: {../a: {image: i}}", "invalid name of a service" },
		{ "name: A/b\nservices: {a: {image: i}}", "line 1: name: invalid name 'A/b'" },
		{ "services: {a: {image: $(}}", "line 1: '$(' is no variable" },
		{ "services: {a: {image: i, deploy: {resource: {}}}}",
			"services.a.deploy.resource" },
		{ "services: {a: {image: i, deploy: {replicas: 1e9}}}",
			"replicas: expected a whole number from 0 to 1000, found" },
		{ "services: {a: {image: i, restart: often}}", "not 'often'" },
		{ "services: {a: {image: i, environment: ['a b=c']}}", "invalid name 'a b'" },
		{ "services: {a: {image: i, env_file: none}}", "/dir/none" },
		{ "services: {a: {image: i, healthcheck: {interval: often}}}", "a time such as" },
		{ "services: {a: {image: i, command: \"a 'b\"}}", "a quote does not end" },
		{ "services: [a]", "expected a mapping" },
		{ "a: &a [x, x]\nb: &b [*a, *a]\n", "line 1: a: this key is not supported" },
		{ "services: {a: 1, a: 2}", "appears twice" },
		{ "", "it has no services" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		auto_call(compose_project_done) struct compose_project p = { 0 };
		struct mlr_error err = MLR_ERROR_INIT;

		assert_true(parse(rows[i].text, &p, &err) < 0);
		if (!strstr(err.text, rows[i].why))
			fail_msg("'%s' does not have '%s'", err.text, rows[i].why);
	}
}

static void what_docker_alone_has_is_ignored_and_listed(void **state)
{
	auto_call(compose_project_done) struct compose_project p = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	const struct compose_service *s;

	if (parse("networks: {back: {driver: bridge}}\nvolumes: {data: , shared: {external: true},\n"
		  "  here: {driver: local, driver_opts: {type: none, o: bind, device: ./h}}}\n"
		  "secrets: {pw: {file: /etc/passwd}}\nconfigs: {conf: {file: /etc/group}}\nservices:\n"
		  "  a:\n    image: i\n    networks: {back: {aliases: [db]}}\n    cap_add: [X]\n    deploy:\n"
		  "    privileged: true\n    volumes: ['data:/d:z,ro', shared:/s, here:/h, /own/dir,\n"
		  "      {type: tmpfs, target: /t, tmpfs: {size: 1m}}]\n"
		  "    secrets: [pw, {source: pw, target: other}]\n    configs: [{source: conf, target: /x/y}]\n"
		  "    ulimits: {nofile: {soft: 10, hard: 20}, core: 0}\n    devices: [/dev/fuse]\n"
		  "    extra_hosts: ['host.docker.internal:host-gateway', 'far:1.2.3.4']\n"
		  "    container_name: mine\n    environment: {K: \"a\\nb\"}\n"
		  "  g:\n    image: i\n    profiles: [never]\n"
		  "  h:\n    image: i\n    depends_on: {g: {condition: service_started, required: false}}\n"
		  "    deploy: {resources: {limits: {cpus: 1}, reservations: {devices: [{driver: nvidia, count: 2,\n"
		  "      capabilities: [gpu]}]}}}\n",
		    &p, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(p.n, 2);
	s = &p.services[0];
	{
		static const char *const volumes[] = { "@/data:/d:ro", "_/shared:/s", "/dir/h:/h",
			"@/a++own+dir:/own/dir", "/etc/passwd:/run/secrets/pw:ro",
			"/etc/passwd:/run/secrets/other:ro", "/etc/group:/x/y:ro" };
		static const char *const options[] = { "--ulimit=nofile=10:20", "--ulimit=core=0",
			"--device=/dev/fuse" };
		static const char *const hosts[] = { "db", "host.docker.internal", "mine" };

		assert_int_equal(s->volumes.n, 7);
		for (size_t i = 0; i < 7; i++)
			assert_true(strv_has(&s->volumes, volumes[i]));
		assert_int_equal(s->options.n, 3);
		for (size_t i = 0; i < 3; i++)
			assert_true(
				strv_has(&s->options, options[i]) && strv_has(&s->hosts, hosts[i]));
	}
	assert_string_equal(s->tmpfs.v[0], "/t:size=1m");
	assert_string_equal(strv_env_get(s->environment.v, "K"), "a\nb");
	assert_string_equal(p.services[1].options.v[0], "--gpu=0,1");
	{
		static const char *const keys[] = { "networks", "cap_add", "privileged",
			"extra_hosts", "limits" };

		assert_int_equal(p.ignored.n, 5);
		for (size_t i = 0; i < 5; i++)
			assert_true(strv_has(&p.ignored, keys[i]));
	}
}

static void all_that_is_wrong_is_said_at_once(void **state)
{
	auto_call(compose_project_done) struct compose_project p = { 0 };
	static const char text[] = "services:\n  a:\n    image: i\n    ports: [1:x]\n    odd: x\n"
				   "  b:\n    image: i\n    deploy: {replicas: x}\n";
	static const char *const why[] = { "'f' line 4: services.a.ports: ",
		"'f' line 5: services.a.odd: ", "'f' line 8: services.b.deploy.replicas: " };
	auto_strv struct strv refused = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;

	assert_true(parse_all((const char *[]){ text, NULL }, &p, &refused, &err) < 0);
	assert_int_equal(refused.n, 2);
	strv_add(&refused, err.text);
	for (size_t i = 0; i < 3; i++) {
		int found = 0;

		for (size_t k = 0; k < 3; k++)
			found |= strncmp(refused.v[k], why[i], strlen(why[i])) == 0;
		assert_true(found);
	}
}

static void the_name_alone_needs_no_variables(void **state)
{
	static const char text[] = "name: x${A}\nservices: {a: {image: \"${NONE:?}\"}}";
	const struct compose_text file = { "f", text, strlen(text) };
	const struct compose_wish w = { .files = &file, .n = 1, .look = look };
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *name = NULL;

	assert_int_equal(compose_parse_name(&w, &name, &err), 0);
	assert_string_equal(name, "xa");
}

static void of_several_files_the_later_ones_win(void **state)
{
	auto_call(compose_project_done) struct compose_project p = { 0 };
	auto_strv struct strv refused = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	static const char *const texts[] = {
		"services:\n  a:\n    image: i:${A}\n    command: [x, y]\n    environment: [K=1, L=2]\n"
		"    volumes: ['${NONE:-./a}:/d', ./e:/e]\n    ports: [80, '8080:81']\n"
		"    healthcheck: {test: [CMD, a], retries: 2}\n    depends_on: [b]\n    extra_hosts: ['x:127.0.0.1']\n"
		"    tmpfs: /one\n    build: .\n"
		"  b: {image: i, volumes: [./a:/a], ports: [90]}\n  c: {image: i, ports: [91]}\n",
		"services:\n  a:\n    command: z\n    environment: {K: 3, M: }\n"
		"    volumes: [./f:/d:ro]\n    ports: ['8082:81']\n    tmpfs: [/two]\n"
		"    healthcheck: {test: [CMD, c]}\n    depends_on: {c: {condition: service_healthy, restart: true}}\n"
		"    build: {target: t}\n"
		"  b: {volumes: !reset [], ports: !override [92]}\n",
		NULL
	};
	const struct compose_service *s;

	if (parse_all(texts, &p, &refused, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(p.n, 3);
	s = &p.services[2];
	assert_string_equal(s->name, "a");
	assert_string_equal(s->image, "i:a");
	assert_int_equal(s->command.n, 1);
	assert_string_equal(strv_env_get(s->environment.v, "K"), "3");
	assert_string_equal(strv_env_get(s->environment.v, "L"), "2");
	assert_int_equal(s->volumes.n, 2);
	assert_string_equal(s->volumes.v[0], "/dir/f:/d:ro");
	assert_int_equal(s->ports.n, 3);
	assert_string_equal(s->ports.v[1], "8080 81 ");
	assert_int_equal(s->test.n, 1);
	assert_string_equal(s->test.v[0], "c");
	assert_int_equal(s->retries, 2);
	assert_int_equal(s->n_needs, 2);
	assert_int_equal(s->tmpfs.n, 2);
	assert_string_equal(s->context, "/dir");
	assert_string_equal(s->target, "t");
	for (size_t i = 0; i < 2; i++)
		if (strcmp(p.services[i].name, "b") == 0) {
			assert_int_equal(p.services[i].volumes.n, 0);
			assert_int_equal(p.services[i].ports.n, 1);
			assert_string_equal(p.services[i].ports.v[0], "92 92 ");
		}
	assert_non_null(strstr(p.text, "image: \"i:a\"\n"));
	assert_null(strstr(p.text, "!"));
}

static void what_a_merged_file_has_wrong_is_placed_in_that_file(void **state)
{
	auto_call(compose_project_done) struct compose_project p = { 0 };
	auto_strv struct strv refused = STRV_INIT;
	struct mlr_error err = MLR_ERROR_INIT;
	static const char *const texts[] = { "services:\n  a:\n    image: i\n",
		"services:\n  a:\n    user: ${X:?no user}\n    imge: i\n", NULL };
	static const char *const wrong[] = { "services:\n  a:\n    image: i\n",
		"services:\n  a:\n    tty: 1\n    imge: i\n", NULL };

	assert_true(parse_all(texts, &p, &refused, &err) < 0);
	assert_string_equal(err.text, "'g' line 3: the variable X is required: no user");
	assert_true(parse_all(wrong, &p, &refused, &err) < 0);
	assert_non_null(strstr(err.text, "'g' line 4: services.a.imge: "));
}

static void services_are_chosen_with_what_they_need(void **state)
{
	static const char text[] =
		"services:\n  a: {image: i, depends_on: [b]}\n  b: {image: i, depends_on: [c]}\n"
		"  c: {image: i}\n  d: {image: i, profiles: [never]}\n  e: {image: i}\n";
	const struct compose_text file = { "f", text, strlen(text) };

	for (int alone = 0; alone < 2; alone++) {
		auto_call(compose_project_done) struct compose_project p = { 0 };
		auto_strv struct strv refused = STRV_INIT;
		struct mlr_error err = MLR_ERROR_INIT;
		struct compose_wish w = {
			.files = &file, .n = 1, .directory = "/dir", .alone = alone, .look = look
		};
		char wanted[8] = "";

		strv_add(&w.names, "a");
		strv_add(&w.names, "d");
		strv_add(&w.scale, "a=3");
		assert_int_equal(compose_parse(&w, &p, &refused, &err), 0);
		for (size_t i = 0; i < p.n; i++)
			if (p.services[i].is_wanted)
				strcat(wanted, p.services[i].name);
		assert_string_equal(wanted, alone ? "ad" : "cbad");
		strv_add(&w.scale, "a=x");
		assert_true(compose_parse(&w, &p, &refused, &err) < 0);
		assert_non_null(strstr(err.text, "expected SERVICE=NUMBER"));
		strv_add(&w.names, "f");
		strv_done(&w.scale);
		assert_true(compose_parse(&w, &p, &refused, &err) < 0);
		assert_non_null(strstr(err.text, "there is no service 'f'"));
		strv_done(&w.names);
	}
}

static void aliases_of_aliases_are_bounded(void **state)
{
	auto_call(compose_project_done) struct compose_project p = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;
	char text[4096] = "x-0: &a0 [x, x, x, x, x, x, x, x]\n";

	for (int i = 1; i < 12; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			"x-%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i,
			i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
	strcat(text, "services: {a: {image: i, command: *a11}}\n");
	assert_true(parse(text, &p, &err) < 0);
	assert_non_null(strstr(err.text, "too many values"));
}

static void anchors_and_merges_keep_their_lines(void **state)
{
	auto_call(compose_project_done) struct compose_project p = { 0 };
	struct mlr_error err = MLR_ERROR_INIT;

	assert_true(
		parse("x-base: &base\n  image: i\n  pod: host\nservices:\n  a:\n    <<: *base\n",
			&p, &err) < 0);
	assert_non_null(strstr(err.text, "line 3: services.a.pod"));
	assert_int_equal(
		parse("x-base: &base\n  image: i\nservices:\n  a:\n    <<: *base\n", &p, &err), 0);
	assert_string_equal(p.services[0].image, "i");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_are_those_of_the_specification),
		cmocka_unit_test(nesting_is_bounded),
		cmocka_unit_test(env_files_have_quotes_and_comments),
		cmocka_unit_test(a_file_is_read_whole),
		cmocka_unit_test(what_is_not_supported_is_named_with_its_line),
		cmocka_unit_test(what_docker_alone_has_is_ignored_and_listed),
		cmocka_unit_test(all_that_is_wrong_is_said_at_once),
		cmocka_unit_test(the_name_alone_needs_no_variables),
		cmocka_unit_test(of_several_files_the_later_ones_win),
		cmocka_unit_test(what_a_merged_file_has_wrong_is_placed_in_that_file),
		cmocka_unit_test(services_are_chosen_with_what_they_need),
		cmocka_unit_test(aliases_of_aliases_are_bounded),
		cmocka_unit_test(anchors_and_merges_keep_their_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
