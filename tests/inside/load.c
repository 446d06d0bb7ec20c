/*
 * load NAME...: opens libraries by the dynamic linker, as programs do, and tells where each was
 * found.
 *
 * Prints "NAME PATH NUMBER" a line: NUMBER is what its driver_tree_number() returns, "-" without
 * one. A library that is not found is told on standard error, and makes the status 1.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int status = 0;

	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW);
		struct link_map *map = NULL;
		int (*number)(void);

		if (!library || dlinfo(library, RTLD_DI_LINKMAP, &map) < 0) {
			fprintf(stderr, "load: %s\n", dlerror());
			status = 1;
			continue;
		}
		*(void **)&number = dlsym(library, "driver_tree_number");
		printf("%s %s ", argv[i], map->l_name);
		if (number)
			printf("%d\n", number());
		else
			printf("-\n");
	}
	return status;
}
