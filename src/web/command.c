#include "web/command.h"

#include "base/program.h"
#include "job/job.h"

#include <pthread.h>

#define ANSWER_MAX ((size_t)8 << 20)
#define ASK_MS     10000

static char *mlrun;

static void find_mlrun(void)
{
	mlrun = program_main();
}

const char *command_mlrun(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_mlrun);
	return mlrun;
}

int command_run(char *const *argv, int ms, char **ret, struct mlr_error *err)
{
	auto_free char *said = xmalloc(ANSWER_MAX);
	int status = job_ask(argv, environ, ms, said, ANSWER_MAX);

	if (status == -ETIMEDOUT)
		return mlr_fail(err, ETIMEDOUT, "'%s %s' has not ended within %d seconds", "mlrun",
			argv[1], ms / 1000);
	if (status < 0)
		return mlr_result(err, status, "run '%s'", argv[0]);
	if (status > 0) {
		const char *text = strncmp(said, "mlrun: ", 7) == 0 ? said + 7 : said;
		char *end = strstr(text, "\n");

		if (end && strncmp(end, "\nhint: ", 7) != 0)
			*end = '\0';
		return mlr_pass(err, EINVAL, *text ? text : "the command failed without a word");
	}
	*ret = take_ptr(&said);
	return 0;
}

json_t *command_json(const char *command, const char *word, const char *third)
{
	char *argv[] = { (char *)command_mlrun(), (char *)command, (char *)word, (char *)third,
		NULL };
	struct mlr_error err = MLR_ERROR_INIT;
	auto_free char *said = NULL;
	const char *from;

	if (command_run(argv, ASK_MS, &said, &err) < 0) {
		mlr_debug("%s", err.text);
		return NULL;
	}
	from = strpbrk(said, "[{");
	return from ? json_loads(from, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
}
