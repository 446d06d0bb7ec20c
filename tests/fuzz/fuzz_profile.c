/* Seccomp profiles. Whatever one says, a filter that is made can be written out, and a refusal has
 * words. */
#include "base/error.h"
#include "runtime/profile.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct profile_for here = { .caps = 1, .arch = "amd64", .kernel = { 6, 1 } };
	struct mlr_error err = MLR_ERROR_INIT;
	scmp_filter_ctx ctx = NULL;

	if (size > PROFILE_MAX)
		return 0;
	if (profile_load((const char *)data, size, &here, &ctx, &err) < 0) {
		if (!*err.text)
			abort();
		return 0;
	}
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	seccomp_export_bpf(ctx, fd);
	close(fd);
	seccomp_release(ctx);
	return 0;
}
