#include "unit.h"
#include "elf_file.h"

#include <elf.h>
#include <gelf.h>

#if defined(__aarch64__)
#define MACHINE_64 EM_AARCH64
#define MACHINE_32 EM_ARM
#elif defined(__powerpc64__)
#define MACHINE_64 EM_PPC64
#define MACHINE_32 EM_PPC
#else
#define MACHINE_64 EM_X86_64
#define MACHINE_32 EM_386
#endif

#define ROOM 65536 /* bytes that any one section takes at most */

struct bytes {
	char *data; /* of ROOM */
	size_t n;
};

static void bytes_init(struct bytes *b)
{
	b->data = xcalloc(1, ROOM);
	b->n = 0;
}

static void bytes_done(struct bytes *b)
{
	free(b->data);
}

static size_t put(struct bytes *b, const void *data, size_t n)
{
	size_t at = b->n;

	assert_true(n <= ROOM - b->n);
	memcpy(b->data + b->n, data, n);
	b->n += n;
	return at;
}

static size_t put_text(struct bytes *b, const char *s)
{
	return put(b, s, strlen(s) + 1);
}

static void align(struct bytes *b)
{
	b->n = (b->n + 3) & ~(size_t)3;
}

/* The records of versions are the same for 32 and 64 bits. */
static void put_needs(struct bytes *b, struct bytes *strings, const char *const *versions)
{
	Elf64_Verneed need = { .vn_version = 1, .vn_aux = sizeof(need) };

	need.vn_file = (Elf64_Word)put_text(strings, "libc.so.6");
	while (versions[need.vn_cnt])
		need.vn_cnt++;
	put(b, &need, sizeof(need));
	for (size_t i = 0; versions[i]; i++) {
		Elf64_Vernaux aux = { .vna_next = versions[i + 1] ? sizeof(aux) : 0 };

		aux.vna_name = (Elf64_Word)put_text(strings, versions[i]);
		put(b, &aux, sizeof(aux));
	}
}

static void put_defines(struct bytes *b, struct bytes *strings, const char *const *versions)
{
	for (size_t i = 0; versions[i]; i++) {
		Elf64_Verdef def = { .vd_version = 1, .vd_cnt = 1, .vd_aux = sizeof(def) };
		Elf64_Verdaux aux = { 0 };

		def.vd_next = versions[i + 1] ? sizeof(def) + sizeof(aux) : 0;
		aux.vda_name = (Elf64_Word)put_text(strings, versions[i]);
		put(b, &def, sizeof(def));
		put(b, &aux, sizeof(aux));
	}
}

static void put_note(
	struct bytes *b, unsigned type, const char *owner, const void *desc, size_t size)
{
	Elf64_Nhdr head = { (Elf64_Word)strlen(owner) + 1, (Elf64_Word)size, type };

	put(b, &head, sizeof(head));
	put_text(b, owner);
	align(b);
	put(b, desc, size);
	align(b);
}

static Elf_Data *add_section(Elf *elf, struct bytes *names, const char *name, unsigned type,
	Elf_Type data_type, struct bytes *b)
{
	Elf_Scn *scn = elf_newscn(elf);
	Elf_Data *data = elf_newdata(scn);
	GElf_Shdr sh;

	assert_non_null(data);
	data->d_buf = b->data;
	data->d_size = b->n;
	data->d_align = data_type == ELF_T_NHDR ? 4 : 8;
	data->d_type = data_type;
	data->d_version = EV_CURRENT;
	assert_non_null(gelf_getshdr(scn, &sh));
	sh.sh_name = (GElf_Word)put_text(names, name);
	sh.sh_type = type;
	sh.sh_flags = SHF_ALLOC;
	assert_true(gelf_update_shdr(scn, &sh));
	return data;
}

/* Where a section went, once the file is laid out. */
static GElf_Shdr section(Elf *elf, const char *name, const struct bytes *names)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh = { 0 };

	while ((scn = elf_nextscn(elf, scn)))
		if (gelf_getshdr(scn, &sh) && strcmp(names->data + sh.sh_name, name) == 0)
			return sh;
	return (GElf_Shdr){ 0 };
}

static void add_dynamic(Elf_Data *data, int *n, int64_t tag, uint64_t value)
{
	GElf_Dyn dyn = { .d_tag = tag, .d_un.d_val = value };

	assert_true(gelf_update_dyn(data, (*n)++, &dyn));
}

static void set_segment(Elf *elf, int i, unsigned type, uint64_t at, uint64_t size, uint64_t to)
{
	GElf_Phdr ph = { .p_type = type,
		.p_offset = at,
		.p_vaddr = at + to,
		.p_paddr = at + to,
		.p_filesz = size,
		.p_memsz = size,
		.p_align = 4 };

	assert_true(gelf_update_phdr(elf, i, &ph));
}

/* Addresses are not offsets: a reader that takes one for the other is found out. */
#define LOADED_AT 0x10000

