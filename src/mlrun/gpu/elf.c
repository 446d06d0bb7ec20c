#include "gpu/elf.h"

#include <elf.h>

#define NEEDED_MAX    1024       /* DT_NEEDED entries; NVIDIA's have a dozen at most */
#define NAME_MAX_LEN  4096       /* bytes of a name */
#define NAMES_SIZE    (16 << 20) /* bytes of a string table */
#define VERSIONS_SIZE (16 << 10) /* bytes of version records; glibc's own take 1 KiB */
#define VERSIONS_MAX  8192       /* version records read */
#define DYNAMIC_SIZE  (64 << 10) /* bytes of PT_DYNAMIC; NVIDIA's have 1 KiB */
#define NOTES_SIZE    (1 << 20)  /* bytes of adjacent notes */
#define SECTIONS_SIZE (1 << 20)  /* bytes of the section names */
#define TABLE_SIZE    (4 << 20)  /* bytes of program or section headers: 65,535 of 64 bytes */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define DATA_NATIVE ELFDATA2LSB
#else
#define DATA_NATIVE ELFDATA2MSB
#endif

/* Bytes copied from the file. */
struct part {
	char *data; /* NULL: none */
	size_t size;
};

static void part_done(struct part *p)
{
	free(p->data);
}

#define auto_part auto_call(part_done) struct part

/*
 * Copy size bytes of the file, at most max. Not by mmap(2): if someone truncated a file of an image
 * meanwhile, the program would die. The part stays empty where the file ends before.
 */
static struct part read_part(int fd, uint64_t at, uint64_t size, size_t max)
{
	struct part p = { NULL, size < max ? (size_t)size : max };

	if (at > INT64_MAX - max || p.size == 0)
		return (struct part){ 0 };
	p.data = xmalloc(p.size);
	if (pread(fd, p.data, p.size, (off_t)at) == (ssize_t)p.size)
		return p;
	free(p.data);
	return (struct part){ 0 };
}

/* Copy a record out of a part; returns 0 where it does not lie within. */
static int get(const struct part *p, uint64_t at, void *ret, size_t size)
{
	if (at > p->size || p->size - at < size)
		return 0;
	memcpy(ret, p->data + at, size);
	return 1;
}

/*
 * Records that ELF has in two widths are read as the wide one. Only members that are used here are
 * filled in.
 */
struct elf {
	int fd, wide;
	Elf64_Ehdr head;
	struct part segments;
};

static void elf_done(struct elf *e)
{
	part_done(&e->segments);
}

#define auto_elf auto_call(elf_done) struct elf

static int get_segment(const struct elf *e, size_t i, Elf64_Phdr *ret)
{
	Elf32_Phdr n;

	if (e->wide)
		return get(&e->segments, i * sizeof(*ret), ret, sizeof(*ret));
	if (!get(&e->segments, i * sizeof(n), &n, sizeof(n)))
		return 0;
	*ret = (Elf64_Phdr){ .p_type = n.p_type,
		.p_offset = n.p_offset,
		.p_vaddr = n.p_vaddr,
		.p_filesz = n.p_filesz };
	return 1;
}

static int get_section(const struct elf *e, const struct part *table, size_t i, Elf64_Shdr *ret)
{
	Elf32_Shdr n;

	if (e->wide)
		return get(table, i * sizeof(*ret), ret, sizeof(*ret));
	if (!get(table, i * sizeof(n), &n, sizeof(n)))
		return 0;
	*ret = (Elf64_Shdr){ .sh_name = n.sh_name,
		.sh_type = n.sh_type,
		.sh_offset = n.sh_offset,
		.sh_size = n.sh_size,
		.sh_addralign = n.sh_addralign };
	return 1;
}

static int get_dynamic(const struct elf *e, const struct part *p, size_t i, Elf64_Dyn *ret)
{
	Elf32_Dyn n;

	if (e->wide)
		return get(p, i * sizeof(*ret), ret, sizeof(*ret));
	if (!get(p, i * sizeof(n), &n, sizeof(n)))
		return 0;
	ret->d_tag = n.d_tag;
	ret->d_un.d_val = n.d_un.d_val;
	return 1;
}

static int get_head(const struct part *p, struct elf *e)
{
	Elf32_Ehdr n;

	e->wide = p->data[EI_CLASS] == ELFCLASS64;
	if (e->wide)
		return get(p, 0, &e->head, sizeof(e->head));
	if (!get(p, 0, &n, sizeof(n)))
		return 0;
	e->head = (Elf64_Ehdr){ .e_machine = n.e_machine,
		.e_phoff = n.e_phoff,
		.e_phentsize = n.e_phentsize,
		.e_phnum = n.e_phnum,
		.e_shoff = n.e_shoff,
		.e_shnum = n.e_shnum,
		.e_shstrndx = n.e_shstrndx };
	return 1;
}

