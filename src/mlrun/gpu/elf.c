#include "gpu/elf.h"

#include "base/base.h"

#include <elf.h>
#include <gelf.h>

#define NEEDED_MAX    1024       /* DT_NEEDED entries; NVIDIA's have a dozen at most */
#define NAME_MAX_LEN  4096       /* bytes of a name */
#define NAMES_SIZE    (16 << 20) /* bytes of a string table */
#define VERSIONS_SIZE (16 << 10) /* bytes of version records; glibc's own take 1 KiB */
#define VERSIONS_MAX  8192       /* version records read */
#define DYNAMIC_SIZE  (64 << 10) /* bytes of PT_DYNAMIC; NVIDIA's have 1 KiB */
#define NOTES_SIZE    (1 << 20)  /* bytes of adjacent notes */
#define SECTIONS_SIZE (1 << 20)  /* bytes of the section names */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define DATA_NATIVE ELFDATA2LSB
#else
#define DATA_NATIVE ELFDATA2MSB
#endif

static void end(Elf **elf)
{
	elf_end(*elf);
}

#define auto_elf auto_call(end) Elf

/*
 * Does the header itself count segments and sections, in 16 bits? Larger numbers are elsewhere
 * (elf(5), PN_XNUM); no library has them, and libelf would trust them: a sparse file in an image
 * could make it allocate any amount of memory.
 */
static int has_small_tables(int fd)
{
	union {
		Elf32_Ehdr narrow;
		Elf64_Ehdr wide;
	} h = { 0 };

	if (pread(fd, &h, sizeof(h), 0) < (ssize_t)sizeof(h.narrow))
		return 0;
	if (h.wide.e_ident[EI_CLASS] == ELFCLASS64)
		return h.wide.e_phnum != PN_XNUM && (h.wide.e_shnum != 0 || h.wide.e_shoff == 0);
	return h.narrow.e_phnum != PN_XNUM && (h.narrow.e_shnum != 0 || h.narrow.e_shoff == 0);
}

/*
 * Open an ELF file; NULL for others and those of another byte order. Not with ELF_C_READ_MMAP: it
 * takes a third longer for the few hundred bytes needed of a library, and if someone truncated a
 * file of an image meanwhile, the program would die.
 */
static Elf *begin(int fd)
{
	Elf *elf = NULL;
	const char *ident;

	if (elf_version(EV_CURRENT) != EV_NONE && has_small_tables(fd))
		elf = elf_begin(fd, ELF_C_READ, NULL);
	ident = elf && elf_kind(elf) == ELF_K_ELF ? elf_getident(elf, NULL) : NULL;
	if (ident && ident[EI_DATA] == DATA_NATIVE)
		return elf;
	elf_end(elf);
	return NULL;
}

/* The addresses in PT_DYNAMIC; 0: none. */
struct dynamic {
	uint64_t strings, strings_size, needs, defines;
	uint64_t soname, runpath; /* SIZE_MAX: none */
	uint64_t needed[NEEDED_MAX];
	size_t n_needed;
};

/* The file's bytes that are loaded at an address, up to the end of their segment or want; NULL:
 * none. */
static Elf_Data *at_address(
	Elf *elf, size_t n_segments, uint64_t address, uint64_t want, Elf_Type type)
{
	GElf_Phdr ph;

	for (size_t i = 0; i < n_segments; i++) {
		uint64_t into, size;

		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_LOAD ||
			address < ph.p_vaddr || address - ph.p_vaddr >= ph.p_filesz)
			continue;
		into = address - ph.p_vaddr;
		size = ph.p_filesz - into;
		if (want < size)
			size = want;
		if (into > INT64_MAX - ph.p_offset)
			return NULL;
		return elf_getdata_rawchunk(elf, (int64_t)(ph.p_offset + into), size, type);
	}
	return NULL;
}

/* A string of a table, to free(); NULL when it is not terminated. */
static char *string_at(const Elf_Data *strings, uint64_t at)
{
	const char *s = strings ? strings->d_buf : NULL;
	size_t room, len;

	if (!s || at >= strings->d_size)
		return NULL;
	room = strings->d_size - at;
	len = strnlen(s + at, room);
	return len < room && len < NAME_MAX_LEN ? xstrndup(s + at, len) : NULL;
}

