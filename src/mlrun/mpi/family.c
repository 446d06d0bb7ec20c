#include "mpi/family.h"

#include "base/base.h"

const char *mpi_family_name(enum mpi_family family)
{
	static const char *const names[] = { "no MPI", "Open MPI", "MPICH or a relative of it" };

	return names[family];
}

/* Does the name begin with one of the words? */
static int begins(const char *name, const char *const *words)
{
	for (; *words; words++)
		if (strncmp(name, *words, strlen(*words)) == 0)
			return 1;
	return 0;
}

int mpi_family_is_main(const char *name, struct gpu_version *ret)
{
	/* Open MPI has other libraries whose names begin with "libmpi_". */
	static const char *const stems[] = { "libmpi.so.", "libmpich.so.", "libmpi_gnu",
		"libmpi_cray", "libmpi_intel", "libmpi_nvidia", "libmpi_aocc", "libmpi_amd", NULL };
	const char *so = strstr(name, ".so.");

	return so && begins(name, stems) && gpu_version_parse(so + strlen(".so."), ret) == 0;
}

const char *const *mpi_family_aliases(const char *name)
{
	static const char *const names[][3] = {
		{ "libmpi.so.12", "libmpich.so.12", NULL },
		{ "libmpifort.so.12", "libmpichfort.so.12", NULL },
		{ "libmpicxx.so.12", "libmpichcxx.so.12", NULL },
	};
	struct gpu_version v;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		for (const char *const *n = names[i]; *n; n++)
			if (strcmp(name, *n) == 0)
				return names[i];
	return mpi_family_is_main(name, &v) && v.part[0] == 12 ? names[0] : NULL;
}

int mpi_family_is_part(const char *name)
{
	static const char *const stems[] = { "libmpi", "libopen-", "libmca_", "liboshmem",
		"libompi", "libfmpich", "libpmix", "libpmi.", "libpmi2.", "libpmi_", "libprrte",
		"libucp.", "libucs.", "libuct.", "libucm.", "libucc.", "libucs_", "libuct_",
		"libucx_", "libfabric.", "libibverbs.", "librdmacm.", "libibumad.", "libmlx",
		"libefa.", "libcxi.", "libpsm", "libxpmem.", "libhcoll.", "libocoms.", "libsharp",
		NULL };

	return begins(name, stems);
}

int mpi_family_is_foreign(const char *name)
{
	static const char *const stems[] = { "ld-linux", "ld64.so", "linux-vdso", "libc.so.",
		"libm.so.", "libdl.so.", "libpthread.so.", "librt.so.", "libutil.so.",
		"libresolv.so.", "libanl.so.", "libmvec.so.", "libnss_", "libthread_db.so.",
		"libcuda.so.", "libnvidia-", NULL };

	return begins(name, stems);
}
