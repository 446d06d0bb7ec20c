/*
 * Runs a fuzz target over the files of its corpus, tests/fuzz/corpus/<target>/, one TAP line a
 * file: what once broke a parser is tried again by every `make check`. With --enable-fuzz
 * libFuzzer's main takes this one's place.
 */
#include "base/cleanup.h"
#include "base/file.h"
#include "base/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_file(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

/* The name is printed first: the target aborts where it finds a fault. */
static int replay(const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name), *data = NULL;
	struct mlr_error err = MLR_ERROR_INIT;
	size_t len;

	printf("# %s\n", name);
	fflush(stdout);
	if (file_read(AT_FDCWD, path, 64 << 20, &data, &len, &err) < 0) {
		printf("# %s\n", err.text);
		return 0;
	}
	/* A buffer of the very size, so that the sanitizers see a step beyond its end. */
	auto_free uint8_t *exact = xmalloc(len);

	memcpy(exact, data, len);
	return LLVMFuzzerTestOneInput(exact, len) == 0;
}

int main(int argc, char **argv)
{
	const char *top = getenv("top_srcdir"), *target = strrchr(argv[0], '_');
	auto_free char *dir = NULL;
	struct dirent **files;
	int n, failed = 0;

	if (argc > 1)
		dir = xstrdup(argv[1]);
	else
		dir = xasprintf(
			"%s/tests/fuzz/corpus/%s", top ? top : ".", target ? target + 1 : "");
	n = scandir(dir, &files, is_file, alphasort);
	if (n <= 0) {
		printf("Bail out! no corpus in '%s'\n", dir);
		return 1;
	}
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		int ok = replay(dir, files[i]->d_name);

		printf("%sok %d - %s\n", ok ? "" : "not ", i + 1, files[i]->d_name);
		failed |= !ok;
		free(files[i]);
	}
	free(files);
	return failed;
}