/* Read at most max bytes of the file; NULL beyond its end. */
static Elf_Data *at_offset(Elf *elf, uint64_t at, uint64_t size, uint64_t max, Elf_Type type)
{
	if (at > INT64_MAX)
		return NULL;
	return elf_getdata_rawchunk(elf, (int64_t)at, size < max ? size : max, type);
}

static int read_dynamic(Elf_Data *data, struct dynamic *ret)
{
	GElf_Dyn dyn;

	for (int i = 0; data && gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
		switch (dyn.d_tag) {
		case DT_STRTAB:
			ret->strings = dyn.d_un.d_ptr;
			break;
		case DT_STRSZ:
			ret->strings_size = dyn.d_un.d_val;
			break;
		case DT_SONAME:
			ret->soname = dyn.d_un.d_val;
			break;
		case DT_RPATH:
			if (ret->runpath == SIZE_MAX)
				ret->runpath = dyn.d_un.d_val;
			break;
		case DT_RUNPATH:
			ret->runpath = dyn.d_un.d_val;
			break;
		case DT_VERNEED:
			ret->needs = dyn.d_un.d_ptr;
			break;
		case DT_VERDEF:
			ret->defines = dyn.d_un.d_ptr;
			break;
		case DT_NEEDED:
			if (ret->n_needed == NEEDED_MAX)
				return -ENOEXEC;
			ret->needed[ret->n_needed++] = dyn.d_un.d_val;
			break;
		}
	}
	return 0;
}

/* Keep the greater of newest and "GLIBC_x.y". GLIBC_PRIVATE and other names do not count. */
static void keep_newest(const Elf_Data *strings, uint64_t at, struct gpu_version *newest)
{
	auto_free char *name = string_at(strings, at);
	struct gpu_version v;

	if (name && strncmp(name, "GLIBC_", 6) == 0 && gpu_version_parse(name + 6, &v) == 0 &&
		gpu_version_compare(&v, newest) > 0)
		*newest = v;
}

/* Each record has the distance to the next, which is not trusted. */
static int read_needs(Elf_Data *data, const Elf_Data *strings, struct gpu_version *newest)
{
	unsigned seen = 0;
	GElf_Verneed need;

	for (uint64_t at = 0; data && at < data->d_size; at += need.vn_next) {
		uint64_t aux_at;
		GElf_Vernaux aux;

		if (!gelf_getverneed(data, (int)at, &need))
			return -ENOEXEC;
		aux_at = at + need.vn_aux;
		for (unsigned i = 0; i < need.vn_cnt; i++, aux_at += aux.vna_next) {
			if (++seen > VERSIONS_MAX || aux_at > data->d_size ||
				!gelf_getvernaux(data, (int)aux_at, &aux))
				return -ENOEXEC;
			keep_newest(strings, aux.vna_name, newest);
		}
		if (need.vn_next == 0 || ++seen > VERSIONS_MAX)
			break;
	}
	return 0;
}

static int read_defines(Elf_Data *data, const Elf_Data *strings, struct gpu_version *newest)
{
	unsigned seen = 0;
	GElf_Verdef def;

	for (uint64_t at = 0; data && at < data->d_size; at += def.vd_next) {
		GElf_Verdaux aux;

		/* The first name is the version's own; the others are its parents'. */
		if (!gelf_getverdef(data, (int)at, &def) || at + def.vd_aux > data->d_size ||
			!gelf_getverdaux(data, (int)(at + def.vd_aux), &aux))
			return -ENOEXEC;
		keep_newest(strings, aux.vda_name, newest);
		if (def.vd_next == 0 || ++seen > VERSIONS_MAX)
			break;
	}
	return 0;
}

static int read_names(const struct dynamic *d, const Elf_Data *strings, struct gpu_elf *e)
{
	if (d->soname != SIZE_MAX) {
		e->soname = string_at(strings, d->soname);
		if (!e->soname)
			return -ENOEXEC;
	}
	if (d->runpath != SIZE_MAX)
		e->runpath = string_at(strings, d->runpath);
	for (size_t i = 0; i < d->n_needed; i++) {
		char *name = string_at(strings, d->needed[i]);

		if (!name)
			return -ENOEXEC;
		strv_take(&e->needed, name);
	}
	return 0;
}

