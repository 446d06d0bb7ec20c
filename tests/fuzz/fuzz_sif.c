/* SIF files and older images as strangers make them: what is found lies in the file. */
#include "sif/sif.h"

#include <endian.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void describe_all(int fd, size_t size)
{
	auto_call(sif_done) struct sif s = { .parts = NULL };
	struct mlr_error err = MLR_ERROR_INIT;

	if (sif_read(fd, size, &s, &err) != 1)
		return;
	for (size_t i = 0; i < s.n; i++) {
		auto_free char *text = sif_describe(&s.parts[i]);

		if (s.parts[i].used && (le64toh(s.parts[i].at) > size || !*text))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_close int fd = memfd_create("sif", MFD_CLOEXEC);
	struct mlr_error err = MLR_ERROR_INIT;
	struct sif_place at;
	int r;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		return 0;
	r = sif_find(fd, "x.sif", &at, &err);
	if (r == 0 ? at.at > size || at.size > size - at.at : !*err.text)
		abort();
	describe_all(fd, size);
	return 0;
}