/*
 * Read the header and the segments' table. Larger numbers of segments and sections than 16 bits
 * hold stand elsewhere (elf(5), PN_XNUM); no library has them. Returns 0 for other files and those
 * of another byte order.
 */
static int open_elf(int fd, struct elf *e)
{
	auto_part p = read_part(fd, 0, sizeof(Elf64_Ehdr), sizeof(Elf64_Ehdr));
	size_t width;

	e->fd = fd;
	if (!p.data || memcmp(p.data, ELFMAG, SELFMAG) != 0 ||
		(p.data[EI_CLASS] != ELFCLASS32 && p.data[EI_CLASS] != ELFCLASS64) ||
		p.data[EI_DATA] != DATA_NATIVE || !get_head(&p, e) || e->head.e_phnum == PN_XNUM)
		return 0;
	width = e->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr);
	if (e->head.e_phnum == 0)
		return 1;
	e->segments = read_part(fd, e->head.e_phoff, e->head.e_phnum * width, TABLE_SIZE);
	return e->segments.data && e->head.e_phentsize == width;
}

/* The addresses in PT_DYNAMIC; 0: none. */
struct dynamic {
	uint64_t strings, strings_size, needs, defines;
	uint64_t soname, runpath; /* SIZE_MAX: none */
	uint64_t needed[NEEDED_MAX];
	size_t n_needed;
};

/* Copy the file's bytes that are loaded at an address, up to the end of their segment or want. */
static struct part at_address(const struct elf *e, uint64_t address, size_t want)
{
	Elf64_Phdr ph;

	for (size_t i = 0; get_segment(e, i, &ph); i++) {
		uint64_t into = address - ph.p_vaddr;

		if (ph.p_type == PT_LOAD && address >= ph.p_vaddr && into < ph.p_filesz)
			return into > INT64_MAX || ph.p_offset > INT64_MAX
				? (struct part){ 0 }
				: read_part(e->fd, ph.p_offset + into, ph.p_filesz - into, want);
	}
	return (struct part){ 0 };
}

/* A string of a table, to free(); NULL when it is not terminated. */
static char *string_at(const struct part *strings, uint64_t at)
{
	size_t room, len;

	if (at >= strings->size)
		return NULL;
	room = strings->size - at;
	len = strnlen(strings->data + at, room);
	return len < room && len < NAME_MAX_LEN ? xstrndup(strings->data + at, len) : NULL;
}