static int read_versions(Elf *elf, size_t n_segments, const struct dynamic *d,
	const Elf_Data *strings, struct gpu_elf *e)
{
	int r = 0;

	if (d->needs)
		r = read_needs(at_address(elf, n_segments, d->needs, VERSIONS_SIZE, ELF_T_VNEED),
			strings, &e->glibc);
	if (r == 0 && d->defines)
		r = read_defines(at_address(elf, n_segments, d->defines, VERSIONS_SIZE, ELF_T_VDEF),
			strings, &e->defines);
	return r;
}

/* Does the note have this owner? n_namesz counts the NUL. */
static int is_note_of(const Elf_Data *data, const GElf_Nhdr *note, size_t name, const char *owner)
{
	return note->n_namesz == strlen(owner) + 1 &&
		memcmp((const char *)data->d_buf + name, owner, note->n_namesz) == 0;
}

/* The section's notes; NULL without such a section. */
static Elf_Data *find_section(Elf *elf, const char *name)
{
	Elf_Scn *scn = NULL;
	Elf_Data *names = NULL;
	size_t index;
	GElf_Shdr sh;

	if (elf_getshdrstrndx(elf, &index) == 0 && gelf_getshdr(elf_getscn(elf, index), &sh))
		names = at_offset(elf, sh.sh_offset, sh.sh_size, SECTIONS_SIZE, ELF_T_BYTE);
	while (names && (scn = elf_nextscn(elf, scn))) {
		auto_free char *s = gelf_getshdr(scn, &sh) ? string_at(names, sh.sh_name) : NULL;

		if (s && strcmp(s, name) == 0 && sh.sh_type != SHT_NOBITS)
			return at_offset(elf, sh.sh_offset, sh.sh_size, NOTES_SIZE,
				sh.sh_addralign == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
	}
	return NULL;
}

void gpu_elf_done(struct gpu_elf *e)
{
	free(e->soname);
	free(e->runpath);
	strv_done(&e->needed);
	*e = (struct gpu_elf)GPU_ELF_INIT;
}

int gpu_elf_read(int fd, struct gpu_elf *ret)
{
	auto_elf *elf = begin(fd);
	auto_call(gpu_elf_done) struct gpu_elf e = GPU_ELF_INIT;
	struct dynamic d = { .soname = SIZE_MAX, .runpath = SIZE_MAX };
	Elf_Data *strings = NULL;
	size_t n;
	GElf_Ehdr head;
	GElf_Phdr ph;
	int r = 0;

	if (!elf || !gelf_getehdr(elf, &head) || elf_getphdrnum(elf, &n) != 0)
		return -ENOEXEC;
	e.bits = gelf_getclass(elf) == ELFCLASS32 ? 32 : 64;
	e.machine = head.e_machine;
	for (size_t i = 0; i < n && r == 0; i++)
		if (gelf_getphdr(elf, (int)i, &ph) && ph.p_type == PT_DYNAMIC) {
			r = read_dynamic(
				at_offset(elf, ph.p_offset, ph.p_filesz, DYNAMIC_SIZE, ELF_T_DYN),
				&d);
			break; /* a library has one */
		}
	if (r == 0 && d.strings)
		strings = at_address(elf, n, d.strings,
			d.strings_size < NAMES_SIZE ? d.strings_size : NAMES_SIZE, ELF_T_BYTE);
	if (r == 0)
		r = read_names(&d, strings, &e);
	if (r == 0)
		r = read_versions(elf, n, &d, strings, &e);
	if (r < 0)
		return r;
	*ret = e;
	e = (struct gpu_elf)GPU_ELF_INIT;
	return 0;
}

int gpu_elf_note(int fd, const char *section, const char *owner, size_t max, char **ret)
{
	auto_elf *elf = begin(fd);
	Elf_Data *data = elf ? find_section(elf, section) : NULL;
	size_t name, desc;
	GElf_Nhdr note;

	if (!elf)
		return -ENOEXEC;
	for (size_t at = 0; data && (at = gelf_getnote(data, at, &note, &name, &desc)) > 0;) {
		if (!is_note_of(data, &note, name, owner))
			continue;
		if (note.n_descsz > max)
			return -ENOEXEC;
		*ret = xmalloc(note.n_descsz + 1);
		memcpy(*ret, (const char *)data->d_buf + desc, note.n_descsz);
		(*ret)[note.n_descsz] = '\0';
		return 0;
	}
	return -ENOENT;
}
