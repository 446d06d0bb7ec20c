#include "base/machine.h"

#include "base/base.h"

#include <elf.h>
#include <sys/utsname.h>
#include <sched.h>

#ifndef EM_LOONGARCH
#define EM_LOONGARCH 258
#endif

static const struct machine machines[] = {
	{ "amd64", EM_X86_64, 64, 0 },
	{ "386", EM_386, 32, 0 },
	{ "arm64", EM_AARCH64, 64, 0 },
	{ "arm", EM_ARM, 32, 0 },
	{ "ppc64le", EM_PPC64, 64, 0 },
	{ "ppc64", EM_PPC64, 64, 1 },
	{ "s390x", EM_S390, 64, 1 },
	{ "riscv64", EM_RISCV, 64, 0 },
	{ "loong64", EM_LOONGARCH, 64, 0 },
	{ "mips64le", EM_MIPS, 64, 0 },
	{ "mips64", EM_MIPS, 64, 1 },
	{ "mipsle", EM_MIPS, 32, 0 },
	{ "mips", EM_MIPS, 32, 1 },
};

const struct machine *machine_of_arch(const char *arch)
{
	for (size_t i = 0; i < ARRAY_LEN(machines); i++)
		if (strcmp(machines[i].arch, arch) == 0)
			return &machines[i];
	return NULL;
}

const struct machine *machine_of_elf(const unsigned char *head, size_t len)
{
	int big, bits, elf;

	if (len < MACHINE_ELF_HEAD || memcmp(head, ELFMAG, SELFMAG) != 0)
		return NULL;
	big = head[EI_DATA] == ELFDATA2MSB;
	bits = head[EI_CLASS] == ELFCLASS64 ? 64 : 32;
	elf = big ? head[18] << 8 | head[19] : head[19] << 8 | head[18];
	for (size_t i = 0; i < ARRAY_LEN(machines); i++)
		if (machines[i].elf == elf && machines[i].bits == bits && machines[i].big == big)
			return &machines[i];
	return NULL;
}

int machine_runs(const char *processors, const struct machine *m)
{
	static const struct {
		const char *uname, *archs[2];
	} natives[] = {
		{ "x86_64", { "amd64", "386" } },
		{ "aarch64", { "arm64", "arm" } },
		{ "ppc64le", { "ppc64le" } },
		{ "ppc64", { "ppc64" } },
		{ "s390x", { "s390x" } },
		{ "riscv64", { "riscv64" } },
		{ "loongarch64", { "loong64" } },
	};

	for (size_t i = 0; i < ARRAY_LEN(natives); i++)
		for (size_t j = 0; j < 2 && natives[i].archs[j]; j++)
			if (strcmp(natives[i].uname, processors) == 0 &&
				strcmp(natives[i].archs[j], m->arch) == 0)
				return 1;
	/* i686, armv7l, mips64: names that begin with the family's. */
	if (processors[0] == 'i' && processors[1] && strcmp(processors + 2, "86") == 0)
		return strcmp(m->arch, "386") == 0;
	if (strncmp(processors, "arm", 3) == 0)
		return strcmp(m->arch, "arm") == 0;
	return strncmp(processors, "mips", 4) == 0 && strncmp(m->arch, "mips", 4) == 0;
}

int machine_is_native(const struct machine *m)
{
	struct utsname u;

	uname(&u); /* fails only for an invalid address */
	return machine_runs(u.machine, m);
}

size_t processors_count(void)
{
	/* The call fails with EINVAL if the machine has more processors than the set has bits. */
	for (int bits = 1024; bits <= 1 << 20; bits *= 2) {
		cpu_set_t *set = CPU_ALLOC(bits);
		size_t size = CPU_ALLOC_SIZE(bits);
		int n = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;

		CPU_FREE(set);
		if (n > 0)
			return (size_t)n;
	}
	return 1;
}

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
