/*
 * What runs between a static program's first instruction and main(), in place of glibc's.
 *
 * glibc's executes CPUID 43 times, for the processor's features and the sizes of its caches.
 * Hypervisors trap each of them, which costs 4 to 7 us: on a virtual machine that is a twelfth of a
 * container's start. Here the features stay unknown. The resolvers of memcpy(3), strlen(3) and the
 * like then choose the variants that every x86-64 processor has, which serve programs that copy
 * little; programs that check for features themselves are not affected.
 *
 * The steps and their order are those of csu/libc-start.c of glibc 2.36, whose internal functions
 * they call. configure therefore takes this file for that version only, with -static-pie, and only
 * after it has run a program with it. main() may not call pthread_exit(3).
 */
#include <link.h>
#include <stdint.h>
#include <stdlib.h>

#if !defined(__x86_64__) || !defined(__PIE__) || __GLIBC__ != 2 || __GLIBC_MINOR__ != 36
#error "only for glibc 2.36 on x86-64, as a position-independent program"
#endif

/* Hidden symbols are found without the table of addresses, which is relocated here. */
#pragma GCC visibility push(hidden)
typedef void initialiser(int argc, char **argv, char **envp);

extern char **__environ;
extern void *__libc_stack_end;
extern int __libc_enable_secure;
extern uintptr_t *_dl_random;
extern initialiser *__preinit_array_start[], *__preinit_array_end[];
extern initialiser *__init_array_start[], *__init_array_end[];
extern void (*__fini_array_start[])(void), (*__fini_array_end[])(void);

void _dl_aux_init(ElfW(auxv_t) * auxv);
void __tunables_init(char **envp);
void _dl_relocate_static_pie(void);
void __libc_setup_tls(void);
void __libc_early_init(_Bool initial);
void __libc_init_first(int argc, char **argv, char **envp);
void __libc_check_standard_fds(void);
int __cxa_atexit(void (*f)(void *), void *arg, void *dso);
const char *_dl_get_origin(void);
void _init(void);
void _fini(void);

/* The object of glibc's that this one replaces has these, too, in bytes: memcpy(3) bypasses the
 * caches from three quarters of the largest on. The first values are glibc's own for processors
 * that it does not know. */
long __x86_data_cache_size_half = 16 << 10, __x86_data_cache_size = 32 << 10;
long __x86_shared_cache_size_half = 512 << 10, __x86_shared_cache_size = 1 << 20;
long __x86_shared_non_temporal_threshold = 768 << 10;
long __x86_rep_movsb_threshold = 2 << 10, __x86_rep_stosb_threshold = 2 << 10;
long __x86_rep_movsb_stop_threshold = 768 << 10;
int __x86_string_control;
#pragma GCC visibility pop

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
	void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

/* Called for dlopen(3), which static programs of ours do not use: -1 is its error, and saves
 * reading the link /proc/self/exe. */
const char *_dl_get_origin(void)
{
	return (const char *)-1;
}

static void initialise(initialiser **from, initialiser **to, int argc, char **argv)
{
	for (; from < to; from++)
		(*from)(argc, argv, __environ);
}

static void finish(void *arg)
{
	for (size_t n = (size_t)(__fini_array_end - __fini_array_start); n-- > 0;)
		__fini_array_start[n]();
	_fini();
}

/* Nothing is relocated at first, and there is no thread-local storage, in which the guards lie that
 * stack protectors and longjmp(3) compare with. */
__attribute__((no_stack_protector)) int __libc_start_main(int (*main)(int, char **, char **),
	int argc, char **argv, void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
	void *stack_end)
{
	char **end = argv + argc + 1;

	__environ = end;
	__libc_stack_end = stack_end;
	while (*end++)
		;
	_dl_aux_init((void *)end);
	__tunables_init(__environ);
	_dl_relocate_static_pie();
	__libc_setup_tls();
	__asm__ volatile("mov %0, %%fs:0x28" : : "r"(_dl_random[0] & ~(uintptr_t)0xff));
	__asm__ volatile("mov %0, %%fs:0x30" : : "r"(_dl_random[1]));
	__libc_early_init(1);
	__libc_init_first(argc, argv, __environ);
	__cxa_atexit(finish, NULL, NULL);
	if (__libc_enable_secure)
		__libc_check_standard_fds();
	initialise(__preinit_array_start, __preinit_array_end, argc, argv);
	_init();
	initialise(__init_array_start, __init_array_end, argc, argv);
	exit(main(argc, argv, __environ));
}