struct parts {
	struct bytes strings, needs, defines, note, dynamic, names;
};

static void put_parts(const struct elf_file *f, struct parts *p)
{
	put_text(&p->strings, "");
	put_text(&p->names, "");
	if (f->versions)
		put_needs(&p->needs, &p->strings, f->versions);
	if (f->defines)
		put_defines(&p->defines, &p->strings, f->defines);
	if (f->note)
		put_note(&p->note, 1, f->note_owner, f->note, strlen(f->note));
}

static void fill_dynamic(Elf *elf, Elf_Data *data, const struct elf_file *f, struct parts *p,
	size_t soname, const size_t *needed)
{
	GElf_Shdr strings = section(elf, ".dynstr", &p->names);
	int n = 0;

	add_dynamic(data, &n, DT_STRTAB, strings.sh_offset + LOADED_AT);
	add_dynamic(data, &n, DT_STRSZ, strings.sh_size);
	if (f->soname)
		add_dynamic(data, &n, DT_SONAME, soname);
	for (size_t i = 0; f->needed && f->needed[i]; i++)
		add_dynamic(data, &n, DT_NEEDED, needed[i]);
	if (p->needs.n)
		add_dynamic(data, &n, DT_VERNEED,
			section(elf, ".gnu.version_r", &p->names).sh_offset + LOADED_AT);
	if (p->defines.n)
		add_dynamic(data, &n, DT_VERDEF,
			section(elf, ".gnu.version_d", &p->names).sh_offset + LOADED_AT);
}

static void set_segments(Elf *elf, struct parts *p, int64_t size)
{
	GElf_Shdr dynamic = section(elf, ".dynamic", &p->names);

	set_segment(elf, 0, PT_LOAD, 0, (uint64_t)size, LOADED_AT);
	set_segment(elf, 1, PT_DYNAMIC, dynamic.sh_offset, dynamic.sh_size, LOADED_AT);
}

static void make(Elf *elf, const struct elf_file *f, struct parts *p)
{
	int bits = f->bits ? f->bits : 64, class = bits == 32 ? ELFCLASS32 : ELFCLASS64;
	size_t soname = 0, needed[64] = { 0 };
	Elf_Data *dynamic, *names;
	GElf_Ehdr head;

	assert_non_null(gelf_newehdr(elf, class));
	assert_non_null(gelf_newphdr(elf, 2));
	put_parts(f, p);
	if (f->soname)
		soname = put_text(&p->strings, f->soname);
	for (size_t i = 0; f->needed && f->needed[i]; i++)
		needed[i] = put_text(&p->strings, f->needed[i]);
	add_section(elf, &p->names, ".dynstr", SHT_STRTAB, ELF_T_BYTE, &p->strings);
	if (p->needs.n)
		add_section(
			elf, &p->names, ".gnu.version_r", SHT_GNU_verneed, ELF_T_VNEED, &p->needs);
	if (p->defines.n)
		add_section(
			elf, &p->names, ".gnu.version_d", SHT_GNU_verdef, ELF_T_VDEF, &p->defines);
	if (p->note.n)
		add_section(elf, &p->names, f->note_section, SHT_NOTE, ELF_T_NHDR, &p->note);
	p->dynamic.n = 70 * gelf_fsize(elf, ELF_T_DYN, 1, EV_CURRENT);
	dynamic = add_section(elf, &p->names, ".dynamic", SHT_DYNAMIC, ELF_T_DYN, &p->dynamic);
	names = add_section(elf, &p->names, ".shstrtab", SHT_STRTAB, ELF_T_BYTE, &p->names);
	names->d_size = p->names.n;

	assert_non_null(gelf_getehdr(elf, &head));
	head.e_type = ET_DYN;
	head.e_machine = (GElf_Half)(f->machine ? f->machine
			: bits == 32            ? MACHINE_32
						: MACHINE_64);
	head.e_version = EV_CURRENT;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));)
		head.e_shstrndx = (GElf_Half)elf_ndxscn(scn);
	assert_true(gelf_update_ehdr(elf, &head));

	/* First to know where things go, then to say it in what is written. */
	set_segments(elf, p, elf_update(elf, ELF_C_NULL));
	fill_dynamic(elf, dynamic, f, p, soname, needed);
	set_segments(elf, p, elf_update(elf, ELF_C_NULL));
	assert_true(elf_update(elf, ELF_C_WRITE) > 0);
}

void elf_file_write(const char *path, const struct elf_file *f)
{
	auto_close int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	struct parts p;
	struct bytes *all[] = { &p.strings, &p.needs, &p.defines, &p.note, &p.dynamic, &p.names };
	Elf *elf;

	assert_true(fd >= 0);
	assert_int_not_equal(elf_version(EV_CURRENT), EV_NONE);
	elf = elf_begin(fd, ELF_C_WRITE, NULL);
	assert_non_null(elf);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		bytes_init(all[i]);
	make(elf, f, &p);
	elf_end(elf);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		bytes_done(all[i]);
}
