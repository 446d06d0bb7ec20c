/* Libraries of images and of directories that a user named: what they need, define and note. */
#include "base/cleanup.h"
#include "base/file.h"
#include "gpu/elf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_close int fd = memfd_create("elf", MFD_CLOEXEC);
	auto_call(gpu_elf_done) struct gpu_elf e = { 0 };
	auto_free char *note = NULL;

	if (fd < 0 || file_write_all(fd, data, size) < 0)
		abort();
	if (gpu_elf_read(fd, &e) == 0 && e.bits != 32 && e.bits != 64)
		abort();
	if (gpu_elf_note(fd, ".note.cuda.fwd_compatibility", "NVIDIA Corporation", 4096, &note) ==
			0 &&
		strlen(note) > 4096)
		abort();
	return 0;
}
