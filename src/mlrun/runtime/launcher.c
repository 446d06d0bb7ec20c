/*
 * Start a container's command from a program of its own, which the runtime carries as data
 * (itself.h). On the usual processors it does without libc and is a few hundred bytes.
 *
 *   PATH ENOEXEC-TEXT ENOENT-TEXT TEXT ARGUMENT...
 *
 * executes PATH with ARGUMENT... and this environment. If execve(2) fails, prints the text of that
 * error, or the last one, and exits with 126.
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

enum { PATH, ENOEXEC_TEXT, ENOENT_TEXT, TEXT, ARGUMENTS };

static const char misused[] = "mlrun: /proc/self/exe is mlrun's own program, not the image's\n";

/* The environment follows argv (System V ABI, process initialization). */
__attribute__((noreturn, used)) int launch(int argc, char **argv)
{
	const volatile char *text = misused; /* volatile: the compiler would call strlen(3) */
	long n = 0;

	if (argc > ARGUMENTS) {
		char **envp = argv + argc + 1;
		long r = call(SYS_execve, (long)argv[PATH], (long)(argv + ARGUMENTS), (long)envp);

		text = argv[r == -ENOEXEC ? ENOEXEC_TEXT : r == -ENOENT ? ENOENT_TEXT : TEXT];
	}
	while (text[n])
		n++;
	call(SYS_write, 2, (long)text, n);
	for (;;)
		call(SYS_exit_group, 126, 0, 0);
}
