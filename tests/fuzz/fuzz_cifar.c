/* Fuzz target: one file of CIFAR's, read as either of its two kinds, behind what is there
 * already. */
#include "data/cifar.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_as(int fd, enum cifar_kind kind, size_t size)
{
	static const int label_bytes[] = { 1, 2 }, classes[] = { 10, 100 };
	struct mlr_error err = MLR_ERROR_INIT;
	struct image_set set = { 1, calloc(1, CIFAR_BYTES), calloc(1, sizeof(uint16_t)) };
	size_t sum = 0;

	if (lseek(fd, 0, SEEK_SET) < 0)
		abort();
	if (cifar_read_fd(fd, "input", kind, &set, &err) < 0) {
		if (set.count != 1 || !err.text[0])
			abort(); /* a refusal leaves the set and says why */
	} else if ((set.count - 1) * (CIFAR_BYTES + (size_t)label_bytes[kind]) != size) {
		abort();
	}
	for (uint32_t i = 0; i < set.count; i++)
		if (set.labels[i] >= classes[kind])
			abort();
	for (size_t i = 0; i < set.count * CIFAR_BYTES; i++)
		sum += set.images[i]; /* the sanitizer sees whether all of it is there */
	if (sum > 255 * set.count * CIFAR_BYTES)
		abort();
	free(set.images);
	free(set.labels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("cifar", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	read_as(fd, CIFAR_10, size);
	read_as(fd, CIFAR_100, size);
	close(fd);
	return 0;
}
