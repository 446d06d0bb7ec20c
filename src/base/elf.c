#include "base/elf.h"

#include <elf.h>
#include <string.h>

int elf_interpreter(const void *data, size_t size, char ret[PATH_MAX])
{
	const char *bytes = data;
	Elf64_Ehdr head;
	Elf64_Phdr ph;

	if (size < sizeof(head))
		return 0;
	memcpy(&head, bytes, sizeof(head));
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	for (unsigned i = 0; i < head.e_phnum; i++) {
		if (head.e_phoff > size || size - head.e_phoff < (i + 1) * sizeof(ph))
			return 0;
		memcpy(&ph, bytes + head.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type != PT_INTERP)
			continue;
		if (ph.p_offset > size || ph.p_filesz > size - ph.p_offset ||
			ph.p_filesz >= PATH_MAX)
			return 0;
		memcpy(ret, bytes + ph.p_offset, ph.p_filesz);
		ret[ph.p_filesz] = '\0';
		return *ret != '\0';
	}
	return 0;
}
