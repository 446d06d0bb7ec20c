/*
 * Start a container's command from a program of its own, which the runtime carries as data
 * (runtime.c). On the usual processors it does without libc and is about a thousand bytes.
 *
 *   PATH ENOEXEC-TEXT ENOENT-TEXT EACCES-TEXT TEXT ARGUMENT...
 *
 * executes PATH with ARGUMENT... and this environment. If execve(2) fails, it prints the text of
 * that error, or the last one with the errno value behind it, and exits with 126.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
__asm__(".globl _start\n_start: mov (%rsp), %rdi\n\tlea 8(%rsp), %rsi\n\tand $-16, %rsp\n\tcall launch\n");

static long call(long number, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
__asm__(".globl _start\n_start: ldr x0, [sp]\n\tadd x1, sp, #8\n\tbl launch\n");

static long call(long number, long a, long b, long c)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}
#else
static long call(long number, long a, long b, long c)
{
	long r = syscall(number, a, b, c);

	return r < 0 ? -errno : r;
}
#define launch main
#endif

enum { PATH, ENOEXEC_TEXT, ENOENT_TEXT, EACCES_TEXT, TEXT, ARGUMENTS };

static const char misused[] = "mlrun: /proc/self/exe is mlrun's own program, not the image's\n";

/* volatile: the compiler would call strlen(3). */
static void print(const volatile char *text)
{
	long n = 0;

	while (text[n])
		n++;
	call(SYS_write, 2, (long)text, n);
}

/* code: an errno value, which has at most three digits. */
static void print_failure(char **argv, long code)
{
	char number[] = { (char)('0' + code / 100), (char)('0' + code / 10 % 10),
		(char)('0' + code % 10), '\n', '\0' };

	if (code == ENOEXEC || code == ENOENT || code == EACCES) {
		print(argv[code == ENOEXEC       ? ENOEXEC_TEXT
				: code == ENOENT ? ENOENT_TEXT
						 : EACCES_TEXT]);
		return;
	}
	print(argv[TEXT]);
	print(number + (code < 100) + (code < 10));
}

/* The environment follows argv (System V ABI, process initialization). */
__attribute__((noreturn, used)) int launch(int argc, char **argv)
{
	if (argc > ARGUMENTS) {
		char **envp = argv + argc + 1;

		print_failure(argv,
			-call(SYS_execve, (long)argv[PATH], (long)(argv + ARGUMENTS), (long)envp));
	} else {
		print(misused);
	}
	for (;;)
		call(SYS_exit_group, 126, 0, 0);
}
