/*
 * Fuzz target: one IDX file, plain or compressed, read as labels and as images.
 */
#include "data/idx.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as(int fd, int rank)
{
	struct mlr_error err = MLR_ERROR_INIT;
	struct idx x = { 0 };
	size_t count = 1, sum = 0;

	if (lseek(fd, 0, SEEK_SET) < 0)
		abort();
	if (idx_read_fd(fd, "input", rank, &x, &err) < 0) {
		if (x.data || !err.text[0])
			abort(); /* a refusal leaves nothing and says why */
		return;
	}
	for (int i = 0; i < rank; i++)
		count *= x.dim[i];
	for (size_t i = 0; i < x.count; i++)
		sum += x.data[i]; /* the sanitizer sees whether all of it is there */
	if (count != x.count || sum > 255 * count)
		abort();
	idx_done(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("idx", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	read_as(fd, 1);
	read_as(fd, 3);
	close(fd);
	return 0;
}
