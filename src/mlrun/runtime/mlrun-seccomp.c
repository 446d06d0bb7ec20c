/*
 * mlrun-seccomp FILE CAPS: compile a seccomp profile into a filter. It writes the filter to stdout
 * as an array of struct sock_filter, followed by the flags for seccomp(2) as a uint32_t. On failure
 * it exits with 1 and writes the errno and the error message instead. runtime/seccomp.c runs it, so
 * mlrun itself does not load libseccomp.
 *
 *   CAPS  hexadecimal; bit n is set if the command has capability n
 */
#include "runtime/profile.h"

#include <linux/seccomp.h>

static int write_filter(const scmp_filter_ctx ctx)
{
	uint32_t log = 0, flags;
	int r = seccomp_attr_get(ctx, SCMP_FLTATR_CTL_LOG, &log);

	if (r == 0)
		r = seccomp_export_bpf(ctx, 1);
	flags = log ? SECCOMP_FILTER_FLAG_LOG : 0;
	return r < 0 ? r : file_write_all(1, &flags, sizeof(flags));
}

static int compile(const char *path, uint64_t caps, struct mlr_error *err)
{
	struct profile_for here;
	scmp_filter_ctx ctx = NULL;
	auto_free char *text = NULL;
	size_t len;
	int r;

	TRY(file_read(AT_FDCWD, path, PROFILE_MAX, &text, &len, err));
	profile_for_here(&here);
	here.caps = caps;
	if (profile_load(text, len, &here, &ctx, err) < 0)
		return mlr_wrap(err, "'%s'", path);
	r = write_filter(ctx);
	seccomp_release(ctx);
	return mlr_result(err, r, "'%s': libseccomp", path);
}

int main(int argc, char **argv)
{
	struct mlr_error err = MLR_ERROR_INIT;

	if (argc != 3)
		return 2;
	if (compile(argv[1], strtoull(argv[2], NULL, 16), &err) == 0)
		return 0;
	printf("%d %s", err.code, err.text);
	return 1;
}