static int read_dynamic(const struct elf *e, const struct part *p, struct dynamic *ret)
{
	Elf64_Dyn dyn;

	for (size_t i = 0; get_dynamic(e, p, i, &dyn) && dyn.d_tag != DT_NULL; i++) {
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
static void keep_newest(const struct part *strings, uint64_t at, struct gpu_version *newest)
{
	auto_free char *name = string_at(strings, at);
	struct gpu_version v;

	if (name && strncmp(name, "GLIBC_", 6) == 0 && gpu_version_parse(name + 6, &v) == 0 &&
		gpu_version_compare(&v, newest) > 0)
		*newest = v;
}

/* Read .gnu.version_r. Each record has the distance to the next, which is not trusted. */
static int read_needs(const struct part *p, const struct part *strings, struct gpu_version *newest)
{
	unsigned seen = 0;
	Elf64_Verneed need; /* the same in both widths, as all version records */

	for (uint64_t at = 0; at < p->size; at += need.vn_next) {
		uint64_t aux_at;
		Elf64_Vernaux aux;

		if (!get(p, at, &need, sizeof(need)))
			return -ENOEXEC;
		aux_at = at + need.vn_aux;
		for (unsigned i = 0; i < need.vn_cnt; i++, aux_at += aux.vna_next) {
			if (++seen > VERSIONS_MAX || !get(p, aux_at, &aux, sizeof(aux)))
				return -ENOEXEC;
			keep_newest(strings, aux.vna_name, newest);
		}
		if (need.vn_next == 0 || ++seen > VERSIONS_MAX)
			break;
	}
	return 0;
}

/* Read .gnu.version_d. A record's first name is the version's own; the others are its parents'. */
static int read_defines(
	const struct part *p, const struct part *strings, struct gpu_version *newest)
{
	unsigned seen = 0;
	Elf64_Verdef def;

	for (uint64_t at = 0; at < p->size; at += def.vd_next) {
		Elf64_Verdaux aux;

		if (!get(p, at, &def, sizeof(def)) || !get(p, at + def.vd_aux, &aux, sizeof(aux)))
			return -ENOEXEC;
		keep_newest(strings, aux.vda_name, newest);
		if (def.vd_next == 0 || ++seen > VERSIONS_MAX)
			break;
	}
	return 0;
}

static int read_names(const struct dynamic *d, const struct part *strings, struct gpu_elf *e)
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

static int read_versions(const struct elf *elf, const struct dynamic *d, const struct part *strings,
	struct gpu_elf *e)
{
	auto_part needs = d->needs ? at_address(elf, d->needs, VERSIONS_SIZE) : (struct part){ 0 };
	auto_part defines =
		d->defines ? at_address(elf, d->defines, VERSIONS_SIZE) : (struct part){ 0 };

	TRY(read_needs(&needs, strings, &e->glibc));
	return read_defines(&defines, strings, &e->defines);
}

/* Copy the notes of a section; the alignment of their parts goes to *align. */
static struct part read_notes(const struct elf *e, const char *name, size_t *align)
{
	size_t width = e->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	auto_part table = read_part(e->fd, e->head.e_shoff, e->head.e_shnum * width, TABLE_SIZE);
	auto_part names = { 0 };
	Elf64_Shdr sh;

	if (get_section(e, &table, e->head.e_shstrndx, &sh))
		names = read_part(e->fd, sh.sh_offset, sh.sh_size, SECTIONS_SIZE);
	for (size_t i = 1; get_section(e, &table, i, &sh); i++) {
		auto_free char *s = string_at(&names, sh.sh_name);

		*align = sh.sh_addralign == 8 ? 8 : 4;
		if (s && strcmp(s, name) == 0 && sh.sh_type != SHT_NOBITS)
			return read_part(e->fd, sh.sh_offset, sh.sh_size, NOTES_SIZE);
	}
	return (struct part){ 0 };
}

void gpu_elf_done(struct gpu_elf *e)
{
	free(e->soname);
	free(e->runpath);
	strv_done(&e->needed);
	*e = (struct gpu_elf){ 0 };
}

int gpu_elf_read(int fd, struct gpu_elf *ret)
{
	auto_elf elf = { 0 };
	auto_call(gpu_elf_done) struct gpu_elf e = { 0 };
	struct dynamic d = { .soname = SIZE_MAX, .runpath = SIZE_MAX };
	auto_part dynamic = { 0 }, strings = { 0 };
	Elf64_Phdr ph;

	if (!open_elf(fd, &elf))
		return -ENOEXEC;
	e.bits = elf.wide ? 64 : 32;
	e.machine = elf.head.e_machine;
	for (size_t i = 0; !dynamic.data && get_segment(&elf, i, &ph); i++)
		if (ph.p_type == PT_DYNAMIC)
			dynamic = read_part(fd, ph.p_offset, ph.p_filesz, DYNAMIC_SIZE);
	TRY(read_dynamic(&elf, &dynamic, &d));
	if (d.strings)
		strings = at_address(
			&elf, d.strings, d.strings_size < NAMES_SIZE ? d.strings_size : NAMES_SIZE);
	TRY(read_names(&d, &strings, &e));
	TRY(read_versions(&elf, &d, &strings, &e));
	*ret = take_struct(&e, { 0 });
	return 0;
}

int gpu_elf_note(int fd, const char *section, const char *owner, size_t max, char **ret)
{
	auto_elf elf = { 0 };
	size_t align = 0;
	Elf64_Nhdr note; /* the same in both widths */

	if (!open_elf(fd, &elf))
		return -ENOEXEC;
	auto_part p = read_notes(&elf, section, &align);

	for (uint64_t at = 0, name; get(&p, at, &note, sizeof(note));
		at += (note.n_descsz + align - 1) & -align) {
		name = at + sizeof(note);
		at = (name + note.n_namesz + align - 1) & -align;
		if (at > p.size || p.size - at < note.n_descsz)
			break;
		if (note.n_namesz != strlen(owner) + 1 ||
			memcmp(p.data + name, owner, note.n_namesz) != 0)
			continue;
		if (note.n_descsz > max)
			return -ENOEXEC;
		*ret = xmalloc(note.n_descsz + 1);
		memcpy(*ret, p.data + at, note.n_descsz);
		(*ret)[note.n_descsz] = '\0';
		return 0;
	}
	return -ENOENT;
}
